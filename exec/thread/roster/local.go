package roster

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/journal"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/exec/proc"
)

// Local is the roster of this machine. Its opener closes it.
type Local struct {
	Now func() time.Time
	// Runs returns the start of a process, or "" if it isn't running. It is proc.Start except in tests.
	Runs func(process int) string

	book journal.Book[*rows]
}

// Open returns the roster in a file. The first write creates the file.
func Open(path string, now func() time.Time, hook journal.Hook) *Local {
	return &Local{Now: now, Runs: proc.Start, book: journal.Book[*rows]{Path: path, Format: "rye registry", Hook: hook,
		Empty: func() *rows { return &rows{byID: map[string]*Thread{}} }}}
}

// Close closes the file.
func (l *Local) Close() error { return l.book.Close() }

// A record is the row of a thread after an operation.
type record struct {
	Op     string  `json:"op"`
	Thread *Thread `json:"thread"`
}

// rows are the sum of the records.
type rows struct{ byID map[string]*Thread }

// Take implements journal.Total.
func (r *rows) Take(text []byte) error {
	var rec record
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&rec); err != nil {
		return err
	}
	if t := rec.Thread; t == nil || t.ID == "" || !slices.Contains(States, t.State) || t.Epoch < 0 {
		return errors.New("not the row of a thread")
	}
	r.byID[rec.Thread.ID] = rec.Thread
	return nil
}

// Records implements journal.Total.
func (r *rows) Records() (all [][]byte) {
	for _, id := range slices.Sorted(maps.Keys(r.byID)) {
		b, _ := json.Marshal(record{"row", r.byID[id]}) // never fails
		all = append(all, b)
	}
	return all
}

// get returns a copy of a row.
func (r *rows) get(id string) (*Thread, error) {
	t := r.byID[id]
	if t == nil {
		return nil, fault.New(fault.NotFound, "no thread %q is registered", id).Try("rye thread list")
	}
	c := *t
	return &c, nil
}

// Create implements Roster.
func (l *Local) Create(ctx context.Context, t *Thread, spawns int64) error {
	row := *t
	row.State, row.Epoch, row.Driver, row.Asked = Created, 0, Driver{}, Request{}
	row.Updated = row.Created
	return l.book.Change(ctx, func(r *rows) ([]any, error) {
		if r.byID[row.ID] != nil {
			return nil, fault.New(fault.Conflict, "the thread %s exists", row.ID).Permanent()
		}
		records := []any{record{"create", &row}}
		if row.Parent == "" || row.Continues != "" {
			return records, nil
		}
		parent, err := r.get(row.Parent)
		if err != nil {
			return nil, err
		}
		if parent.Spawned >= spawns {
			return nil, fault.New(fault.Limit, "the thread has reached a limit: spawns_exceeded (%d of %d)",
				parent.Spawned, spawns).
				On("limit", "spawns_exceeded")
		}
		if parent.Spawned < math.MaxInt64 {
			parent.Spawned++
		}
		return append(records, record{"spawn", parent}), nil
	})
}

// change changes one row. The caller has the thread's lock where the edit requires it.
func (l *Local) change(ctx context.Context, id, op string, edit func(*rows, *Thread) error) (row *Thread, err error) {
	err = l.book.Change(ctx, func(r *rows) ([]any, error) {
		if row, err = r.get(id); err != nil {
			return nil, err
		}
		if err := edit(r, row); err != nil {
			return nil, err
		}
		row.Updated = l.Now().UTC().Round(0)
		return []any{record{op, row}}, nil
	})
	return row, err
}

// Claim implements Roster.
func (l *Local) Claim(ctx context.Context, id string, seen int64, driver Driver) (*Thread, error) {
	release, err := l.lock(ctx, id)
	if err != nil {
		return nil, err
	}
	defer release()
	return l.change(ctx, id, "claim", func(all *rows, thread *Thread) error {
		switch {
		case thread.State.Ended():
			e := fault.New(fault.Conflict, "the thread %s has ended: %s", id, thread.State).On("thread",
				id).Permanent()
			if thread.Kind == "graph" { // a message can't continue a graph
				return e.Try("rye thread result " + fault.Quote(id))
			}
			return e.Try("rye thread resume " + fault.Quote(id) + " --message TEXT")
		case thread.Epoch != seen:
			return fault.New(fault.Conflict, "another process has claimed the thread %s", id).On("thread",
				id).On("epoch", thread.Epoch).
				Try("rye thread wait " + fault.Quote(id))
		case thread.State == Running && l.alive(thread.Driver):
			return driven(thread)
		}
		if driver != (Driver{}) { // without a driver, the claim only sets the state
			if err := l.room(all, thread); err != nil {
				return err
			}
		}
		thread.Epoch, thread.State, thread.Driver = thread.Epoch+1, Running, driver
		return nil
	})
}

// driven returns the error for a thread that another process drives.
func driven(t *Thread) error {
	e := fault.New(fault.Conflict, "the thread %s is driven by process %d", t.ID, t.Driver.Process).On("thread",
		t.ID).On("process", t.Driver.Process)
	if proc.Stopped(t.Driver.Process) {
		return e.Because("a signal has stopped this process").Try(fmt.Sprint("kill -CONT ", t.Driver.Process),
			"rye thread kill "+fault.Quote(t.ID))
	}
	return e.Try("rye thread wait " + fault.Quote(t.ID))
}

// room refuses to run a thread if the limits above it allow no more.
func (l *Local) room(all *rows, thread *Thread) error {
	parent := all.byID[thread.Parent]
	if parent == nil {
		return nil
	}
	root := all.root(parent)
	var children, total int64
	if parent.Most.Children == 0 && root.Most.Total == 0 {
		return nil
	}
	for _, o := range all.byID {
		if o.State != Running || o.ID == thread.ID || o.ID == thread.Continues || all.root(o) != root ||
			!l.alive(o.Driver) {
			continue
		}
		total++
		if o.Parent == thread.Parent {
			children++
		}
	}
	for _, limit := range []struct {
		code       string
		used, most int64
	}{{"children_exceeded", children, parent.Most.Children}, {"threads_exceeded", total, root.Most.Total}} {
		if limit.most > 0 && limit.used >= limit.most {
			return fault.New(fault.Limit, "as many threads run as config:resilience allows: %s (%d of %d)", limit.code,
				limit.used, limit.most).
				On("limit", limit.code).On("current", limit.used).On("max", limit.most).
				Try("rye thread list --state running")
		}
	}
	return nil
}

// root returns the highest thread above a thread.
func (r *rows) root(t *Thread) *Thread {
	for range len(r.byID) { // ends even with a circle in the journal
		up := r.byID[t.Parent]
		if up == nil {
			break
		}
		t = up
	}
	return t
}

// alive reports whether a driver's process still runs on this machine.
func (l *Local) alive(d Driver) bool {
	return d.Process > 0 && d.Start != "" && l.Runs(d.Process) == d.Start
}

// Set implements Roster.
func (l *Local) Set(ctx context.Context, id string, epoch int64, s State, next string) error {
	_, err := l.change(ctx, id, string(s), func(_ *rows, t *Thread) error {
		if t.Epoch != epoch {
			return outdated(t)
		}
		if t.State.Ended() {
			return fault.New(fault.Conflict, "the thread %s has ended: %s", id, t.State).On("thread", id).Permanent()
		}
		t.State, t.Next = s, cmp.Or(next, t.Next)
		return nil
	})
	return err
}

// Ask implements Roster.
func (l *Local) Ask(ctx context.Context, id string, request Request) (*Thread, error) {
	if request.For != Cancel && request.For != Kill || len(request.Reason) > maxReason {
		return nil, fault.New(fault.Validation, "invalid request %q for the thread %s", request.For, id)
	}
	return l.change(ctx, id, "ask", func(_ *rows, t *Thread) error {
		if t.State.Ended() {
			return fault.New(fault.Conflict, "the thread %s has ended: %s", id, t.State).On("thread", id).On("state",
				string(t.State)).Permanent()
		}
		if t.Asked.For == "" || request.For == Kill && t.Asked.For != Kill {
			request.Time = l.Now().UTC().Round(0)
			t.Asked = request
		}
		return nil
	})
}

// maxReason bounds the reason of a request, so that a row always fits into a record.
const maxReason = 4 << 10

// Changed polls with lookEvery for at most lookUntil. Each poll is one system call.
const (
	lookEvery = 20 * time.Millisecond
	lookUntil = time.Second
)

// Changed implements Roster.
func (l *Local) Changed(ctx context.Context, mark string) (string, error) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for until := time.Now().Add(lookUntil); ; {
		next := "none"
		if info, err := os.Stat(l.book.Path); err == nil {
			next = fmt.Sprint(info.Size(), " ", info.ModTime().UnixNano())
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if next != mark || !time.Now().Before(until) {
			return next, nil
		}
		select {
		case <-ctx.Done():
			return mark, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

func outdated(t *Thread) error {
	return fault.New(fault.Conflict, "another process drives the thread %s now", t.ID).On("thread", t.ID).On("epoch",
		t.Epoch).
		Try("rye thread wait " + fault.Quote(t.ID)).Permanent()
}

// Hold implements Roster.
func (l *Local) Hold(ctx context.Context, id string, epoch int64) (func(), error) {
	release, err := l.lock(ctx, id)
	if err != nil {
		return nil, err
	}
	err = l.book.View(func(r *rows) error {
		t, err := r.get(id)
		if err == nil && t.Epoch != epoch {
			err = outdated(t)
		}
		return err
	})
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// lock locks a thread.
func (l *Local) lock(ctx context.Context, id string) (func(), error) {
	var t *Thread
	err := l.book.View(func(r *rows) (err error) {
		t, err = r.get(id)
		return err
	})
	if err != nil {
		return nil, err
	}
	f, err := osfile.OpenLocked(ctx, filepath.Join(t.Dir(), "lock"), osfile.Exclusive, osfile.LockWait)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, t.lost().From(err)
	}
	if err != nil {
		return nil, err
	}
	return func() { f.Close() }, nil
}

// Threads implements Roster.
func (l *Local) Threads(ctx context.Context, f Filter) (all []*Thread, err error) {
	var here Project
	if f.Root != "" {
		if here, err = ProjectAt(f.Root); err != nil {
			return nil, err
		}
	}
	err = l.book.View(func(r *rows) error {
		for id := range r.byID {
			if t, _ := r.get(id); (f.ID == "" || f.ID == id) && (!f.Live || !t.State.Ended()) && here.has(t) {
				all = append(all, t)
			}
		}
		return context.Cause(ctx)
	})
	for _, t := range all {
		_, missing := os.Lstat(t.Dir())
		t.Lost = t.Pruned == nil && errors.Is(missing, fs.ErrNotExist)
		t.Alive = l.alive(t.Driver)
		t.Dead = t.State == Running && !t.Alive
	}
	slices.SortFunc(all, func(a, b *Thread) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.ID, b.ID))
	})
	return all, err
}

// has reports whether a thread belongs to the project, and updates the thread's project directory. The zero Project
// has all threads.
func (p Project) has(t *Thread) bool {
	if p.Root == "" {
		return true
	}
	if p.Inode != 0 && p.Inode == t.Project.Inode && p.Device == t.Project.Device {
		t.Project.Root = p.Root
	}
	return t.Project.Root == p.Root
}

// ProjectAt returns the project in a directory.
func ProjectAt(root string) (p Project, err error) {
	p.Root = osfile.Unlinked(root)
	p.Device, p.Inode, err = osfile.Identity(root)
	return p, err
}
