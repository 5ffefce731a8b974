package replay

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/key/keytest"
)

// write writes a thread with one event of each type that a loop brings about.
func write(t *testing.T, end transcript.Payload) (dir string) {
	t.Helper()
	sum := cas.Sum([]byte("x"))
	item := transcript.Item{Ref: "tool:acme/x", Digest: sum}
	dir = filepath.Join(t.TempDir(), "t-1")
	w, err := transcript.Create(dir, "t-1", transcript.Started{Kind: "directive",
		Directive: transcript.Item{Ref: "directive:acme/a", Digest: sum}, Loop: item,
		Provider: item, Model: "m", Set: sum, Lock: sum, Policy: []cas.Digest{sum},
		Grants: []string{"execute:tool:acme/*"}, Depth: 3, Inputs: sum,
		Given: map[string]any{"n": 1, "text": "a"}, Principal: "ann", Parent: "up-1"},
		transcript.Driver{Epoch: 1, Host: "build-7", Process: 4711},
		transcript.Options{Key: keytest.Named("machine"), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	large := strings.Repeat("long ", 2000)
	for _, p := range []transcript.Payload{
		transcript.Request{Turn: 1, Attempt: 1, Digest: sum,
			Messages: []any{map[string]any{"role": "user", "text": large}}, Provider: item, Model: "m", Reserved: 7},
		transcript.Classified{Turn: 1, Attempt: 1, Error: transcript.Fault{Code: "RATE_LIMITED", Message: "slow"},
			Category: "rate_limited", Action: "retry", Delay: 5},
		transcript.Request{Turn: 1, Attempt: 2, Digest: sum, Kept: 1, Messages: []any{}, Provider: item, Model: "m"},
		transcript.Answer{Turn: 1, Attempt: 2, Text: "ok",
			Calls: []transcript.ToolCall{{ID: "a", Name: "x", Input: map[string]any{}}}, Cost: 5,
			Duration: time.Second,
			Usage:    &transcript.Usage{Input: 5, Reported: true}, Opaque: map[string]any{"provider": "p"}},
		transcript.CallStarted{Call: "c1", ID: "a", Turn: 1, Name: "x", Ref: "tool:acme/x", Digest: sum, Risk: "read",
			Input: map[string]any{}, Child: "t-2"},
		transcript.Artifact{Call: "c1", Digest: sum, Media: "text/plain", Content: "x"},
		transcript.CallResult{Call: "c1", Status: transcript.CallOK, Output: "x", Exec: "e1", Receipt: sum,
			Result: sum, Duration: time.Second},
		transcript.Hook{ID: "h", Event: "after_step"},
		transcript.Checkpoint{Turn: 1},
		transcript.Waiting{State: "waiting", Reason: "approval", Until: "2026-11-20T12:00:00Z"},
		transcript.Continued{Principal: "ann", Message: "go"},
		end, transcript.Checkpoint{Turn: 1},
	} {
		if _, err := w.Append(p); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestRoundTrip: a thread, its recording and the thread that is restored from it have the same events.
func TestRoundTrip(t *testing.T) {
	cost := transcript.Cost{Turns: 1, Spend: 5, Elapsed: time.Second}
	for _, end := range []transcript.Payload{transcript.Completed{Result: "r", Cost: cost},
		transcript.HandedOff{Next: "t-9", Cost: cost},
		transcript.Cancelled{By: "ann", Cost: cost}} {
		events, err := RecordingOf(write(t, end))
		if err != nil {
			t.Fatal(err)
		}
		var b, again bytes.Buffer
		if err := WriteRecording(&b, events); err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"ann", "build-7", "4711", "t-1", "t-2", "t-9", "up-1", "duration", "elapsed",
			"receipt", "until"} {
			if strings.Contains(b.String(), word) {
				t.Errorf("%s: %q is in the recording:\n%s", end.Type(), word, b.String())
			}
		}
		read, err := ReadRecording(bytes.NewReader(b.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "restored")
		if err := RestoreRecording(dir, read); err != nil {
			t.Fatal(err)
		}
		if read, err = RecordingOf(dir); err != nil {
			t.Fatal(err)
		}
		if err := WriteRecording(&again, read); err != nil || !bytes.Equal(again.Bytes(), b.Bytes()) {
			t.Fatalf("%v\n%s\nwant\n%s", err, again.String(), b.String())
		}
		if slices.ContainsFunc(read, func(e *RecordedEvent) bool { return e.Type == transcript.TypeDriver }) {
			t.Error("a driver is in the recording")
		}
	}
	if !IsRecording([]byte(started)) || IsRecording([]byte(`{"type":"hook","payload":{"id":"a","event":"b"}}`)) ||
		IsRecording([]byte("x")) {
		t.Error("what is a recording isn't told from what isn't")
	}
	if got := RecordingDir("acme/web/deploy"); got != "acme/web/_recordings/deploy" {
		t.Error(got)
	}
}

const started = `{"type": "thread_started", "payload": {"depth": 1, "directive": {"ref": "directive:a"}, "format": "rye transcript/2", "grants": [], "kind": "directive", "limits": {}, "policy": []}}` + "\n"

// TestRestored: a recording that breaks off is restored as a transcript that ends with a signature all the same.
func TestRestored(t *testing.T) {
	events, err := RecordingOf(write(t, transcript.Completed{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 2, len(events) - 1} {
		dir := filepath.Join(t.TempDir(), "restored")
		if err := RestoreRecording(dir, events[:n]); err != nil {
			t.Fatal(err)
		}
		got, err := RecordingOf(dir)
		if err != nil || len(got) != n+1 || got[n].Type != transcript.TypeCheckpoint {
			t.Errorf("%d events: %d, %v", n, len(got), err)
		}
	}
}

func TestInvalid(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "the recording is empty"},
		{"x\n", "line 1 of the recording: "},
		{"[]\n", "line 1 of the recording: not an object of type and payload"},
		{`{"type":"hook","payload":{"id":"a","event":"b"}}` + "\n",
			"line 1 of the recording: thread_started must be the first"},
		{started + started, "line 2 of the recording: thread_started must be the first"},
		{started + `{"type":"hook","payload":{}}` + "\n", "line 2 of the recording: hook: "},
		{started + `{"type":"driver","payload":{}}` + "\n", "line 2 of the recording: a recording has no driver"},
		{started + `{"type":"checkpoint","payload":{"turn":0.5}}` + "\n",
			"line 2 of the recording: checkpoint: expected a turn"},
		{started + `{"type":"checkpoint","payload":{"turn":1,"sig":"x"}}` + "\n",
			"line 2 of the recording: checkpoint: expected a turn"},
		{started + `{"type":"none","payload":{}}` + "\n", "line 2 of the recording: unknown type of event"},
		{started + strings.Repeat(" ", maxLine), "line 2 of the recording: "},
	} {
		if _, err := ReadRecording(strings.NewReader(c.text)); fault.CodeOf(err) != fault.Parsing ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%.80q: %v", c.text, err)
		}
	}
	// The schema allows it, the order doesn't.
	events, err := ReadRecording(strings.NewReader(started +
		`{"type":"call_result","payload":{"call":"c1","status":"ok"}}` + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := RestoreRecording(filepath.Join(t.TempDir(), "a"), events); err == nil ||
		!strings.Contains(err.Error(), "line 2 of the recording") {
		t.Error(err)
	}
	if err := RestoreRecording(filepath.Join(t.TempDir(), "a"), events[1:]); fault.CodeOf(err) != fault.Parsing {
		t.Error(err)
	}
	if err := RestoreRecording(filepath.Join(t.TempDir(), "a"),
		append(events[:1:1], &RecordedEvent{transcript.TypeHook, map[string]any{"id": 5.0}})); err == nil ||
		!strings.Contains(err.Error(), "line 2 of the recording") {
		t.Error(err)
	}
	dir := write(t, transcript.Completed{})
	path := filepath.Join(dir, transcript.LinesFile)
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, bytes.Replace(b, []byte("go"), []byte("no"), 1), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := RecordingOf(dir); err == nil {
		t.Error("a transcript that was changed is recorded")
	}
	if err := RestoreRecording(dir, events[:1]); err == nil {
		t.Error("a thread is written over another")
	}
}

// FuzzRead: what can be read is written as what means the same.
func FuzzRead(f *testing.F) {
	f.Add([]byte(started + `{"type":"hook","payload":{"id":"a","event":"b","result":{"x":1.5}}}` + "\n"))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		events, err := ReadRecording(bytes.NewReader(b))
		if err != nil {
			return
		}
		var first, second bytes.Buffer
		if err := WriteRecording(&first, events); err != nil {
			t.Fatal(err)
		}
		again, err := ReadRecording(bytes.NewReader(first.Bytes()))
		if err == nil {
			err = WriteRecording(&second, again)
		}
		if err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Fatalf("%v\n%s\n%s", err, first.Bytes(), second.Bytes())
		}
	})
}
