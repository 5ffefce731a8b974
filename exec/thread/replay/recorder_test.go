package replay_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/replay"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/key/keytest"
)

// recorderRecord writes the recorderRecord of a thread with these events after its first two, and returns its
// directory.
func recorderRecord(t *testing.T, events ...transcript.Payload) (dir string, w *transcript.Writer) {
	t.Helper()
	sum := cas.Sum([]byte("x"))
	item := transcript.Item{Ref: "tool:acme/x", Digest: sum}
	dir = filepath.Join(t.TempDir(), "t-1")
	w, err := transcript.Create(dir, "t-1", transcript.Started{Format: transcript.Format, Kind: "directive",
		Directive: transcript.Item{Ref: "directive:acme/a", Digest: sum},
		Loop:      item, Provider: item, Model: "m", Inputs: sum, Given: map[string]any{}, Grants: []string{},
		Policy: []cas.Digest{}},
		transcript.Driver{Epoch: 1}, transcript.Options{Key: keytest.Named("machine"), Now: time.Now})
	if err == nil && len(events) > 0 {
		_, err = w.Append(events...)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return dir, w
}

// played is a recorder that plays a recorderRecord from its third line on, and how often it went live.
func played(t *testing.T, dir string, last int64) (r *replay.Recorder, lives *int) {
	t.Helper()
	lives = new(int)
	r = &replay.Recorder{Now: time.Now, Limits: func(*transcript.Limits) {}, Live: func(time.Duration) { *lives++ }}
	r.Play(dir, last)
	r.Begin()
	if e, err := r.Take(); err != nil || e.Type != transcript.TypeStarted || *lives != 0 {
		t.Fatalf("%+v, %v, %d", e, err, *lives)
	}
	return r, lives
}

func recorderRequest(text string) transcript.Request {
	sum := cas.Sum([]byte(text))
	return transcript.Request{Turn: 1, Attempt: 1, Digest: sum, Model: "m",
		Provider: transcript.Item{Ref: "tool:acme/p", Digest: sum},
		Messages: []any{map[string]any{"role": "user", "text": text}}}
}

// TestSteady: times rise by what has passed, and have a monotonic reading by which that is measured.
func TestSteady(t *testing.T) {
	now := replay.Steady(time.Now)
	for last := now(); time.Since(last) < time.Millisecond; {
		next := now()
		if next.Before(last) || !strings.Contains(next.String(), " m=") {
			t.Fatalf("%s after %s", next, last)
		}
	}
	wall := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	now = replay.Steady(func() time.Time { wall = wall.Add(time.Second); return wall })
	if got := now(); !got.Equal(wall) {
		t.Errorf("%s, want %s", got, wall)
	}
}

// TestGoesLive: what is recorded is returned, and what comes after it is written.
func TestGoesLive(t *testing.T) {
	dir, w := recorderRecord(t, recorderRequest("a"))
	r, lives := played(t, dir, w.Last().Seq)
	r.Write(w)
	had, err := r.Append(1, true, recorderRequest("a"), transcript.Answer{Turn: 1, Attempt: 1, Text: "ok"})
	if err != nil || len(had) != 1 || *lives != 1 || r.Playing() {
		t.Fatalf("%d, %v, %d", len(had), err, *lives)
	}
	if result, artifact, err := r.Result("c1"); result != nil || artifact != nil || err != nil {
		t.Errorf("%+v, %+v, %v", result, artifact, err)
	}
	if short, known, err := r.Short(); short || known || err != nil {
		t.Errorf("%t, %t, %v", short, known, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	got := ""
	for e, err := range transcript.Read(dir) {
		if err != nil {
			t.Fatal(err)
		}
		got += string(e.Type) + " "
	}
	if got != "thread_started driver request answer " {
		t.Error(got)
	}
}

// TestMadeAgain: a call without a result is made again, and the thread's time runs while it is: as soon as what the
// recorderRecord has is played.
func TestMadeAgain(t *testing.T) {
	started := func(call string) transcript.CallStarted {
		return transcript.CallStarted{Call: call, ID: call, Turn: 1, Name: "rye_execute", Risk: "read",
			Input: map[string]any{}}
	}
	result := transcript.CallResult{Call: "c1", Status: transcript.CallOK, Output: "one",
		Result: cas.Sum([]byte("one"))}
	dir, w := recorderRecord(t, started("c1"), started("c2"), result)
	r, lives := played(t, dir, w.Last().Seq)
	r.Write(w)
	defer r.Close()
	if had, err := r.Append(1, true, started("c1"), started("c2")); err != nil || len(had) != 2 {
		t.Fatalf("%d, %v", len(had), err)
	}
	if was, _, err := r.Result("c1"); err != nil || was == nil || was.Output != "one" {
		t.Fatalf("%+v, %v", was, err)
	}
	if was, _, err := r.Result("c2"); err != nil || was != nil || *lives != 0 {
		t.Fatalf("before c1 is played: %+v, %v, live %d", was, err, *lives)
	}
	if _, err := r.Append(1, false, result); err != nil {
		t.Fatal(err)
	}
	if was, _, err := r.Result("c2"); err != nil || was != nil || *lives != 1 || r.Playing() {
		t.Errorf("%+v, %v, live %d", was, err, *lives)
	}
	if was, _, err := r.Result("c2"); err != nil || was != nil || *lives != 1 {
		t.Errorf("again: %+v, %v, live %d", was, err, *lives)
	}
}

// TestCompared: without a writer the end of the recorderRecord ends the thread, whatever it asks for.
func TestCompared(t *testing.T) {
	dir, w := recorderRecord(t, recorderRequest("a"))
	r, _ := played(t, dir, w.Last().Seq)
	if err := r.Rest(1); !replay.Differs(err) || !strings.Contains(strings.Join(fault.Of(err).Why, " "),
		"recorded: request now:      nothing") {
		t.Errorf("what is left: %v", err)
	}
	if _, err := r.Append(1, true, transcript.Checkpoint{Turn: 1}); !replay.Differs(err) {
		t.Errorf("another event: %v", err)
	}
	if _, err := r.Append(1, true, recorderRequest("b")); !replay.Differs(err) ||
		!strings.Contains(strings.Join(fault.Of(err).Why, " "), `now:      messages [{"role":"user","text":"b"}]`) {
		t.Errorf("another request: %v, %v", err, fault.Of(err).Why)
	}
	if had, err := r.Append(1, true, recorderRequest("a")); err != nil || len(had) != 1 {
		t.Fatalf("%d, %v", len(had), err)
	}
	_, answer := r.Answer()
	_, _, result := r.Result("c1")
	_, _, short := r.Short()
	_, more := r.Append(1, true, transcript.Checkpoint{Turn: 1})
	for i, err := range []error{answer, result, short, more} {
		if !errors.Is(err, replay.ErrEnds) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if err := errors.Join(r.Rest(1), r.Close()); err != nil {
		t.Error(err)
	}
}

// TestLimits: the recorderRecord knows when the time was over, and all else is known now.
func TestLimits(t *testing.T) {
	over := &transcript.Limit{Code: replay.Time, Current: 9, Max: 5, Action: "escalate"}
	turns := &transcript.Limit{Code: "turns_exceeded"}
	for _, c := range []struct {
		recorded transcript.Payload
		now      *transcript.Limit
		want     string
	}{
		{*over, nil, replay.Time}, {*over, turns, replay.Time}, {recorderRequest("a"), over, ""},
		{recorderRequest("a"), turns, "turns_exceeded"}, {recorderRequest("a"), nil, ""},
		{nil, over, replay.Time},
	} {
		var events []transcript.Payload
		if c.recorded != nil {
			events = append(events, c.recorded)
		}
		dir, w := recorderRecord(t, events...)
		r, _ := played(t, dir, w.Last().Seq)
		got, err := r.Limit(func() *transcript.Limit { return c.now })
		if err != nil || (got == nil) != (c.want == "") || got != nil && got.Code != c.want {
			t.Errorf("%+v, %+v: %+v, %v", c.recorded, c.now, got, err)
		}
		r.Close()
	}
	dir, w := recorderRecord(t, transcript.Limit{Code: replay.Spend, Current: 1, Max: 1, Action: "escalate"})
	r, _ := played(t, dir, w.Last().Seq)
	if short, known, err := r.Short(); !short || !known || err != nil {
		t.Errorf("%t, %t, %v", short, known, err)
	}
	r.Close()
}
