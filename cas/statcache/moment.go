package statcache

import (
	"crypto/rand"
	"encoding/binary"
	"time"
)

// A Moment is a point in time on two clocks. The first stamps files and can be set; the second only advances, and
// so shows that the first was set.
type Moment struct {
	Wall int64  // nanoseconds since 1970
	Up   int64  // nanoseconds since some point in the past
	Boot uint64 // identifies that point: only values of Up with the same Boot can be compared
}

const (
	// margin is how old stamps must be when reading begins. It is more than slack and a tick together.
	margin = int64(2 * time.Second)
	// slack is how much Wall may lose against Up without counting as set back.
	slack = int64(time.Second)
)

// SetBackSince reports whether the clock was set back between then and m.
func (m Moment) SetBackSince(then Moment) bool {
	return m.Wall < then.Wall || m.Boot == then.Boot && m.Wall-m.Up < then.Wall-then.Up-slack
}

// Settled reports whether every write, after m, to a file with these stamps gives it another ctime.
func (m Moment) Settled(mtime, ctime int64) bool {
	return ctime%1e9 != 0 && max(mtime, ctime) < m.Wall-margin
}

// processClock returns a clock that starts now, for systems without a known clock that all processes share.
func processClock() func() Moment {
	var b [8]byte
	rand.Read(b[:])
	start, boot := time.Now(), binary.LittleEndian.Uint64(b[:])
	return func() Moment {
		now := time.Now()
		return Moment{Wall: now.UnixNano(), Up: int64(now.Sub(start)), Boot: boot}
	}
}
