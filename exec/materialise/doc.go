// Package materialise puts pinned files on disk for a chain to run from, where nobody else writes: what was verified is
// what runs, whatever becomes of the working tree meanwhile, and what a run leaves behind is never part of a tree.
//
// # Copies
//
// A copy is a directory with files at the paths that its parts have: blobs, and trees with all that is in them. Its key
// is the BLAKE3 of a line "materialise/1" and then, sorted by path, a line for each file: its path, mode and digest,
// with one space between. Paths are portable, as a set, so that no file is below __pycache__ or node_modules. Two parts
// may have the same file at the same path. Packages of other people's registries, which no tree has in it, have copies
// of their own, and there files may be below node_modules.
//
// Files have mode 0400, those that may be executed 0500, directories 0500; root, who isn't held by this, is held by the
// sandbox. Bytes are hashed as they are written, by us and not by the store, and a copy gets its name when all of them
// were right: there is no half of one. When it is used again every name, mode and byte in it is compared before anything
// runs. A copy that isn't as it should be is replaced, or, while others run from it, one is made for this run alone, and
// Damage says what was found.
//
// # On disk
//
//	DIR/                       0700, and the user's own
//	  lock                     held while leases are taken, and to take what is to be removed
//	  leases/KEY               a shared lock on it is held by everybody who makes or uses what KEY names
//	  copies/KEY/package.json  {}
//	  copies/KEY/tree/…        the files
//	  making/KEY.RANDOM/…      a copy in the making, for one run, or on its way out
//	  scratch/KEY/home, tmp    what one run may write to; KEY is random
//
// The package.json is there because Node asks parent directories what kind of module a file is, and nobody has pinned
// what lies above.
//
// Everything may be removed at any time when nothing runs. Nothing is synced: after a power cut the comparison finds
// what is missing. Clean removes what a dead process left, what wasn't used for long, and what is too much, the longest
// unused first, and never what somebody holds: locks end with their process. Waits for locks end after 30 seconds in a
// *osfile.BusyError.
package materialise
