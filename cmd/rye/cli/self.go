package cli

import (
	"os"
	"path/filepath"
)

// Unlinked is where a path leads, as far as it is there.
func Unlinked(path string) string {
	for dir, rest := path, ""; ; dir, rest = filepath.Dir(dir), filepath.Join(filepath.Base(dir), rest) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		if dir == filepath.Dir(dir) {
			return path
		}
	}
}

// StageArg enters the second stage of a sandbox: between rye and the program that it confines. Nobody types it.
const StageArg = "__stage"

// GuestArg enters what interprets a tool's code: this program again, in the sandbox of a call, before anything is wired.
// Nobody types it.
const GuestArg = "__guest"

// GuestSelf is how this program is started as a guest; nil if it doesn't know where it is.
func GuestSelf(name string) []string {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{Unlinked(self), GuestArg, name}
}
