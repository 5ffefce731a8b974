package cli

import (
	"os"
	"path/filepath"
)

// Unlinked resolves the symbolic links of a path as far as it exists.
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
	return []string{Unlinked(self), GuestArg, name}
}
