package worktree

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

// setBack reports whether the clock was set back between two moments.
func setBack(then, now Moment) bool {
	return now.Wall < then.Wall || now.Boot == then.Boot && now.Wall-now.Up < then.Wall-then.Up-slack
}

// settled reports whether a file with this stamp that is read after begin can't be written to any more without
// getting another stamp.
func (s *stamp) settled(begin Moment) bool {
	return s.ctime%1e9 != 0 && max(s.mtime, s.ctime) < begin.Wall-margin
}

// day is what a value's last use is told in.
func (m Moment) day() uint32 { return uint32(m.Wall / int64(24*time.Hour)) }

// processClock counts from its making, for systems of which we know no clock that runs on between processes.
func processClock() func() Moment {
	var b [8]byte
	rand.Read(b[:])
	start, boot := time.Now(), binary.LittleEndian.Uint64(b[:])
	return func() Moment {
		now := time.Now()
		return Moment{Wall: now.UnixNano(), Up: int64(now.Sub(start)), Boot: boot}
	}
}
