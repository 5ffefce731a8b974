package serves

import (
	"runtime"
	"runtime/debug"

	"github.com/rye-build/rye/cmd/rye/cli"
)

const (
	// usual is Go's own percentage: the heap may double between two collections of garbage.
	usual = 100
	// seldom is that of a server with a small heap, and fresh what it allocates between two collections then.
	seldom = 250
	fresh  = 10 << 20
)

// collectSeldom makes a server collect garbage when its heap has 10 MiB, not 4, though only 2 or 3 of them live: a
// call allocates 25 KB. A larger heap grows as Go's do. GOGC overrides it.
func collectSeldom(a *cli.App) {
	if a.Env("GOGC") == "" {
		debug.SetGCPercent(seldom)
		collected(seldom)
	}
}

// collected sets the percentage anew after each collection.
func collected(percent int) {
	runtime.AddCleanup(new([16]byte), func(percent int) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		percent = percentage(m.NextGC, percent)
		debug.SetGCPercent(percent)
		collected(percent)
	}, percent)
}

// percentage returns the percentage that is right for what lives, when a collection is due at a size of the heap by
// another one.
func percentage(due uint64, percent int) int {
	live := max(due/uint64(usual+percent), 1)
	return int(min(max(usual, fresh/live), seldom))
}
