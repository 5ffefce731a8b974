package worker

import (
	"runtime"
	"time"
)

// WatchMemory samples the memory of this process while on returns true, and calls over, once, when it exceeds most.
// It calls on before each sample, and on may block until there is something to watch: each sample stops the whole
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

// pause returns the time until so many more bytes can be used at the earliest: no program fills 8 MiB in a
// millisecond.
func pause(left int64) time.Duration {
	return min(max(time.Duration(left>>23)*time.Millisecond, soonest), latest)
}
