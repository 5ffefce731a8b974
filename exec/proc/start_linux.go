package proc

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/rye-build/rye/exec/sandbox/stage"
)

// bootID identifies this boot of the machine.
var bootID = sync.OnceValue(func() string {
	b, _ := stage.Read("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
})

// Start returns the start time of a process, or "" if it isn't running. Number and start identify a process for good,
// while the number alone is reused.
func Start(pid int) string {
	state, start := stat(pid)
	if start == "" || state == 'Z' {
		return ""
	}
	return bootID() + "/" + start
}

// Stopped reports whether a signal has stopped a process until another signal continues it.
func Stopped(pid int) bool {
	state, _ := stat(pid)
	return state == 'T'
}

// stat returns the state and the start time of a process; "" if it doesn't exist.
func stat(pid int) (state byte, start string) {
	b, err := stage.Read("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, ""
	}
	// The process name may contain anything, and ends at the last bracket.
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	const atState, atStart = 0, 19
	if len(f) <= atStart {
		return 0, ""
	}
	return f[atState][0], string(f[atStart])
}

// Inherited returns a variable from the start environment of an ancestor process, or "". A program can remove a
// variable from the environment of its children, but not from its own start environment.
func Inherited(name string) string {
	const most = 100
	for pid, n := os.Getppid(), 0; pid > 1 && n < most; n++ {
		dir := "/proc/" + strconv.Itoa(pid)
		vars, _ := stage.Read(dir + "/environ") // empty for another user's process
		for v := range bytes.SplitSeq(vars, []byte{0}) {
			if value, ok := bytes.CutPrefix(v, []byte(name+"=")); ok && len(value) > 0 {
				return string(value)
			}
		}
		b, err := stage.Read(dir + "/stat")
		if err != nil {
			return ""
		}
		f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
		if len(f) < 2 {
			return ""
		}
		pid, _ = strconv.Atoi(string(f[1]))
	}
	return ""
}
