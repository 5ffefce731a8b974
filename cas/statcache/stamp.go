package statcache

// A Stamp is what tells whether a file changed since it was looked at. Where there is no ctime, Ctime is zero, and an
// edit could go unnoticed: such a Stamp is never settled.
type Stamp struct {
	Dev, Ino     uint64
	Size         int64
	Mtime, Ctime int64  // nanoseconds since 1970
	Mode         uint32 // as the system has it
}
