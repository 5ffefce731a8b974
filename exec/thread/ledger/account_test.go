package ledger_test

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/ledger"
)

// TestLostCall: what the ledger has charged for a call that the transcript lost is charged once. A thread that is
// resumed would pay for it again with each further call, and come to the end of its budget early.
func TestLostCall(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "ledger"))
	budget := int64(1000)
	must(t, l.Do(t.Context(), ledger.Open("x", "", 1, &budget, noon), ledger.Reserve("x", 1, "1.1", 40),
		ledger.Settle("x", 1, "1.1", 40), ledger.Reserve("x", 1, "2.1", 100)))
	must(t, l.Do(t.Context(), ledger.Close("x", 1, noon), ledger.Open("x", "", 2, &budget, noon)))
	b, err := ledger.Get(t.Context(), l, "x")
	must(t, err)
	if b.Own != 140 {
		t.Fatalf("the ledger has %d", b.Own)
	}
	var a ledger.Account
	a.Attach(l, b, nil)
	a.Settle("1.1", 40) // that the transcript knows
	want := int64(140)  // the ledger has the worst case of the lost call
	for i, call := range []string{"3.1", "4.1", "5.1"} {
		must(t, a.Reserve(t.Context(), call, 100))
		a.Settle(call, 60)
		must(t, a.End(t.Context(), false, noon))
		b, err := ledger.Get(t.Context(), l, "x")
		must(t, err)
		if want = max(want, 40+60*int64(i+1)); b.Own != want || b.Held != 0 {
			t.Errorf("after %s: %d is charged, %d is held, want %d", call, b.Own, b.Held, want)
		}
	}
}

// attached is the account of a new thread with a budget.
func attached(t testing.TB, l ledger.Ledger, budget int64, guard func() (func(), error)) *ledger.Account {
	must(t, l.Do(t.Context(), ledger.Open("x", "", 1, &budget, noon)))
	a := new(ledger.Account)
	a.Attach(l, &ledger.Balance{Thread: "x", Epoch: 1}, guard)
	return a
}

// TestParallelCalls: each of a thread's calls in flight is held until it is settled, and not longer. A call that isn't
// held lets the thread spend its budget twice; one that stays held takes money that was never spent.
func TestParallelCalls(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "ledger"))
	a := attached(t, l, 100, nil)
	check := func(held, own int64) {
		t.Helper()
		if b, err := ledger.Get(t.Context(), l, "x"); err != nil || b.Held != held || b.Own != own {
			t.Errorf("%+v, %v, want %d held and %d spent", b, err, held, own)
		}
	}
	must(t, a.Reserve(t.Context(), "1.1", 40))
	must(t, a.Reserve(t.Context(), "1.2", 30))
	check(70, 0)
	if err := a.Reserve(t.Context(), "1.3", 31); !ledger.IsShort(err) {
		t.Errorf("31 of 30 are reserved: %v", err)
	}
	must(t, a.Reserve(t.Context(), "free", 0))
	a.Settle("1.1", 10)
	must(t, a.Reserve(t.Context(), "1.4", 60))
	check(90, 10)
	a.Settle("1.2", 5)
	a.Settle("1.4", 20)
	if left, err := a.Left(t.Context()); left != 65 || err != nil {
		t.Errorf("%d left for children, %v", left, err)
	}
	check(0, 35)
	a.Child(7)
	if own, below := a.Spent(); own != 35 || below != 7 {
		t.Errorf("%d and %d spent", own, below)
	}
	// The request of this call is never sent.
	must(t, a.Reserve(t.Context(), "2.1", 65))
	must(t, a.End(t.Context(), true, noon))
	check(0, 35)
	if b, err := ledger.Get(t.Context(), l, "x"); err != nil || !b.Closed {
		t.Errorf("%+v, %v", b, err)
	}
}

// A counter counts the entries written to a ledger.
type counter struct {
	ledger.Ledger
	entries int
}

func (c *counter) Do(ctx context.Context, entries ...ledger.Entry) error {
	c.entries += len(entries)
	return c.Ledger.Do(ctx, entries...)
}

// TestTurnsEntries: each turn writes two entries, and none is repeated. Otherwise a long thread becomes slower with
// each turn.
func TestTurnsEntries(t *testing.T) {
	c := &counter{Ledger: open(t, filepath.Join(t.TempDir(), "ledger"))}
	a := attached(t, c, 100, nil)
	c.entries = 0
	for range 3 {
		must(t, a.Reserve(t.Context(), "free", 0))
		must(t, a.Reserve(t.Context(), "1", 9))
		a.Settle("1", 2)
	}
	if c.entries != 5 {
		t.Errorf("%d entries before the last settlement", c.entries)
	}
	for range 2 {
		must(t, a.End(t.Context(), false, noon))
	}
	if c.entries != 6 {
		t.Errorf("%d entries", c.entries)
	}
}

// TestUnlimited: what a thread without a spend limit has spent is recorded, although nothing was reserved. Otherwise
// it is missing in the costs of the threads above. A record that is only compared costs nothing.
func TestUnlimited(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "ledger"))
	a := attached(t, l, 100, nil)
	a.Settle("1", 5)
	must(t, a.End(t.Context(), false, noon))
	if b, err := ledger.Get(t.Context(), l, "x"); err != nil || b.Own != 5 {
		t.Errorf("%+v, %v", b, err)
	}
	var compared ledger.Account
	must(t, compared.Reserve(t.Context(), "1", 5))
	compared.Settle("1", 5)
	must(t, compared.End(t.Context(), true, noon))
}

// TestGuarded: a driver that another process has replaced writes nothing, and what it writes is guarded.
func TestGuarded(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "ledger"))
	var replaced error
	entered, left := 0, 0
	a := attached(t, l, 100, func() (func(), error) {
		entered++
		return func() { left++ }, replaced
	})
	must(t, a.Reserve(t.Context(), "1", 9))
	if entered != 1 || left != 1 {
		t.Errorf("entered %d times, left %d times", entered, left)
	}
	replaced = errors.New("replaced")
	if err := a.Reserve(t.Context(), "2", 9); !errors.Is(err, replaced) {
		t.Error(err)
	}
	if _, err := a.Left(t.Context()); err != nil {
		t.Errorf("there is nothing to write: %v", err)
	}
	a.Settle("1", 3)
	if _, err := a.Left(t.Context()); !errors.Is(err, replaced) {
		t.Errorf("the rest is shown before the costs are written: %v", err)
	}
	// The thread must not end as if its costs were written.
	for _, closes := range []bool{false, true} {
		if err := a.End(t.Context(), closes, noon); !errors.Is(err, replaced) {
			t.Errorf("ended, closing %t: %v", closes, err)
		}
	}
	if b, err := ledger.Get(t.Context(), l, "x"); err != nil || b.Held != 9 || b.Own != 0 {
		t.Errorf("%+v, %v", b, err)
	}
}

// TestLeft: a thread gives children what its budget has left, at least nothing, and without a budget any amount.
func TestLeft(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "ledger"))
	budget := int64(100)
	must(t, l.Do(t.Context(), ledger.Open("x", "", 1, &budget, noon), ledger.Open("free", "", 1, nil, noon),
		ledger.Open("over", "", 1, &budget, noon), ledger.Settle("x", 1, "", 30), ledger.Settle("over", 1, "", 130)))
	for thread, want := range map[string]int64{"x": 70, "over": 0, "free": math.MaxInt64} {
		if left, err := ledger.Left(t.Context(), l, thread); left != want || err != nil {
			t.Errorf("%s: %d, %v", thread, left, err)
		}
	}
	if _, err := ledger.Left(t.Context(), l, "none"); fault.CodeOf(err) != fault.NotFound {
		t.Error(err)
	}
}

// TestPart: children that start at once share what is left, and one that comes too late tries again. Without that, one
// of two children of a thread fails with half of its budget unspent.
func TestPart(t *testing.T) {
	short := fault.New(fault.Budget, "short")
	other := errors.New("other")
	for name, c := range map[string]struct {
		left, parts, most int64
		fails             []error
		calls             int
		err               error
	}{
		"one of three":       {left: 90, parts: 3, most: 30, calls: 1},
		"no number of parts": {left: 90, parts: 0, most: 90, calls: 1},
		"without a budget":   {left: math.MaxInt64, parts: 3, most: math.MaxInt64, calls: 1},
		"taken meanwhile":    {left: 90, parts: 1, most: 90, fails: []error{short, short, nil}, calls: 3},
		"another error":      {left: 90, parts: 1, most: 90, fails: []error{other, nil}, calls: 1, err: other},
	} {
		calls := 0
		err := ledger.Part(t.Context(), func(context.Context) (int64, error) { return c.left, nil }, c.parts,
			func(most int64) error {
				if most != c.most {
					t.Errorf("%s: at most %d", name, most)
				}
				if calls++; calls <= len(c.fails) {
					return c.fails[calls-1]
				}
				return nil
			})
		if !errors.Is(err, c.err) || calls != c.calls {
			t.Errorf("%s: %v after %d calls", name, err, calls)
		}
	}
	calls := 0
	err := ledger.Part(t.Context(), func(context.Context) (int64, error) { return 1, nil }, 1, func(int64) error {
		calls++
		return short
	})
	if !errors.Is(err, short) || calls < 10 || calls > 1000 {
		t.Errorf("%v after %d calls", err, calls)
	}
	if err := ledger.Part(t.Context(), func(context.Context) (int64, error) { return 0, other }, 1, func(int64) error {
		t.Error("opened without knowing what is left")
		return nil
	}); !errors.Is(err, other) {
		t.Error(err)
	}
}

// TestRest: a successor gets what its thread hasn't spent, and no more after an overspending. A thread that handed its
// rest over keeps what its calls in flight may cost; otherwise both would spend it.
func TestRest(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "ledger"))
	n := func(n int64) *int64 { return &n }
	must(t, l.Do(t.Context(), ledger.Open("x", "", 1, n(100), noon), ledger.Settle("x", 1, "", 30),
		ledger.Reserve("x", 1, "1", 20)))
	for name, c := range map[string]struct {
		thread            string
		budget, all, rest *int64
		handed            bool
	}{
		"half spent":        {thread: "x", budget: n(100), all: n(100), rest: n(70)},
		"overspent":         {thread: "x", budget: n(10), all: n(10), rest: n(0)},
		"handed over":       {thread: "x", budget: n(100), all: n(50), rest: n(20), handed: true},
		"without a budget":  {thread: "x"},
		"without anything":  {thread: "none", budget: n(9), all: n(9), rest: n(9)},
		"none, handed over": {thread: "none", budget: n(9), all: n(0), rest: n(0), handed: true},
	} {
		all, rest, err := ledger.Rest(t.Context(), l, c.thread, c.budget, c.handed)
		if err != nil || (all == nil) != (c.all == nil) || all != nil && (*all != *c.all || *rest != *c.rest) {
			t.Errorf("%s: %v, %v, %v", name, all, rest, err)
		}
	}
}
