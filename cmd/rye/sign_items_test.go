package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/signs"
)

// itemText is a tool in Python.
func itemText(name string) string {
	return fmt.Sprintf(
		"__version__ = \"1.0.0\"\n__tool_type__ = \"python\"\n__executor_id__ = \"rye/core/runtimes/python_function_runtime\"\n"+
			"__category__ = \"acme\"\n__tool_description__ = %q\n", name)
}

// itemApp is an app in a project with tools, and a key.
func itemApp(t *testing.T, tools ...string) (a *cli.App, dir string, stderr *bytes.Buffer) {
	t.Helper()
	dir = t.TempDir()
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	home := t.TempDir()
	acme := filepath.Join(dir, ".ai", "tools", "acme")
	if err := errors.Join(os.MkdirAll(acme, 0o755), os.Mkdir(filepath.Join(dir, ".git"), 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, name := range tools {
		if err := os.WriteFile(filepath.Join(acme, name+".py"), []byte(itemText(name)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h, _, stderr := testHost("HOME="+home, "USERPROFILE="+home, "LOCALAPPDATA="+home)
	h.Getwd, h.Now = func() (string, error) { return dir, nil }, time.Now
	if got := cli.Run(h, commands(), []string{"key", "new"}); got != fault.ExitDone {
		t.Fatalf("key new: %d, %s", got, stderr)
	}
	a, err := cli.NewApp(h, h.Terminal(true), cli.Globals{}, commands())
	if err != nil {
		t.Fatal(err)
	}
	return a, dir, stderr
}

// leftovers are the files that were to take another one's place.
func leftovers(t *testing.T, dir string) (names []string) {
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(e.Name(), osfile.Unfinished) {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// What doesn't stay in memory is read again, and is signed as what was checked.
func TestSignWithin(t *testing.T) {
	var names []string
	for i := range 50 {
		names = append(names, fmt.Sprint("t", i))
	}
	a, dir, stderr := itemApp(t, names...)
	ans, err := (&signs.SignRun{All: true, Format: "v2"}).SignWithin(t.Context(), a, 1000)
	if err != nil {
		t.Fatalf("%v, %s", err, stderr)
	}
	if s := ans.(*signs.SignAnswer); s.Signed != len(names) || s.Unchanged != 0 {
		t.Errorf("%d signed, %d unchanged", s.Signed, s.Unchanged)
	}
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(dir, ".ai", "tools", "acme", name+".py"))
		if err != nil || !bytes.HasPrefix(b, []byte("# rye:signed:v2:")) ||
			!bytes.HasSuffix(b, []byte(itemText(name))) {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	found, err := (&signs.VerifyRun{Items: []string{"tool:acme/**"}}).Run(t.Context(), a)
	if err != nil || found.(*signs.VerifyReport).Allowed != len(names) {
		t.Errorf("%v", err)
	}
}

// An interrupted command leaves no file behind, and none half written.
func TestSignCancelled(t *testing.T) {
	a, dir, _ := itemApp(t, "a", "b", "c")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (&signs.SignRun{All: true, Format: "v2"}).Run(ctx, a); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	space, err := ai.OpenDir(filepath.Join(dir, ".ai"), "project", ai.Project)
	if err != nil {
		t.Fatal(err)
	}
	defer space.Close()
	w := osfile.NewBatch(1, time.Now())
	st := stageOne(t, w, space, "tools/acme/a.py")
	if err := w.Commit(ctx, []*osfile.Staged{st}); st.Placed() || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", st.Placed(), err)
	}
	b, err := os.ReadFile(filepath.Join(dir, ".ai", "tools", "acme", "a.py"))
	if err != nil || string(b) != itemText("a") {
		t.Errorf("%q, %v", b, err)
	}
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func stageOne(t *testing.T, w *osfile.Batch, space *ai.Space, name string) *osfile.Staged {
	t.Helper()
	before, err := fs.Lstat(space.FS, name)
	if err != nil {
		t.Fatal(err)
	}
	d, err := osfile.OpenDir(space.Dir, 0o777)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	st, err := w.Stage(d, name, before, before.Mode().Perm(), osfile.BytesOf([]byte("new")))
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// A file that was changed, replaced or removed meanwhile stays so; files before it are signed, and none after it.
func TestRewritingChanged(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"written":  func(path string) error { return os.WriteFile(path, []byte("theirs"), 0o644) },
		"removed":  os.Remove,
		"replaced": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o755)) },
	} {
		t.Run(name, func(t *testing.T) {
			_, dir, _ := itemApp(t, "a", "b", "c")
			space, err := ai.OpenDir(filepath.Join(dir, ".ai"), "project", ai.Project)
			if err != nil {
				t.Fatal(err)
			}
			defer space.Close()
			w := osfile.NewBatch(3, time.Now())
			var all []*osfile.Staged
			for _, n := range []string{"a", "b", "c"} {
				all = append(all, stageOne(t, w, space, "tools/acme/"+n+".py"))
			}
			path := func(n string) string { return filepath.Join(dir, ".ai", "tools", "acme", n+".py") }
			if err := change(path("b")); err != nil {
				t.Fatal(err)
			}
			if err := w.Commit(t.Context(), all); err == nil || !all[0].Placed() || all[1].Placed() ||
				all[2].Placed() {
				t.Errorf("%v, %v, %v", all[0].Placed(), all[2].Placed(), err)
			}
			for n, want := range map[string]string{"a": "new", "c": itemText("c")} {
				if b, err := os.ReadFile(path(n)); err != nil || string(b) != want {
					t.Errorf("%s: %q, %v", n, b, err)
				}
			}
			if b, err := os.ReadFile(path("b")); name == "written" && (err != nil || string(b) != "theirs") {
				t.Errorf("b: %q, %v", b, err)
			}
			if left := leftovers(t, dir); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

// What a process that died has left is removed by the next that writes there, once it is old.
func TestRewritingSweeps(t *testing.T) {
	_, dir, _ := itemApp(t, "a")
	acme := filepath.Join(dir, ".ai", "tools", "acme")
	for name, age := range map[string]time.Duration{"old": 2 * osfile.UnfinishedAge, "new": 0} {
		path, at := filepath.Join(acme, osfile.Unfinished+name), time.Now().Add(-age)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	space, err := ai.OpenDir(filepath.Join(dir, ".ai"), "project", ai.Project)
	if err != nil {
		t.Fatal(err)
	}
	defer space.Close()
	w := osfile.NewBatch(1, time.Now())
	w.Drop([]*osfile.Staged{nil, stageOne(t, w, space, "tools/acme/a.py")})
	if left := leftovers(t, dir); len(left) != 1 || filepath.Base(left[0]) != osfile.Unfinished+"new" {
		t.Errorf("left: %q", left)
	}
}

// An answerer says yes, and does something before.
type answerer struct {
	before func()
	rest   *strings.Reader
}

func (a *answerer) Read(b []byte) (int, error) {
	if a.before != nil {
		a.before()
		a.before = nil
	}
	return a.rest.Read(b)
}

// TestSignWhatWasShown: what changes between the question and the answer isn't signed: the item, or a file beside it.
func TestSignWhatWasShown(t *testing.T) {
	const item, beside = ".ai/tools/acme/web/web.py", ".ai/tools/acme/web/help.py"
	text := strings.Replace(itemText("web"), "\"acme\"", "\"acme/web\"", 1)
	for changed, by := range map[string]string{"": "", item: text + "# not seen before\n", beside: "# nor this\n"} {
		h := newBundleHome(t)
		h.write("bundle.yaml", "id: acme\nversion: 1.0.0\n")
		h.write(".ai/tools/acme/web/__init__.py", "")
		h.write(beside, "x = 1\n")
		h.write(item, text)
		h.rye(fault.ExitDone, "sign", "--all")
		signed, err := os.ReadFile(filepath.Join(h.dir, filepath.FromSlash(item)))
		if err != nil {
			t.Fatal(err)
		}
		h.write(item, string(signed)+"# more\n")
		by = strings.Replace(by, text, string(signed), 1)
		host, stdout, stderr := testHost("HOME="+h.home, "USERPROFILE="+h.home, "LOCALAPPDATA="+h.home, "TERM=dumb")
		host.Getwd = func() (string, error) { return h.dir, nil }
		host.Stderr.Tty, host.Hidden = true, func(context.Context) (string, error) { return "", nil }
		host.Stdin = &answerer{func() {
			if changed != "" {
				h.write(changed, by)
			}
		}, strings.NewReader("y\n")}
		got := cli.Run(host, commands(), []string{"bundle", "create", "--sign"})
		if refused := strings.Contains(stdout.String(),
			"was changed after it was shown"); refused != (changed != "") || refused != (got != fault.ExitDone) {
			t.Errorf("%q: exit %d\n%s%s", changed, got, stdout, stderr)
		}
	}
}
