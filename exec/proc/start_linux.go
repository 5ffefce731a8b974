package proc

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"
)

// bootID tells one start of the machine from another.
var bootID = sync.OnceValue(func() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
})

// Start returns when a process was started, "" if it doesn't run. With its number that names it for good: the number alone is
// given to another process later.
func Start(pid int) string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	// The name, which may contain anything, ends with the last bracket.
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	const state, start = 0, 19
	if len(f) <= start || f[state][0] == 'Z' {
		return ""
	}
	return bootID() + "/" + string(f[start])
}
