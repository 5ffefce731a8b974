package transcript_test

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/key/keytest"
)

// begun begins the transcript of a directive in a directory.
func begun(t testing.TB) (w *transcript.Writer, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "thread")
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	provider := transcript.Item{Ref: "tool:acme/p", Digest: cas.Sum(nil)}
	w, err := transcript.Create(dir, "acme/a-1795000000-a2b3c",
		transcript.Started{Kind: "directive",
			Directive: transcript.Item{Ref: "directive:acme/a", Digest: cas.Sum(nil)},
			Provider:  provider, Policy: []cas.Digest{}, Grants: []string{}, Model: "m"}, transcript.Driver{Epoch: 1},
		transcript.Options{Key: keytest.Seeded(1), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w, dir
}

func request(turn int64, text string) transcript.Request {
	return transcript.Request{Turn: turn, Attempt: 1, Digest: cas.Sum([]byte(text)),
		Messages: []any{map[string]any{"role": "user", "text": text}},
		Provider: transcript.Item{Ref: "tool:acme/p", Digest: cas.Sum(nil)}, Model: "m"}
}

// TestPayloads: what was recorded is read again as the same struct, whether it stands in its line or, above 4 KiB, in
// the file of payloads.
func TestPayloads(t *testing.T) {
	w, dir := begun(t)
	long := strings.Repeat("x", 5000)
	failure := &transcript.Fault{Code: "X", Message: "no", Status: 500}
	want := []transcript.Payload{
		request(1, "hi"),
		transcript.Classified{Turn: 1, Attempt: 1, ID: "http_5xx", Category: "transient", Error: *failure,
			Action: "retry", Delay: time.Second},
		transcript.Request{Turn: 1, Attempt: 2, Digest: cas.Sum(nil), Kept: 1, Messages: []any{},
			Provider: transcript.Item{Ref: "tool:acme/p", Digest: cas.Sum(nil)}, Model: "m"},
		transcript.Answer{Turn: 1, Attempt: 2, Text: long, Stop: "tool_use",
			Usage: &transcript.Usage{Input: 3, Output: 4, CacheRead: 1, Reported: true}, Cost: 250, Kept: true},
		transcript.CallStarted{Call: "c1", ID: "a", Turn: 1, Name: "rye_execute", Ref: "tool:acme/echo",
			Digest: cas.Sum(nil), Risk: "read", Input: map[string]any{"text": "x"}},
		transcript.Artifact{Call: "c1", Digest: cas.Sum([]byte(long)), Media: "application/json", Content: long},
		transcript.CallResult{Call: "c1", Status: transcript.CallOK, Result: cas.Sum([]byte(long)),
			Artifact: cas.Sum([]byte(long)), Output: "x", Cost: 7, Duration: time.Millisecond},
		transcript.Limit{Code: "turns_exceeded", Current: 2, Max: 1, Action: "escalate"},
		transcript.Waiting{State: "interrupted", Reason: "limit", Error: failure},
	}
	for _, p := range want {
		if _, err := w.Append(p); err != nil {
			t.Fatalf("%s: %v", p.Type(), err)
		}
	}
	var got []transcript.Payload
	for e, err := range transcript.Read(dir) {
		if err != nil {
			t.Fatal(err)
		}
		p, err := e.Says()
		if err != nil || p.Type() != e.Type {
			t.Fatalf("%s: %T, %v", e.Type, p, err)
		}
		got = append(got, p)
	}
	if got = got[2:]; len(got) != len(want) { // behind thread_started and driver
		t.Fatalf("%d of %d events", len(got), len(want))
	}
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("%s: %+v\nwant %+v", want[i].Type(), got[i], want[i])
		}
	}
}

// TestEnds: four types end a thread, and nothing but a checkpoint stands behind one of them.
func TestEnds(t *testing.T) {
	failure := transcript.Fault{Code: "X", Message: "no"}
	for _, end := range []transcript.Payload{
		transcript.Completed{Result: "done"}, transcript.Failed{Error: failure},
		transcript.Cancelled{Reason: "not needed"},
		transcript.HandedOff{Next: "acme/a-1795000001-a2b3c", Reason: "context"},
	} {
		w, _ := begun(t)
		if _, err := w.Append(end); err != nil || !end.Type().IsEnd() {
			t.Errorf("%s: %v", end.Type(), err)
		}
		if _, err := w.Append(request(1, "more")); fault.CodeOf(err) != fault.Validation {
			t.Errorf("behind %s: %v", end.Type(), err)
		}
		if _, err := w.Append(transcript.Checkpoint{Turn: 1}); err != nil {
			t.Errorf("the checkpoint of %s: %v", end.Type(), err)
		}
	}
	for _, p := range []transcript.Payload{transcript.Waiting{}, transcript.Limit{}, transcript.Checkpoint{},
		transcript.Returned{}} {
		if p.Type().IsEnd() {
			t.Errorf("%s ends a thread", p.Type())
		}
	}
}

// TestSchema: a payload that its schema doesn't allow is refused, and the transcript goes on as if it had never been
// offered.
func TestSchema(t *testing.T) {
	w, dir := begun(t)
	for name, p := range map[string]transcript.Payload{
		"a call without a name":  transcript.CallStarted{Turn: 1, Name: "rye_execute", Risk: "read"},
		"a wait without a state": transcript.Waiting{Reason: "limit"},
		"a negative turn":        request(-1, "hi"),
	} {
		if _, err := w.Append(p); fault.CodeOf(err) != fault.Validation {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := w.Append(transcript.Completed{Result: "done"}, transcript.Checkpoint{Turn: 0}); err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, err := range transcript.Read(dir) {
		if lines++; err != nil {
			t.Fatal(err)
		}
	}
	if lines != 4 {
		t.Errorf("%d lines", lines)
	}
}
