package blobs_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry/blobs"
	"github.com/rye-build/rye/exec/registry/blobs/blobstest"
)

// idle is a reader that has nothing to give, and doesn't end.
type idle struct{ read func() }

func (i idle) Read([]byte) (int, error) {
	i.read()
	return 0, nil
}

// TestExactly: a reader of exactly so many bytes gives the last one only when it knows that it is the last one, keeps
// its error, and doesn't wait for an end after its caller has gone.
func TestExactly(t *testing.T) {
	r := blobs.Exactly(t.Context(), "a", strings.NewReader("text"), 4)
	if n, err := r.Read(nil); n != 0 || err != nil {
		t.Error(n, err)
	}
	must(t, iotest.TestReader(blobs.Exactly(t.Context(), "a", strings.NewReader("text"), 4), []byte("text")))
	if b, err := io.ReadAll(r); string(b) != "text" || err != nil || r.Err() != nil {
		t.Errorf("%q, %v, %v", b, err, r.Err())
	}
	long := blobs.Exactly(t.Context(), "a", strings.NewReader("text and more"), 4)
	for range 2 {
		n, err := long.Read(make([]byte, 100))
		if n != 0 || fault.CodeOf(err) != fault.Validation || long.Err() != err {
			t.Errorf("%d bytes, %v, %v", n, err, long.Err())
		}
	}
	over, cancel := context.WithCancel(t.Context())
	waits := blobs.Exactly(over, "a", io.MultiReader(strings.NewReader("text"), idle{cancel}), 4)
	if n, err := waits.Read(make([]byte, 4)); n != 0 || !errors.Is(err, context.Canceled) {
		t.Error(n, err)
	}
}

// TestEscapes: links in the directory lead to no file outside of it.
func TestEscapes(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600))
	must(t, os.Symlink(outside, filepath.Join(dir, "dir")))
	must(t, os.Symlink(filepath.Join(outside, "secret"), filepath.Join(dir, "file")))
	l := open(t, dir, nil)
	for _, name := range []string{"file", "dir/secret"} {
		if f, err := l.Open(t.Context(), name); err == nil {
			f.Close()
			t.Errorf("%s is opened", name)
		}
	}
	if err := l.Create(t.Context(), "dir/new", strings.NewReader(""), 0); err == nil {
		t.Error("a file is created outside")
	}
	if names := blobstest.Names(t, l, ""); names != "" {
		t.Error(names)
	}
	must(t, l.Replace(t.Context(), "file", []byte("own")))
	if b, err := os.ReadFile(filepath.Join(outside, "secret")); string(b) != "secret" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := blobs.OpenLocal(filepath.Join(outside, "secret"), nil); err == nil {
		t.Error("a file is opened as a directory")
	}
	if _, err := blobs.OpenLocal(filepath.Join(outside, "secret", "below"), nil); err == nil {
		t.Error("a directory below a file is created")
	}
}
