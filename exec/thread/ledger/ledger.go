// Package ledger records the money of threads: their budgets, reservations and costs.
//
// # How a reservation goes through here
//
// The driver of a thread has an Account. Before a model call, Account.Reserve writes a Reserve entry with the
// Settle entries of the calls that ended since the last write, so that a turn costs one sync. Settle only records a
// call's cost in memory. End writes the rest and closes the account. Ledger.Do writes all entries of one call or
// none: the local ledger checks each against the accounts above it.
//
// # Accounts
//
// Each thread has an account, with a budget or without one. The rest of a budget is
//
//	budget - own - held - the amount set aside for each child
//
// own is the cost of the thread's model calls, and held the highest cost of its calls in flight, by call. An open
// child has its budget set aside, or what it has spent if that is more. A closed child has set aside what it has
// spent, and what is set aside for its own open children. A child without a budget, of a parent without one, has
// what it has spent. "below" is what all threads below have spent; own never includes it.
//
// A reservation beyond the rest is BUDGET_EXCEEDED, and so is a child's budget. The cost of a call is always
// recorded, even beyond the reservation or the budget: then nothing is left, for its parents either.
//
// Closing an account adds what is still held to own, because it is unknown whether those calls cost something. A
// resumed thread opens its account again, with another budget.
//
// Amounts are nano-dollars. Entries name the epoch of the thread (package roster). After an entry with a higher
// epoch, one with a lower epoch is CONFLICT.
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
// "carry" replaces all earlier entries of an account in a compacted book. Without "budget" an account has no bound.
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

// An Entry is a change of an account.
type Entry struct {
	Op     string    `json:"op"`
	Thread string    `json:"thread"`
	Epoch  int64     `json:"epoch"`
	Parent string    `json:"parent,omitempty"` // of a new account
	Budget *int64    `json:"budget,omitempty"` // of open: total that it may spend; nil: no bound
	Call   string    `json:"call,omitempty"`
	Amount int64     `json:"amount,omitzero"`
	Time   time.Time `json:"time,omitzero"`

	// For carry.
	Own    int64            `json:"own,omitzero"`
	Held   map[string]int64 `json:"held,omitempty"`
	Closed bool             `json:"closed,omitempty"`
}

// Open opens a new account, or a closed one again.
func Open(thread, parent string, epoch int64, budget *int64, at time.Time) Entry {
	return Entry{Op: OpOpen, Thread: thread, Parent: parent, Epoch: epoch, Budget: budget, Time: at.UTC().Round(0)}
}

// Reserve reserves the worst case of a call.
func Reserve(thread string, epoch int64, call string, amount int64) Entry {
	return Entry{Op: OpReserve, Thread: thread, Epoch: epoch, Call: call, Amount: amount}
}

// Settle replaces a call's reservation by its cost.
func Settle(thread string, epoch int64, call string, amount int64) Entry {
	return Entry{Op: OpSettle, Thread: thread, Epoch: epoch, Call: call, Amount: amount}
}

// Close closes an account.
func Close(thread string, epoch int64, at time.Time) Entry {
	return Entry{Op: OpClose, Thread: thread, Epoch: epoch, Time: at.UTC().Round(0)}
}

// A Balance is the state of a thread's account.
type Balance struct {
	Thread string
	Parent string
	Epoch  int64
	Budget *int64 // nil: no bound
	Own    int64  // spent by the thread itself
	Below  int64  // spent by all threads below it
	Held   int64  // reserved for its calls in flight
	Calls  map[string]int64
	Aside  int64 // set aside for open children beyond what they have spent
	Closed bool
	Time   time.Time // of the last open or close
}

// Spent returns what the thread and all threads below it have spent.
func (a *Balance) Spent() int64 { return a.Own + a.Below }

// Left returns what may still be reserved, negative after overspending. bound is false without a budget.
func (a *Balance) Left() (left int64, bound bool) {
	if a.Budget == nil {
		return 0, false
	}
	return *a.Budget - a.Own - a.Below - a.Held - a.Aside, true
}

// A Ledger has the accounts of threads. It is safe for concurrent use, also by many processes.
type Ledger interface {
	// Do writes entries in order, all or none, and returns when they are durable. A BUDGET_EXCEEDED has the details
	// needed and left, in dollars.
	Do(ctx context.Context, entries ...Entry) error
	// Accounts returns the accounts of threads, or all without threads. It leaves out threads without an account.
	Accounts(ctx context.Context, threads ...string) (map[string]*Balance, error)
}

// Get returns the balance of a thread, or nil without an account.
func Get(ctx context.Context, l Ledger, thread string) (*Balance, error) {
	all, err := l.Accounts(ctx, thread)
	return all[thread], err
}
