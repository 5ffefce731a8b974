package worktree

import (
	"encoding/binary"
	"os"

	"github.com/rye-build/rye/cas"
	"golang.org/x/sys/unix"
)

// newClock returns a clock whose Up is the time since the machine was started, sleep included.
func newClock() func() Moment {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return processClock()
	}
	d := cas.Sum(id)
	boot := binary.LittleEndian.Uint64(d[:])
	return func() Moment {
		var wall, up unix.Timespec
		if unix.ClockGettime(unix.CLOCK_REALTIME, &wall) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &up) != nil {
			return Moment{} // before every stamp: nothing is recorded and nothing remembered counts
		}
		return Moment{Wall: wall.Nano(), Up: up.Nano(), Boot: boot}
	}
}
