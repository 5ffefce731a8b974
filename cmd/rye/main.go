// Command rye keeps what AI agents run under names that cannot lie, and runs nothing else.
//
// This package wires: the table of commands is in commands.go. Package cli is their frame, places finds what they work on,
// and each group of commands is a package beside it (testdata/layers.txt); "rye help errors" prints codes and exit statuses.
package main

import (
	"os"

	"github.com/rye-build/rye/cmd/rye/cli"
)

func main() { os.Exit(cli.Start(commands, os.Args)) }
