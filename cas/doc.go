// Package cas answers one question: what are these bytes called, and where are they?
//
// The name of bytes is their BLAKE3-256 digest, written "blake3:" and 64 lower-case hexadecimal digits. An ID is a
// digest with a kind. Stores are not trusted: readers hash everything that a store returns.
//
// How a copy goes through here: Copy begins a batch of dst and adds the roots to a graph (addNode, addLeaf).
// readTrees asks the batch which trees it lacks (Missing), reads the trees (Fetch, TreeIn, ParseTree), puts the
// missing ones, and adds their entries (addTree), until no tree is left. checkPaths checks the lengths of all
// paths, copyLeafs puts the other missing objects, and Commit makes everything visible.
//
// # Kinds
//
// A blob is the bytes of a file. A tree is one directory: a canonical document (package canon) that lists its files
// and directories,
//
//	rye: "tree/2"
//	files:
//	  "README.md": {digest: "blake3:…", size: 812, mode: "file"}
//	  "run.sh": {digest: "blake3:…", size: 90, mode: "exec"}
//	dirs:
//	  "lib": {digest: "blake3:…"}
//
// so the digest of a tree covers everything below it. Names are single segments that package portable accepts, and
// no two names
// in a tree have the same case fold. A size is in bytes, a mode is "file" or "exec". A tree never lists an empty
// directory, but a root may be empty: the first line alone. A tree has at most 32 MiB and 262,144 entries, and no path
// from a root is longer than 1,000 bytes. A document is any other canonical document without its signature lines.
//
// # Stores
//
// Every Store can get objects (verified as they stream), put them (atomic, idempotent) and list missing ones.
// Further abilities are interfaces to assert: Batcher, Visitor, Lister, Deleter. Package castest has the tests that
// every store passes. Memory is a store for tests, and package disk is the store on disk. Copy copies everything
// reachable from a root to another store.
package cas
