//go:build unix

package disk

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
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

// A pipe in the place of a lease has no writer, and opening it must not block.
func TestPipeForLease(t *testing.T) {
	r := newClock().store(t)
	must(t, syscall.Mkfifo(filepath.Join(r.Dir(), pins, "pipe"), 0o600))
	removed(t, r, GCOptions{DryRun: true}, 0)
}
