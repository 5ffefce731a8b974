//go:build unix

package audit

import (
	"os"
	"syscall"
	"testing"
)

// TestPipe: a pipe in the place of a journal is refused. Opened for reading it would wait for a writer.
func TestPipe(t *testing.T) {
	for _, which := range []string{"head", "segment"} {
		dir := twoSegments(t)
		path := headPath(dir)
		if which == "segment" {
			path = segmentsOf(t, dir)[0]
		}
		must(t, os.Remove(path))
		must(t, syscall.Mkfifo(path, 0o600))
		r, err := Verify(t.Context(), dir, nil)
		if err == nil && len(r.Problems) == 0 {
			t.Errorf("%s: %+v", which, r)
		}
	}
}
