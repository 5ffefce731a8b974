package cli

import (
	"os"

	"github.com/rye-build/rye/cas/osfile"
)

// StageArg starts the second stage of a sandbox, between rye and the program that it confines. Internal.
const StageArg = "__stage"

// GuestArg starts an interpreter of a tool's code: this program again, in the sandbox of a call. Internal.
const GuestArg = "__guest"

// GuestSelf returns the command that starts this program as an interpreter, nil if its path is unknown.
func GuestSelf(name string) []string {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{osfile.Unlinked(self), GuestArg, name}
}
