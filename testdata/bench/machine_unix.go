//go:build linux || darwin

package main

import (
	"os"
	"runtime"
	"syscall"
)

// peakMemory returns the peak resident bytes of the largest process below one that ended.
func peakMemory(p *os.ProcessState) int64 {
	u, ok := p.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	if runtime.GOOS == "darwin" {
		return u.Maxrss
	}
	return u.Maxrss << 10
}

// syncDisks writes back what is dirty.
func syncDisks() { syscall.Sync() }
