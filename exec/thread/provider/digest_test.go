package provider

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/jcs"
)

// whole is the digest of a request as its documentation says, made at once.
func whole(t *testing.T, q *Request) cas.Digest {
	t.Helper()
	b, err := json.Marshal(map[string]any{"messages": append([]Message{}, q.Messages...),
		"tools": append([]Tool{}, q.Tools...), "system": q.System, "options": q.Options})
	if err == nil {
		b, err = jcs.Canonical(nil, b)
	}
	if err != nil {
		t.Fatal(err)
	}
	return cas.Sum(b)
}

// TestDigests: whatever a request keeps of the one before, its digest is that of all of it.
func TestDigests(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 11))
	for range 200 {
		var d Digests
		q := &Request{System: "s"}
		for turn := range 10 {
			kept := random.IntN(len(q.Messages) + 1)
			q.Messages = append([]Message{}, q.Messages[:kept]...)
			for range random.IntN(4) {
				q.Messages = append(q.Messages, Message{Role: "user", Text: fmt.Sprintf("<ä %d>", random.IntN(1000)),
					Calls: []ToolCall{{ID: "a", Name: "x", Input: map[string]any{"n": random.Float64(), "b": nil}}}})
			}
			if turn%3 == 0 {
				q.Tools = append(q.Tools, Tool{Name: fmt.Sprint("t", turn), Schema: map[string]any{"type": "object"}})
			}
			got, err := d.Of(q, kept)
			if want := whole(t, q); err != nil || got != want {
				t.Fatalf("turn %d, %d of %d messages kept: %s, %v; want %s", turn, kept, len(q.Messages), got, err,
					want)
			}
		}
	}
	var d Digests
	bad := &Request{Messages: []Message{{Role: "user", Text: "a"},
		{Role: "user", Calls: []ToolCall{{Input: map[string]any{"x": func() {}}}}}}}
	if got, err := d.Of(bad, 0); err == nil {
		t.Errorf("what JSON can't have: %s", got)
	}
	bad.Messages = bad.Messages[:1]
	if got, err := d.Of(bad, 1); err != nil || got != whole(t, bad) {
		t.Errorf("after an error: %s, %v", got, err)
	}
}
