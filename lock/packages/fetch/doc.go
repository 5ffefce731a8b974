// Package fetch answers: where is the file of a package that a lock names, and can I have it?
//
// It knows the registries of npm and PyPI that rye.yaml names (package project), or the public ones, and asks them for
// files by their digests. A registry is trusted only to say where a file is:
//
//	r := fetch.New(fetch.Options{Dir: dir, From: p.Packages, Fetch: client, Store: store})
//	found, err := r.Find(ctx, &list[0])         what of it can be pinned
//	pinned, err := r.Bring(ctx, found)          into the store, with digest and size
//
// # Where a file is
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
// Of PyPI a hash may be of a file that is no wheel. It isn't pinned, for what is no wheel would have to be built, and
// nothing is built. A version without any wheel is ITEM_NOT_FOUND. A directory is read once for a command: its regular
// files, not those of directories in it, at most 100,000.
//
// # Bringing
//
// Files that the store has aren't fetched, nor those that are vendored. Others are, eight at a time, and hashed as
// they come: a file that isn't the one that the list names, or not the one that the lock has pinned, is
// INTEGRITY_FAILED, and nothing of it is kept. What came whole is kept when another one fails, so that the next try
// has less to do. A file has at most 2 GiB, a page 64 MiB.
//
// Without a Fetcher nothing is fetched: what would have to be is an *OfflineError.
package fetch
