// Command rye keeps what AI agents run under names that cannot lie, and runs nothing else.
//
// This package wires: the table of commands is in commands.go. Package cli is their frame, places finds what they work on,
// and each group of commands is a package beside it (testdata/layers.txt); "rye help errors" prints codes and exit statuses.
package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/rye-build/rye/cmd/rye/cli"
)

func main() {
	if len(os.Args) > 1 && within[os.Args[1]] != nil {
		syscall.Exit(within[os.Args[1]](os.Args[2:])) // at once: nothing may be written from there on
	}
	collectLate()
	os.Exit(cli.Run(cli.ThisHost(), commands(), os.Args[1:]))
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
