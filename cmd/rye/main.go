// Command rye keeps what AI agents run under names that cannot lie, and runs nothing else.
//
// Everything a person types and sees is here and nothing but that: each command is one file that calls the
// rooms below (testdata/layers.txt) and returns an answer. The environment is read in setup.go, standard
// streams are written in terminal.go, error codes and exit statuses are the table in errors.go, and the
// commands are listed in commands.go.
//
// # Output
//
// Standard output carries data, standard error carries narration. With --json standard output is exactly one
// line, {"success":true,"data":{"schema":"NAME/N",…}} or
// {"success":false,"error":{"code","message","details","retryable","suggestion"}}, and success is true
// exactly when the exit status is 0. "rye schema NAME" prints the JSON Schema of data, "rye help errors" the
// codes and statuses.
package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
)

func main() {
	if len(os.Args) > 1 && within[os.Args[1]] != nil {
		syscall.Exit(within[os.Args[1]](os.Args[2:])) // at once: nothing may be written from there on
	}
	collectLate()
	os.Exit(run(thisHost(), commands(), os.Args[1:]))
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
