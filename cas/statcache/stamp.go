package statcache

// A Stamp is what tells whether a file changed. Where there is no ctime it is zero.
type Stamp struct {
	Dev, Ino     uint64
	Size         int64
	Mtime, Ctime int64  // nanoseconds since 1970
	Mode         uint32 // as the system has it
}
