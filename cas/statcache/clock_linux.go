package statcache

import (
	"encoding/binary"
	"os"

	"github.com/rye-build/rye/cas"
	"golang.org/x/sys/unix"
)

// NewClock returns the machine's clock. If the system has a boot id, Up is the time since its start, sleep
// included, and moments of different processes can be compared. Otherwise each process counts from its own start.
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
			return Moment{} // before every stamp: Put records nothing, and Get returns nothing
		}
		return Moment{Wall: wall.Nano(), Up: up.Nano(), Boot: boot}
	}
}
