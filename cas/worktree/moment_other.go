//go:build !linux

package worktree

func newClock() func() Moment { return processClock() }
