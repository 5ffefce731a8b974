// Package cas answers one question: what are these bytes called, and where are they?
//
// Bytes are named by their BLAKE3-256 digest, written "blake3:" and 64 lower-case hexadecimal digits. An ID is a
// digest with a kind. Stores are not trusted: everything read from one is hashed again.
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
// so its digest covers everything below it. Names are single segments that package portable accepts, and no two names
// in a tree have the same case fold. A size is in bytes, a mode is "file" or "exec". A tree never lists an empty
// directory, but a root may be empty: the first line alone. A tree has at most 32 MiB and 262,144 entries, and no path
// from a root is longer than 1,000 bytes. A document is any other canonical document without its signature lines.
//
// # Stores
//
// Every Store can get (verified as it streams), put (atomic, idempotent) and list what is missing. Further abilities
// are interfaces to assert: Batcher, Visitor, Lister, Deleter. Package castest has the tests that every store passes;
// Memory is a store for tests, package disk the one on disk. Copy copies everything reachable from a root to another
// store.
package cas
