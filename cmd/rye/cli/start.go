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

// Start runs this process's command line and returns the exit status. A process started inside a call ends here.
func Start(commands func() []Command, args []string) int {
	if len(args) > 1 && within[args[1]] != nil {
		syscall.Exit(within[args[1]](args[2:])) // at once: nothing may be written any more
	}
	collectLate()
	return Run(ThisHost(), commands(), args[1:])
}

// collectLate delays the first garbage collection from 4 to 16 MiB, which most calls never reach. GOGC overrides it.
func collectLate() {
	const usual = 100
	if before := debug.SetGCPercent(4 * usual); before != usual {
		debug.SetGCPercent(before)
		return
	}
	runtime.AddCleanup(new([16]byte), func(percent int) { debug.SetGCPercent(percent) }, usual) // runs after the first
}

// within holds the ways to start this program inside a call, by their first argument.
var within = map[string]func(args []string) int{StageArg: sandbox.Stage, GuestArg: guest}

// guests holds the interpreters by name. Each gets the remaining arguments and returns the exit status.
var guests = map[string]func(args []string) int{
	"starlark": func([]string) int { return starlark.Guest(os.Stdin, os.Stdout, os.Stderr) },
	"wasm":     func([]string) int { return wasm.Guest(os.Stdin, os.Stdout) },
}

// guest runs the interpreter that the first argument names.
func guest(args []string) int {
	if len(args) > 0 && guests[args[0]] != nil {
		return guests[args[0]](args[1:])
	}
	return 2
}
