package stage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// leave makes the directory of a run whose stage was killed, with some entries: a name that ends with / is a
// directory.
func leave(t *testing.T, dir string, entries ...string) {
	t.Helper()
	for _, e := range append(entries, "top/", "was/") {
		path := filepath.Join(dir, ".rye-new-1", e)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if strings.HasSuffix(e, "/") {
			err = errors.Join(err, os.MkdirAll(path, 0o755))
		} else {
			err = errors.Join(err, os.WriteFile(path, []byte("run"), 0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func content(t *testing.T, dir string) string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if errors.Is(err, fs.ErrPermission) { // the name is in the list, and an ordinary user can't look into it
			return fs.SkipDir
		}
		if rel, _ := filepath.Rel(dir, path); rel != "." {
			names = append(names, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(names, " ")
}

// TestRecover: what a killed run left is added, and nothing is removed, replaced or created that must not be. A run
// that has a stage is left alone.
func TestRecover(t *testing.T) {
	keep := [][]byte{[]byte(".git"), []byte("rye.lock")}
	dir := t.TempDir()
	leave(t, dir, "top/new", "top/dir/a", "top/both/run", "top/file", "top/.git/config", "top/RYE.lock", "was/removed",
		"top/stub/", "top/locked/x")
	top := filepath.Join(dir, ".rye-new-1", "top")
	t.Cleanup(func() { // else an ordinary user can't remove them
		for _, path := range []string{top + "/stub", top + "/locked", dir + "/locked"} {
			os.Chmod(path, 0o700)
		}
	})
	for _, err := range []error{
		os.Chmod(top+"/stub", os.ModeSticky), os.Chmod(top+"/locked", 0o500), os.Symlink(nowhere, top+"/rye.lock"),
		os.Link(dir+"/.rye-new-1/was/removed", dir+"/removed"), os.Mkdir(dir+"/both", 0o755),
		os.WriteFile(dir+"/both/user", nil, 0o644), os.WriteFile(dir+"/file", []byte("user"), 0o644),
		os.WriteFile(dir+"/file.rye-new", nil, 0o644), os.Symlink(t.TempDir(), dir+"/link"),
		os.Mkdir(top+"/link", 0o755),
		os.WriteFile(top+"/link/x", nil, 0o644), os.Mkdir(dir+"/.rye-new-x", 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	held, err := openDir(atCwd, dir+"/.rye-new-1")
	if err == nil {
		err = syscall.Flock(held, syscall.LOCK_EX)
	}
	before := content(t, dir)
	if got, e := Recover(dir, keep); err != nil || e != nil || got != nil || content(t, dir) != before {
		t.Fatalf("a run with a stage: %v, %v, %q, %s", err, e, got, content(t, dir))
	}
	syscall.Close(held)
	asides, err := Recover(dir, keep)
	const want = ".git.rye-new .git.rye-new/config .rye-new-x RYE.lock.rye-new both both/run both/user dir " +
		"dir/a file file.rye-new file.rye-new-2 link link.rye-new link.rye-new/x locked locked/x new removed"
	if got := content(t, dir); err != nil || got != want || len(asides) != 4 {
		t.Errorf("%v, %q\n%s\n%s", err, asides, got, want)
	}
	if info, err := os.Stat(dir + "/locked"); err != nil || info.Mode().Perm() != 0o500 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if data, err := os.ReadFile(dir + "/file"); string(data) != "user" {
		t.Errorf("%q, %v", data, err)
	}
	if asides, err := Recover(dir, keep); err != nil || asides != nil {
		t.Errorf("again: %v, %q", err, asides)
	}
	if _, err := Recover(dir+"/none", nil); !errors.Is(err, syscall.ENOENT) {
		t.Error(err)
	}
}

// TestLeft: an entry that can't be moved stays, the Aside says where, and the next run moves it.
func TestLeft(t *testing.T) {
	dir := t.TempDir()
	leave(t, dir, "top/new", "top/other")
	taken := []string{dir + "/new", dir + "/new" + asideSuffix}
	for n := 2; n <= maxNames; n++ {
		taken = append(taken, dir+"/new"+asideSuffix+"-"+digits(n))
	}
	for _, name := range taken {
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	asides, err := Recover(dir, nil)
	if len(asides) != 1 || string(asides[0].As) != ".rye-new-1/top/new" || err != nil {
		t.Errorf("%q, %v", asides, err)
	}
	if err := os.Remove(dir + "/new"); err != nil {
		t.Fatal(err)
	}
	if asides, err := Recover(dir, nil); asides != nil || err != nil {
		t.Errorf("%q, %v", asides, err)
	}
	if data, err := os.ReadFile(dir + "/new"); string(data) != "run" {
		t.Errorf("%q, %v", data, err)
	}
}

// TestMove: a file system that can't rename without replacing gets a link, or a new directory, instead.
func TestMove(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	for _, err := range []error{os.MkdirAll(from+"/d/e", 0o755), os.WriteFile(from+"/d/e/x", nil, 0o644),
		os.WriteFile(from+"/f", []byte("f"), 0o644), os.WriteFile(to+"/g", []byte("g"), 0o644)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	a, err := openDir(atCwd, from)
	b, e := openDir(atCwd, to)
	made, e2 := stat(a, "d")
	if err := errors.Join(err, e, e2); err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(a)
	defer syscall.Close(b)
	s := &settling{top: &top{}}
	if err := moveFile(a, "f", b, "g"); !errors.Is(err, syscall.EEXIST) {
		t.Error(err)
	}
	if err := s.moveDir(a, "d", b, "g", "", &made); !errors.Is(err, syscall.EEXIST) {
		t.Error(err)
	}
	err = errors.Join(moveFile(a, "f", b, "f"), s.moveDir(a, "d", b, "d", "", &made))
	if got := content(t, to); err != nil || got != "d d/e d/e/x f g" || s.asides != nil {
		t.Errorf("%v, %s, %q", err, got, s.asides)
	}
	if got := content(t, from); got != "" {
		t.Error(got)
	}
	if err := s.move(a, "none", b, "none", ""); !errors.Is(err, syscall.ENOENT) {
		t.Error(err)
	}
}

// begun opens the directory of a run as the stage has it when its program has ended. Each test has its own: one that
// runs beside others reads no directory of theirs.
func begun(t *testing.T, dir string) *top {
	t.Helper()
	made := &top{path: dir, name: ".rye-new-1"}
	for _, d := range []struct {
		name string
		fd   *int
	}{{"", &made.real}, {made.name, &made.run}, {made.name + "/top", &made.made}, {made.name + "/was", &made.was}} {
		fd, err := openDir(atCwd, filepath.Join(dir, d.name))
		if err != nil {
			t.Fatal(err)
		}
		*d.fd = fd
	}
	t.Cleanup(made.close)
	return made
}

// TestSettle: what the program removed is removed, unless someone else wrote or replaced it meanwhile. What it
// replaced gets its new version, beside the other one if someone else was there too.
func TestSettle(t *testing.T) {
	dir := t.TempDir()
	before := []string{"removed", "written", "replaced", "renewed", "rewritten", "kept"}
	for _, name := range before {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("before"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	leave(t, dir)
	run := filepath.Join(dir, ".rye-new-1")
	for _, name := range before { // what the program saw at first
		err := os.Link(filepath.Join(dir, name), filepath.Join(run, "was", name))
		if name == "kept" {
			err = errors.Join(err, os.Link(filepath.Join(dir, name), filepath.Join(run, "top", name)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(text string, at time.Time, names ...string) {
		t.Helper()
		for _, name := range names {
			if err := errors.Join(os.WriteFile(name, []byte(text), 0o644), os.Chtimes(name, at, at)); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The program removes the first three, and replaces two. Then comes someone else.
	now := time.Now()
	write("program", now, filepath.Join(run, "top", "renewed"), filepath.Join(run, "top", "rewritten"))
	if err := os.Remove(filepath.Join(dir, "replaced")); err != nil {
		t.Fatal(err)
	}
	write("other", now.Add(time.Hour), filepath.Join(dir, "written"), filepath.Join(dir, "rewritten"),
		filepath.Join(dir, "replaced"))
	asides, err := begun(t, dir).settle(false)
	if err != nil {
		t.Error(err)
	}
	var said []string
	for _, a := range asides {
		said = append(said, fmt.Sprintf("%s as %q: %s", a.Name, a.As, a.Why))
	}
	if len(said) != 2 || said[0] != `written as "": it was written meanwhile` ||
		said[1] != `rewritten as "rewritten.rye-new": the project has another one by now` {
		t.Errorf("%q", said)
	}
	for name, want := range map[string]string{"written": "other", "replaced": "other", "renewed": "program",
		"rewritten": "other", "rewritten.rye-new": "program", "kept": "before"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if got := content(t, dir); got != "kept renewed replaced rewritten rewritten.rye-new written" {
		t.Error(got)
	}
}

// TestNoRun: a directory that can't be laid out is an error, and nothing is left in it.
func TestNoRun(t *testing.T) {
	dir := t.TempDir()
	fd, err := openDir(atCwd, dir)
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= maxNames; n++ {
		if err := os.Mkdir(filepath.Join(dir, runPrefix+digits(n)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := (&top{real: fd}).begin(); !errors.Is(err, syscall.EEXIST) {
		t.Errorf("all names are taken: %v", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := (&top{real: fd}).begin(); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("the directory is gone: %v", err)
	}
	syscall.Close(fd)
	if err := (&top{real: fd}).fill(); !errors.Is(err, syscall.EBADF) {
		t.Errorf("a directory that isn't open: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if lockRun(atCwd, file) >= 0 {
		t.Error("a file was locked as a directory")
	}
	if asides, err := (&top{real: -1, run: -1, made: -1, was: -1}).finish(); err != nil || asides != nil {
		t.Errorf("what never began: %q, %v", asides, err)
	}
}

// TestNames: a name with a NUL is an error of every call, and never the name before the NUL.
func TestNames(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := openDir(atCwd, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	const bad = "a\x00b"
	_, statErr := stat(fd, bad)
	_, readErr := readlinkat(fd, bad)
	for name, err := range map[string]error{
		"stat": statErr, "readlinkat": readErr, "unlinkat": unlinkat(fd, bad, 0),
		"rename from": rename(fd, bad, fd, "c", renameNoReplace), "rename to": rename(fd, "a", fd, bad, 0),
		"linkat": linkat(fd, bad, fd, "c"), "symlinkat": symlinkat("c", fd, bad), "symlinkat to": symlinkat(bad, fd, "c"),
		"mountOver":      closed(mountOver(fd, bad, fd, "a", true)),
		"mountOver over": closed(mountOver(fd, "a", fd, bad, true)),
		"attributes":     attributes(bad, 0, 0, 0),
	} {
		if !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := content(t, dir); got != "a" {
		t.Error(got)
	}
}
