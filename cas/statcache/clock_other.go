//go:build !linux

package statcache

// NewClock returns the machine's clock. Each process counts from its own start.
func NewClock() func() Moment { return processClock() }
