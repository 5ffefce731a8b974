//go:build unix

package legacy

import (
	"os"
	"path/filepath"
	"testing"
)

// Links are not followed, neither to the manifest nor to files.
func TestLinks(t *testing.T) {
	w := newWorld(t)
	other := filepath.Join(t.TempDir(), "a.json")
	if err := os.WriteFile(other, []byte("{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(w.dir, "plans", "a.json")
	os.Remove(name)
	if err := os.Symlink(other, name); err != nil {
		t.Fatal(err)
	}
	if r := w.verify(accept); len(r.Failures) != 1 || r.Failures[0].Path != "plans/a.json" {
		t.Errorf("%v", failures(r))
	}
}
