package control_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/transcript"
)

func TestSelf(t *testing.T) {
	w := newWorld(t)
	w.begin("acme/a", "", "", request("Do it."), transcript.Answer{Turn: 1, Attempt: 1, Text: "I will."},
		transcript.CallStarted{Call: "c1", Turn: 1, Name: "x", Input: map[string]any{"n": "one"}},
		transcript.CallResult{Call: "c1", Status: "ok", Output: "two"})
	w.begin("acme/b", "acme/a", "")
	w.begin("acme/c", "acme/b", "", completed("x"))
	w.set("acme/c", roster.Completed, "")
	w.begin("acme/d", "", "")
	granted := ""
	self := &control.Self{Thread: "acme/b", Allows: func(verb, kind, id string) error {
		if verb+":"+kind+":"+id == granted {
			return nil
		}
		return fault.New(fault.Denied, "no")
	}}
	if control.SelfOf(t.Context()) != nil || control.SelfOf(control.As(t.Context(), self)) != self {
		t.Error("the context has another thread")
	}
	for _, c := range []struct {
		id, granted string
		may         bool
	}{{"acme/c", "", true}, {"acme/b", "", false}, {"acme/a", "", false}, {"acme/d", "", false},
		{"acme/d", "load:thread:acme/d", true},
		{"acme/d", "execute:thread:acme/d", false}} {
		granted = c.granted
		if err := w.controller.May(t.Context(), self, "load", c.id); (err == nil) != c.may || err != nil &&
			fault.CodeOf(err) != fault.Denied {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for id, circular := range map[string]bool{"acme/a": true, "acme/b": true, "acme/c": false, "acme/d": false} {
		end, err := w.controller.Waits(t.Context(), self, []string{id})
		if err == nil {
			must(t, end())
		}
		if (err != nil) != circular || err != nil && fault.CodeOf(err) != fault.Conflict {
			t.Errorf("%s: %v", id, err)
		}
	}
	// d waits for b, so b can't wait for d, until that is over.
	end, err := w.controller.Waits(t.Context(), &control.Self{Thread: "acme/d"}, []string{"acme/b"})
	must(t, err)
	if _, err := w.controller.Waits(t.Context(), self,
		[]string{"acme/c", "acme/d"}); fault.CodeOf(err) != fault.Conflict ||
		!strings.Contains(err.Error(), "acme/b waits for acme/d waits for acme/b") {
		t.Error(err)
	}
	must(t, end())
	end, err = w.controller.Waits(t.Context(), self, []string{"acme/d"})
	must(t, err, end())
	for below, want := range map[string]string{"": "acme/d acme/b acme/a", "acme/a": "acme/b", "acme/d": ""} {
		nodes, err := w.controller.Active(t.Context(), below)
		must(t, err)
		var got []string
		for _, n := range nodes {
			got = append(got, n.Thread)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q", below, got)
		}
	}
	row, err := w.controller.Find(t.Context(), "acme/a")
	must(t, err)
	for tail, want := range map[int]string{0: "[input]\nDo it.\n[response]\nI will.\n[call]\nx\none\n[result ok]\ntwo",
		2: "[result ok]\ntwo", 99: "[input]\nDo it.\n[response]\nI will.\n[call]\nx\none\n[result ok]\ntwo"} {
		if text, err := w.controller.Text(row, tail); err != nil || text != want {
			t.Errorf("%d: %q, %v", tail, text, err)
		}
	}
	must(t, os.RemoveAll(filepath.Join(w.controller.Root, ".ai", "threads", "acme", "a")))
	if row, err = w.controller.Find(t.Context(), "acme/a"); err == nil {
		_, err = w.controller.Text(row, 0)
	}
	if fault.CodeOf(err) != fault.NotFound {
		t.Error(err)
	}
	if last, err := w.controller.Last(t.Context(), "acme/c"); err != nil || last.ID != "acme/c" {
		t.Errorf("%+v, %v", last, err)
	}
}
