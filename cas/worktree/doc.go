// Package worktree is the way between a directory on disk and a tree in a store. Import makes blobs and trees of
// what is on disk; Checkout makes a directory of a tree.
//
// # Import
//
// A directory becomes a tree by the rules of package portable. Directories and files that a tree never holds
// (portable.Droppings) and directories without files are left out and counted. Symbolic links, devices, FIFOs,
// sockets and names that are not portable are refused, all of them at once, in a *RefusedError. Below the path
// that the caller names no symbolic link is ever followed, not even one that another process puts in the place
// of a directory meanwhile, and nothing but a regular file is ever opened for reading. What a tree says of a
// file is what was read from it and stored; a file that changes meanwhile is stored as it was read.
//
// # Checkout
//
// A directory is built under another name beside its destination, inside one that only its owner may enter, and
// renamed when every byte in it has been verified: the destination is complete or isn't there. What a checkout that
// was killed has left, the next one beside it removes. Files have mode 0644 or 0755 less the umask, as directories
// have 0777.
//
// # Files that have not changed
//
// With Options.Cache files that package statcache knows to be unchanged are not read. A remembered digest is an
// answer about a file's bytes. Whether the store has the object is asked of the store each time, and where it hasn't,
// the file is read again. Nor is the tree made again of a directory in which nothing changed.
package worktree
