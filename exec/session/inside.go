package session

import (
	"os"

	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/exec/primitive/starlark"
	"github.com/rye-build/rye/exec/primitive/wasm"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/exec/sandbox/stage"
	"github.com/rye-build/rye/exec/thread/loop"
)

// The words that start this program inside a call: as the second stage of a sandbox, between this process and the
// program that it confines, or as an interpreter of a tool's code.
const (
	stageWord = stage.Word
	guestWord = "__guest"
)

// Inside runs the part of a call that this program was started for. args are its arguments without its name. If inside
// is true, the program must exit at once with the status. The main function of a program that opens sessions calls it
// first, and gives its own path as Options.Self.
func Inside(args []string) (status int, inside bool) {
	switch {
	case len(args) == 0:
		return 0, false
	case args[0] == stageWord:
		return sandbox.Stage(args[1:]), true
	case args[0] != guestWord:
		return 0, false
	case len(args) > 1 && args[1] == "starlark":
		return starlark.Guest(os.Stdin, os.Stdout), true
	case len(args) > 1 && args[1] == "loop":
		return loop.Guest(os.Stdin, os.Stdout), true
	case len(args) > 1 && args[1] == "wasm":
		return wasm.Guest(os.Stdin, os.Stdout), true
	}
	return 2, true
}

// guest is the command that starts this program as an interpreter; nil where that is impossible.
func guest(self, name string) []string {
	if self == "" {
		return nil
	}
	return []string{osfile.Unlinked(self), guestWord, name}
}
