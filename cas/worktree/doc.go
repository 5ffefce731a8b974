// Package worktree is the import and the checkout of directories. Import stores a directory on disk as blobs and
// trees; Checkout creates a directory from a tree.
//
// # Import
//
// A directory becomes a tree by the rules of package portable. Import leaves out and counts the directories and files
// that a tree never holds (portable.Droppings), and directories without files. It refuses symbolic links, devices,
// FIFOs, sockets and names that are not portable, all of them at once, in a *RefusedError. Below the path that the
// caller names it never follows a symbolic link, not even one that another process swaps in for a directory, and it
// opens only regular files for reading. The tree's entry for a file describes the bytes that were read and stored; a
// file that changes meanwhile is stored as it was read.
//
// # Checkout
//
// Checkout builds a directory under another name next to its destination, inside one that only its owner may enter,
// and renames it after it has verified every byte: the destination is complete or missing. The next checkout removes
// the leftovers of a killed one next to it. Files have mode 0644 or 0755 less the umask; directories have 0777 less
// the umask.
//
// # Files that have not changed
//
// With Options.Cache, Import does not read files that package statcache knows to be unchanged. A remembered digest
// describes a file's bytes, not the store: Import asks the store for the object each time, and reads the file again if
// the store lacks it. Import also reuses the tree of a directory in which nothing changed.
//
// # How a call goes through here
//
// An import: Import starts workers (work); list reads a directory, sort separates files, directories and refusals,
// recall asks the cache, filesOf reads the other files (readFile), done and makeTree put the directory's tree and go
// up to the parent. A checkout: Checkout opens a site next to the destination; run alternates makeDirs, which reads
// trees, and fill, which writes files; site.publish renames the tree to its destination.
package worktree
