package exec_test

import (
	"context"
	"slices"
	"strings"
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

// TestChanged: a call whose files aren't where its program put them fails and says where they are. One that failed for
// want of a place to create a file says why there was none.
func TestChanged(t *testing.T) {
	w := newWorld(t).with("files: {read: [docs]}")
	const aside, closed = `"a": exists; the tool's is "b"`, "nothing can be created in /p"
	for _, c := range []struct {
		name string
		did  primitive.Result
		want string
	}{
		{"elsewhere", primitive.Result{Asides: []string{aside, aside}}, aside + "\n" + aside},
		{"elsewhere, and it failed", primitive.Result{Asides: []string{aside}, Failed: true, Failure: "no"},
			aside + "\nno"},
		{"many", primitive.Result{Asides: slices.Repeat([]string{aside}, 50)},
			strings.TrimSpace(strings.Repeat(aside+"\n", 50))},
		{"nowhere", primitive.Result{Closed: closed, Failed: true, Failure: "x: Permission denied"},
			closed + "\nx: Permission denied"},
		{"another failure", primitive.Result{Closed: closed, Failed: true, Failure: "no"}, "no"},
		{"none", primitive.Result{Closed: closed}, ""},
	} {
		w.probe.do = func(context.Context, *primitive.Action, primitive.Sink) (*primitive.Result, error) {
			did := c.did
			did.Value, did.Level = map[string]any{}, 4
			return &did, nil
		}
		r, err := w.prepare(call(x, nil)).Run(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		said := w.proved(r).Outcome.Sandbox
		if r.Failure != c.want || r.Failed != (c.want != "") ||
			len(c.did.Asides) > 0 && !strings.Contains(said, aside) ||
			c.did.Closed != "" && !strings.Contains(said, closed) {
			t.Errorf("%s: %+v, %q", c.name, r.Result, said)
		}
	}
}
