package statcache

// A Stamp is the metadata that shows whether a file has changed. On a system without ctime, Ctime is zero and an
// edit could go unnoticed: such a Stamp is never settled.
type Stamp struct {
	Dev, Ino     uint64
	Size         int64
	Mtime, Ctime int64  // nanoseconds since 1970
	Mode         uint32 // in the system's encoding
}
