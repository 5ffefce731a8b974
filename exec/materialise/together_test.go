//go:build unix

package materialise

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
)

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Stat(dir); info.Mode().Perm() != 0o700 {
		t.Error(info.Mode())
	}
	f := filepath.Join(dir, "file")
	os.WriteFile(f, nil, 0o600)
	if _, err := Open(f); err == nil {
		t.Error("a file was opened")
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	real, _ := filepath.EvalSymlinks(dir)
	if c, err := Open(link); err != nil || c.dir != real {
		t.Error(c, err)
	}
}

func TestScratch(t *testing.T) {
	c := open(t)
	s, err := c.Scratch(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := listing(t, s.Dir), "drwx------ .\ndrwx------ home\ndrwx------ tmp\n"; got != want {
		t.Error(got)
	}
	// What a run leaves is removed, whatever its modes.
	deep := filepath.Join(s.Home, "a", "b")
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	os.WriteFile(filepath.Join(deep, "f"), nil, 0)
	os.Symlink("/", filepath.Join(deep, "l"))
	os.Chmod(deep, 0)
	os.Chmod(filepath.Dir(deep), 0o500)
	if r, err := c.Clean(context.Background(), time.Now(), Limits{}); err != nil || r.InUse != 1 || r.Removed != 0 {
		t.Errorf("%+v %v", r, err)
	}
	closed(t, s)
	if a, b := names(t, c.at(scratch)), names(t, c.at(leases)); len(a)+len(b) > 0 {
		t.Errorf("%q %q are left", a, b)
	}
}

func TestClean(t *testing.T) {
	c, src := open(t), &store{}
	now := time.Now()
	ctx := context.Background()
	sized := func(name string, size int, age time.Duration) *Copy {
		cp := get(t, c, src, []Part{file(src, name, strings.Repeat("x", size), cas.File)})
		when := now.Add(-age)
		if err := os.Chtimes(c.at(leases, cp.Key), when, when); err != nil {
			t.Fatal(err)
		}
		return cp
	}
	older, old, young, used := sized("a", 1000, 3*time.Hour), sized("b", 1000, 2*time.Hour),
		sized("c", 1000, time.Hour), sized("d", 1000, 4*time.Hour)
	closed(t, older, old, young)
	all := int64(4 * 1003)
	r, err := c.Clean(ctx, now, Limits{Bytes: all, Age: 5 * time.Hour})
	if want := (Report{Kept: 4, Left: all}); err != nil || *r != want {
		t.Errorf("%+v %v", r, err)
	}
	// One too many: the least recently used copy that is not in use.
	r, err = c.Clean(ctx, now, Limits{Bytes: all - 1, Age: 5 * time.Hour})
	if want := (Report{Removed: 1, Kept: 2, InUse: 1, Freed: 1003, Left: all - 1003}); err != nil || *r != want ||
		!isAbsent(older.Root) {
		t.Errorf("%+v %v", r, err)
	}
	r, err = c.Clean(ctx, now, Limits{Bytes: all, Age: 90 * time.Minute})
	if want := (Report{Removed: 1, Kept: 1, InUse: 1, Freed: 1003, Left: 2006}); err != nil || *r != want ||
		!isAbsent(old.Root) {
		t.Errorf("%+v %v", r, err)
	}
	// What dead processes left, and files without an owner.
	for _, dir := range []string{making + "/" + strings.Repeat("a", 64) + ".x/tree",
		scratch + "/" + strings.Repeat("b", 32) + "/home", copies + "/other"} {
		if err := os.MkdirAll(c.at(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	os.WriteFile(c.at(leases, strings.Repeat("c", 64)), nil, 0o600)
	r, err = c.Clean(ctx, now, Limits{Bytes: all, Age: 5 * time.Hour})
	if want := (Report{Removed: 3, Kept: 2, Left: 2006}); err != nil || *r != want {
		t.Errorf("%+v %v", r, err)
	}
	closed(t, used)
	r, err = c.Clean(ctx, now, Limits{})
	if want := (Report{Removed: 2, Freed: 2006}); err != nil || *r != want {
		t.Errorf("%+v %v", r, err)
	}
	if a, b, l := names(t, c.at(copies)), names(t, c.at(making)), names(t, c.at(leases)); len(a) != 1 ||
		len(b)+len(l) != 0 {
		t.Errorf("%q %q %q are left", a, b, l)
	}
	stopped, cancel := context.WithCancel(ctx)
	cancel()
	closed(t, sized("e", 1, 0))
	if _, err := c.Clean(stopped, now, Limits{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Many use, clean and damage one cache at once, and every run sees the pinned bytes.
func TestMany(t *testing.T) {
	c, src := open(t), &store{}
	parts := sample(src)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 20 {
				other := c
				if i%2 == 0 {
					// As another process would.
					var err error
					if other, err = Open(c.dir); err != nil {
						t.Error(err)
						return
					}
				}
				if i == 0 {
					if _, err := other.Clean(context.Background(), time.Now().Add(time.Hour), Limits{}); err != nil {
						t.Error(err)
					}
					continue
				}
				cp, err := other.Copy(context.Background(), src, parts)
				if err != nil {
					t.Error(err)
					return
				}
				if b, err := os.ReadFile(filepath.Join(cp.Dir, "project/run.sh")); err != nil ||
					string(b) != "#!/bin/sh\n" && i != 1 {
					t.Errorf("%q %v", b, err)
				}
				if i == 1 && j%5 == 0 {
					os.Chmod(cp.Dir+"/std", 0o700)
				}
				if err := cp.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := names(t, c.at(making)); len(n) != 0 {
		t.Error(n)
	}
}

// What another process holds is kept while it lives, and not longer.
func TestKilled(t *testing.T) {
	c := open(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "MATERIALISE_TEST_HOLD="+c.dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var dirs []string
	for range 2 {
		if !lines.Scan() {
			t.Fatal("the other process said nothing")
		}
		dirs = append(dirs, lines.Text())
	}
	ctx := context.Background()
	if r, err := c.Clean(ctx, time.Now().Add(time.Hour), Limits{}); err != nil || r.InUse != 2 || r.Removed != 0 {
		t.Errorf("%+v %v", r, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	src := &store{}
	if cp := get(t, c, src, sample(src)); !cp.Reused || cp.Dir != dirs[0] {
		t.Errorf("%+v", cp)
	} else {
		closed(t, cp)
	}
	if r, err := c.Clean(ctx, time.Now().Add(time.Hour), Limits{}); err != nil || r.InUse != 0 || r.Removed != 2 ||
		!isAbsent(dirs[0]) || !isAbsent(dirs[1]) {
		t.Errorf("%+v %v", r, err)
	}
}

// Cleaning goes on when a run ends beside it.
func TestCleanBeside(t *testing.T) {
	c := open(t)
	var runs sync.WaitGroup
	var over atomic.Bool
	for range 4 {
		runs.Go(func() {
			for !over.Load() {
				s, err := c.Scratch(t.Context())
				if err == nil {
					err = s.Close()
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 1000 {
		if _, err := c.Clean(t.Context(), time.Now(), Limits{}); err != nil {
			t.Error(err)
			break
		}
	}
	over.Store(true)
	runs.Wait()
}

// A lock that isn't released is waited for no longer than said.
func TestWaiting(t *testing.T) {
	c := open(t)
	f, err := c.locked(context.Background(), c.at("lock"), osfile.Exclusive)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Scratch(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if _, err := c.Clean(ctx, time.Now(), Limits{}); err != nil {
		t.Error(err) // there is nothing to be removed, and nothing to be locked
	}
	f.Close()
}

// What stands where a directory or a lock has to be is an error, and no copy.
func TestObstacles(t *testing.T) {
	ctx := context.Background()
	src := &store{}
	parts := sample(src)
	key := sampleKey()
	for name, path := range map[string]string{"lock": "lock", "lease": leases + "/" + key, "leases": leases,
		"making": making, "copies": copies} {
		c := open(t)
		if err := os.RemoveAll(c.at(path)); err != nil {
			t.Fatal(err)
		}
		put := func(p string) error { return os.WriteFile(p, nil, 0o600) }
		if name == "lock" || name == "lease" {
			put = func(p string) error { return os.Mkdir(p, 0o700) }
		}
		if err := put(c.at(path)); err != nil {
			t.Fatal(err)
		}
		if cp, err := c.Copy(ctx, src, parts); err == nil {
			t.Errorf("%s: %+v", name, cp)
		}
		if name == "leases" || name == "lock" {
			if _, err := c.Scratch(ctx); err == nil {
				t.Errorf("%s: a scratch directory was made", name)
			}
		}
		if r, err := c.Clean(ctx, time.Now(), Limits{}); err == nil && name != "lock" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	c := open(t)
	if err := os.RemoveAll(c.at(scratch)); err != nil {
		t.Fatal(err)
	}
	if s, err := c.Scratch(ctx); err == nil {
		t.Errorf("%+v", s)
	}
	if n := names(t, c.at(leases)); len(n) != 0 {
		t.Error(n)
	}
	f := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(f, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(filepath.Join(f, "x")); err == nil {
		t.Error("a directory was made in a file")
	}
	if _, err := c.locked(ctx, filepath.Join(f, "x"), osfile.Exclusive); err == nil {
		t.Error("a lock was made in a file")
	}
	if err := writeFile(f, 0o400, nil); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	if err := (&writer{ctx: ctx, tree: filepath.Dir(f)}).long(filepath.Base(f), cas.ID{}, 1,
		strings.NewReader("x")); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	damage := &damageError{"x", "can't be read", fs.ErrNotExist}
	if !errors.Is(damage, fs.ErrNotExist) ||
		damage.Error() != `the copy of the pinned files: "x" can't be read: file does not exist` {
		t.Error(damage)
	}
}

func TestBusy(t *testing.T) {
	c := open(t)
	f, err := c.locked(context.Background(), c.at("lock"), osfile.Exclusive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if c.wait != 30*time.Second {
		t.Errorf("it would wait %s", c.wait)
	}
	c.wait = time.Millisecond
	_, err = c.Scratch(context.Background())
	if fault.CodeOf(err) != fault.Busy || err.Error() != osfile.Busy(c.at("lock"), c.wait).Text {
		t.Error(err)
	}
}

func BenchmarkReuse(b *testing.B) {
	c, src := open(b), &store{}
	var parts []Part
	for i := range 100 {
		parts = append(parts, file(src, fmt.Sprintf("d/f%d.py", i), strings.Repeat(fmt.Sprint(i), 2000), cas.File))
	}
	closed(b, get(b, c, src, parts))
	for b.Loop() {
		closed(b, get(b, c, src, parts))
	}
}

func BenchmarkMake(b *testing.B) {
	c, src := open(b), &store{}
	var parts []Part
	for i := range 100 {
		parts = append(parts, file(src, fmt.Sprintf("d/f%d.py", i), strings.Repeat(fmt.Sprint(i), 2000), cas.File))
	}
	for b.Loop() {
		closed(b, get(b, c, src, parts))
		if _, err := c.Clean(context.Background(), time.Now().Add(time.Hour), Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}
