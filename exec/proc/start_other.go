//go:build !linux

package proc

import (
	"errors"
	"os"
	"syscall"
)

// Start returns "runs" for a running process, otherwise "". On this system it doesn't distinguish a process from a
// later one with the same number.
func Start(pid int) string {
	p, err := os.FindProcess(pid)
	if err != nil {
		return ""
	}
	defer p.Release()
	if err := p.Signal(syscall.Signal(0)); errors.Is(err, os.ErrProcessDone) || errors.Is(err, syscall.ESRCH) {
		return ""
	}
	return "runs"
}

// Stopped returns false: the state is unknown on this system.
func Stopped(int) bool { return false }

// Inherited returns "": ancestors' environments are unknown on this system.
func Inherited(string) string { return "" }

// Below returns nil: only Linux lists descendants.
func Below(int) []int { return nil }
