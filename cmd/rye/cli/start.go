// The entry from package main.

package cli

import (
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/rye-build/rye/exec/session"
)

// A Program is what a table of commands belongs to.
type Program struct {
	Name  string   // of its binary
	About string   // one line
	Daily []string // the commands that its front page explains, in the order in which they are needed
}

// program is the program of this process, which StartAs sets before anything else.
var program = Program{"rye", "A package manager and build tool for what AI agents run.",
	[]string{"init", "new", "check", "sign", "add", "lock", "exec", "diff", "verify", "docs"}}

// StartAs runs the command line of another program than rye.
func StartAs(p Program, commands func() []Command, args []string) int {
	program = p
	return Start(commands, args)
}

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
