package statcache

import (
	"crypto/rand"
	"encoding/binary"
	"time"
)

// A Moment is a point in time by two clocks: the one that can be set, which stamps files, and one that only
// runs on, so that setting the first is noticed.
type Moment struct {
	Wall int64  // nanoseconds since 1970
	Up   int64  // nanoseconds since some point in the past
	Boot uint64 // names that point: values of Up compare only where this is the same
}

const (
	// margin is how old stamps must be when the reading begins. It is more than slack and a tick together.
	margin = int64(2 * time.Second)
	// slack is what the clock may lose against the other one without counting as set back.
	slack = int64(time.Second)
)

// SetBackSince reports whether the clock was set back between then and m.
func (m Moment) SetBackSince(then Moment) bool {
	return m.Wall < then.Wall || m.Boot == then.Boot && m.Wall-m.Up < then.Wall-then.Up-slack
}

// Settled reports whether a file with these stamps that is read after m can't be written to any more without getting
// another ctime.
func (m Moment) Settled(mtime, ctime int64) bool {
	return ctime%1e9 != 0 && max(mtime, ctime) < m.Wall-margin
}

// processClock starts at its creation, for systems without a known clock that all processes share.
func processClock() func() Moment {
	var b [8]byte
	rand.Read(b[:])
	start, boot := time.Now(), binary.LittleEndian.Uint64(b[:])
	return func() Moment {
		now := time.Now()
		return Moment{Wall: now.UnixNano(), Up: int64(now.Sub(start)), Boot: boot}
	}
}
