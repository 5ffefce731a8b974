//go:build unix

package disk

import (
	"errors"
	"os"
	"syscall"
)

func stopProcess(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

// What takes the place of a file here and not everywhere.
var replacementsHere = map[string]func(path string) error{
	"a pipe": func(path string) error {
		return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600))
	},
	"a device": func(path string) error {
		return errors.Join(os.Remove(path), os.Symlink("/dev/zero", path))
	},
}
