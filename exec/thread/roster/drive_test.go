package roster_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/key/keytest"
)

const id = "acme/plan-1795000000-a2b3c"

func driveMust(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func driveOpen(t testing.TB) *roster.Local {
	t.Helper()
	r := roster.Open(filepath.Join(t.TempDir(), "registry"), time.Now, nil)
	t.Cleanup(func() { r.Close() })
	return r
}

// threads returns where the threads of a new project are.
func threads(t testing.TB) string { return filepath.Join(t.TempDir(), ".ai", "threads") }

func row(id string) *roster.Thread {
	return &roster.Thread{ID: id, Kind: "directive", Directive: "directive:acme/plan", Created: time.Now()}
}

// TestBegin: a new thread has a directory and a row that says that this process drives it.
func TestBegin(t *testing.T) {
	r, dir := driveOpen(t), threads(t)
	s, err := roster.BeginLease(t.Context(), r, dir, row(id), 0)
	driveMust(t, err)
	if info, err := os.Stat(s.Dir); err != nil || info.Mode().Perm() != 0o700 ||
		s.Dir != filepath.Join(dir, "acme", "plan-1795000000-a2b3c") {
		t.Errorf("%s: %v, %v", s.Dir, info, err)
	}
	got, err := roster.Get(t.Context(), r, id)
	driveMust(t, err)
	host, _ := os.Hostname()
	me := roster.Driver{Process: os.Getpid(), Start: proc.Start(os.Getpid()), Host: host}
	if got.State != roster.Running || got.Driver != me || got.Epoch != s.Epoch || got.Dead || got.Lost ||
		got.Project.Inode == 0 {
		t.Errorf("%+v", got)
	}
	d := s.Driver(&exec.Kernel{Voucher: []byte(`{"a":1}`)}, "rye test")
	if d.Epoch != s.Epoch || d.Process != me.Process || d.Start != me.Start || d.Host != host ||
		d.Program != "rye test" || string(d.Voucher) != `{"a":1}` {
		t.Errorf("%+v", d)
	}
	driveMust(t, s.Leave(t.Context(), roster.Completed, ""))
	if got, err = roster.Get(t.Context(), r, id); err != nil || got.State != roster.Completed {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := roster.ClaimLease(t.Context(), r, got); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("a thread that has ended is claimed: %v", err)
	}
}

// TestNoRoom: a child that may not run, as too many do, has ended.
func TestNoRoom(t *testing.T) {
	r, dir := driveOpen(t), threads(t)
	top := row(id)
	top.Most.Children = 1
	_, err := roster.BeginLease(t.Context(), r, dir, top, 0)
	driveMust(t, err)
	child := func(name string) *roster.Thread {
		c := row("acme/" + name + "-1795000001-k3v9q")
		c.Parent = id
		return c
	}
	_, err = roster.BeginLease(t.Context(), r, dir, child("one"), 5)
	driveMust(t, err)
	if _, err := roster.BeginLease(t.Context(), r, dir, child("two"), 5); fault.CodeOf(err) != fault.Limit {
		t.Errorf("one too many: %v", err)
	}
	if got, err := roster.Get(t.Context(), r, child("two").ID); err != nil || got.State != roster.Failed {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestBeginFails: a thread that can't begin isn't driven.
func TestBeginFails(t *testing.T) {
	r, dir := driveOpen(t), threads(t)
	_, err := roster.BeginLease(t.Context(), r, dir, row(id), 0)
	driveMust(t, err)
	if _, err := roster.BeginLease(t.Context(), r, dir, row(id), 0); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("begun twice: %v", err)
	}
	child := row("acme/step-1795000001-k3v9q")
	child.Parent = id
	if _, err := roster.BeginLease(t.Context(), r, dir, child, 0); fault.CodeOf(err) != fault.Limit {
		t.Errorf("a child more than allowed: %v", err)
	}
	if _, err := os.Stat(child.Dir()); err == nil {
		t.Error("it has a directory")
	}
	// A file stands where the project would be, then where the thread's directory would be.
	file := filepath.Join(t.TempDir(), "file")
	driveMust(t, os.WriteFile(file, nil, 0o600))
	if _, err := roster.BeginLease(t.Context(), r, filepath.Join(file, ".ai", "threads"), row("a"), 0); err == nil {
		t.Error("begun in a file")
	}
	driveMust(t, os.MkdirAll(dir, 0o700))
	driveMust(t, os.WriteFile(filepath.Join(dir, "b"), nil, 0o600))
	if _, err := roster.BeginLease(t.Context(), r, dir, row("b"), 0); err == nil {
		t.Error("begun in place of a file")
	}
	for _, id := range []string{"a", "b"} {
		if _, err := roster.Get(t.Context(), r, id); fault.CodeOf(err) != fault.NotFound {
			t.Errorf("%s has no place, and a row: %v", id, err)
		}
	}
}

// TestTaken: once another process has claimed a thread, the one before can neither write to the transcript nor give it
// a state.
func TestTaken(t *testing.T) {
	r := driveOpen(t)
	s, err := roster.BeginLease(t.Context(), r, threads(t), row(id), 0)
	driveMust(t, err)
	own := keytest.Seeded(1)
	options := transcript.Options{Key: own, Now: time.Now, Guard: s.Guard}
	w, err := transcript.Create(s.Dir, id, transcript.Started{Kind: "directive",
		Directive: transcript.Item{Ref: "directive:acme/plan"}, Policy: []cas.Digest{},
		Grants: []string{}}, s.Driver(new(exec.Kernel), "rye test"), options)
	driveMust(t, err)
	t.Cleanup(func() { w.Close() })
	hook := transcript.Hook{ID: "h", Event: "error"}
	_, err = w.Append(hook)
	driveMust(t, err)
	before := w.Last()

	seen, err := roster.Get(t.Context(), r, id)
	driveMust(t, err)
	if _, err := roster.ClaimLease(t.Context(), r, seen); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("claimed while its driver runs: %v", err)
	}
	r.Runs = func(int) string { return "" } // as if that process had died
	other, err := roster.ClaimLease(t.Context(), r, seen)
	driveMust(t, err)
	if other.Epoch != s.Epoch+1 || other.Dir != s.Dir {
		t.Errorf("%+v", other)
	}
	if _, err := w.Append(hook); fault.CodeOf(err) != fault.Conflict || w.Last() != before {
		t.Errorf("written by the driver before: %v", err)
	}
	if err := s.Leave(t.Context(), roster.Completed, ""); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("ended by the driver before: %v", err)
	}
	if _, err := roster.ClaimLease(t.Context(), r, seen); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("claimed by who was slower: %v", err)
	}
	// The lock is free again after each write.
	for range 2 {
		release, err := other.Guard()
		driveMust(t, err)
		release()
	}
	driveMust(t, other.Leave(t.Context(), roster.Continued, "acme/plan-1795000100-zz2b4"))
	if got, err := roster.Get(t.Context(), r, id); err != nil || got.Next != "acme/plan-1795000100-zz2b4" ||
		got.State != roster.Continued {
		t.Errorf("%+v, %v", got, err)
	}
}
