package audit

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/rye-build/rye/exec/audit/record"
)

// TestSteps: the steps of requests stand among calls, are read again, and are missed when one is edited or taken out.
func TestSteps(t *testing.T) {
	for _, edit := range []func(*Options){nil, required} {
		dir := filepath.Join(t.TempDir(), "audit")
		l := newLog(t, dir, edit)
		for _, a := range []record.Approval{
			{Request: "r1", Ref: "tool:a", State: "pending", Principal: "ann", Params: digest("{}")},
			{Request: "r2", Ref: "tool:b", State: "pending", Principal: "ann", Tenant: "acme", Thread: "t"},
			{Request: "r1", Ref: "tool:a", State: "approved", By: "bob", Through: "rye approve"},
		} {
			must(t, l.Ask(t.Context(), &a))
			run(t, l, "c"+a.State+a.Request)
		}
		for _, bad := range []record.Approval{{}, {Request: "r", Ref: "tool:a"},
			{Request: "r/", Ref: "tool:a", State: "x"}, {Request: "r", Ref: "a\nb", State: "x"}} {
			if l.Ask(t.Context(), &bad) == nil {
				t.Errorf("%+v is written", bad)
			}
		}
		must(t, l.Close(t.Context()))
		if r := sound(t, dir); r.Calls != 3 || r.Unfinished != 0 {
			t.Errorf("%+v", r)
		}
		var states []string
		for s, err := range Steps(t.Context(), dir, func(s *Step) bool { return s.Request == "r1" }) {
			must(t, err)
			states = append(states, s.State+s.By)
		}
		if len(states) != 2 || states[0] != "pending" || states[1] != "approvedbob" {
			t.Errorf("%q", states)
		}
		files, err := filepath.Glob(filepath.Join(dir, "segments", "*", "*"))
		must(t, err)
		b, err := os.ReadFile(files[0])
		must(t, err)
		lines := bytes.SplitAfter(b, []byte("\n"))
		for i, bytes := range [][]byte{bytes.Replace(b, []byte("bob"), []byte("eve"), 1),
			bytes.Join(append(lines[:1:1], lines[2:]...), nil)} {
			must(t, os.WriteFile(files[0], bytes, 0o600))
			r, err := Verify(t.Context(), dir, nil)
			must(t, err)
			if len(r.Problems) == 0 {
				t.Errorf("change %d isn't found", i)
			}
			bad := 0
			for _, err := range Steps(t.Context(), dir, func(*Step) bool { return true }) {
				if err != nil {
					bad++
				}
			}
			if bad == 0 {
				t.Errorf("change %d isn't seen by Steps", i)
			}
		}
	}
}
