// Package fetch is the client for npm and PyPI registries, which downloads the package files of a lock.
//
// How a call goes through here: Find looks up a package's files: one tarball for npm, and for PyPI the wheels in a
// registry's page (links) or directory. Bring asks which files the store lacks (lacking), takes vendored ones
// (vendored) and downloads the others in parallel (open), each through a checked reader that verifies the digests.
//
// It knows the registries of npm and PyPI that rye.yaml names (package project), or the public ones, and asks them
// for files by their digests. A registry is trusted only with the location of a file:
//
//	r := fetch.New(fetch.Options{Dir: dir, From: p.Packages, Fetch: client, Store: store})
//	found, err := r.Find(ctx, &list[0])         what of it can be pinned
//	pinned, err := r.Bring(ctx, found)          into the store, with digest and size
//
// # Locations
//
//	npm    an address ADDRESS/NAME/-/LAST-VERSION.tgz, where LAST is NAME without a scope: as all registries have it.
//	       The
//	                     addresses in a package-lock.json are those of its author, and aren't asked
//	       a directory   the .tgz file with the sha512
//	pypi   an address the page ADDRESS/NAME/ of a "simple" index (PEP 503): the link whose fragment is the sha256, to
//	       a
//	                     wheel of that name
//	       a directory   the .whl file with the sha256, whose name is that of a wheel of the package
//
// A PyPI hash may belong to a source archive. It isn't pinned, because rye builds nothing. A version without any
// wheel is ITEM_NOT_FOUND. A directory is read once for a command: its regular files, not those of directories in it,
// at most 100,000.
//
// # Bringing
//
// Files in the store or in .ai/vendor aren't fetched. Others are fetched eight at a time and hashed on the way: a
// file that differs from the list or the lock is INTEGRITY_FAILED and is discarded. If a file fails, complete ones
// are kept, so that the next try has less to do. A file has at most 2 GiB, a page 64 MiB.
//
// Without a Fetcher, a file that would have to be fetched is an *OfflineError.
package fetch
