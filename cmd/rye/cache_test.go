package main

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rye-build/rye/cmd/rye/stores"
)

// TestClearBeside clears a directory into which others write.
func TestClearBeside(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	var over atomic.Bool
	var others sync.WaitGroup
	for n := range 3 {
		others.Go(func() {
			for !over.Load() {
				_ = os.MkdirAll(dir, 0o700)
				_ = os.WriteFile(filepath.Join(dir, strconv.Itoa(n)), nil, 0o600)
			}
		})
	}
	for range 20000 {
		if err := stores.RemoveAll(t.Context(), dir); err != nil {
			t.Error(err)
			break
		}
	}
	over.Store(true)
	others.Wait()
}
