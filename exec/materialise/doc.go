// Package materialise copies pinned files to a private place for a chain to run from. What was verified is what runs, even
// if the working tree changes, and what a run leaves behind is never part of a tree.
//
// # Copies
//
// A copy is a directory with files at the paths that its parts have: blobs, and trees with all that is in them. Its key
// is the BLAKE3 of a line "materialise/1" and then, sorted by path, a line for each file: its path, mode and digest,
// with one space between. Paths are portable, as a set, so that no file is below __pycache__ or node_modules. Two parts
// may have the same file at the same path. Packages from registries have copies of their own, where files may be below
// node_modules.
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
//	  leases/KEY               every process that makes or uses the copy holds a shared lock on it
//	  copies/KEY/package.json  {}
//	  copies/KEY/tree/…        the files
//	  making/KEY.RANDOM/…      a copy in the making, for one run, or on its way out
//	  scratch/KEY/home, tmp    what one run may write to; KEY is random
//
// The package.json is there because Node asks parent directories which kind of module a file is, and files above aren't
// pinned.
//
// Everything may be removed while nothing runs. Nothing is synced: after a power cut the comparison finds what is missing.
// Clean removes what dead processes left, copies that weren't used for long, and, above the size limit, the longest unused
// ones; never one that is in use, since locks end with their process. Waiting for a lock ends after 30 seconds with
// fault.Busy.
package materialise
