package main

import (
	"os"

	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/primitive/starlark"
	"github.com/rye-build/rye/exec/primitive/wasm"
	"github.com/rye-build/rye/exec/sandbox"
)

// within are the ways to start this program inside of a call, by their first argument.
var within = map[string]func(args []string) int{cli.StageArg: sandbox.Stage, cli.GuestArg: guest}

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
