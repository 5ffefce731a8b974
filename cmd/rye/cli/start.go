package cli

import (
	"os"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/rye-build/rye/exec/primitive/starlark"
	"github.com/rye-build/rye/exec/primitive/wasm"
	"github.com/rye-build/rye/exec/sandbox"
)

// Start runs this process's command line, args, and returns the exit status. A process that was started inside of a call
// ends here.
func Start(commands func() []Command, args []string) int {
	if len(args) > 1 && within[args[1]] != nil {
		syscall.Exit(within[args[1]](args[2:])) // at once: nothing may be written from there on
	}
	collectLate()
	return Run(ThisHost(), commands(), args[1:])
}

// collectLate has the first garbage collected when there are 16 MiB and not 4, which most calls never reach, and the
// rest as ever. Whoever has set GOGC gets that.
func collectLate() {
	const asEver = 100
	if before := debug.SetGCPercent(4 * asEver); before != asEver {
		debug.SetGCPercent(before)
		return
	}
	runtime.AddCleanup(new([16]byte), func(percent int) { debug.SetGCPercent(percent) }, asEver) // runs after the first
}

// within are the ways to start this program inside of a call, by their first argument.
var within = map[string]func(args []string) int{StageArg: sandbox.Stage, GuestArg: guest}

// guests are what it can be, by the argument that follows. Each gets the arguments behind that, and returns the status.
var guests = map[string]func(args []string) int{
	"starlark": func([]string) int { return starlark.Guest(os.Stdin, os.Stdout, os.Stderr) },
	"wasm":     func([]string) int { return wasm.Guest(os.Stdin, os.Stdout) },
}

// guest is one of them.
func guest(args []string) int {
	if len(args) > 0 && guests[args[0]] != nil {
		return guests[args[0]](args[1:])
	}
	return 2
}
