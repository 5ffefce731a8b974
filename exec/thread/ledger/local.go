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
	return rest
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
func (all *accounts) check(entry *Entry, strict bool) error {
	account := all.byThread[entry.Thread]
	if entry.Thread == "" || entry.Amount < 0 || entry.Amount > most || entry.Own < 0 || entry.Epoch < 0 ||
		entry.Budget != nil &&
			(*entry.Budget < 0 || *entry.Budget > most) {
		return fault.New(fault.Validation, "invalid entry %s of the ledger for %q", entry.Op, entry.Thread)
	}
	if account == nil && entry.Op != OpOpen && entry.Op != opCarry {
		return fault.New(fault.NotFound, "the thread %q has no account", entry.Thread)
	}
	if account != nil && entry.Epoch < account.epoch {
		return fault.New(fault.Conflict, "another process drives the thread %s now", entry.Thread).On("epoch",
			account.epoch).
			Try("rye thread wait " + fault.Quote(entry.Thread)).Permanent()
	}
	if account != nil && account.closed && (entry.Op == OpReserve || entry.Op == OpSettle) {
		return fault.New(fault.Conflict, "the account of the thread %s is closed", entry.Thread).Permanent()
	}
	switch entry.Op {
	case OpOpen, opCarry:
		return all.checkOpen(account, entry, strict && entry.Op == OpOpen)
	case OpReserve:
		if _, ok := account.held[entry.Call]; ok || entry.Call == "" {
			return fault.New(fault.Conflict, "the call %q of %s is reserved already", entry.Call,
				entry.Thread).Permanent()
		}
		if left, _ := account.left(); strict && entry.Amount > left {
			return short("the next model call", entry.Amount, left)
		}
	case OpSettle:
		if account.own+entry.Amount > most {
			return fault.New(fault.Validation, "invalid amount %d for thread %s", entry.Amount, entry.Thread)
		}
	case OpClose:
	default:
		return fault.New(fault.Validation, "unknown entry %q of the ledger", entry.Op)
	}
	return nil
}

func (all *accounts) checkOpen(account *account, entry *Entry, strict bool) error {
	parent := all.byThread[entry.Parent]
	switch {
	case entry.Parent != "" && parent == nil:
		return fault.New(fault.NotFound, "the parent %q of the thread %s has no account", entry.Parent, entry.Thread)
	case account != nil && (entry.Op == opCarry || account.parent != parent):
		return fault.New(fault.Conflict, "the thread %s has another account", entry.Thread).Permanent()
	case !strict || parent == nil:
		return nil
	case parent.closed:
		return fault.New(fault.Conflict, "the account of the parent %s is closed", entry.Parent).Permanent()
	}
	left, bounded := parent.left()
	var spent, already int64
	if account != nil {
		spent, already = account.own+account.below, account.surplus()
	}
	switch {
	case bounded != nil && entry.Budget == nil:
		return fault.New(fault.Budget, "the thread %s has no spend limit, but its parent has one", entry.Thread)
	case bounded != nil && *entry.Budget-spent-already > left:
		return short("the child", *entry.Budget-spent, left+already)
	}
	return nil
}

// apply applies a checked entry, and returns a function that undoes it once all entries after it are undone.
func (all *accounts) apply(entry *Entry) (undo func()) {
	found := all.byThread[entry.Thread]
	if found == nil {
		found = &account{id: entry.Thread, parent: all.byThread[entry.Parent], held: map[string]int64{}, closed: true}
		all.byThread[entry.Thread] = found
		undo = func() { delete(all.byThread, entry.Thread) }
	}
	before := *found
	before.held = maps.Clone(found.held)
	found.change(func() {
		found.epoch = entry.Epoch
		switch entry.Op {
		case OpOpen:
			found.budget, found.closed, found.at = entry.Budget, false, entry.Time
		case opCarry:
			found.budget, found.own, found.closed, found.at = entry.Budget, entry.Own, entry.Closed, entry.Time
			for call, n := range entry.Held {
				found.held[call] = n
				found.inFlight += n
			}
		case OpReserve:
			found.held[entry.Call] = entry.Amount
			found.inFlight += entry.Amount
		case OpSettle:
			found.inFlight -= found.held[entry.Call]
			delete(found.held, entry.Call)
			found.own += entry.Amount
		case OpClose:
			found.own += found.inFlight
			found.inFlight, found.closed, found.at = 0, true, entry.Time
			clear(found.held)
		}
	})
	created := undo
	return func() {
		found.change(func() { *found = before })
		if created != nil {
			created()
		}
	}
}

// Take implements journal.Total.
func (all *accounts) Take(text []byte) error {
	var entry Entry
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&entry); err != nil {
		return err
	}
	for _, n := range entry.Held {
		if n < 0 || n > most {
			return errors.New("an impossible amount")
		}
	}
	if err := all.check(&entry, false); err != nil {
		return fmt.Errorf("impossible: %w", err)
	}
	all.apply(&entry)
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
