// Package statcache remembers the digests of files that have not changed, by directories. It never opens the files:
// a caller that walks a directory asks for its records before it reads files, and passes new records afterwards.
//
// How a directory goes through here: the caller takes a moment (Cache.Now) and asks for the directory (Get), which
// reads the value from the file, checks it (wellFormed) and compares the clock (SetBackSince). The caller compares
// each Record's Stamp with StampOf the file, reads the files that differ, and passes the directory to Put, which
// encodes it (Dir.encode). Flush and Close write.
//
// # The file
//
// The cache is one file of package checkedbolt, a checkedbolt.Cache of the format "rye stat cache 3". Losing it
// costs only time. It holds a value for each directory:
//
//	key   = device (8 bytes, big-endian) absolute-path
//	value = head *file *dir
//	head  = boot (8)       which boot of the machine it was written in
//	        wall (8)       when it was written: the clock, in nanoseconds since 1970
//	        up (8)         and the time since that boot, in nanoseconds
//	        tree (32)      the digest of the directory's tree; zeros if not all of its files are here
//	        files (4)      how many files follow
//	        dirs (4)       and directories
//	file  = inode (8) size (8) mtime (8) ctime (8) mode (4) digest (32) length (1) name
//	dir   = digest (32) length (1) name
//
// All numbers except the key's are little-endian. Files and directories are sorted by name, and no name is empty. A
// value whose counts or lengths don't agree is ignored. Directories without files have a digest of zeros. A
// directory whose path has more than 4,088 bytes is not remembered.
//
// # When a remembered digest counts
//
// A file counts as unchanged if its size, mtime, ctime, inode, device and mode are those of its record. That is
// right only if every change of the bytes also changes ctime, so records are made and used only under these
// conditions:
//
//   - mtime and ctime are older than the beginning of the reading (Cache.Now) by more than two seconds. A write soon
//     after it may otherwise fall into the same tick of the clock that stamps files (up to 10 ms on Linux) and
//     leave everything equal, as git's racily clean entries do. Files with stamps in the future are never recorded.
//   - ctime has a fraction of a second. On file systems that count whole seconds (or two, as FAT does) a tick is
//     easily hit again after the clock was set back, so nothing on them is recorded.
//   - The file system stamps by this machine's clock: on network and user-space file systems, whose clock may be
//     another's, nothing is recorded.
//   - The clock was not set back between the beginning of the reading and the recording, nor between the recording
//     and the use: a write after that might get the recorded stamp a second time. The clock was set back if it shows
//     less than when the value was written, or if, within one boot, it has lost more than a second against the
//     time since that boot. (A clock that was set back and forth again within one boot, or in another one, and a
//     write in exactly the recorded tick of nanoseconds meanwhile: that can't be told from no change.)
//   - mtime set by utimes leaves the new ctime; a file renamed over another has another inode or, if the number was
//     used again, another ctime; so has one whose mode or owner changed.
//
// No such cache can notice one kind of write: through a shared memory mapping whose page was written to already and
// not yet cleaned, the kernel stamps nothing. So the cache only makes importing trees faster, and is no evidence:
// code that verifies or executes doesn't use it (decision 15).
//
// Other systems than Linux report no usable ctime, so nothing is remembered there.
//
// # Who compares stamps
//
// A Stamp is the house's one record of what a file looked like. This cache, the index of package ai/search, the
// programs that package exec/env hashes, nofollow.Seen and package lock/recall compare stamps, all by the rules
// above. Three other memories don't, because no file changes under them: chain.Memory has the chains of a set, which
// is immutable; admission.Memory and the sessions of package exec/session remember what policies decided, which
// depends on keys, lists and the time. A holder of package ai/nofollow remembers nothing: it keeps directories open.
package statcache
