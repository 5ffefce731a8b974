package statcache

import (
	"encoding/binary"
	"os"

	"github.com/rye-build/rye/cas"
	"golang.org/x/sys/unix"
)

// NewClock returns the machine's clock. Where the system tells, Up is the time since it was started, sleep included,
// and moments of several processes compare; elsewhere each process counts from its own beginning.
func NewClock() func() Moment {
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
