// Package ledgertest tests an implementation of ledger.Ledger.
package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/journal/journaltest"
	"github.com/rye-build/rye/exec/thread/ledger"
)

// Test runs every check. make makes an empty world, and returns a function that opens its ledger as another process
// would.
func Test(t *testing.T, make func(t testing.TB) func(testing.TB) ledger.Ledger) {
	for name, check := range map[string]func(*testing.T, func(testing.TB) ledger.Ledger){
		"one": one, "children": children, "overspent": overspent, "epochs": epochs, "refused": refuses,
		"together": together, "any": anyOrder,
	} {
		t.Run(name, func(t *testing.T) { check(t, make(t)) })
	}
}

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

var must, refused = journaltest.Must, journaltest.Refused

func budget(n int64) *int64 { return &n }

func account(t testing.TB, l ledger.Ledger, id string) *ledger.Balance {
	t.Helper()
	a, err := ledger.Get(t.Context(), l, id)
	must(t, err)
	if a == nil {
		t.Fatalf("%s has no account", id)
	}
	return a
}

func left(t testing.TB, l ledger.Ledger, id string, want int64) {
	t.Helper()
	if got, bound := account(t, l, id).Left(); got != want || !bound {
		t.Errorf("%s has %d left, want %d: %+v", id, got, want, account(t, l, id))
	}
}

// one checks that reservations are exact and that a settlement replaces its reservation.
func one(t *testing.T, open func(testing.TB) ledger.Ledger) {
	ctx, first, second := t.Context(), open(t), open(t)
	if got, err := ledger.Get(ctx, first, "x"); got != nil || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	must(t, first.Do(ctx, ledger.Open("x", "", 1, budget(100), noon)))
	refused(t, fault.Budget, second.Do(ctx, ledger.Reserve("x", 1, "1", 101)))
	must(t, second.Do(ctx, ledger.Reserve("x", 1, "1", 100)))
	left(t, first, "x", 0)
	refused(t, fault.Conflict, first.Do(ctx, ledger.Reserve("x", 1, "1", 0)))
	// All or none: the failed settlement leaves the reservation.
	refused(t, fault.Budget, first.Do(ctx, ledger.Settle("x", 1, "1", 30), ledger.Reserve("x", 1, "2", 71)))
	left(t, second, "x", 0)
	must(t, first.Do(ctx, ledger.Settle("x", 1, "1", 30), ledger.Reserve("x", 1, "2", 70)))
	left(t, second, "x", 0)
	must(t, second.Do(ctx, ledger.Close("x", 1, noon)))
	if got := account(t, first, "x"); got.Own != 100 || got.Held != 0 || !got.Closed || got.Spent() != 100 {
		t.Errorf("%+v", got)
	}
	refused(t, fault.Conflict, first.Do(ctx, ledger.Reserve("x", 1, "3", 0)))
	refused(t, fault.Conflict, first.Do(ctx, ledger.Settle("x", 1, "3", 0)))
	must(t, first.Do(ctx, ledger.Open("x", "", 2, budget(150), noon)))
	left(t, second, "x", 50)
	must(t, first.Do(ctx, ledger.Open("y", "", 1, nil, noon), ledger.Reserve("y", 1, "1", 1<<50),
		ledger.Settle("y", 1, "1", 7)))
	if got := account(t, second, "y"); got.Own != 7 || got.Budget != nil {
		t.Errorf("%+v", got)
	}
	if all, err := first.Accounts(ctx, "y", "none"); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
	// A thread whose first entries are refused has no account, for this process neither.
	refused(t, fault.Budget, first.Do(ctx, ledger.Open("z", "", 1, budget(1), noon), ledger.Reserve("z", 1, "1", 2)))
	for _, l := range []ledger.Ledger{first, second} {
		if got, err := ledger.Get(ctx, l, "z"); got != nil || err != nil {
			t.Errorf("%+v, %v", got, err)
		}
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := first.Accounts(over); !errors.Is(err, context.Canceled) {
		t.Errorf("after its context has ended: %v", err)
	}
}

// children checks that budgets are set aside in all accounts above, and that unspent money returns.
func children(t *testing.T, open func(testing.TB) ledger.Ledger) {
	ctx, first, second := t.Context(), open(t), open(t)
	must(t, first.Do(ctx, ledger.Open("x", "", 1, budget(100), noon), ledger.Reserve("x", 1, "1", 10)))
	refused(t, fault.Budget, second.Do(ctx, ledger.Open("c", "x", 1, budget(91), noon)))
	refused(t, fault.Budget, second.Do(ctx, ledger.Open("c", "x", 1, nil, noon)))
	must(t, second.Do(ctx, ledger.Open("c", "x", 1, budget(60), noon)))
	left(t, first, "x", 30)
	must(t, first.Do(ctx, ledger.Open("d", "c", 1, budget(50), noon)))
	left(t, second, "c", 10)
	must(t, first.Do(ctx, ledger.Reserve("d", 1, "1", 40), ledger.Settle("d", 1, "1", 20)))
	left(t, second, "x", 30)
	left(t, second, "c", 10)
	must(t, first.Do(ctx, ledger.Close("d", 1, noon)))
	left(t, second, "c", 40)
	left(t, second, "x", 30)
	must(t, first.Do(ctx, ledger.Reserve("c", 1, "1", 5), ledger.Settle("c", 1, "1", 5), ledger.Close("c", 1, noon)))
	left(t, second, "x", 65)
	x, c := account(t, second, "x"), account(t, second, "c")
	if x.Own != 0 || x.Below != 25 || c.Own != 5 || c.Below != 20 || c.Parent != "x" {
		t.Errorf("%+v, %+v", x, c)
	}
	// A child that outlives its parent keeps what was set aside for it.
	must(t, first.Do(ctx, ledger.Open("c", "x", 2, budget(60), noon), ledger.Open("e", "c", 1, budget(30), noon),
		ledger.Close("c", 2, noon)))
	left(t, second, "x", 35)
	refused(t, fault.Budget, second.Do(ctx, ledger.Reserve("x", 1, "9", 36)))
	must(t, first.Do(ctx, ledger.Reserve("e", 1, "1", 30), ledger.Settle("e", 1, "1", 10), ledger.Close("e", 1, noon)))
	left(t, second, "x", 55)
	// An account that is opened again needs what it may still spend.
	refused(t, fault.Budget, first.Do(ctx, ledger.Open("c", "x", 3, budget(91), noon)))
	must(t, first.Do(ctx, ledger.Open("c", "x", 3, budget(90), noon)))
	left(t, second, "x", 0)
	left(t, second, "c", 55)
	// What an open account has set aside already counts when it is opened again with another budget.
	must(t, first.Do(ctx, ledger.Open("c", "x", 4, budget(80), noon)))
	left(t, second, "x", 10)
	must(t, first.Do(ctx, ledger.Open("c", "x", 5, budget(90), noon)))
	needs(t, first.Do(ctx, ledger.Open("c", "x", 5, budget(91), noon)), 56e-9, 55e-9)
	// A call in flight may still cost what is reserved, although its thread's budget was lowered.
	must(t, first.Do(ctx, ledger.Reserve("c", 5, "1", 50), ledger.Open("c", "x", 6, budget(40), noon)))
	left(t, second, "x", 5)
	// Without a bound above, a child needs none.
	must(t, first.Do(ctx, ledger.Open("free", "", 1, nil, noon), ledger.Open("f", "free", 1, nil, noon),
		ledger.Open("g", "free", 1, budget(7), noon), ledger.Reserve("f", 1, "1", 1<<50)))
	// Its bound is the one that the account above gets later.
	must(t, first.Do(ctx, ledger.Settle("f", 1, "1", 0), ledger.Open("free", "", 2, budget(2e9), noon)))
	needs(t, first.Do(ctx, ledger.Reserve("f", 1, "2", 3e9)), 3, 2-7e-9)
}

// needs wants the refusal of an amount beyond what is left, both in dollars.
func needs(t testing.TB, err error, needed, left float64) {
	t.Helper()
	refused(t, fault.Budget, err)
	if d := fault.Of(err).Details; d["needed"] != needed || d["left"] != left ||
		!strings.Contains(err.Error(), fmt.Sprintf("$%.6f", needed)) ||
		!strings.Contains(err.Error(), fmt.Sprintf("$%.6f left", left)) {
		t.Errorf("%v: %v, want %g and %g", err, d, needed, left)
	}
}

// overspent checks that any cost is recorded, and that no account above can spend it again.
func overspent(t *testing.T, open func(testing.TB) ledger.Ledger) {
	ctx, a := t.Context(), open(t)
	must(t, a.Do(ctx, ledger.Open("x", "", 1, budget(100), noon), ledger.Open("c", "x", 1, budget(50), noon),
		ledger.Reserve("c", 1, "1", 50)))
	must(t, a.Do(ctx, ledger.Settle("c", 1, "1", 120)))
	left(t, a, "c", -70)
	left(t, a, "x", -20)
	needs(t, a.Do(ctx, ledger.Reserve("c", 1, "2", 1)), 1e-9, 0)
	refused(t, fault.Budget, a.Do(ctx, ledger.Reserve("x", 1, "2", 1)))
	must(t, a.Do(ctx, ledger.Close("c", 1, noon)))
	left(t, a, "x", -20)
	if x := account(t, a, "x"); x.Below != 120 || x.Own != 0 {
		t.Errorf("%+v", x)
	}
}

// epochs checks that a replaced driver can't spend any more.
func epochs(t *testing.T, open func(testing.TB) ledger.Ledger) {
	ctx, a := t.Context(), open(t)
	must(t, a.Do(ctx, ledger.Open("x", "", 1, budget(100), noon), ledger.Reserve("x", 1, "1", 10)))
	must(t, a.Do(ctx, ledger.Open("x", "", 2, budget(100), noon)))
	for _, e := range []ledger.Entry{ledger.Reserve("x", 1, "2", 1), ledger.Settle("x", 1, "1", 1),
		ledger.Close("x", 1, noon), ledger.Open("x", "", 1, nil, noon)} {
		refused(t, fault.Conflict, a.Do(ctx, e))
	}
	left(t, a, "x", 90)
	must(t, a.Do(ctx, ledger.Settle("x", 2, "1", 10)))
}

// refuses checks invalid entries.
func refuses(t *testing.T, open func(testing.TB) ledger.Ledger) {
	ctx, accounts := t.Context(), open(t)
	const most = 1 << 60 // an amount
	must(t, accounts.Do(ctx, ledger.Open("x", "", 1, budget(100), noon), ledger.Open("z", "", 1, budget(0), noon),
		ledger.Open("free", "", 1, nil, noon), ledger.Open("full", "", 1, budget(most), noon),
		ledger.Settle("full", 1, "", most)))
	for _, row := range []struct {
		e    ledger.Entry
		code fault.Code
	}{
		{ledger.Reserve("x", 1, "1", -1), fault.Validation}, {ledger.Reserve("", 1, "1", 1), fault.Validation},
		{ledger.Settle("x", 1, "1", -5), fault.Validation}, {ledger.Settle("x", 1, "1", 1<<61), fault.Validation},
		{ledger.Open("y", "", 1, budget(-1), noon), fault.Validation},
		{ledger.Open("y", "none", 1, budget(1), noon), fault.NotFound},
		{ledger.Reserve("none", 1, "1", 1), fault.NotFound}, {ledger.Close("none", 1, noon), fault.NotFound},
		{ledger.Open("x", "z", 1, budget(1), noon), fault.Conflict},
		{ledger.Entry{Op: "steal", Thread: "x", Epoch: 1}, fault.Validation},
		{ledger.Reserve("z", 1, "1", 1), fault.Budget},
		{ledger.Reserve("x", 1, "", 1), fault.Conflict},
		{ledger.Reserve("free", 1, "1", most+1), fault.Validation},
		{ledger.Open("y", "", 1, budget(most+1), noon), fault.Validation},
		{ledger.Open("y", "", -1, budget(1), noon), fault.Validation},
		{ledger.Settle("full", 1, "", 1), fault.Validation},
		{ledger.Entry{Op: "carry", Thread: "x", Epoch: 2}, fault.Conflict},
	} {
		refused(t, row.code, accounts.Do(ctx, row.e))
	}
	must(t, accounts.Do(ctx, ledger.Close("z", 1, noon)))
	refused(t, fault.Conflict, accounts.Do(ctx, ledger.Open("y", "z", 1, budget(0), noon)))
	all, err := accounts.Accounts(ctx)
	must(t, err)
	if len(all) != 4 {
		t.Errorf("%v", all)
	}
}

// together checks that parallel spenders never spend more than the budget.
func together(t *testing.T, open func(testing.TB) ledger.Ledger) {
	ctx, first := t.Context(), open(t)
	must(t, first.Do(ctx, ledger.Open("x", "", 1, budget(1000), noon)))
	var mu sync.Mutex
	var group sync.WaitGroup
	var spent int64
	for i := range 16 {
		accounts := first
		if i%4 == 0 {
			accounts = open(t)
		}
		group.Go(func() {
			child := fmt.Sprint("c", i)
			if accounts.Do(ctx, ledger.Open(child, "x", 1, budget(150), noon)) != nil {
				return
			}
			for n := range 20 {
				call := fmt.Sprint(n)
				if accounts.Do(ctx, ledger.Reserve(child, 1, call, 40)) != nil {
					continue
				}
				must(t, accounts.Do(ctx, ledger.Settle(child, 1, call, 35)))
				mu.Lock()
				spent += 35
				mu.Unlock()
			}
			must(t, accounts.Do(ctx, ledger.Close(child, 1, noon)))
		})
	}
	group.Wait()
	x := account(t, first, "x")
	if x.Below != spent || spent > 1000 || spent < 6*140 || x.Aside != 0 {
		t.Errorf("spent %d, %+v", spent, x)
	}
}

// A model is a simple second implementation of a ledger. It stores no sums.
type model struct{ all map[string]*node }

type node struct {
	parent string
	budget int64
	own    int64
	held   map[string]int64
	closed bool
}

func (m *model) children(id string, visit func(string, *node)) {
	for name, n := range m.all {
		if n.parent == id {
			visit(name, n)
		}
	}
}

func (m *model) spent(id string) int64 {
	sum := m.all[id].own
	m.children(id, func(name string, _ *node) { sum += m.spent(name) })
	return sum
}

func (m *model) held(id string) (sum int64) {
	for _, n := range m.all[id].held {
		sum += n
	}
	return sum
}

func (m *model) left(id string) int64 {
	n := m.all[id]
	left := n.budget - n.own - m.held(id)
	m.children(id, func(name string, c *node) { left -= m.spent(name) + m.aside(name) })
	return left
}

// aside returns what an account sets aside beyond the spent amount: the rest of its budget while it is open, and at
// least what it and its children have set aside.
func (m *model) aside(id string) int64 {
	n := m.all[id]
	rest := m.held(id)
	m.children(id, func(name string, _ *node) { rest += m.aside(name) })
	if n.closed {
		return rest
	}
	return max(rest, n.budget-m.spent(id))
}

// anyOrder makes random entries, and compares the rest with the model after each. Settlements never exceed
// reservations here, so no account is overspent.
func anyOrder(t *testing.T, open func(testing.TB) ledger.Ledger) {
	ctx, accounts := t.Context(), open(t)
	random := rand.New(rand.NewPCG(7, 11))
	model := &model{all: map[string]*node{}}
	names := []string{"a", "b", "c", "d", "e", "f"}
	for range 1500 {
		name, parent, call := names[random.IntN(len(names))], names[random.IntN(len(names))],
			fmt.Sprint(random.IntN(3))
		amount := random.Int64N(60)
		n := model.all[name]
		switch random.IntN(5) {
		case 0:
			if n != nil {
				parent = n.parent
			} else if model.all[parent] == nil {
				parent = ""
			}
			e := ledger.Open(name, parent, 1, budget(amount*4), noon)
			may := parent == "" || !model.all[parent].closed && (n == nil || n.closed) &&
				amount*4-spentOf(model, name) <= model.left(parent)
			if parent != "" && n != nil && !n.closed {
				continue // an open account's own surplus is another case
			}
			if err := accounts.Do(ctx, e); (err == nil) != may {
				t.Fatalf("%+v: %v, %v", e, err, may)
			}
			if may {
				if n == nil {
					n = &node{parent: parent, held: map[string]int64{}}
					model.all[name] = n
				}
				n.budget, n.closed = amount*4, false
			}
		case 1, 2:
			if n == nil || n.closed {
				continue
			}
			_, taken := n.held[call]
			may := !taken && amount <= model.left(name)
			if err := accounts.Do(ctx, ledger.Reserve(name, 1, call, amount)); (err == nil) != may {
				t.Fatalf("reserve %d of %d for %s: %v", amount, model.left(name), name, err)
			}
			if may {
				n.held[call] = amount
			}
		case 3:
			if n == nil || n.closed {
				continue
			}
			held, ok := n.held[call]
			if !ok {
				continue
			}
			cost := min(amount, held)
			must(t, accounts.Do(ctx, ledger.Settle(name, 1, call, cost)))
			delete(n.held, call)
			n.own += cost
		case 4:
			if n == nil || random.IntN(4) > 0 {
				continue
			}
			must(t, accounts.Do(ctx, ledger.Close(name, 1, noon)))
			n.own += model.held(name)
			n.held, n.closed = map[string]int64{}, true
		}
		for id := range model.all {
			left(t, accounts, id, model.left(id))
			if got := account(t, accounts, id); got.Spent() != model.spent(id) || got.Own != model.all[id].own {
				t.Fatalf("%s: %+v, want %d", id, got, model.spent(id))
			}
		}
		if t.Failed() {
			t.FailNow()
		}
	}
}

func spentOf(m *model, name string) int64 {
	if m.all[name] == nil {
		return 0
	}
	return m.spent(name)
}
