package provider

import (
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// TestDiffers: whatever a request has that the recorded one hasn't, the error shows it.
func TestDiffers(t *testing.T) {
	long := strings.Repeat("the same words, ", 100)
	message := func(text string) any { return map[string]any{"role": "user", "text": text} }
	turns := []recorded{
		{line: 3, request: transcript.Request{Messages: []any{message("one"), message(long + "end")},
			Tools: []any{map[string]any{"name": "a", "description": "A"}}}},
		{line: 7, request: transcript.Request{Kept: 2, Messages: []any{message("two")}}},
	}
	now := func(texts ...string) (all []Message) {
		for _, text := range texts {
			all = append(all, Message{Role: User, Text: text})
		}
		return all
	}
	tools := []Tool{{Name: "a", Description: "A"}}
	for _, c := range []struct {
		name  string
		q     Request
		wants []string
	}{
		{"late in a message", Request{Messages: now("one", long+"END", "two"), Tools: tools},
			[]string{"recorded: …", `words, end"}`, "now:      …", `words, END"}`}},
		{"an earlier message", Request{Messages: now("ONE", long+"end", "two"), Tools: tools},
			[]string{`recorded: {"role":"user","text":"one"}`, `now:      {"role":"user","text":"ONE"}`}},
		{"another message", Request{Messages: now("one", long+"end", "two", "three"), Tools: tools},
			[]string{"recorded: nothing", `now:      {"role":"user","text":"three"}`}},
		{"no message", Request{Messages: now("one", long+"end"), Tools: tools},
			[]string{`"text":"two"`, "now:      nothing"}},
		{"a tool", Request{Messages: now("one", long+"end", "two"), Tools: []Tool{{Name: "a", Description: "B"}}},
			[]string{`"description":"A"`, `"description":"B"`}},
		{"no tool", Request{Messages: now("one", long+"end", "two")},
			[]string{`recorded: {"description":"A"`, "now:      nothing"}},
		{"instructions", Request{Messages: now("one", long+"end", "two"), Tools: tools, System: "Be short."},
			[]string{"the messages and the tools are the same"}},
	} {
		r := &replayModel{turns: turns, next: 2}
		f := fault.Of(r.differs(&c.q))
		text := strings.Join(f.Why, "\n")
		for _, want := range c.wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %s; want %s", c.name, text, want)
			}
		}
		if f.Code != fault.Conflict || f.Details["line"] != int64(7) || len(text) > 2000 {
			t.Errorf("%s: %+v", c.name, f)
		}
	}
}
