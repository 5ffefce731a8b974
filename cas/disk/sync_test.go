package disk

import (
	"os"
	"path/filepath"
	"testing"
)

// TestSyncAsksTheSystem: sync passes on what the system answers, here about a file that is closed. Without asking it,
// an object that was acknowledged is lost with the power.
func TestSyncAsksTheSystem(t *testing.T) {
	for _, lazy := range []bool{false, true} {
		f, err := files{lazy: lazy}.create(filepath.Join(t.TempDir(), "pack"))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.sync(); err != nil {
			t.Error(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if err := f.sync(); (err == nil) != lazy {
			t.Errorf("lazy %t: %v", lazy, err)
		}
		if _, err := os.Stat(f.Name()); err != nil {
			t.Error(err)
		}
	}
}
