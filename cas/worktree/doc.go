// Package worktree is the way between a directory on disk and a tree in a store. Import makes blobs and trees of
// what is on disk; Checkout makes a directory of a tree; a Cache remembers the digests of files that have not
// changed.
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
// renamed when every byte in it has been verified: the destination is complete or isn't there. Files have mode
// 0644 or 0755 less the umask, as directories have 0777.
//
// # The stat cache
//
// One bbolt file, which only this package reads, and whose loss costs time alone. It holds two buckets: "format"
// with one key "version" and the value "rye stat cache 1", and "dirs" with one key and value for each directory:
//
//	key   = device (8 bytes, big-endian) absolute-path
//	value = sum head *file *dir
//	sum   = the first 16 bytes of the BLAKE3 hash of "rye stat cache 1", NUL, the length of key (4 bytes), key,
//	        and the rest of value
//	head  = day (4)        when the value was last used, in days since 1970
//	        boot (8)       which boot of the machine it was written in
//	        wall (8)       when it was written: the clock, in nanoseconds since 1970
//	        up (8)         and the time since that boot, in nanoseconds
//	        tree (32)      the digest of the directory's tree, or zeros
//	        files (4)      how many files follow
//	        dirs (4)       and directories
//	file  = inode (8) size (8) mtime (8) ctime (8) mode (4) digest (32) length (1) name
//	dir   = digest (32) length (1) name
//
// Numbers are little-endian but for the key's; files and directories are sorted by name. A value whose sum, counts
// or lengths don't agree is no value. Directories without files have a digest of zeros.
//
// # When a remembered digest counts
//
// A file is taken to be unchanged when its size, mtime, ctime, inode, device and mode are those of its record. That
// holds only if every change of the bytes also changes ctime, so a record is made and used under conditions:
//
//   - mtime and ctime are older than the beginning of the import by more than two seconds. A write soon after the
//     reading may otherwise fall into the same tick of the clock that stamps files (up to 10 ms on Linux) and
//     leave everything equal, as git's racily clean entries do. Files with stamps in the future are never recorded.
//   - ctime has a fraction of a second. On file systems that count whole seconds (or two, as FAT does) a tick is
//     easily hit again after the clock was set back, so nothing on them is recorded.
//   - The file system stamps by this machine's clock: on network and user-space file systems, whose clock may be
//     another's, nothing is recorded.
//   - The clock was not set back between the beginning of the import and the recording, nor between the recording
//     and the use: a write after that might get the recorded stamp a second time. The clock was set back if it shows
//     less than when the value was written, or if, within one boot, it has lost more than a second against the
//     time since that boot. (A clock that was set back and forth again within one boot, or in another one, and a
//     write in exactly the recorded tick of nanoseconds meanwhile: that can't be told from no change.)
//   - mtime set by utimes leaves the new ctime; a file renamed over another has another inode or, if the number was
//     used again, another ctime; so has one whose mode or owner changed.
//
// One kind of write is beyond any such cache: through a shared memory mapping whose page was written to already
// and not yet cleaned, the kernel stamps nothing. So it is an accelerator for making trees, never evidence: what
// verifies or executes doesn't ask it (decision 15).
//
// A remembered digest is an answer about a file's bytes. Whether the store has the object is asked of the store each
// time, and where it hasn't, the file is read again. On systems other than Linux
// every file is read.
package worktree
