package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/relock"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/trust"
)

var errHomeless = errors.New("no home")

// at makes a project with files and a user without a home, and opens it.
func at(t *testing.T, files map[string]string) *Workspace {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	none := Place{Err: errHomeless}
	w, err := Open(context.Background(), Paths{Dir: dir, Version: "devel", User: none, Store: none, State: none,
		Cache: none}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

func lockAt(t *testing.T, files map[string]string) *Lock {
	t.Helper()
	l, err := at(t, files).OpenLock(false)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Without a home nothing is installed, and what needs a place of the user's says why there is none.
func TestHomeless(t *testing.T) {
	ctx := context.Background()
	w := at(t, map[string]string{MarkerFile: ""})
	if in, err := w.Finder().Current("acme/base"); in != nil || err != nil {
		t.Errorf("%v, %v", in, err)
	}
	if all, _, err := w.Below(ctx, "acme/a", []manifest.Require{{BundleID: "acme/base", Version: "^1"}}); err != nil ||
		len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
	if _, _, err := w.Below(ctx, "acme/a", []manifest.Require{{BundleID: "acme/base",
		Version: "no version"}}); err == nil {
		t.Error("a range that is none was taken")
	}
	if _, err := w.UserLock(false); err != errHomeless {
		t.Error(err)
	}
	if _, err := w.OpenStore(true); err != errHomeless {
		t.Error(err)
	}
	if _, err := w.Policy(); fault.CodeOf(err) != fault.Policy {
		t.Error(err)
	}
	l := lockAt(t, map[string]string{MarkerFile: ""})
	if err := l.FindInstalled(ctx); err != errHomeless {
		t.Error(err)
	}
	if err := l.Open(); fault.CodeOf(err) != fault.Policy {
		t.Error(err)
	}
	if c, err := l.git(nil); c != nil || err != nil {
		t.Errorf("%v, %v", c, err)
	}
	source, err := project.ParseSource("git+https://acme.example/base", false)
	if err != nil {
		t.Fatal(err)
	}
	l.Yaml = &project.Project{Requires: []project.Requirement{{ID: "acme/base", Source: source}}}
	if _, err := l.git(nil); err != errHomeless {
		t.Error(err)
	}
	items, err := w.Items(ctx)
	if err != nil {
		t.Fatal(err)
	}
	items.Close()
	if got := w.Show("rye.lock"); got != "rye.lock" {
		t.Error(got)
	}
}

// The library is always there; a bundle only if one that will do is installed.
func TestSatisfied(t *testing.T) {
	if !satisfied(nil, lock.Library, "^1") || satisfied(nil, "acme/base", "^1") ||
		satisfied(nil, "acme/base", "no range") {
		t.Error("satisfied")
	}
	if listedBy(context.Background(), &trust.Trust{Root: &trust.Authority{}}, t.TempDir(), "acme/none") != nil {
		t.Error("a manifest that isn't there lists something")
	}
}

// A lock with its present bundles alone can't choose others.
func TestPresent(t *testing.T) {
	p := &present{}
	if _, err := p.Versions(context.Background(), "acme/base"); err != ErrElsewhere {
		t.Error(err)
	}
	if _, _, err := p.Manifest(context.Background(), "acme/base", "1.0.0"); err != ErrElsewhere {
		t.Error(err)
	}
	p.Objects = lock.First()
	want := lockfile.Bundle{ID: "acme/base", Version: "1.0.0"}
	if _, err := p.Requires(context.Background(), want); err == nil {
		t.Error("a bundle that isn't there requires something")
	}
	if _, err := p.Bring(context.Background(), want, nil); err == nil {
		t.Error("a bundle was brought from nowhere")
	}
}

// A bundle of the user's that can't be read is a warning to those who list, and an error to those who need it.
func TestBrokenInstalled(t *testing.T) {
	home := t.TempDir()
	bad := filepath.Join(home, MarkerDir, "bundles", "acme", "bad")
	if err := errors.Join(os.MkdirAll(bad, 0o755),
		os.WriteFile(filepath.Join(bad, "manifest.yaml"), []byte("rye: manifest/9\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	var warnings []string
	o := Options{Warn: func(what string, err error) { warnings = append(warnings, what) }}
	p := Paths{Dir: t.TempDir(), User: Place{Path: home}, Store: Place{Path: filepath.Join(home, "store")},
		State: Place{Path: filepath.Join(home, "state")}}
	w, err := Open(context.Background(), p, o)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := w.Finder().Current("acme/bad"); err == nil {
		t.Error("a broken bundle is installed")
	}
	if _, _, err := w.Below(context.Background(), "acme/a",
		[]manifest.Require{{BundleID: "acme/bad", Version: "^1"}}); err == nil {
		t.Error("a broken bundle is used")
	}
	items, err := w.Items(context.Background())
	if err != nil || len(warnings) == 0 {
		t.Fatalf("%v, %q", err, warnings)
	}
	items.Close()
	l, err := w.UserLock(false)
	if err != nil {
		t.Fatal(err)
	}
	warnings = nil
	if err := l.FindInstalled(context.Background()); err != nil || len(warnings) != 1 {
		t.Errorf("%v, %q", err, warnings)
	}
	stopped, stop := context.WithCancel(context.Background())
	stop()
	if err := l.FindInstalled(stopped); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := w.Items(stopped); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := w.OpenLock(false); !errors.Is(err, ErrNoProject) {
		t.Error(err)
	}
}

// A lock that another process has written meanwhile isn't overwritten, nor is what is no file.
func TestLockWrite(t *testing.T) {
	l := lockAt(t, map[string]string{MarkerFile: ""})
	lock := func(name string) *relock.Made {
		one, id, err := lockfile.Canonical(&lockfile.Lock{Definitions: []lockfile.Definition{{Name: name,
			Digest: cas.Sum(nil)}}})
		if err != nil {
			t.Fatal(err)
		}
		return &relock.Made{Lock: one, ID: id}
	}
	if err := l.Write(&relock.Made{Lock: lock("one").Lock, ID: lock("two").ID}); err == nil {
		t.Error("not what was checked, and written")
	}
	if _, err := os.Lstat(l.LockPath()); err == nil {
		t.Error("there, and refused")
	}
	for range 2 {
		if err := l.Write(lock("one")); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(l.LockPath()); err != nil || cas.Sum(b) != lock("one").ID ||
		string(l.Text()) != string(b) {
		t.Errorf("%q, %v", b, err)
	}
	if err := os.WriteFile(l.LockPath(), []byte("another\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := l.Write(lock("two")); fault.CodeOf(err) != fault.Conflict {
		t.Error(err)
	}
	if b, err := os.ReadFile(l.LockPath()); err != nil || string(b) != "another\n" || l.Text() != nil {
		t.Errorf("%q, %v", b, err)
	}
	if err := errors.Join(os.Remove(l.LockPath()), os.Mkdir(l.LockPath(), 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := l.Write(lock("two")); fault.CodeOf(err) != fault.Denied {
		t.Error(err)
	}
	if err := l.ReadLock(false); err == nil {
		t.Error("a directory was read")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	l.Dir = file
	if err := l.Write(lock("three")); err == nil {
		t.Error("written below a file")
	}
}

// A vendor directory that can't be read is an error to all that need the objects of the lock.
func TestBrokenVendor(t *testing.T) {
	ctx := context.Background()
	l := lockAt(t, map[string]string{MarkerFile: "", ".ai/vendor": "a file"})
	l.Old = &lockfile.Lock{Pins: []lockfile.Pin{{From: lockfile.FromUser}},
		Bundles: []lockfile.Bundle{{ID: "acme/base", Version: "1.0.0"}}}
	if _, err := l.Objects(); err == nil {
		t.Error("a file was opened as a vendor directory")
	}
	if _, err := l.TakenOver(ctx); err == nil {
		t.Error("no objects, and a space")
	}
	if _, err := l.Set(ctx); err == nil {
		t.Error("no objects, and a set")
	}
	if got := l.BundleOf(ctx, "tool:acme/x"); got != "" {
		t.Error(got)
	}
}

// What can't be a project, or has a broken rye.yaml, is refused with the place.
func TestOpenRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, MarkerFile), []byte("requries: {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(context.Background(), Paths{Dir: dir, Version: "devel"},
		Options{}); fault.CodeOf(err) != fault.Config {
		t.Error(err)
	}
	gone := filepath.Join(dir, "gone")
	for _, p := range []Paths{{Dir: gone, Version: "devel"}, {Dir: gone, Package: true, Version: "devel"}} {
		if _, err := Open(context.Background(), p, Options{}); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
	p := Paths{Dir: t.TempDir(), PolicyID: "blake3:" + strings.Repeat("0", 64)}
	if s := p.RootPolicyFile(); !errors.Is(s.Err, ErrNoProject) {
		t.Error(s.Err)
	}
	p = Paths{Dir: dir, Policy: Place{Path: filepath.Join(dir, trust.File), Origin: PolicyFlag}}
	if _, err := p.RootPolicy(); fault.CodeOf(err) != fault.Config {
		t.Error(err)
	}
}
