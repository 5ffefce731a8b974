package resume

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/key/keytest"
)

// TestRead: the messages are those of the last request, with the answer and what came of its calls; a call without a
// result has one that says so, since services refuse a call that isn't answered.
func TestRead(t *testing.T) {
	turns, more := int64(3), int64(9)
	user := transcript.Message{Role: "user", Text: "Do it."}
	request := func(turn, kept int64, messages ...any) transcript.Payload {
		return transcript.Request{Turn: turn, Attempt: 1, Digest: cas.Sum(nil), Kept: kept, Model: "m",
			Provider: transcript.Item{Ref: "tool:acme/p"}, Messages: messages}
	}
	answer := func(turn int64, text string, ids ...string) transcript.Payload {
		a := transcript.Answer{Turn: turn, Attempt: 1, Text: text, Cost: 5,
			Usage: &transcript.Usage{Input: 3, Output: 1, Reported: true}}
		for _, id := range ids {
			a.Calls = append(a.Calls, transcript.ToolCall{ID: id, Name: "x", Input: map[string]any{"n": 1.0}})
		}
		return a
	}
	assistant :=
		`{"calls":[{"id":"a","input":{"n":1},"name":"x"},{"id":"b","input":{"n":1},"name":"x"}],"role":"assistant","text":"I will."}`
	unknown := `{"call_id":"b","failed":true,"role":"tool","text":"{\"error\":{\"code\":\"UNKNOWN_ERROR\",`
	for name, c := range map[string]struct {
		events []transcript.Payload
		want   []string
	}{
		"nothing":    {nil, nil},
		"a question": {[]transcript.Payload{request(1, 0, user)}, []string{`{"role":"user","text":"Do it."}`}},
		"an answer": {[]transcript.Payload{request(1, 0, user), answer(1, "Done.")},
			[]string{`{"role":"user","text":"Do it."}`, `{"role":"assistant","text":"Done."}`}},
		"calls": {[]transcript.Payload{request(1, 0, user), answer(1, "I will.", "a", "b"),
			transcript.CallStarted{Call: "c1", ID: "a", Turn: 1, Name: "x"},
			transcript.CallStarted{Call: "c2", ID: "b", Turn: 1, Name: "x"},
			transcript.CallResult{Call: "c1", Status: "ok", Output: "one"}},
			[]string{`{"role":"user","text":"Do it."}`, assistant, `{"call_id":"a","role":"tool","text":"one"}`,
				unknown}},
		"a failed call": {[]transcript.Payload{request(1, 0, user), answer(1, "I will.", "a"),
			transcript.CallStarted{Call: "c1", ID: "a", Turn: 1, Name: "x"},
			transcript.CallResult{Call: "c1", Status: "failed", Output: "no"}},
			[]string{`{"role":"user","text":"Do it."}`,
				`{"calls":[{"id":"a","input":{"n":1},"name":"x"}],"role":"assistant","text":"I will."}`,
				`{"call_id":"a","failed":true,"role":"tool","text":"no"}`}},
		"two turns": {[]transcript.Payload{request(1, 0, user), answer(1, "I will.", "a"),
			transcript.CallStarted{Call: "c1", ID: "a", Turn: 1, Name: "x"},
			transcript.CallResult{Call: "c1", Status: "failed", Output: "no"},
			request(2, 1, transcript.Message{Role: "assistant", Text: "I will."},
				transcript.Message{Role: "tool", CallID: "a", Text: "no"})},
			[]string{`{"role":"user","text":"Do it."}`, `{"role":"assistant","text":"I will."}`,
				`{"call_id":"a","role":"tool","text":"no"}`}},
	} {
		dir := filepath.Join(t.TempDir(), "t")
		w, err := transcript.Create(dir, "acme/plan-1795000000-a2b3c",
			transcript.Started{Kind: "directive", Directive: transcript.Item{Ref: "directive:acme/plan",
				Digest: cas.Sum(nil)},
				Policy: []cas.Digest{}, Grants: []string{}, Model: "m", Depth: 4,
				Limits: transcript.Limits{Turns: &turns}}, transcript.Driver{Epoch: 1},
			transcript.Options{Key: keytest.Seeded(1), Now: time.Now})
		if err == nil && len(c.events) > 0 {
			_, err = w.Append(c.events...)
		}
		if err == nil {
			_, err = w.Append(transcript.Waiting{State: "interrupted", Reason: "limit"},
				transcript.Continued{Limits: &transcript.Limits{Turns: &more}})
		}
		if err := errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		r, err := read(dir)
		if err != nil {
			t.Fatal(err)
		}
		if r.limits.Turns != more || r.limits.Depth != 4 {
			t.Errorf("%s: %+v", name, r.limits)
		}
		var got []string
		for _, m := range r.messages {
			b, err := jcs.Append(nil, control.Values(m))
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(b))
		}
		for i, want := range c.want {
			if len(got) != len(c.want) || !strings.HasPrefix(got[i], want) {
				t.Fatalf("%s: %d messages:\n%s\nwant\n%s", name, len(got), strings.Join(got, "\n"),
					strings.Join(c.want, "\n"))
			}
		}
	}
	if _, err := read(t.TempDir()); err == nil {
		t.Error("no transcript")
	}
	// A record that doesn't add up is none to go on with, also where who could sign for it has written it.
	opaque := answer(1, "Done.").(transcript.Answer)
	opaque.Opaque = []any{"x"}
	for name, events := range map[string][]transcript.Payload{
		"more kept than said": {request(1, 0, user), request(2, 2, user)},
		"opaque":              {request(1, 0, user), opaque},
	} {
		dir := filepath.Join(t.TempDir(), "t")
		w, err := transcript.Create(dir, "acme/plan-1795000000-a2b3c",
			transcript.Started{Kind: "directive", Directive: transcript.Item{Ref: "directive:acme/plan",
				Digest: cas.Sum(nil)},
				Policy: []cas.Digest{}, Grants: []string{}, Model: "m"}, transcript.Driver{Epoch: 1},
			transcript.Options{Key: keytest.Seeded(1), Now: time.Now})
		if err == nil {
			_, err = w.Append(events...)
		}
		if err := errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		if r, err := read(dir); err == nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
