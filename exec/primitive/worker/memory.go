package worker

import (
	"runtime"
	"time"
)

// WatchMemory samples the memory that this process uses, as long as on says so, and calls over, once, when it exceeds
// most. on is asked before each sample, and may wait until there is something to watch again: sampling stops the whole
// process.
func WatchMemory(on func() bool, most int64, over func()) {
	var m runtime.MemStats // package runtime/metrics takes 0.1 ms at each start of rye
	for wait := soonest; ; wait = pause(most - int64(m.HeapAlloc)) {
		time.Sleep(wait)
		if !on() {
			return
		}
		if runtime.ReadMemStats(&m); int64(m.HeapAlloc) > most {
			over()
			return
		}
	}
}

// The least and the longest time between two samples.
const (
	soonest = 2 * time.Millisecond
	latest  = 50 * time.Millisecond
)

// pause is how long it takes at least until so many bytes are used: no program fills 8 MiB in a millisecond.
func pause(left int64) time.Duration {
	return min(max(time.Duration(left>>23)*time.Millisecond, soonest), latest)
}
