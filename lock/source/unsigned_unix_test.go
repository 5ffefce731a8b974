//go:build unix

package source

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestUnsignedFIFO: a FIFO rejects the plugin, and one that takes the place of a file blocks nothing.
func TestUnsignedFIFO(t *testing.T) {
	w := newWorld(t)
	dir, src := plainPlugin(t, w)
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	s := w.sources("plugins/demo", src)
	if _, err := s.Unsigned(t.Context(), "plugins/demo", src); err == nil ||
		!strings.Contains(err.Error(), "neither a file nor a directory") {
		t.Fatalf("got %v", err)
	}
	if err := os.Remove(pipe); err != nil {
		t.Fatal(err)
	}
	s = w.sources("plugins/demo", src)
	defer s.Close()
	if _, err := s.Now(t.Context(), "plugins/demo", src); err != nil {
		t.Fatal(err)
	}
	note := filepath.Join(dir, "docs", "note.md")
	if err := os.Remove(note); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(note, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Unsigned(t.Context(), "plugins/demo", src); err == nil ||
		!strings.Contains(err.Error(), "changed") {
		t.Fatalf("got %v", err)
	}
}
