package ledger_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/journal"
	"github.com/rye-build/rye/cas/journal/journaltest"
	"github.com/rye-build/rye/exec/thread/ledger"
	"github.com/rye-build/rye/exec/thread/ledger/ledgertest"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

var must = journaltest.Must

func open(t testing.TB, path string) *ledger.Local {
	l := ledger.In(path, nil)
	t.Cleanup(func() { l.Shut() })
	return l
}

func TestLocal(t *testing.T) {
	ledgertest.Test(t, func(t testing.TB) func(testing.TB) ledger.Ledger {
		path := filepath.Join(t.TempDir(), "threads", "ledger")
		return func(t testing.TB) ledger.Ledger { return open(t, path) }
	})
}

// TestFormat: the bytes of a ledger, forever.
func TestFormat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	l := open(t, path)
	const plan, step = "acme/plan-1795000000-a2b3c", "acme/step-1795000001-k3v9q"
	one, part := int64(1_000_000_000), int64(200_000_000)
	must(t, l.Do(t.Context(), ledger.Open(plan, "", 1, &one, noon)))
	must(t, l.Do(t.Context(), ledger.Open(step, plan, 1, &part, noon)))
	must(t, l.Do(t.Context(), ledger.Reserve(step, 1, "1.1", 12_000_000)))
	must(t, l.Do(t.Context(), ledger.Settle(step, 1, "1.1", 3_400_000), ledger.Close(step, 1, noon)))
	journaltest.Golden(t, path, filepath.Join("../../../testdata/vectors/exec/thread/ledger", "ledger"))
}

// TestShorter: a ledger that has grown is made shorter, and says the same, to those who have it open too.
func TestShorter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	a, b := open(t, path), open(t, path)
	all := int64(1 << 40)
	must(t, a.Do(t.Context(), ledger.Open("x", "", 1, &all, noon), ledger.Open("c", "x", 3, &all, noon),
		ledger.Open("old", "", 1, &all, noon), ledger.Close("old", 1, noon)))
	entries := make([]ledger.Entry, 0, 200)
	var size int64
	for n := 0; ; n++ {
		entries = entries[:0]
		for i := range 100 {
			call := fmt.Sprintf("%d.%d", n, i)
			entries = append(entries, ledger.Reserve("c", 3, call, 5), ledger.Settle("c", 3, call, 1))
		}
		must(t, a.Do(t.Context(), entries...))
		info, err := os.Stat(path)
		must(t, err)
		if info.Size() < size {
			break
		}
		if size = info.Size(); n > 100 {
			t.Fatal("it is never made shorter")
		}
		if n == 1 {
			must(t, b.Do(t.Context(), ledger.Reserve("c", 3, "last", 9)))
		}
	}
	must(t, a.Do(t.Context(), ledger.Settle("c", 3, "last", 2)))
	for _, l := range []*ledger.Local{a, b, open(t, path)} {
		got, err := l.Accounts(t.Context(), "x", "c", "old")
		must(t, err)
		if c, x := got["c"], got["x"]; !got["old"].Closed || c.Held != 0 || c.Own%100 != 2 || x.Below != c.Own ||
			c.Epoch != 3 || x.Aside != all-c.Own {
			t.Errorf("%+v, %+v", c, x)
		}
	}
}

// TestImpossible: records with right sums that can't follow the others are damage.
func TestImpossible(t *testing.T) {
	for _, e := range []ledger.Entry{
		{Op: "carry", Thread: "x", Epoch: 1}, {Op: "carry", Thread: "y", Held: map[string]int64{"1": -1}},
		{Op: "reserve", Thread: "none", Call: "1"},
		{Op: "carry", Thread: "y", Own: -1},
	} {
		path := filepath.Join(t.TempDir(), "ledger")
		must(t, open(t, path).Do(t.Context(), ledger.Open("x", "", 2, nil, noon)))
		if err := open(t, path).Do(t.Context(), e); err == nil {
			t.Errorf("%+v is taken", e)
		}
		if got, err := open(t, path).Accounts(t.Context()); err != nil || len(got) != 1 {
			t.Errorf("%+v: %v, %v", e, got, err)
		}
	}
	for _, record := range []string{
		`{"op":"open","thread":"y","epoch":1,"colour":"red"}`, `{"op":"open","thread":"x","epoch":1}`, `[]`,
		`{"op":"carry","thread":"y","epoch":1,"held":{"1":-1}}`,
		`{"op":"carry","thread":"y","epoch":1,"held":{"1":2000000000000000000}}`,
	} {
		path := filepath.Join(t.TempDir(), "ledger")
		must(t, open(t, path).Do(t.Context(), ledger.Open("x", "", 2, nil, noon)))
		book := journal.Book[anything]{Path: path, Format: "rye ledger", Empty: func() anything { return nil }}
		must(t, book.Change(t.Context(), func(anything) ([]any, error) { return []any{json.RawMessage(record)}, nil }))
		must(t, book.Close())
		if _, err := open(t, path).Accounts(t.Context()); fault.CodeOf(err) != fault.Integrity {
			t.Errorf("%s: %v", record, err)
		}
	}
}

// anything is the total of records that mean nothing.
type anything []byte

func (anything) Take([]byte) error { return nil }
func (anything) Records() [][]byte { return nil }

// TestAbove: accounts are opened for one below them as far as it needs them, and no further than they were.
func TestAbove(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "ledger"))
	n := func(n int64) *int64 { return &n }
	must(t, l.Do(t.Context(), ledger.Open("x", "", 1, n(100), noon), ledger.Open("c", "x", 2, n(50), noon),
		ledger.Open("d", "c", 3, n(40), noon),
		ledger.Reserve("d", 3, "1", 10), ledger.Settle("d", 3, "1", 10), ledger.Close("d", 3, noon),
		ledger.Close("c", 2, noon)))
	again := ledger.Open("d", "c", 3, n(30), noon)
	if err := l.Do(t.Context(), again); fault.CodeOf(err) != fault.Conflict {
		t.Error(err)
	}
	opened, err := ledger.OpenAbove(t.Context(), l, "c", n(20), noon)
	must(t, err)
	must(t, l.Do(t.Context(), again))
	all, err := l.Accounts(t.Context())
	must(t, err)
	if c, x := all["c"], all["x"]; len(opened) != 1 || *c.Budget != 30 || c.Closed || x.Aside != 20 || x.Below != 10 {
		t.Errorf("%+v, %+v, %d opened", c, x, len(opened))
	}
	must(t, l.Do(t.Context(), ledger.Close("d", 3, noon)))
	must(t, opened.Close(t.Context(), l, noon))
	if none, err := ledger.OpenAbove(t.Context(), l, "x", n(20), noon); len(none) != 0 || err != nil { // it is open
		t.Errorf("%v, %v", none, err)
	}
	// No more than the parent had: 50 in all, and 10 are spent.
	opened, err = ledger.OpenAbove(t.Context(), l, "c", n(90), noon)
	must(t, err)
	if err := l.Do(t.Context(), ledger.Open("d", "c", 3, n(100), noon)); fault.CodeOf(err) != fault.Budget {
		t.Error(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := opened.Close(over, l, noon); !errors.Is(err, context.Canceled) {
		t.Errorf("an account that stays open is no error: %v", err)
	}
	// Another process goes on with the parent.
	must(t, l.Do(t.Context(), ledger.Open("c", "x", 7, n(50), noon)))
	must(t, opened.Close(t.Context(), l, noon))
	if c, err := ledger.Get(t.Context(), l, "c"); err != nil || c.Closed || c.Epoch != 7 {
		t.Errorf("%+v, %v", c, err)
	}
	// A bound isn't made up, and isn't lost.
	must(t, l.Do(t.Context(), ledger.Close("c", 7, noon), ledger.Open("free", "", 1, nil, noon),
		ledger.Close("free", 1, noon)))
	for thread, rest := range map[string]*int64{"none": n(5), "free": n(5), "c": nil} {
		_, err := ledger.OpenAbove(t.Context(), l, thread, rest, noon)
		must(t, err)
	}
	all, err = l.Accounts(t.Context())
	must(t, err)
	if c, free := all["c"], all["free"]; c.Closed || *c.Budget != 50 || free.Closed || free.Budget != nil {
		t.Errorf("%+v, %+v", c, free)
	}
	must(t, l.Do(t.Context(), ledger.Close("c", 7, noon)))
	if o, err := ledger.OpenAbove(over, l, "c", nil, noon); len(o) > 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", o, err)
	}
	if _, _, err := ledger.Rest(over, l, "c", nil, false); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := ledger.Left(over, l, "c"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
