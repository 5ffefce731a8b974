package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/journal"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/thread/roster"
)

// WaitsFile is the name of the book of waits, beside the registry.
const WaitsFile = "waits"

// A wait is a thread that waits for others. Records are {"wait":ID,"thread":…,"for":[…],"process":…,"start":…}, and
// {"wait":ID} when it is over.
type wait struct {
	ID      string   `json:"wait"`
	Thread  string   `json:"thread,omitempty"`
	For     []string `json:"for,omitempty"`
	Process int      `json:"process,omitempty"`
	Start   string   `json:"start,omitempty"`
}

// waits are those that aren't over.
type waits map[string]*wait

// Take implements journal.Total.
func (w waits) Take(text []byte) error {
	one := new(wait)
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(one); err != nil {
		return err
	}
	switch {
	case one.ID == "" || (one.Thread == "") != (len(one.For) == 0):
		return errors.New("not a wait of a thread")
	case one.Thread == "":
		delete(w, one.ID)
	default:
		w[one.ID] = one
	}
	return nil
}

// Records implements journal.Total.
func (w waits) Records() (all [][]byte) {
	for _, id := range slices.Sorted(maps.Keys(w)) {
		b, _ := json.Marshal(w[id]) // as it was read
		all = append(all, b)
	}
	return all
}

// Waits notes that a thread waits for others until end is called. It refuses what could never end: a wait for itself,
// for a thread above it, or for one that waits for it.
func (c *Controller) Waits(ctx context.Context, self *Self, ids []string) (end func() error, err error) {
	for _, id := range ids {
		if err := c.circular(ctx, self, id); err != nil {
			return nil, err
		}
	}
	rows, err := c.Roster.Threads(ctx, roster.Filter{})
	if err != nil {
		return nil, err
	}
	book := &journal.Book[waits]{Path: c.WaitsPath, Format: "rye waits", Empty: func() waits { return waits{} }}
	mine := wait{ID: roster.NewID("wait", c.Now()), Thread: self.Thread, For: ids, Process: os.Getpid(),
		Start: proc.Start(os.Getpid())}
	err = book.Change(ctx, func(all waits) ([]any, error) {
		if path := all.cycle(self.Thread, ids, rows); path != nil {
			return nil, fault.New(fault.Conflict, "the threads would wait for each other: %s",
				strings.Join(path, " waits for ")).On("threads", path).
				Try("rye thread tree " + fault.Quote(path[1])).Permanent()
		}
		return []any{mine}, nil
	})
	if err != nil {
		return nil, errors.Join(err, book.Close())
	}
	return func() error {
		return errors.Join(book.Change(context.WithoutCancel(ctx), func(waits) ([]any, error) {
			return []any{wait{ID: mine.ID}}, nil
		}), book.Close())
	}, nil
}

// cycle returns how a wait of a thread would lead back to it, nil if it doesn't. A thread waits for those that it
// said, and for children that run in its own process. The waits of a process that has ended don't count.
func (w waits) cycle(thread string, ids []string, rows []*roster.Thread) []string {
	next := map[string][]string{}
	for _, id := range slices.Sorted(maps.Keys(w)) {
		if one := w[id]; proc.Start(one.Process) == one.Start {
			next[one.Thread] = append(next[one.Thread], one.For...)
		}
	}
	byID := map[string]*roster.Thread{}
	for _, t := range rows {
		byID[t.ID] = t
	}
	for _, t := range rows {
		if up := byID[t.Parent]; up != nil && !t.State.Ended() && t.Driver == up.Driver {
			next[up.ID] = append(next[up.ID], t.ID)
		}
	}
	seen := map[string]bool{}
	var walk func(path []string) []string
	walk = func(path []string) []string {
		at := path[len(path)-1]
		if at == thread {
			return path
		}
		if seen[at] {
			return nil
		}
		seen[at] = true
		for _, id := range next[at] {
			if found := walk(append(slices.Clone(path), id)); found != nil {
				return found
			}
		}
		return nil
	}
	for _, id := range ids {
		if found := walk([]string{thread, id}); found != nil {
			return found
		}
	}
	return nil
}
