// Package materialise is a cache of private copies of pinned files, from which chains run. So the verified files are
// the ones that run, even if the working tree changes, and a run's leftovers never become part of a tree.
//
// # How a copy goes through here
//
// Cache.Copy lists the files of all parts (newPlan), takes a lease on the key (lease) and compares an existing copy
// with the plan (verify). If it is missing or damaged, bring writes a new one (plan.write, writer.blob) and publish
// gives it its name. Copy.Close releases the lease. Clean removes entries without a lease (list, claim).
//
// # Copies
//
// A copy is a directory with the files of its parts: blobs, and trees with everything in them. Its key is the BLAKE3
// of the line "materialise/1" and then, sorted by path, a line for each file: its path, mode and digest, separated by
// one space. The paths are portable as a set, so no file is below __pycache__ or node_modules. Two parts may have the
// same file at the same path. Packages of registries have their own copies, in which files may be below node_modules.
//
// Files have mode 0400, executable ones and directories 0500; root, which ignores modes, is confined by the sandbox.
// This package hashes bytes as it writes them and doesn't trust the store. It names a copy only when it is complete
// and correct. Before using a copy again it compares every name, mode and byte. It replaces a damaged copy, or, while
// other runs use it, makes a copy for this run alone; Copy.Damage describes the damage.
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
// The package.json stops Node's search for the module type of a file, which would go on in parent directories that
// aren't pinned.
//
// Everything may be removed while nothing runs. Nothing is synced: after a power failure the comparison finds missing
// data. Clean never removes entries in use, because locks end with their process. Waiting for a lock ends after 30
// seconds with fault.Busy.
package materialise
