// Package cas answers one question: what are these bytes called, and where are they?
//
// Bytes are called by their digest, BLAKE3-256, written "blake3:" and 64 lower-case hexadecimal digits.
// Together with a kind it is an ID. A store keeps bytes under their ID and is never trusted: what it hands
// out is hashed again on the way.
//
// # Kinds
//
// A blob is the bytes of a file. A tree is one directory: a canonical document (package canon) that names
// the files and directories in it,
//
//	rye: "tree/2"
//	files:
//	  "README.md": {digest: "blake3:…", size: 812, mode: "file"}
//	  "run.sh": {digest: "blake3:…", size: 90, mode: "exec"}
//	dirs:
//	  "lib": {digest: "blake3:…"}
//
// so that the digest of a tree vouches for everything below it. Names are single segments that package portable
// accepts, no two of them equal after folding, files and directories together. A size is that of the file in
// bytes, a mode "file" or "exec". Empty directories are left out: the tree without entries, which is the first
// line alone, may be a root and is never named by another tree. A tree has at most 32 MiB and 262,144 entries,
// and no path from a root is longer than 1,000 bytes. A document is any other canonical document
// without its signature lines. The kind is part of the name: bytes put as a blob are never read as a tree.
//
// # Stores
//
// Store is what every store can do: get (verified as it streams), put (atomic and idempotent), missing (many
// at once). More is found by assertion: Batcher (many puts, one sync), Visitor (many gets in the store's own
// order), Lister, Deleter. Package castest holds the suite that every store passes; Memory is the store for
// tests and for what is never to be kept; package disk is the store on disk. Copy brings everything that is
// reachable from a root from one store to another.
package cas
