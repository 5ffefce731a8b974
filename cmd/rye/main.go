// Command rye is a package manager and build tool for what AI agents run.
//
// This package only joins the commands of the packages below it (testdata/layers.txt). Package cli is their frame,
// and package paths finds the project, lock, store and keys that they work on. "rye help errors" prints codes and
// exit statuses.
//
// How a command goes through here: cli.Start calls commands for the table, cli.Run finds the Command that the
// command line names, and its Runner does the work and returns an Answer, which cli prints as text or JSON.
package main

import (
	"os"

	"github.com/rye-build/rye/cmd/rye/cli"
)

func main() { os.Exit(cli.Start(commands, os.Args)) }
