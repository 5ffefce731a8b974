package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/journal"
)

// Local is the ledger of this machine. Its opener calls Shut.
type Local struct{ book journal.Book[*accounts] }

// In returns the ledger in a file. The first write creates the file.
func In(path string, hook journal.Hook) *Local {
	return &Local{book: journal.Book[*accounts]{Path: path, Format: "rye ledger", Hook: hook, Empty: empty}}
}

func empty() *accounts { return &accounts{byThread: map[string]*account{}} }

// Shut closes the file.
func (l *Local) Shut() error { return l.book.Close() }

// Do implements Ledger.
func (l *Local) Do(ctx context.Context, entries ...Entry) error {
	return l.book.Change(ctx, func(all *accounts) ([]any, error) {
		// Decide each entry after applying those before it.
		var undo []func()
		defer func() {
			for _, f := range slices.Backward(undo) {
				f()
			}
		}()
		var records []any
		for _, e := range entries {
			if err := all.check(&e, true); err != nil {
				return nil, err
			}
			undo = append(undo, all.apply(&e))
			records = append(records, e)
		}
		return records, nil
	})
}

// Accounts implements Ledger.
func (l *Local) Accounts(ctx context.Context, threads ...string) (map[string]*Balance, error) {
	found := map[string]*Balance{}
	err := l.book.View(func(all *accounts) error {
		if len(threads) == 0 {
			threads = slices.Collect(maps.Keys(all.byThread))
		}
		for _, id := range threads {
			if a := all.byThread[id]; a != nil {
				found[id] = a.shown()
			}
		}
		return context.Cause(ctx)
	})
	return found, err
}

const opCarry = "carry"

// accounts are the sums of the entries.
type accounts struct{ byThread map[string]*account }

// An account has the sums over its children, so that no check visits all of them.
type account struct {
	id       string
	parent   *account
	epoch    int64
	budget   *int64
	own      int64
	held     map[string]int64
	inFlight int64 // sum of held
	below    int64
	aside    int64
	closed   bool
	at       time.Time // of the last open or close
}

func (a *account) shown() *Balance {
	s := &Balance{Thread: a.id, Epoch: a.epoch, Own: a.own, Below: a.below, Held: a.inFlight,
		Calls: maps.Clone(a.held), Aside: a.aside, Closed: a.closed, Time: a.at}
	if a.parent != nil {
		s.Parent = a.parent.id
	}
	if a.budget != nil {
		b := *a.budget
		s.Budget = &b
	}
	return s
}

// surplus returns what the parent has set aside beyond the spent amount. A closed account spends nothing, but
// children that outlive it may.
func (a *account) surplus() int64 {
	rest := a.inFlight + a.aside
	if a.budget != nil && !a.closed {
		rest = max(rest, *a.budget-a.own-a.below)
	}
	return max(rest, 0)
}

// change changes an account and the sums of those above it.
func (a *account) change(edit func()) {
	var before [][2]int64
	for up := a; up != nil; up = up.parent {
		before = append(before, [2]int64{up.own + up.below, up.surplus()})
	}
	edit()
	for up, i := a, 0; up.parent != nil; up, i = up.parent, i+1 {
		up.parent.below += up.own + up.below - before[i][0]
		up.parent.aside += up.surplus() - before[i][1]
	}
}

// left returns what may be reserved, and the account that bounds it.
func (a *account) left() (int64, *account) {
	if s, bound := a.shown().Left(); bound {
		return s, a
	}
	if a.parent != nil {
		return a.parent.left()
	}
	return math.MaxInt64, nil
}

// short returns the error for a budget with too little left.
func short(what string, needed, left int64) error {
	return fault.New(fault.Budget, "%s may cost $%.6f, and the budget has $%.6f left", what, float64(needed)/1e9,
		float64(max(left, 0))/1e9).
		On("needed", float64(needed)/1e9).On("left", float64(max(left, 0))/1e9)
}

// IsShort reports whether an error is from a budget with too little left.
func IsShort(err error) bool { return err != nil && fault.CodeOf(err) == fault.Budget }

const most = int64(1) << 60 // bounds one amount, so that small sums can't overflow

// check refuses an invalid entry. strict also compares budgets, which is not repeated when the book is read.
func (all *accounts) check(e *Entry, strict bool) error {
	a := all.byThread[e.Thread]
	if e.Thread == "" || e.Amount < 0 || e.Amount > most || e.Own < 0 || e.Epoch < 0 || e.Budget != nil &&
		(*e.Budget < 0 || *e.Budget > most) {
		return fault.New(fault.Validation, "invalid entry %s of the ledger for %q", e.Op, e.Thread)
	}
	if a == nil && e.Op != OpOpen && e.Op != opCarry {
		return fault.New(fault.NotFound, "the thread %q has no account", e.Thread)
	}
	if a != nil && e.Epoch < a.epoch {
		return fault.New(fault.Conflict, "another process drives the thread %s now", e.Thread).On("epoch", a.epoch).
			Try("rye thread wait " + fault.Quote(e.Thread)).Permanent()
	}
	if a != nil && a.closed && (e.Op == OpReserve || e.Op == OpSettle) {
		return fault.New(fault.Conflict, "the account of the thread %s is closed", e.Thread).Permanent()
	}
	switch e.Op {
	case OpOpen, opCarry:
		return all.checkOpen(a, e, strict && e.Op == OpOpen)
	case OpReserve:
		if _, ok := a.held[e.Call]; ok || e.Call == "" {
			return fault.New(fault.Conflict, "the call %q of %s is reserved already", e.Call, e.Thread).Permanent()
		}
		if left, _ := a.left(); strict && e.Amount > left {
			return short("the next model call", e.Amount, left)
		}
	case OpSettle:
		if a.own+e.Amount > most {
			return fault.New(fault.Validation, "invalid amount %d for thread %s", e.Amount, e.Thread)
		}
	case OpClose:
	default:
		return fault.New(fault.Validation, "unknown entry %q of the ledger", e.Op)
	}
	return nil
}

func (all *accounts) checkOpen(a *account, e *Entry, strict bool) error {
	parent := all.byThread[e.Parent]
	switch {
	case e.Parent != "" && parent == nil:
		return fault.New(fault.NotFound, "the parent %q of the thread %s has no account", e.Parent, e.Thread)
	case a != nil && (e.Op == opCarry || a.parent != parent):
		return fault.New(fault.Conflict, "the thread %s has another account", e.Thread).Permanent()
	case !strict || parent == nil:
		return nil
	case parent.closed:
		return fault.New(fault.Conflict, "the account of the parent %s is closed", e.Parent).Permanent()
	}
	left, bounded := parent.left()
	var spent, already int64
	if a != nil {
		spent, already = a.own+a.below, a.surplus()
	}
	switch {
	case bounded != nil && e.Budget == nil:
		return fault.New(fault.Budget, "the thread %s has no spend limit, but its parent has one", e.Thread)
	case bounded != nil && *e.Budget-spent-already > left:
		return short("the child", *e.Budget-spent, left+already)
	}
	return nil
}

// apply applies a checked entry, and returns a function that undoes it.
func (all *accounts) apply(e *Entry) (undo func()) {
	a := all.byThread[e.Thread]
	if a == nil {
		a = &account{id: e.Thread, parent: all.byThread[e.Parent], held: map[string]int64{}, closed: true}
		all.byThread[e.Thread] = a
		undo = func() { delete(all.byThread, e.Thread) }
	}
	before := *a
	before.held = maps.Clone(a.held)
	a.change(func() {
		a.epoch = e.Epoch
		switch e.Op {
		case OpOpen:
			a.budget, a.closed, a.at = e.Budget, false, e.Time
		case opCarry:
			a.budget, a.own, a.closed, a.at = e.Budget, e.Own, e.Closed, e.Time
			for call, n := range e.Held {
				a.held[call] = n
				a.inFlight += n
			}
		case OpReserve:
			a.held[e.Call] = e.Amount
			a.inFlight += e.Amount
		case OpSettle:
			a.inFlight -= a.held[e.Call]
			delete(a.held, e.Call)
			a.own += e.Amount
		case OpClose:
			a.own += a.inFlight
			a.inFlight, a.closed, a.at = 0, true, e.Time
			clear(a.held)
		}
	})
	created := undo
	return func() {
		a.change(func() {
			below, aside := a.below, a.aside
			*a = before
			a.below, a.aside = below, aside
		})
		if created != nil {
			created()
		}
	}
}

// Take implements journal.Total.
func (all *accounts) Take(text []byte) error {
	var e Entry
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return err
	}
	for _, n := range e.Held {
		if n < 0 || n > most {
			return errors.New("an impossible amount")
		}
	}
	if err := all.check(&e, false); err != nil {
		return fmt.Errorf("impossible: %w", err)
	}
	all.apply(&e)
	return nil
}

// Records implements journal.Total. Parents come before their children.
func (all *accounts) Records() (out [][]byte) {
	done := map[*account]bool{}
	var carry func(a *account)
	carry = func(a *account) {
		if a == nil || done[a] {
			return
		}
		done[a] = true
		carry(a.parent)
		e := Entry{Op: opCarry, Thread: a.id, Epoch: a.epoch, Budget: a.budget, Own: a.own, Held: a.held,
			Closed: a.closed, Time: a.at}
		if a.parent != nil {
			e.Parent = a.parent.id
		}
		b, _ := json.Marshal(e) // never fails
		out = append(out, b)
	}
	for _, id := range slices.Sorted(maps.Keys(all.byThread)) {
		carry(all.byThread[id])
	}
	return out
}
