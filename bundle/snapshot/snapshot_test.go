package snapshot

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
)

// snapshotOf puts files into a store and lists them.
func snapshotOf(t *testing.T, names ...string) (*cas.Memory, []manifest.File) {
	t.Helper()
	store := new(cas.Memory)
	var files []manifest.File
	for _, name := range names {
		made, err := store.Put(t.Context(), cas.Blob, strings.NewReader("this is "+name))
		if err != nil {
			t.Fatal(err)
		}
		f := manifest.File{Path: name, Digest: made.Digest, Size: made.Size, Mode: cas.File}
		if strings.HasSuffix(name, ".sh") {
			f.Mode = cas.Exec
		}
		files = append(files, f)
	}
	return store, files
}

func TestFS(t *testing.T) {
	store, files := snapshotOf(t, ".ai/a-b/x", ".ai/a.txt", ".ai/a/b/c/d.sh", ".ai/a/b/e", ".ai/a0", "docs/x.md")
	if err := fstest.TestFS(FS(t.Context(), store, files, "."), ".ai/a/b/c/d.sh", "docs/x.md"); err != nil {
		t.Error(err)
	}
	ai := FS(t.Context(), store, files, ".ai")
	if err := fstest.TestFS(ai, "a-b/x", "a.txt", "a/b/c/d.sh", "a/b/e", "a0"); err != nil {
		t.Error(err)
	}
	if fi, err := fs.Stat(ai, "a/b/c/d.sh"); err != nil || fi.Mode() != 0o755 ||
		fi.Size() != int64(len("this is .ai/a/b/c/d.sh")) || fi.Sys() != nil {
		t.Errorf("%v, %v", fi, err)
	}
	for _, name := range []string{"docs/x.md", "a/b/e/f", "a/", "../docs", "b"} {
		if _, err := ai.Open(name); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := fs.ReadLink(ai, name); err == nil {
			t.Errorf("%s is a link", name)
		}
	}
	if _, err := fs.ReadDir(ai, "a.txt"); err == nil {
		t.Error("a file is a directory")
	}
	if err := fstest.TestFS(FS(t.Context(), store, nil, ".")); err != nil {
		t.Error(err)
	}
}

// What the store has must be what the list says.
func TestFSHoldsAgainstTheList(t *testing.T) {
	store, files := snapshotOf(t, "a", "b")
	files[0].Size++
	files[1].Digest[0] ^= 1
	fsys := FS(t.Context(), store, files, ".")
	if _, err := fs.ReadFile(fsys, "a"); err == nil || err.Error() != `open a: has 9 bytes, the manifest says 10` {
		t.Error(err)
	}
	if _, err := fs.ReadFile(fsys, "b"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	store, files = snapshotOf(t, "a")
	if _, err := fs.ReadFile(FS(t.Context(), lying{store}, files, "."), "a"); err == nil {
		t.Error("other bytes are read")
	}
}

// A lying store hands out other bytes, and hashes what it hands out as every store does.
type lying struct{ cas.Getter }

func (l lying) Get(ctx context.Context, id cas.ID) (cas.Object, error) {
	return cas.Verify(cas.Info{ID: id, Size: int64(len("this is a"))}, io.NopCloser(strings.NewReader("this is b"))),
		nil
}
