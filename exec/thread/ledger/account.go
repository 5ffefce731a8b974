package ledger

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/rye-build/rye/cas/fault"
)

// A Purse is the account of a thread in the ledger, as its driver uses it. What was spent is written with what comes
// next, so that a turn costs one sync.
type Purse struct {
	ledger Ledger // nil while a record is only compared
	guard  func() (release func(), err error)
	thread string
	epoch  int64

	mu     sync.Mutex
	own    int64            // Spent by the thread itself, as the transcript has it
	below  int64            // by its children and theirs
	booked int64            // of own, what the ledger has
	held   map[string]int64 // reserved in the ledger, by calls: those that are settled are to be written
	open   map[string]bool  // calls in flight
}

// Attach makes an account, or that of a thread that goes on, the purse's. guard locks the thread for each write,
// unless another process has claimed it; nil for none.
func (p *Purse) Attach(l Ledger, a *Account, guard func() (release func(), err error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ledger, p.thread, p.epoch, p.booked, p.held, p.guard = l, a.Thread, a.Epoch, a.Own, a.Calls, guard
}

// late are the entries for what was spent since the last ones.
func (p *Purse) late() (entries []Entry) {
	var settled []string
	for call := range p.held {
		if !p.open[call] {
			settled = append(settled, call)
		}
	}
	slices.Sort(settled)
	rest := max(0, p.own-p.booked)
	for i, call := range settled {
		amount := int64(0)
		if i == len(settled)-1 {
			amount, rest = rest, 0
		}
		entries = append(entries, Settle(p.thread, p.epoch, call, amount))
	}
	if rest > 0 {
		entries = append(entries, Settle(p.thread, p.epoch, "", rest))
	}
	return entries
}

// write makes entries, those that are late first.
func (p *Purse) write(ctx context.Context, more ...Entry) error {
	if p.ledger == nil {
		return nil
	}
	entries := append(p.late(), more...)
	if len(entries) == 0 {
		return nil
	}
	if p.guard != nil {
		release, err := p.guard()
		if err != nil {
			return err
		}
		defer release()
	}
	if err := p.ledger.Do(ctx, entries...); err != nil {
		return err
	}
	p.booked = max(p.booked, p.own)
	for call := range p.held {
		if !p.open[call] {
			delete(p.held, call)
		}
	}
	return nil
}

// Reserve sets the worst case of a call aside: BUDGET_EXCEEDED if there isn't so much left.
func (p *Purse) Reserve(ctx context.Context, call string, worst int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ledger == nil || worst == 0 {
		return nil
	}
	if err := p.write(ctx, Reserve(p.thread, p.epoch, call, worst)); err != nil {
		return err
	}
	if p.held == nil {
		p.held = map[string]int64{}
	}
	if p.open == nil {
		p.open = map[string]bool{}
	}
	p.held[call], p.open[call] = worst, true
	return nil
}

// Settle says what a call has cost.
func (p *Purse) Settle(call string, cost int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, call)
	p.own += cost
}

// Child says what a child and those below it have spent.
func (p *Purse) Child(cost int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.below += cost
}

// Spent is what the thread and those below it have spent.
func (p *Purse) Spent() (own, below int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.own, p.below
}

// Left is what the thread may still give to children.
func (p *Purse) Left(ctx context.Context) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.write(ctx); err != nil {
		return 0, err
	}
	return Left(ctx, p.ledger, p.thread)
}

// Left is what a thread may still give to children, the largest number if it has no budget.
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

// Part has an account opened with at most one part, of as many as there are, of what is left of the one above it.
// Others may take from the same budget at once.
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

// End writes what is late, and closes the account of a thread that never goes on.
func (p *Purse) End(ctx context.Context, closes bool, at time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.open)
	if closes {
		return p.write(ctx, Close(p.thread, p.epoch, at))
	}
	return p.write(ctx)
}
