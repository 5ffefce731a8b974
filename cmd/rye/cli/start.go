// The entry from package main.

package cli

import (
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/rye-build/rye/exec/session"
)

// Start runs this process's command line and returns the exit status. rye also starts itself inside sandboxes; such
// a process does its work in session.Inside and exits here.
func Start(commands func() []Command, args []string) int {
	if status, inside := session.Inside(args[1:]); inside {
		syscall.Exit(status) // at once, because this process must write nothing more
	}
	collectLate()
	return Run(ThisHost(), commands(), args[1:])
}

// collectLate delays the first garbage collection from 4 to 16 MiB of heap, which most commands never reach. GOGC
// overrides it.
func collectLate() {
	const usual = 100
	if before := debug.SetGCPercent(4 * usual); before != usual {
		debug.SetGCPercent(before)
		return
	}
	runtime.AddCleanup(new([16]byte), func(percent int) { debug.SetGCPercent(percent) },
		usual) // runs after the first collection
}
