//go:build unix

package journal

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"
)

// TestPipe: a pipe is no journal, and isn't waited for.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); !isDamaged(err) {
		t.Error(err)
	}
}

func isDamaged(err error) bool { _, ok := errors.AsType[*DamagedError](err); return ok }
