package proc

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/rye-build/rye/exec/sandbox/stage"
)

// bootID tells one start of the machine from another.
var bootID = sync.OnceValue(func() string {
	b, _ := stage.Read("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
})

// Start returns when a process was started, "" if it doesn't run. With its number that names it for good: the number
// alone is given to another process later.
func Start(pid int) string {
	state, start := stat(pid)
	if start == "" || state == 'Z' {
		return ""
	}
	return bootID() + "/" + start
}

// Stopped reports whether a signal has stopped a process: it does nothing until another one lets it go on.
func Stopped(pid int) bool {
	state, _ := stat(pid)
	return state == 'T'
}

// stat returns the state of a process, and when it was started; "" if there is none.
func stat(pid int) (state byte, start string) {
	b, err := stage.Read("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, ""
	}
	// The name, which may contain anything, ends with the last bracket.
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	const atState, atStart = 0, 19
	if len(f) <= atStart {
		return 0, ""
	}
	return f[atState][0], string(f[atStart])
}

// Inherited returns a variable that a process above this one was started with, "" for none. A program can take it from
// the environment of what it starts, but not from its own.
func Inherited(name string) string {
	const most = 100
	for pid, n := os.Getppid(), 0; pid > 1 && n < most; n++ {
		dir := "/proc/" + strconv.Itoa(pid)
		vars, _ := stage.Read(dir + "/environ") // of another user's process there is none
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
