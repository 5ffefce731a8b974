//go:build unix

package osfile

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Links aren't followed and pipes aren't waited for.
func TestFlags(t *testing.T) {
	dir := t.TempDir()
	link, pipe := filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	if err := errors.Join(os.Symlink("x", link), syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.OpenFile(link, os.O_RDONLY|NoFollow, 0); !errors.Is(err, syscall.ELOOP) {
		t.Error(err)
	}
	f, err := os.OpenFile(pipe, os.O_RDONLY|Nonblock, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	for _, err := range []error{SyncDirectory(link), SyncDirectory(filepath.Join(dir, "none"))} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
}

// Without a free descriptor, waiting fails.
func TestNoDescriptors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	try(t, open(t, path), Exclusive, true)
	other := open(t, path)
	var most syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &most); err != nil {
		t.Fatal(err)
	}
	few := most
	few.Cur = 1 // what is open stays open
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	err := Lock(context.Background(), other, Exclusive, time.Hour)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &most); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.EINVAL) { // as Linux and the others call it
		t.Error(err)
	}
}
