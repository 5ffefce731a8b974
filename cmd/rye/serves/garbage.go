package serves

import (
	"runtime"
	"runtime/debug"

	"github.com/rye-build/rye/cmd/rye/cli"
)

// This file lets a server with a small heap collect garbage less often.

const (
	// usual is Go's own percentage: the heap may double between two collections.
	usual = 100
	// seldom is the percentage for a small heap, and fresh the bytes that such a server allocates between
	// collections.
	seldom = 250
	fresh  = 10 << 20
)

// collectSeldom makes a server collect garbage when its heap has 10 MiB, not 4: a call allocates 25 KB, and only 2
// or 3 MiB live. A larger heap grows as Go's do. GOGC overrides it.
func collectSeldom(a *cli.App) {
	if a.Env("GOGC") == "" {
		debug.SetGCPercent(seldom)
		collected(seldom)
	}
}

// collected sets the percentage again after each collection.
func collected(percent int) {
	runtime.AddCleanup(new([16]byte), func(percent int) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		percent = percentage(m.NextGC, percent)
		debug.SetGCPercent(percent)
		collected(percent)
	}, percent)
}

// percentage returns the percentage for the live heap. due is the heap size of the next collection under percent.
func percentage(due uint64, percent int) int {
	live := max(due/uint64(usual+percent), 1)
	return int(min(max(usual, fresh/live), seldom))
}
