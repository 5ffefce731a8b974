package ledger

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rye-build/rye/cas/fault"
)

// Above are accounts that OpenAbove opened again, the highest first.
type Above []*Balance

// OpenAbove opens a closed account and those above it again, as far as a child needs them to spend the rest of its
// budget; nil is no bound. No budget grows. Opened accounts are returned with an error, too.
func OpenAbove(ctx context.Context, ledger Ledger, thread string, rest *int64, at time.Time) (opened Above,
	err error) {
	balance, err := Get(ctx, ledger, thread)
	if err != nil || balance == nil || !balance.Closed {
		return nil, err
	}
	if opened, err = OpenAbove(ctx, ledger, balance.Parent, rest, at); err != nil {
		return opened, err
	}
	budget := balance.Budget
	if budget != nil && rest != nil {
		most := min(*budget, balance.Spent()+*rest)
		budget = &most
	}
	if err := ledger.Do(ctx, Open(thread, balance.Parent, balance.Epoch, budget, at)); err != nil {
		return opened, err
	}
	return append(opened, balance), nil
}

// Close closes the accounts again, the lowest first. It leaves an account that another process has opened
// meanwhile.
func (o Above) Close(ctx context.Context, l Ledger, at time.Time) error {
	var errs []error
	for _, a := range slices.Backward(o) {
		if err := l.Do(ctx, Close(a.Thread, a.Epoch, at)); err != nil && fault.CodeOf(err) != fault.Conflict {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Rest returns what a thread may spend in total, and how much of that it hasn't spent. budget may be nil. handed
// means that the thread has handed over its rest: it then keeps only the reservations of its calls.
func Rest(ctx context.Context, l Ledger, thread string, budget *int64, handed bool) (all, rest *int64, err error) {
	a, err := Get(ctx, l, thread)
	if err != nil {
		return nil, nil, err
	}
	var spent, held int64
	if a != nil {
		spent, held = a.Spent(), a.Held
	}
	if handed {
		spent := spent + held
		budget = &spent
	}
	if budget == nil {
		return nil, nil, nil
	}
	left := max(*budget-spent, 0)
	return budget, &left, nil
}
