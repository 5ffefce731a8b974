package main

import (
	"os"

	"github.com/rye-build/rye/exec/primitive/starlark"
	"github.com/rye-build/rye/exec/primitive/wasm"
	"github.com/rye-build/rye/exec/sandbox"
)

// guestArg enters what interprets a tool's code: this program again, in the sandbox of a call, before anything is wired.
// Nobody types it.
const guestArg = "__guest"

// within are the ways to start this program inside of a call, by their first argument.
var within = map[string]func(args []string) int{stageArg: sandbox.Stage, guestArg: guest}

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

// guestSelf is how this program is started as a guest; nil if it doesn't know where it is.
func guestSelf(name string) []string {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{unlinked(self), guestArg, name}
}
