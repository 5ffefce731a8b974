package control

import (
	"os"
	"slices"
	"testing"

	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/thread/roster"
)

// TestCycle: a wait that leads back to the thread is found, also through a child that its parent's process runs.
func TestCycle(t *testing.T) {
	me, start := os.Getpid(), proc.Start(os.Getpid())
	all := waits{"1": {ID: "1", Thread: "b", For: []string{"x", "c"}, Process: me, Start: start},
		"2": {ID: "2", Thread: "d", For: []string{"a"}, Process: me, Start: start + "0"},
		"3": {ID: "3", Thread: "f", For: []string{"a"}, Process: me, Start: start},
		"4": {ID: "4", Thread: "x", For: []string{"b"}, Process: me, Start: start}}
	same, other := roster.Driver{Process: 7}, roster.Driver{Process: 8}
	rows := []*roster.Thread{{ID: "e", Driver: same, State: roster.Running},
		{ID: "f", Parent: "e", Driver: same, State: roster.Running},
		{ID: "g", Driver: same, State: roster.Running}, {ID: "h", Parent: "g", Driver: other, State: roster.Running}}
	for _, c := range []struct {
		thread string
		ids    []string
		want   []string
	}{
		{"a", []string{"b"}, nil}, {"c", []string{"b"}, []string{"c", "b", "c"}}, {"a", []string{"d"}, nil},
		{"a", []string{"z", "e"}, []string{"a", "e", "f", "a"}},
		{"h", []string{"g"}, nil}, {"b", []string{"x"}, []string{"b", "x", "b"}},
	} {
		if got := all.cycle(c.thread, c.ids, rows); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// FuzzWait: what is taken can be written, and is the same then.
func FuzzWait(f *testing.F) {
	for _, s := range []string{`{"wait":"w","thread":"a","for":["b"],"process":1,"start":"x"}`, `{"wait":"w"}`, `{}`,
		`{"wait":"w","for":["b"]}`, `{"wait":1}`, `[`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		w, again := waits{}, waits{}
		if w.Take(b) != nil {
			return
		}
		for _, r := range w.Records() {
			if err := again.Take(r); err != nil {
				t.Fatalf("%s: %v", r, err)
			}
		}
		if len(again) != len(w) {
			t.Errorf("%v, %v", w, again)
		}
	})
}
