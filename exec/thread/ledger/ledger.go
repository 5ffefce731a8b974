// Package ledger keeps the money of threads: what each may spend, what is set aside, and what was spent.
//
// # How a reservation goes through here
//
// The driver of a thread has an Account. Account.Reserve writes a Reserve entry before a model call, with the Settle
// entries of the calls that ended since the last write, so that a turn costs one sync; Settle only notes what a call
// has cost; End writes the rest and closes the account. Ledger.Do makes all entries of one call or none: the local
// ledger checks each against the accounts above it.
//
// # Accounts
//
// Each thread has an account, with a budget or without one. The rest of a budget is
//
//	budget - own - held - of each child what is set aside for it
//
// own is what the thread's model calls have cost, held what its calls in flight may cost at most, by the names of the
// calls. For a child that is open its budget is set aside, or what it has spent if that is more; for one that is
// closed, what it has spent and what is set aside for its own children that are still open. A child without a budget,
// of a parent without one, has what it spent. "below" is what all children and theirs have spent: it is never part of
// own.
//
// A reservation that what is left doesn't cover is BUDGET_EXCEEDED, and so is the budget of a child. What a call has
// cost is always recorded, even if it is more than was reserved or than the budget: then nothing is left, for its
// parents neither.
//
// Closing an account makes what is still held its own: whether those calls cost something isn't known any more. It can
// be opened again, with another budget, for a thread that is resumed.
//
// Amounts are nano-dollars. Entries name the epoch of the thread (package registry); after one with a higher epoch,
// one with a lower is CONFLICT.
//
// # The local ledger
//
// One book (package journal) for all projects of a user, the file threads/ledger of the state directory. Its records
// are entries:
//
//	{"op":"open","thread":"acme/plan-1795000000-a2b3c","epoch":1,"budget":1000000000,"time":"2026-11-20T12:00:00Z"}
//	{"op":"open","thread":"acme/step-1795000001-k3v9q","epoch":1,"parent":"acme/plan-1795000000-a2b3c","budget":200000000,"time":…}
//	{"op":"reserve","thread":"acme/step-1795000001-k3v9q","epoch":1,"call":"1.1","amount":12000000}
//	{"op":"settle","thread":"acme/step-1795000001-k3v9q","epoch":1,"call":"1.1","amount":3400000}
//	{"op":"close","thread":"acme/step-1795000001-k3v9q","epoch":1,"time":…}
//	{"op":"carry","thread":"acme/step-1795000001-k3v9q","epoch":1,"parent":…,"budget":200000000,"own":3400000,"closed":true,"time":…}
//
// "carry" stands for all entries of an account before it, in a book that was made shorter. Without "budget" there is
// none.
package ledger

import (
	"context"
	"time"
)

// The kinds of entries.
const (
	OpOpen    = "open"
	OpReserve = "reserve"
	OpSettle  = "settle"
	OpClose   = "close"
)

// An Entry changes an account.
type Entry struct {
	Op     string    `json:"op"`
	Thread string    `json:"thread"`
	Epoch  int64     `json:"epoch"`
	Parent string    `json:"parent,omitempty"` // of a new account
	Budget *int64    `json:"budget,omitempty"` // of open: all that it may have spent in the end; nil for no bound
	Call   string    `json:"call,omitempty"`
	Amount int64     `json:"amount,omitzero"`
	Time   time.Time `json:"time,omitzero"`

	// Of carry.
	Own    int64            `json:"own,omitzero"`
	Held   map[string]int64 `json:"held,omitempty"`
	Closed bool             `json:"closed,omitempty"`
}

// Open begins an account, or opens one again.
func Open(thread, parent string, epoch int64, budget *int64, at time.Time) Entry {
	return Entry{Op: OpOpen, Thread: thread, Parent: parent, Epoch: epoch, Budget: budget, Time: at.UTC().Round(0)}
}

// Reserve sets the worst case of a call aside.
func Reserve(thread string, epoch int64, call string, amount int64) Entry {
	return Entry{Op: OpReserve, Thread: thread, Epoch: epoch, Call: call, Amount: amount}
}

// Settle puts what a call has cost in the place of its reservation.
func Settle(thread string, epoch int64, call string, amount int64) Entry {
	return Entry{Op: OpSettle, Thread: thread, Epoch: epoch, Call: call, Amount: amount}
}

// Close ends an account.
func Close(thread string, epoch int64, at time.Time) Entry {
	return Entry{Op: OpClose, Thread: thread, Epoch: epoch, Time: at.UTC().Round(0)}
}

// A Balance is the money of a thread, as the ledger has it.
type Balance struct {
	Thread string
	Parent string
	Epoch  int64
	Budget *int64 // nil for no bound
	Own    int64  // spent by the thread itself
	Below  int64  // spent by its children and theirs
	Held   int64  // reserved for its calls in flight
	Calls  map[string]int64
	Aside  int64 // set aside for its open children, beyond what they have spent
	Closed bool
	Time   time.Time // of when it was opened or closed last
}

// Spent is all that the thread and those below it have spent.
func (a *Balance) Spent() int64 { return a.Own + a.Below }

// Left is what may still be reserved, negative after overspending; bound is false without a budget.
func (a *Balance) Left() (left int64, bound bool) {
	if a.Budget == nil {
		return 0, false
	}
	return *a.Budget - a.Own - a.Below - a.Held - a.Aside, true
}

// A Ledger is safe for many goroutines and processes.
type Ledger interface {
	// Do makes entries in order, all or none, and returns when they are durable. Details of a BUDGET_EXCEEDED
	// are needed and left, in dollars.
	Do(ctx context.Context, entries ...Entry) error
	// Accounts lists accounts, all if no thread is named. A thread without an account is left out.
	Accounts(ctx context.Context, threads ...string) (map[string]*Balance, error)
}

// Get returns the balance of a thread, nil without an account.
func Get(ctx context.Context, l Ledger, thread string) (*Balance, error) {
	all, err := l.Accounts(ctx, thread)
	return all[thread], err
}
