package guest

import (
	"runtime"
	"time"
)

// WatchMemory samples the memory that this process uses, as long as on says so, and calls over, once, when it exceeds most. on
// is asked after each sample, and may wait until there is something to watch again: sampling isn't free.
func WatchMemory(on func() bool, most int64, over func()) {
	var m runtime.MemStats // package runtime/metrics takes 0.1 ms at each start of rye
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for on() {
		<-look.C
		if runtime.ReadMemStats(&m); m.HeapAlloc > uint64(most) {
			over()
			return
		}
	}
}
