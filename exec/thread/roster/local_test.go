package roster_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/journal/journaltest"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/roster/rostertest"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

var must = journaltest.Must

func open(t testing.TB, path string) *roster.Local {
	l := roster.Open(path, func() time.Time { return noon }, nil)
	t.Cleanup(func() { l.Close() })
	return l
}

func TestLocal(t *testing.T) {
	rostertest.Test(t, func(t testing.TB) rostertest.World {
		path, dead := filepath.Join(t.TempDir(), "threads", "registry"), map[int]bool{}
		return rostertest.World{
			Open: func(t testing.TB) roster.Roster {
				l := open(t, path)
				l.Runs = func(process int) string {
					if dead[process] {
						return ""
					}
					return fmt.Sprint("start-", process)
				}
				return l
			},
			Die: func(d roster.Driver) { dead[d.Process] = true },
		}
	})
}

// TestFormat: the bytes of a roster, forever.
func TestFormat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "registry")
	l := open(t, path)
	row := &roster.Thread{ID: "acme/plan-1795000000-a2b3c", Kind: "directive", Directive: "directive:acme/plan",
		Project: roster.Project{Root: "/home/ann/site", Device: 66306, Inode: 5242}, Created: noon}
	child := *row
	child.ID, child.Parent, child.Directive = "acme/step-1795000001-k3v9q", row.ID, "directive:acme/step"
	must(t, l.Create(t.Context(), row, 0))
	must(t, l.Create(t.Context(), &child, 1))
	must(t, l.Set(t.Context(), row.ID, 0, roster.Continued, child.ID))
	journaltest.Golden(t, path, filepath.Join("../../../testdata/vectors/exec/thread/registry", "registry"))
}

// TestDead: a driver is this process until it has ended, and no other with its number.
func TestDead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "registry")
	l, root := open(t, path), t.TempDir()
	p, err := roster.ProjectAt(root)
	must(t, err)
	row := &roster.Thread{ID: "x", Kind: "directive", Directive: "directive:a", Project: p, Created: noon}
	must(t, os.MkdirAll(row.Dir(), 0o700))
	must(t, l.Create(t.Context(), row, 0))
	me := roster.Driver{Process: os.Getpid(), Start: proc.Start(os.Getpid())}
	_, err = l.Claim(t.Context(), "x", 0, me)
	must(t, err)
	if _, err := l.Claim(t.Context(), "x", 1, me); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("taken from a process that runs: %v", err)
	}
	l.Runs = func(int) string { return "later" }
	_, err = l.Claim(t.Context(), "x", 1, me)
	must(t, err)
}

// TestNoStart: a driver whose start the system didn't say is dead, also where it says nothing of a process that has
// its number: its thread could never be resumed.
func TestNoStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "registry")
	l, root := open(t, path), t.TempDir()
	l.Runs = func(int) string { return "" }
	p, err := roster.ProjectAt(root)
	must(t, err)
	row := &roster.Thread{ID: "x", Kind: "directive", Directive: "directive:a", Project: p, Created: noon}
	must(t, os.MkdirAll(row.Dir(), 0o700))
	must(t, l.Create(t.Context(), row, 0))
	for epoch := range int64(2) {
		_, err = l.Claim(t.Context(), "x", epoch, roster.Driver{Process: 4711})
		must(t, err)
		if got, err := roster.Get(t.Context(), l, "x"); err != nil || got.Alive || !got.Dead {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

// TestOtherDevice: a directory on another device is another project, though its inode has the same number: its user
// would see, resume and prune threads of a project that isn't there.
func TestOtherDevice(t *testing.T) {
	l, root := open(t, filepath.Join(t.TempDir(), "registry")), t.TempDir()
	p, err := roster.ProjectAt(root)
	must(t, err)
	if p.Inode == 0 {
		return // the system has none
	}
	for id, device := range map[string]uint64{"here": p.Device, "there": p.Device + 1} {
		must(t, l.Create(t.Context(), &roster.Thread{ID: id, Kind: "directive", Directive: "directive:a",
			Project: roster.Project{Root: "/elsewhere/" + id, Device: device, Inode: p.Inode}, Created: noon}, 0))
	}
	all, err := l.Threads(t.Context(), roster.Filter{Root: root})
	must(t, err)
	if len(all) != 1 || all[0].ID != "here" {
		t.Errorf("%d threads: %+v", len(all), all)
	}
}

// TestPrunedOnce: what is kept of a thread that was pruned stays as it is: a second prune, which finds no transcript
// any more, would lose what the thread has cost.
func TestPrunedOnce(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "registry"))
	must(t, l.Create(t.Context(), &roster.Thread{ID: "x", Kind: "directive", Directive: "directive:a",
		Project: roster.Project{Root: t.TempDir()}, Created: noon}, 0))
	must(t, l.Set(t.Context(), "x", 0, roster.Completed, ""))
	must(t, l.Prune(t.Context(), map[string]roster.Pruned{"x": {At: noon, Lines: 7, Spend: 250}}))
	must(t, l.Prune(t.Context(), map[string]roster.Pruned{"x": {At: noon.Add(time.Hour)}}))
	got, err := roster.Get(t.Context(), l, "x")
	must(t, err)
	if got.Pruned == nil || got.Pruned.Spend != 250 || got.Pruned.Lines != 7 || !got.Pruned.At.Equal(noon) {
		t.Errorf("%+v", got.Pruned)
	}
}

// TestDamage: a roster that was changed is read no more.
func TestDamage(t *testing.T) {
	for name, edit := range map[string]func([]byte) []byte{
		"changed": func(b []byte) []byte { return bytes.Replace(b, []byte(`"epoch":1`), []byte(`"epoch":7`), 1) },
		"a line less": func(b []byte) []byte {
			lines := bytes.SplitAfter(b, []byte("\n"))
			return bytes.Join([][]byte{lines[0], lines[2], lines[3]}, nil)
		},
		"other": func([]byte) []byte { return []byte("hello\n") },
		"newer": func(b []byte) []byte { return bytes.Replace(b, []byte("registry/1"), []byte("registry/2"), 1) },
	} {
		path := filepath.Join(t.TempDir(), "registry")
		l := open(t, path)
		row := &roster.Thread{ID: "x", Kind: "directive", Directive: "directive:a",
			Project: roster.Project{Root: t.TempDir()}, Created: noon}
		must(t, os.MkdirAll(row.Dir(), 0o700))
		must(t, l.Create(t.Context(), row, 0))
		_, err := l.Claim(t.Context(), "x", 0, roster.Driver{Process: 1})
		must(t, err)
		must(t, l.Set(t.Context(), "x", 1, roster.Completed, ""))
		b, err := os.ReadFile(path)
		must(t, err)
		must(t, os.WriteFile(path, edit(b), 0o600))
		want := fault.Integrity
		if name == "newer" {
			want = fault.VersionMismatch
		}
		_, err = open(t, path).Threads(t.Context(), roster.Filter{})
		if fault.CodeOf(err) != want {
			t.Errorf("%s: %v", name, err)
		}
		if err := open(t, path).Create(t.Context(), row, 0); fault.CodeOf(err) != want {
			t.Errorf("%s: written to: %v", name, err)
		}
	}
}
