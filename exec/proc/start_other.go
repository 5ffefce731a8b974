//go:build !linux

package proc

import (
	"errors"
	"os"
	"syscall"
)

// Start returns what tells a process from others, "" if it doesn't run. Here that is not when it was started: a later
// process with the same number is taken for it.
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

// Stopped isn't known here.
func Stopped(int) bool { return false }

// Inherited isn't known here.
func Inherited(string) string { return "" }

// Below lists no process: only Linux is asked for the tree.
func Below(int) []int { return nil }
