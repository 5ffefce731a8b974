// Command rye keeps what AI agents run under names that cannot lie, and runs nothing else.
//
// This package joins the commands of the packages beside it (testdata/layers.txt). Package cli is their frame, and
// places finds what they work on; "rye help errors" prints codes and exit statuses.
package main

import (
	"os"

	"github.com/rye-build/rye/cmd/rye/cli"
)

func main() { os.Exit(cli.Start(commands, os.Args)) }
