package ledger

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/rye-build/rye/cas/fault"
)

// An Account is the account from which a thread's driver spends. It writes costs with the next entries, so that a
// turn costs one sync.
type Account struct {
	ledger Ledger // nil while a record is only compared
	guard  func() (release func(), err error)
	thread string
	epoch  int64

	mu     sync.Mutex
	own    int64            // spent by the thread itself, as in the transcript
	below  int64            // spent by all threads below it
	booked int64            // the part of own that the ledger has
	held   map[string]int64 // reservations in the ledger by call; settled ones are still to be written
	open   map[string]bool  // calls in flight
}

// Attach opens the account with the balance of its thread. guard locks the thread for each write, unless another
// process has claimed it; it may be nil.
func (a *Account) Attach(l Ledger, b *Balance, guard func() (release func(), err error)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ledger, a.thread, a.epoch, a.booked, a.held, a.guard = l, b.Thread, b.Epoch, b.Own, b.Calls, guard
	a.open = map[string]bool{}
}

// late returns the entries for what was spent since the last write.
func (a *Account) late() (entries []Entry) {
	var settled []string
	for call := range a.held {
		if !a.open[call] {
			settled = append(settled, call)
		}
	}
	slices.Sort(settled)
	rest := max(0, a.own-a.booked)
	for i, call := range settled {
		amount := int64(0)
		if i == len(settled)-1 {
			amount, rest = rest, 0
		}
		entries = append(entries, Settle(a.thread, a.epoch, call, amount))
	}
	if rest > 0 {
		entries = append(entries, Settle(a.thread, a.epoch, "", rest))
	}
	return entries
}

// write writes entries after the late ones.
func (a *Account) write(ctx context.Context, more ...Entry) error {
	if a.ledger == nil {
		return nil
	}
	entries := append(a.late(), more...)
	if len(entries) == 0 {
		return nil
	}
	if a.guard != nil {
		release, err := a.guard()
		if err != nil {
			return err
		}
		defer release()
	}
	if err := a.ledger.Do(ctx, entries...); err != nil {
		return err
	}
	a.booked = max(a.booked, a.own)
	for call := range a.held {
		if !a.open[call] {
			delete(a.held, call)
		}
	}
	return nil
}

// Reserve reserves the worst case of a call. It returns BUDGET_EXCEEDED if less is left.
func (a *Account) Reserve(ctx context.Context, call string, worst int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ledger == nil || worst == 0 {
		return nil
	}
	if err := a.write(ctx, Reserve(a.thread, a.epoch, call, worst)); err != nil {
		return err
	}
	if a.held == nil {
		a.held = map[string]int64{}
	}
	a.held[call], a.open[call] = worst, true
	return nil
}

// Settle records the cost of a call.
func (a *Account) Settle(call string, cost int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.open, call)
	a.own += cost
}

// Child records what a child and the threads below it have spent.
func (a *Account) Child(cost int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.below += cost
}

// Spent returns what the thread and all threads below it have spent.
func (a *Account) Spent() (own, below int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.own, a.below
}

// Left returns what the thread may still give to children.
func (a *Account) Left(ctx context.Context) (int64, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.write(ctx); err != nil {
		return 0, err
	}
	return Left(ctx, a.ledger, a.thread)
}

// Left returns what a thread may still give to children, or the largest number without a budget.
func Left(ctx context.Context, l Ledger, thread string) (int64, error) {
	a, err := Get(ctx, l, thread)
	if err != nil {
		return 0, err
	}
	if a == nil {
		return 0, fault.New(fault.NotFound, "the thread %q has no account", thread)
	}
	left, bound := a.Left()
	if !bound {
		return math.MaxInt64, nil
	}
	return max(left, 0), nil
}

// Part opens an account with at most one part of the rest of the account above it. It tries again if another thread
// takes from the same budget meanwhile.
func Part(ctx context.Context, left func(context.Context) (int64, error), parts int64,
	open func(most int64) error) error {
	const tries = 100
	for try := 0; ; try++ {
		most, err := left(ctx)
		if err != nil {
			return err
		}
		if most != math.MaxInt64 {
			most /= max(parts, 1)
		}
		if err := open(most); !IsShort(err) || try == tries {
			return err
		}
	}
}

// End writes the late entries, and with closes also closes the account of a thread that never continues.
func (a *Account) End(ctx context.Context, closes bool, at time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.open)
	if closes {
		return a.write(ctx, Close(a.thread, a.epoch, at))
	}
	return a.write(ctx)
}
