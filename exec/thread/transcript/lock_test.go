package transcript_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/key/keytest"
)

// TestLock: a directory's lock is the one that the thread's first line names, or none.
func TestLock(t *testing.T) {
	const lock = "rye: \"lock/2\"\n"
	begin := func(named cas.Digest) string {
		dir := filepath.Join(t.TempDir(), "thread")
		now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
		w, err := transcript.Create(dir, "acme/a-1795000000-a2b3c",
			transcript.Started{Kind: "graph", Directive: transcript.Item{Ref: "tool:acme/a", Digest: cas.Sum(nil)},
				Policy: []cas.Digest{}, Grants: []string{}, Model: "none", Lock: named}, transcript.Driver{Epoch: 1},
			transcript.Options{Key: keytest.Seeded(1), Now: func() time.Time { return now }})
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	dir := begin(cas.Sum([]byte(lock)))
	if named, err := transcript.LockOf(dir); err != nil || named != cas.Sum([]byte(lock)) {
		t.Errorf("%v, %v", named, err)
	}
	if b, err := transcript.ReadLock(dir); b != nil || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of an older rye: %q, %v", b, err)
	}
	for text, want := range map[string]fault.Code{lock: "", lock + "x": fault.Integrity, "": fault.Integrity} {
		if err := os.WriteFile(filepath.Join(dir, transcript.LockFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if b, err := transcript.ReadLock(dir); err != nil && fault.CodeOf(err) != want || err == nil &&
			(want != "" || string(b) != lock) {
			t.Errorf("%q: %q, %v", text, b, err)
		}
	}
	if b, err := transcript.ReadLock(begin(cas.Digest{})); b != nil || err != nil {
		t.Errorf("without a lock: %q, %v", b, err)
	}
	if err := os.WriteFile(filepath.Join(dir, transcript.LinesFile), []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if named, err := transcript.LockOf(dir); err != nil || !named.IsZero() {
		t.Errorf("a damaged record names the lock %v, %v", named, err)
	}
}
