// Package materialise copies pinned files to a private place for a chain to run from. So what was verified is what
// runs, even if the working tree changes, and what a run leaves behind never becomes part of a tree.
//
// # Copies
//
// A copy is a directory with the files of its parts: blobs, and trees with everything in them. Its key is the BLAKE3
// of the line "materialise/1" and then, sorted by path, a line for each file: its path, mode and digest, separated by
// one space. The paths are portable as a set, so no file is below __pycache__ or node_modules. Two parts may have the
// same file at the same path. Packages of registries have their own copies, in which files may be below node_modules.
//
// Files have mode 0400, executable ones and directories 0500; root, which ignores modes, is confined by the sandbox.
// This package hashes bytes as it writes them and doesn't trust the store. A copy gets its name only when it is
// complete and right. Before it is used again, every name, mode and byte in it is compared. A damaged copy is
// replaced, or, while others run from it, this run gets a copy of its own; Damage says what was wrong.
//
// # On disk
//
//	DIR/                       0700, and the user's own
//	  lock                     held while leases are taken, and while something is claimed for removal
//	  leases/KEY               every process that makes or uses the copy holds a shared lock on it
//	  copies/KEY/package.json  {}
//	  copies/KEY/tree/…        the files
//	  making/KEY.RANDOM/…      a copy being made, being removed, or for one run
//	  scratch/KEY/home, tmp    what one run may write to; KEY is random
//
// The package.json is there because Node asks parent directories for the module type of a file, and the real ones
// above aren't pinned.
//
// Everything may be removed while nothing runs. Nothing is synced: after a power cut the comparison finds what is
// missing. Clean never removes what is in use, because locks end with their process. Waiting for a lock ends after 30
// seconds with fault.Busy.
package materialise
