// Package rostertest tests an implementation of roster.Roster.
package rostertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/journal/journaltest"
	"github.com/rye-build/rye/exec/thread/roster"
)

// A World is a place for a roster.
type World struct {
	// Open opens the roster of this world as another process would.
	Open func(t testing.TB) roster.Roster
	// Die ends the process of a driver.
	Die func(roster.Driver)
}

// Test runs every check, each in its own world.
func Test(t *testing.T, make func(t testing.TB) World) {
	for name, check := range map[string]func(*testing.T, World){
		"states": states, "claims": claims, "spawns": spawns, "races": races, "places": places, "requests": requests,
		"crowds": crowds,
	} {
		t.Run(name, func(t *testing.T) { check(t, make(t)) })
	}
}

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// row returns a thread of a project in a directory, and makes the thread's directory.
func row(t testing.TB, root, id string) *roster.Thread {
	t.Helper()
	p, err := roster.ProjectAt(root)
	if err != nil {
		t.Fatal(err)
	}
	r := &roster.Thread{ID: id, Kind: "directive", Directive: "directive:acme/a", Project: p, Created: noon}
	if err := os.MkdirAll(r.Dir(), 0o700); err != nil {
		t.Fatal(err)
	}
	return r
}

var must, refused = journaltest.Must, journaltest.Refused

func driver(n int) roster.Driver {
	return roster.Driver{Process: n, Start: fmt.Sprint("start-", n), Host: "h"}
}

func state(t testing.TB, r roster.Roster, id string) *roster.Thread {
	t.Helper()
	got, err := roster.Get(t.Context(), r, id)
	must(t, err)
	return got
}

// states checks that one process reads what another writes, and that an ended thread stays ended.
func states(t *testing.T, w World) {
	ctx, first, second, root := t.Context(), w.Open(t), w.Open(t), t.TempDir()
	for i, end := range roster.States {
		id := fmt.Sprintf("acme/t-%d", i)
		must(t, first.Create(ctx, row(t, root, id), 0))
		refused(t, fault.Conflict, second.Create(ctx, row(t, root, id), 0))
		if got := state(t, second, id); got.State != roster.Created || got.Epoch != 0 || got.Lost {
			t.Errorf("created: %+v", got)
		}
		got, err := second.Claim(ctx, id, 0, driver(1))
		must(t, err)
		if got.State != roster.Running || got.Epoch != 1 || got.Driver != driver(1) {
			t.Errorf("claimed: %+v", got)
		}
		must(t, second.Set(ctx, id, 1, end, "acme/next"))
		if got := state(t, first, id); got.State != end || got.Next != "acme/next" {
			t.Errorf("%s: %+v", end, got)
		}
		err = first.Set(ctx, id, 1, roster.Running, "")
		if end.Ended() {
			refused(t, fault.Conflict, err)
			_, err = first.Claim(ctx, id, 1, driver(2))
			refused(t, fault.Conflict, err)
		} else {
			must(t, err)
		}
	}
	_, err := roster.Get(ctx, first, "acme/none")
	refused(t, fault.NotFound, err)
	_, err = first.Claim(ctx, "acme/none", 0, driver(1))
	refused(t, fault.NotFound, err)
	refused(t, fault.NotFound, first.Set(ctx, "acme/none", 0, roster.Running, ""))
}

// claims checks that only the highest epoch writes, and that no claim takes a thread from a running process.
func claims(t *testing.T, w World) {
	ctx, first, second, root := t.Context(), w.Open(t), w.Open(t), t.TempDir()
	must(t, first.Create(ctx, row(t, root, "x"), 0))
	_, err := first.Claim(ctx, "x", 1, driver(1))
	refused(t, fault.Conflict, err)
	_, err = first.Claim(ctx, "x", 0, driver(1))
	must(t, err)
	_, err = second.Claim(ctx, "x", 1, driver(2))
	refused(t, fault.Conflict, err)
	w.Die(driver(1))
	_, err = second.Claim(ctx, "x", 1, driver(2))
	must(t, err)
	refused(t, fault.Conflict, first.Set(ctx, "x", 1, roster.Completed, ""))
	_, err = first.Hold(ctx, "x", 1)
	refused(t, fault.Conflict, err)
	release, err := second.Hold(ctx, "x", 2)
	must(t, err)
	release()
	must(t, second.Set(ctx, "x", 2, roster.Interrupted, ""))
	got, err := first.Claim(ctx, "x", 2, driver(3)) // driver 2 lives and has left the thread
	must(t, err)
	if got.Epoch != 3 {
		t.Errorf("%+v", got)
	}
}

// spawns checks that a limit of n children allows n.
func spawns(t *testing.T, w World) {
	ctx, roster, root := t.Context(), w.Open(t), t.TempDir()
	must(t, roster.Create(ctx, row(t, root, "x"), 0))
	for limit := range int64(4) {
		child := row(t, root, fmt.Sprintf("c-%d", limit))
		child.Parent = "x"
		refused(t, fault.Limit, roster.Create(ctx, child, limit))
		must(t, roster.Create(ctx, child, limit+1))
	}
	next := row(t, root, "n") // continues a child, so it isn't an additional one
	next.Parent, next.Continues = "x", "c-0"
	must(t, roster.Create(ctx, next, 0))
	if got := state(t, roster, "x"); got.Spawned != 4 {
		t.Errorf("%+v", got)
	}
	orphan := row(t, root, "o")
	orphan.Parent = "none"
	refused(t, fault.NotFound, roster.Create(ctx, orphan, 1))
}

// requests checks that other processes see a request, that kill replaces cancel, and that an ended thread refuses
// requests.
func requests(t *testing.T, world World) {
	ctx, first, second, root := t.Context(), world.Open(t), world.Open(t), t.TempDir()
	_, err := first.Ask(ctx, "x", roster.Request{For: roster.Cancel})
	refused(t, fault.NotFound, err)
	mark, err := second.Changed(ctx, "")
	must(t, err)
	must(t, first.Create(ctx, row(t, root, "x"), 0))
	_, err = first.Claim(ctx, "x", 0, driver(1))
	must(t, err)
	for _, q := range []roster.Request{{For: "pause"}, {}, {For: roster.Kill, Reason: strings.Repeat("x", 1<<16)}} {
		_, err = first.Ask(ctx, "x", q)
		refused(t, fault.Validation, err)
	}
	for _, row := range []struct{ ask, has, why string }{
		{roster.Cancel, roster.Cancel, "1"}, {roster.Cancel, roster.Cancel, "1"}, {roster.Kill, roster.Kill, "3"},
		{roster.Cancel, roster.Kill, "3"},
		{roster.Kill, roster.Kill, "3"},
	} {
		why := row.why
		if state(t, first, "x").Asked.For == row.has {
			why = "late"
		}
		got, err := first.Ask(ctx, "x", roster.Request{For: row.ask, Reason: why})
		must(t, err)
		seen := state(t, second, "x").Asked
		if got.Asked != seen || seen.For != row.has || seen.Reason != row.why || seen.Time.IsZero() ||
			got.Epoch != 1 ||
			got.State != roster.Running {
			t.Errorf("asked for %s: %+v, %+v", row.ask, got, seen)
		}
	}
	next, err := second.Changed(ctx, mark)
	must(t, err)
	if next == mark {
		t.Error("nothing seems to have changed")
	}
	over, cancel := context.WithCancelCause(ctx)
	cancel(errOver)
	if _, err := second.Changed(over, next); !errors.Is(err, errOver) {
		t.Errorf("the wait ends with %v", err)
	}
	again, err := second.Changed(ctx, next) // returns without a change
	must(t, err)
	if again != next {
		t.Errorf("%q, %q", next, again)
	}
	world.Die(driver(1))
	got, err := second.Claim(ctx, "x", 1, driver(2))
	must(t, err)
	if got.Asked.For != roster.Kill {
		t.Errorf("forgotten: %+v", got)
	}
	must(t, second.Set(ctx, "x", 2, roster.Killed, ""))
	_, err = first.Ask(ctx, "x", roster.Request{For: roster.Kill})
	refused(t, fault.Conflict, err)
}

var errOver = errors.New("over")

// crowds checks the limits on parallel threads, whichever process begins them. Dead threads don't count, and a
// thread that continues another takes its place.
func crowds(t *testing.T, world World) {
	ctx, first, second, root := t.Context(), world.Open(t), world.Open(t), t.TempDir()
	n := 0
	begin := func(id, parent string, most roster.Most) error {
		r := row(t, root, id)
		r.Parent, r.Most = parent, most
		must(t, first.Create(ctx, r, 100))
		n++
		_, err := second.Claim(ctx, id, 0, driver(n))
		return err
	}
	must(t, begin("x", "", roster.Most{Children: 2, Total: 5}))
	must(t, begin("x1", "x", roster.Most{Children: 3}))
	must(t, begin("x2", "x", roster.Most{}))
	refused(t, fault.Limit, begin("x3", "x", roster.Most{}))
	must(t, first.Set(ctx, "x2", 1, roster.Completed, ""))
	_, err := second.Claim(ctx, "x3", 0, driver(10))
	must(t, err)
	must(t, begin("x1a", "x1", roster.Most{}))
	must(t, begin("x1b", "x1", roster.Most{}))
	refused(t, fault.Limit, begin("x1c", "x1", roster.Most{}))
	buried := row(t, root, "x1z")
	buried.Parent = "x1"
	must(t, first.Create(ctx, buried, 100))
	_, err = first.Claim(ctx, "x1z", 0, roster.Driver{}) // only to set its state: it won't run
	must(t, err)
	must(t, first.Set(ctx, "x1z", 1, roster.Interrupted, ""))
	world.Die(driver(10))
	_, err = second.Claim(ctx, "x1c", 0, driver(11))
	must(t, err)
	_, err = first.Claim(ctx, "x3", 1, driver(12)) // resuming it would exceed the limit
	refused(t, fault.Limit, err)
	next := row(t, root, "x1d")
	next.Parent, next.Continues = "x1", "x1c"
	must(t, first.Create(ctx, next, 0))
	_, err = first.Claim(ctx, "x1d", 0, driver(13))
	must(t, err)
	must(t, begin("y", "", roster.Most{Total: 1})) // of another root
	refused(t, fault.Limit, begin("y1", "y", roster.Most{}))
	live, err := first.Threads(ctx, roster.Filter{Live: true})
	must(t, err)
	if all, err := first.Threads(ctx, roster.Filter{}); err != nil || len(all) != len(live)+1 {
		t.Errorf("%d of %d threads haven't ended, %v", len(live), len(all), err)
	}
}

// races checks that only one of many claims of an epoch succeeds, and that exactly the allowed children are
// created.
func races(t *testing.T, world World) {
	ctx, root := t.Context(), t.TempDir()
	first := world.Open(t)
	must(t, first.Create(ctx, row(t, root, "x"), 0))
	var mu sync.Mutex
	var group sync.WaitGroup
	claimed, created := 0, 0
	rows := make([]*roster.Thread, 20)
	for i := range rows {
		rows[i] = row(t, root, fmt.Sprintf("c-%d", i))
		rows[i].Parent = "x"
	}
	for i := range 20 {
		r := first
		if i%2 == 0 {
			r = world.Open(t)
		}
		group.Go(func() {
			_, err := r.Claim(ctx, "x", 0, driver(i+1))
			bad := r.Create(ctx, rows[i], 7)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				claimed++
			} else {
				refused(t, fault.Conflict, err)
			}
			if bad == nil {
				created++
			} else {
				refused(t, fault.Limit, bad)
			}
		})
	}
	group.Wait()
	if claimed != 1 || created != 7 {
		t.Errorf("%d claims, %d children", claimed, created)
	}
}

// places checks that a moved project keeps its threads, and that threads without their directory are lost.
func places(t *testing.T, w World) {
	ctx, list := t.Context(), w.Open(t)
	one, two := filepath.Join(t.TempDir(), "one"), t.TempDir()
	must(t, os.Mkdir(one, 0o700))
	must(t, list.Create(ctx, row(t, one, "x"), 0))
	young := row(t, two, "y")
	young.Created = noon.Add(time.Second)
	must(t, list.Create(ctx, young, 0))
	all, err := list.Threads(ctx, roster.Filter{})
	must(t, err)
	if len(all) != 2 || all[0].ID != "y" || all[1].ID != "x" {
		t.Errorf("%+v", all)
	}
	moved := one + "-moved"
	must(t, os.Rename(one, moved))
	here, err := list.Threads(ctx, roster.Filter{Root: moved})
	must(t, err)
	if got := state(t, list, "x"); !got.Lost || len(here) == 1 && here[0].Lost {
		t.Errorf("%+v, %+v", got, here)
	}
	must(t, os.RemoveAll(young.Dir()))
	here, err = list.Threads(ctx, roster.Filter{Root: two})
	must(t, err)
	if len(here) != 1 || !here[0].Lost {
		t.Errorf("%+v", here)
	}
	_, err = list.Claim(ctx, "y", 0, driver(1))
	refused(t, fault.NotFound, err)
	if _, err := list.Threads(ctx, roster.Filter{Root: one}); err == nil {
		t.Error("a project that isn't there has threads")
	}
}
