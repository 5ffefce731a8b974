package ledger_test

import (
	"path/filepath"
	"testing"

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
