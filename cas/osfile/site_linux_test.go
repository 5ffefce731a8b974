package osfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// built are the directories of buildMany.
var built = []string{"a/new/d0", "a/new/d1/deep", "a/other", "b"}

// buildMany stages five files in each of the directories, which are missing in "a", that is there.
func buildMany(t *testing.T, b *Batch, d *Dir) (all []*Staged) {
	t.Helper()
	must(t, os.MkdirAll(d.Where("a"), 0o755))
	for _, dir := range built {
		f, err := b.Build(d, dir)
		must(t, err)
		if f == nil {
			t.Fatalf("%s isn't built", dir)
		}
		for j := range 5 {
			name := fmt.Sprintf("f%d", j)
			st, err := f.Stage(name, nil, fs.FileMode(0o644+0o111*(j%2)), BytesOf([]byte("new "+path.Join(dir, name))))
			must(t, err)
			all = append(all, st, nil)
		}
		f.Close()
	}
	if _, err := os.Lstat(d.Where("a/new")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a/new is there before Commit: %v", err)
	}
	return all
}

// noSites checks that no hidden directory is left.
func noSites(t *testing.T, d *Dir) {
	t.Helper()
	must(t, filepath.WalkDir(d.Where("."), func(name string, e fs.DirEntry, err error) error {
		if strings.HasPrefix(e.Name(), Unfinished) {
			t.Errorf("%s is left", name)
		}
		return err
	}))
}

// inode tells one directory from another.
func inode(t *testing.T, name string) uint64 {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Stat(name, &st))
	return st.Ino
}

func TestBuild(t *testing.T) {
	for _, mask := range []int{0o022, 0o077} {
		old := unix.Umask(mask)
		d, b := openTemp(t), NewBatch(20, time.Now())
		d.mode = 0o777
		all := buildMany(t, b, d)
		hidden := inode(t, d.Where(path.Join("a", b.sites[place{d, "a"}].tmp, "new")))
		must(t, b.Commit(t.Context(), all))
		if n := left(t, d, all); n != 20 {
			t.Errorf("%d files are placed", n)
		}
		if now := inode(t, d.Where("a/new")); now != hidden {
			t.Error("a/new isn't the directory that was built")
		}
		for _, st := range all {
			if st == nil {
				continue
			}
			want := fs.FileMode(0o644)
			if strings.HasSuffix(st.Name, "1") || strings.HasSuffix(st.Name, "3") {
				want = 0o755
			}
			if fi, err := os.Lstat(d.Where(st.Name)); err != nil || fi.Mode() != want {
				t.Errorf("mask %o: %s: %v, %v", mask, st.Name, fi.Mode(), err)
			}
		}
		if fi, err := os.Lstat(d.Where("a/new/d1")); err != nil || fi.Mode().Perm() != 0o777&^fs.FileMode(mask) {
			t.Errorf("mask %o: %v, %v", mask, fi.Mode(), err)
		}
		noSites(t, d)
		unix.Umask(old)
	}
}

// What is there isn't built, nor is anything in a small batch.
func TestBuildNothing(t *testing.T) {
	d := openTemp(t)
	must(t, os.MkdirAll(d.Where("a"), 0o755))
	for _, c := range []struct {
		files int
		name  string
	}{{20, "a"}, {20, "."}, {1, "a/new"}} {
		b := NewBatch(c.files, time.Now())
		if f, err := b.Build(d, c.name); f != nil || err != nil {
			t.Errorf("%d files, %s: %v, %v", c.files, c.name, f, err)
		}
		b.Drop(nil)
	}
	must(t, os.Symlink("a", d.Where("link")))
	must(t, os.WriteFile(d.Where("file"), nil, 0o644))
	for _, name := range []string{"link/new", "file/new"} {
		if f, err := NewBatch(20, time.Now()).Build(d, name); f != nil || err == nil {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
	// More sites than a batch may have: these directories are made in their places.
	b := NewBatch(1000, time.Now())
	var all []*Staged
	for i := range mostSites + 5 {
		dir := fmt.Sprintf("many/%d", i)
		must(t, os.MkdirAll(d.Where(dir), 0o755))
		f, err := b.Build(d, dir+"/new")
		must(t, err)
		if (f == nil) != (i >= mostSites) {
			t.Errorf("%d: %v", i, f)
		}
		if f == nil {
			f, err = b.Folder(d, dir+"/new", true)
			must(t, err)
		}
		st, err := f.Stage("x", nil, 0o644, BytesOf([]byte("x")))
		must(t, err)
		all = append(all, st)
		f.Close()
	}
	must(t, b.Commit(t.Context(), all))
	for _, st := range all {
		if b, err := os.ReadFile(d.Where(st.Name)); string(b) != "x" || !st.Placed() {
			t.Errorf("%s: %q, %v", st.Name, b, err)
		}
	}
	noSites(t, d)
}

// In a directory that another process has made meanwhile the files come one by one, and none is replaced.
func TestBuildTaken(t *testing.T) {
	for _, taken := range []string{"", "a/new/d1/deep/f2", "a/other/f0"} {
		d, b := openTemp(t), NewBatch(20, time.Now())
		all := buildMany(t, b, d)
		must(t, os.MkdirAll(d.Where("a/new"), 0o755))
		if taken != "" {
			must(t, os.MkdirAll(filepath.Dir(d.Where(taken)), 0o755))
			must(t, os.WriteFile(d.Where(taken), []byte("another"), 0o644))
		}
		err := b.Commit(t.Context(), all)
		if taken == "" {
			must(t, err)
			if n := left(t, d, all); n != 20 {
				t.Errorf("%d files are placed", n)
			}
		} else {
			if want := d.Changed(taken); err == nil || err.Error() != want.Error() {
				t.Errorf("%v, want %v", err, want)
			}
			left(t, d, all)
			if got, err := os.ReadFile(d.Where(taken)); string(got) != "another" {
				t.Errorf("%s: %q, %v", taken, got, err)
			}
		}
		noSites(t, d)
	}
}

// Commit moves nothing but what it is given: not a file that could not be written whole.
func TestBuildUnfinished(t *testing.T) {
	d, b := openTemp(t), NewBatch(20, time.Now())
	all := buildMany(t, b, d)
	f, err := b.Build(d, "a/new/d0")
	must(t, err)
	full := errors.New("no space")
	st, err := f.Stage("half", nil, 0o644, func(w io.Writer) error {
		_, err := w.Write([]byte("half"))
		return errors.Join(err, full)
	})
	if st != nil || !errors.Is(err, full) {
		t.Errorf("%v, %v", st, err)
	}
	must(t, b.Commit(t.Context(), all))
	if n := left(t, d, all); n != 20 {
		t.Errorf("%d files are placed", n)
	}
	noSites(t, d)
}

func TestBuildDropped(t *testing.T) {
	for name, end := range map[string]func(b *Batch, d *Dir, all []*Staged) error{
		"dropped":              func(b *Batch, d *Dir, all []*Staged) error { b.Drop(all); return fs.ErrClosed },
		"before any is staged": func(b *Batch, d *Dir, all []*Staged) error { b.Drop(nil); return fs.ErrClosed },
		"cancelled": func(b *Batch, d *Dir, all []*Staged) error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return b.Commit(ctx, all)
		},
		"a link in the place of the directory": func(b *Batch, d *Dir, all []*Staged) error {
			must(t, os.Rename(d.Where("a"), d.Where("moved")))
			must(t, os.Symlink(t.TempDir(), d.Where("a")))
			return errors.Join(b.Commit(t.Context(), all), os.Remove(d.Where("a")))
		},
		"another directory in the place of the directory": func(b *Batch, d *Dir, all []*Staged) error {
			must(t, os.Rename(d.Where("a"), d.Where("moved")))
			must(t, os.Mkdir(d.Where("a"), 0o755))
			return b.Commit(t.Context(), all)
		},
		"the hidden directory is gone": func(b *Batch, d *Dir, all []*Staged) error {
			must(t, os.RemoveAll(d.Where(path.Join("a", b.sites[place{d, "a"}].tmp))))
			return b.Commit(t.Context(), all)
		},
	} {
		d, b := openTemp(t), NewBatch(20, time.Now())
		all := buildMany(t, b, d)
		if err := end(b, d, all); err == nil {
			t.Errorf("%s: no error", name)
		}
		if n := left(t, d, all); n != 0 {
			t.Errorf("%s: %d files are placed", name, n)
		}
		noSites(t, d)
	}
}

// A link that is put into a hidden directory isn't followed.
func TestBuildThroughLink(t *testing.T) {
	d, b := openTemp(t), NewBatch(20, time.Now())
	all := buildMany(t, b, d)
	outside := t.TempDir()
	in := d.Where(path.Join("a", b.sites[place{d, "a"}].tmp, "new"))
	must(t, os.Rename(filepath.Join(in, "d0"), filepath.Join(in, "gone")))
	must(t, os.Symlink(outside, filepath.Join(in, "d0")))
	f, err := b.Build(d, "a/new/d0")
	must(t, err)
	if st, err := f.Stage("x", nil, 0o644, BytesOf([]byte("x"))); st != nil || err == nil {
		t.Errorf("%v, %v", st, err)
	}
	if es, err := os.ReadDir(outside); err != nil || len(es) > 0 {
		t.Errorf("%v, %v", es, err)
	}
	b.Drop(all)
	noSites(t, d)
}

// What a process that died has left is removed by the next, and what one that lives builds is not.
func TestBuildSwept(t *testing.T) {
	d, b := openTemp(t), NewBatch(20, time.Now())
	all := buildMany(t, b, d)
	Sweep(d.Where("a"), time.Now())
	other := NewBatch(20, time.Now())
	must(t, other.Commit(t.Context(), buildOthers(t, other, d)))
	must(t, b.Commit(t.Context(), all))
	for _, st := range all {
		if st != nil && !st.Placed() {
			t.Errorf("%s isn't placed", st.Name)
		}
	}
	noSites(t, d)

	d, b = openTemp(t), NewBatch(20, time.Now())
	buildMany(t, b, d)
	for _, s := range b.sites {
		s.dir.Close() // as the system does when a process ends
	}
	Sweep(d.Where("."), time.Now())
	other = NewBatch(20, time.Now())
	all = buildOthers(t, other, d)
	must(t, other.Commit(t.Context(), all))
	noSites(t, d)
}

// buildOthers is another batch's work in "a".
func buildOthers(t *testing.T, b *Batch, d *Dir) []*Staged {
	t.Helper()
	f, err := b.Build(d, "a/third")
	must(t, err)
	st, err := f.Stage("x", nil, 0o644, BytesOf([]byte("new a/third/x")))
	must(t, err)
	return []*Staged{st}
}
