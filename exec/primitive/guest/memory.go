package guest

import (
	"runtime/metrics"
	"time"
)

// WatchMemory samples the memory that this process uses, as long as on says so, and calls over, once, when it exceeds most. on
// is asked after each sample, and may wait until there is something to watch again: sampling isn't free.
func WatchMemory(on func() bool, most int64, over func()) {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for on() {
		<-look.C
		if metrics.Read(sample); sample[0].Value.Uint64() > uint64(most) {
			over()
			return
		}
	}
}
