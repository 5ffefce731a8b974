package blobs_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/journal"
	"github.com/rye-build/rye/cas/journal/journaltest"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/exec/registry/blobs"
	"github.com/rye-build/rye/exec/registry/blobs/blobstest"
)

var must = journaltest.Must

func open(t testing.TB, dir string, hook osfile.Hook) *blobs.Local {
	t.Helper()
	l, err := blobs.OpenLocal(dir, hook)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func TestLocal(t *testing.T) {
	blobstest.Test(t, func(t testing.TB) blobstest.Open {
		dir := filepath.Join(t.TempDir(), "data", "blobs")
		return func(t testing.TB) blobs.Store { return open(t, dir, nil) }
	})
}

// TestPrivate: others on the machine read neither the files nor their names.
func TestPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "blobs")
	l := open(t, dir, nil)
	blobstest.Create(t, l, "a/b/created", "x")
	must(t, l.Replace(t.Context(), "a/replaced", []byte("x")))
	seen := 0
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		fi, bad := d.Info()
		if seen++; bad == nil && fi.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has the mode %s", path, fi.Mode())
		}
		return errors.Join(err, bad)
	}))
	if seen != 5 {
		t.Errorf("%d files and directories", seen)
	}
}

// TestSwept: opening a store removes what dead processes have left, and not what others write now.
func TestSwept(t *testing.T) {
	dir := t.TempDir()
	old, young := filepath.Join(dir, osfile.Unfinished+"old"), filepath.Join(dir, osfile.Unfinished+"young")
	for _, name := range []string{old, young} {
		must(t, os.WriteFile(name, nil, 0o600))
	}
	before := time.Now().Add(-2 * osfile.UnfinishedAge)
	must(t, os.Chtimes(old, before, before))
	l := open(t, dir, nil)
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("old: %v", err)
	}
	if _, err := os.Stat(young); err != nil {
		t.Errorf("young: %v", err)
	}
	if names := blobstest.Names(t, l, ""); names != "" {
		t.Errorf("unfinished files are listed: %s", names)
	}
}

// TestInTheWay: a name that is a directory of others, and a name below a file, are refused, and what is there stays.
func TestInTheWay(t *testing.T) {
	l := open(t, t.TempDir(), nil)
	blobstest.Create(t, l, "index/a.yaml/b.yaml", "b")
	blobstest.Create(t, l, "index/c.yaml", "c")
	ctx := t.Context()
	for name, err := range map[string]error{
		"create over":   l.Create(ctx, "index/a.yaml", strings.NewReader(""), 0),
		"replace over":  l.Replace(ctx, "index/a.yaml", nil),
		"create below":  l.Create(ctx, "index/c.yaml/d", strings.NewReader(""), 0),
		"replace below": l.Replace(ctx, "index/c.yaml/d/e", nil),
	} {
		var exists *blobs.ExistsError
		if err == nil || fault.CodeOf(err) != fault.Conflict || errors.As(err, &exists) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if names := blobstest.Names(t, l, ""); names != "index/a.yaml/b.yaml index/c.yaml" {
		t.Error(names)
	}
}

// A writer is a process that creates and replaces files, and prints which.
type writer struct{ Dir string }

func TestMain(m *testing.M) {
	os.Exit(journaltest.Main(m, os.Getenv(journaltest.Variable), os.Stdin, os.Stdout, writer.run))
}

// text is what a file has that was written, and not before.
func text(name string) string { return strings.Repeat(name, 5_000) }

func (w writer) run(hook journal.Hook) (string, error) {
	l, err := blobs.OpenLocal(w.Dir, func(op, path string) error { return hook(op, path, nil) })
	if err != nil {
		return "", err
	}
	ctx := context.Background()
	var done []string
	for _, name := range []string{"a/created", "a/b/created"} {
		if err := l.Create(ctx, name, strings.NewReader(text(name)), int64(len(text(name)))); err != nil {
			return "", err
		}
		done = append(done, name)
	}
	if err := l.Replace(ctx, "replaced", []byte(text("replaced"))); err != nil {
		return "", err
	}
	return strings.Join(done, " "), l.Remove(ctx, "removed")
}

// whole wants that each file is as one of the writes left it, and returns the names.
func whole(t testing.TB, l blobs.Store) string {
	t.Helper()
	names := blobstest.Names(t, l, "")
	for name := range strings.FieldsSeq(names) {
		if got := blobstest.Read(t, l, name); got != text(name) && (got != "old" || !strings.HasPrefix(name, "re")) {
			t.Errorf("%s: %.40q, %d bytes", name, got, len(got))
		}
	}
	return names
}

func world(t testing.TB) string {
	dir := filepath.Join(t.TempDir(), "blobs")
	l := open(t, dir, nil)
	must(t, l.Replace(t.Context(), "replaced", []byte("old")))
	must(t, l.Replace(t.Context(), "removed", []byte("old")))
	return dir
}

// TestKilledWriting kills a process before each change that it makes: each file is whole or absent, or the old one,
// and the next process does the same work.
func TestKilledWriting(t *testing.T) {
	died := 0
	for n := 1; ; n++ {
		dir := world(t)
		cmd := journaltest.Command(t, writer{dir}, n)
		err := cmd.Run()
		if killed := cmd.ProcessState.ExitCode() == -1; !killed {
			must(t, err)
			break
		}
		died++
		l := open(t, dir, nil)
		whole(t, l)
		finish(t, l)
	}
	if died < 15 {
		t.Errorf("it died %d times", died)
	}
}

// finish does what a writer does, after one that didn't come to its end.
func finish(t testing.TB, l blobs.Store) {
	t.Helper()
	for _, name := range []string{"a/created", "a/b/created"} {
		err := l.Create(t.Context(), name, strings.NewReader(text(name)), int64(len(text(name))))
		if !errors.Is(err, fs.ErrExist) {
			must(t, err)
		}
	}
	must(t, l.Replace(t.Context(), "replaced", []byte(text("replaced"))))
	must(t, l.Remove(t.Context(), "removed"))
	if names := whole(t, l); names != "a/b/created a/created replaced" {
		t.Error(names)
	}
}

// TestFaults: whichever step fails, once or from then on, no file is half there, and who goes on succeeds. What a
// failed step leaves is invisible.
func TestFaults(t *testing.T) {
	for _, once := range []bool{false, true} {
		for fail := 1; ; fail++ {
			dir := world(t)
			full, heal := journaltest.Full(fail)
			failed := false
			l := open(t, dir, func(op, path string) error {
				err := full(op, path, nil)
				if err != nil && once {
					heal()
				}
				failed = failed || err != nil
				return err
			})
			ctx := t.Context()
			for _, name := range []string{"a/created", "a/b/created"} {
				err := l.Create(ctx, name, strings.NewReader(text(name)), int64(len(text(name))))
				if _, bad := l.Open(ctx, name); err == nil && bad != nil {
					t.Errorf("at %d: created, and %v", fail, bad)
				}
			}
			l.Replace(ctx, "replaced", []byte(text("replaced")))
			l.Remove(ctx, "removed")
			heal()
			whole(t, l)
			finish(t, l)
			whole(t, open(t, dir, nil))
			left, err := filepath.Glob(filepath.Join(dir, osfile.Unfinished+"*"))
			must(t, err)
			if len(left) > 0 {
				t.Errorf("at %d: left %v", fail, left)
			}
			if !failed {
				if fail < 15 {
					t.Errorf("%d steps", fail)
				}
				break
			}
		}
	}
}

// TestDurable: a file's bytes are synced before it has its name, and its name before Create returns, with those of all
// directories on the way. So is the name of a file that another process has just created.
func TestDurable(t *testing.T) {
	var mu sync.Mutex
	var steps []string
	dir := t.TempDir()
	hook := func(op, path string) error {
		mu.Lock()
		defer mu.Unlock()
		if strings.HasPrefix(path, osfile.Unfinished) {
			path = "part"
		}
		steps = append(steps, op+" "+path)
		return nil
	}
	check := func(want string) {
		t.Helper()
		if got := strings.Join(steps, ", "); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		steps = nil
	}
	l := open(t, dir, hook)
	check("")
	blobstest.Create(t, l, "a/b/c", "x")
	check("create part, write part, sync part, mkdir a, syncdir ., mkdir a/b, syncdir a, rename a/b/c, syncdir a/b")
	must(t, l.Replace(t.Context(), "a/b/c", nil))
	check("create part, write part, sync part, rename a/b/c, syncdir a/b")
	other := open(t, dir, hook)
	err := other.Create(t.Context(), "a/b/c", strings.NewReader(""), 0)
	if !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	check("syncdir a/b")
	blobstest.Create(t, other, "a/b/d", "")
	check("create part, write part, sync part, mkdir a, syncdir ., mkdir a/b, syncdir a, rename a/b/d, syncdir a/b")
	must(t, other.Remove(t.Context(), "a/b/d"))
	check("remove a/b/d, syncdir a/b")
}
