package osfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"testing"
	"time"
)

// stageMany stages files of several directories: every third one replaces a file that is there.
func stageMany(t *testing.T, b *Batch, d *Dir, dirs, files int) (all []*Staged) {
	t.Helper()
	for i := range dirs {
		for j := range files {
			name := fmt.Sprintf("a/d%d/f%d", i, j)
			if j == files/2 {
				all = append(all, nil)
			}
			var before fs.FileInfo
			if j%3 == 0 {
				must(t, os.MkdirAll(filepath.Dir(d.Where(name)), 0o755))
				must(t, os.WriteFile(d.Where(name), []byte("old"), 0o644))
				var err error
				before, err = os.Lstat(d.Where(name))
				must(t, err)
			}
			st, err := b.Stage(d, name, before, 0o644, BytesOf([]byte("new "+name)))
			must(t, err)
			all = append(all, st)
		}
	}
	return all
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// left checks that each file is the new one if it is Placed and else what it was, and that nothing else is there.
func left(t *testing.T, d *Dir, all []*Staged) (placed int) {
	t.Helper()
	want := 0
	for _, st := range all {
		if st == nil {
			continue
		}
		got, err := os.ReadFile(d.Where(st.Name))
		switch {
		case st.Placed():
			if placed++; string(got) != "new "+st.Name {
				t.Errorf("%s has %q, %v", st.Name, got, err)
			}
			want++
		case st.before != nil:
			want++
			fallthrough
		default:
			if err == nil && string(got) == "new "+st.Name {
				t.Errorf("%s is the new one, and not Placed", st.Name)
			}
			if st.before == nil && err == nil {
				want++ // another's
			}
		}
	}
	found := 0
	must(t, filepath.WalkDir(d.Where("."), func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			found++
		}
		return err
	}))
	if found != want {
		t.Errorf("%d files are there, want %d", found, want)
	}
	return placed
}

func openTemp(t *testing.T) *Dir {
	t.Helper()
	d, err := OpenDir(t.TempDir(), 0o755)
	must(t, err)
	t.Cleanup(d.Close)
	return d
}

func TestCommit(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		for _, dirs := range []int{1, 9} { // few files are synced one by one
			d, b := openTemp(t), NewBatch(dirs*10, time.Now())
			b.Ordered = ordered
			all := stageMany(t, b, d, dirs, 10)
			must(t, b.Commit(t.Context(), all))
			if n := left(t, d, all); n != dirs*10 {
				t.Errorf("%d of %d files are placed", n, dirs*10)
			}
		}
	}
}

// A file that came or changed meanwhile stays, and what isn't placed then is dropped. In order nothing behind it is
// placed.
func TestCommitChanged(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		for name, change := range map[string]func(at string) error{
			"a/d4/f1": func(at string) error { return os.WriteFile(at, []byte("another"), 0o644) },
			"a/d5/f3": func(at string) error { return os.WriteFile(at, []byte("another"), 0o644) },
			"a/d6/f4": func(at string) error { return os.Symlink("f3", at) },
		} {
			d, b := openTemp(t), NewBatch(90, time.Now())
			b.Ordered = ordered
			all := stageMany(t, b, d, 9, 10)
			must(t, change(d.Where(name)))
			err := b.Commit(t.Context(), all)
			if want := d.Changed(name); err == nil || err.Error() != want.Error() {
				t.Errorf("%v, want %v", err, want)
			}
			left(t, d, all)
			before := true
			for _, st := range all {
				if st == nil {
					continue
				}
				before = before && st.Name != name
				if st.Name == name && st.Placed() || ordered && st.Placed() != before {
					t.Errorf("ordered %v: %s placed: %v", ordered, st.Name, st.Placed())
				}
			}
		}
	}
}

// TestCommitEdited: a file that a user has edited after it was read stays as the user left it, also if the edit
// changes no size: the edit would be lost.
func TestCommitEdited(t *testing.T) {
	for _, files := range []int{1, 2 * fewFiles} {
		d, b := openTemp(t), NewBatch(files, time.Now())
		must(t, os.WriteFile(d.Where("f"), []byte("old"), 0o644))
		before, err := os.Lstat(d.Where("f"))
		must(t, err)
		st, err := b.Stage(d, "f", before, 0o644, BytesOf([]byte("new")))
		must(t, err)
		must(t, os.WriteFile(d.Where("f"), []byte("OLD"), 0o644))
		must(t, os.Chtimes(d.Where("f"), time.Time{}, before.ModTime().Add(time.Second)))
		err = b.Commit(t.Context(), []*Staged{st})
		got, _ := os.ReadFile(d.Where("f"))
		if want := d.Changed("f"); err == nil || err.Error() != want.Error() || string(got) != "OLD" || st.Placed() {
			t.Errorf("%d files: %q, %v", files, got, err)
		}
	}
}

func TestCommitCancelled(t *testing.T) {
	d, b := openTemp(t), NewBatch(90, time.Now())
	all := stageMany(t, b, d, 9, 10)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	if err := b.Commit(ctx, all); !errors.Is(err, why) || left(t, d, all) != 0 {
		t.Errorf("%v", err)
	}
}

// A link in the place of a directory isn't followed.
func TestCommitLink(t *testing.T) {
	d, b := openTemp(t), NewBatch(90, time.Now())
	all := stageMany(t, b, d, 9, 10)
	other := t.TempDir()
	must(t, os.Rename(d.Where("a/d3"), d.Where("moved")))
	must(t, os.Symlink(other, d.Where("a/d3")))
	if err := b.Commit(t.Context(), all); err == nil {
		t.Error("it is followed")
	}
	if es, err := os.ReadDir(other); err != nil || len(es) > 0 {
		t.Errorf("%v, %v", es, err)
	}
	for _, st := range all {
		if st != nil && path.Dir(st.Name) == "a/d3" && st.Placed() {
			t.Errorf("%s is placed", st.Name)
		}
	}
}
