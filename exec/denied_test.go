package exec_test

import (
	"context"
	"slices"
	"testing"

	"github.com/rye-build/rye/exec/primitive"
)

// TestDenied: the hosts that the sandbox refused a program are named by the error, the receipt and the audit log,
// whatever the program says, and the error says which hosts it has.
func TestDenied(t *testing.T) {
	w := newWorld(t).with("network: [example.com, \"a.example:8443\"]")
	for _, failed := range []bool{true, false} {
		w.probe.do = func(context.Context, *primitive.Action, primitive.Sink) (*primitive.Result, error) {
			return &primitive.Result{Value: map[string]any{}, Level: 4, Enforced: []string{"netns"}, Failed: failed,
				Failure: map[bool]string{true: "403 Forbidden"}[failed],
				Denied:  []string{"github.com:443", "b:1", "c:1", "d:1", "e:1"}}, nil
		}
		r, err := w.prepare(call(x, nil)).Run(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		const text = "refused github.com:443, b:1, c:1, d:1 and 1 more (declared: a.example:8443, example.com)"
		if want := map[bool]string{true: text + "\n403 Forbidden"}[failed]; r.Failure != want {
			t.Errorf("%q; want %q", r.Failure, want)
		}
		records := w.records()
		if last := records[len(records)-1]; !slices.Contains(r.Enforced, text) ||
			w.proved(r).Outcome.Sandbox != "netns "+text || last.Outcome.Sandbox != "netns "+text {
			t.Errorf("%q, %+v", r.Enforced, last.Outcome)
		}
	}
}
