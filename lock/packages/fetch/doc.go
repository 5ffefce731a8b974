// Package fetch is the client for npm and PyPI registries, which downloads the package files of a lock.
//
// How a call goes through here: Find looks up a package's files: one tarball for npm, and for PyPI the wheels in a
// registry's page (links) or directory. Bring asks which files the store lacks (lacking), takes vendored ones
// (vendored) and downloads the others in parallel (open), each through a checked reader that verifies the digests.
//
// It asks the registries of npm and PyPI that rye.yaml names (package project), or the public ones, for files by
// their digests. A registry is trusted only with the location of a file:
//
//	r := fetch.New(fetch.Options{Dir: dir, From: p.Packages, Fetch: client, Store: store})
//	found, err := r.Find(ctx, &list[0])         the files that can be pinned
//	pinned, err := r.Bring(ctx, found)          in the store, with digest and size
//
// # Locations
//
//	npm    an address    ADDRESS/NAME/-/LAST-VERSION.tgz, where LAST is NAME without a scope, as in all registries.
//	                     The addresses in a package-lock.json are those of its author and aren't asked
//	       a directory   the .tgz file with the sha512
//	pypi   an address    the page ADDRESS/NAME/ of a "simple" index (PEP 503): the link whose fragment is the
//	                     sha256, to a wheel of that name
//	       a directory   the .whl file with the sha256, whose name is that of a wheel of the package
//
// A PyPI hash may belong to a source archive. It isn't pinned, because rye builds nothing. A version without any
// wheel is ITEM_NOT_FOUND. A directory is read once for a command: only its own regular files, at most 100,000, not
// those of directories in it.
//
// # Bringing
//
// Files in the store or in .ai/vendor aren't fetched. Others are fetched eight at a time and hashed meanwhile: a
// file that differs from the list or the lock is INTEGRITY_FAILED and is discarded. If a file fails, complete ones
// are kept, so that the next attempt has less to do. A file has at most 2 GiB, a page 64 MiB.
//
// Without a Fetcher, a file that must be fetched is an *OfflineError.
package fetch
