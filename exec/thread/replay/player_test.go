package replay_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/exec/thread/replay"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/key/keytest"
)

const id = "acme/plan-1795000000-a2b3c"

var own = keytest.Seeded(1)

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// clock counts seconds.
func clock() func() time.Time {
	t := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	return func() time.Time {
		t = t.Add(time.Second)
		return t
	}
}

func item(name string) transcript.Item {
	return transcript.Item{Ref: "tool:acme/" + name, Digest: cas.Sum([]byte(name))}
}

func started() transcript.Started {
	return transcript.Started{Kind: "directive", Format: transcript.Format,
		Directive: transcript.Item{Ref: "directive:acme/plan"}, Loop: item("loop"), Policy: []cas.Digest{},
		Grants: []string{}, Model: "m", Given: map[string]any{"n": 1.0}}
}

// What happens in the threads here.
var (
	request = transcript.Request{Turn: 1, Attempt: 1, Digest: cas.Sum([]byte("r")),
		Messages: []any{map[string]any{"role": "user", "text": "Go."}}, Provider: item("p"), Model: "m"}
	again  = func() transcript.Request { r := request; r.Attempt, r.Kept, r.Messages = 2, 1, []any{}; return r }()
	failed = transcript.Classified{Turn: 1, Attempt: 1, Error: transcript.Fault{Code: "RATE_LIMITED",
		Message: "slow down"}, Category: "rate_limited", Retryable: true, Action: "retry", Delay: 2e9}
	answer = transcript.Answer{Turn: 1, Attempt: 1, Text: "I'll look.", Cost: 5, Duration: 8e8}
	call   = transcript.CallStarted{Call: "c1", ID: "a", Turn: 1, Name: "rye_execute", Ref: "tool:acme/x",
		Input: map[string]any{"n": 1.0}, Key: "k"}
	large = transcript.Artifact{Call: "c1", Digest: cas.Sum([]byte("large")), Media: "text/plain",
		Content: strings.Repeat("large\n", 2000)}
	result  = transcript.CallResult{Call: "c1", Status: transcript.CallOK, Output: "done", Duration: 3e6}
	hook    = transcript.Hook{ID: "h", Event: "error", Action: "retry", Result: map[string]any{"n": 1.0}}
	stopped = transcript.Waiting{State: "interrupted", Reason: "limit", On: "a-1"}
	mark    = transcript.Checkpoint{Turn: 1}
	done    = transcript.Completed{Result: "done", Cost: transcript.Cost{Turns: 1, Spend: 5, Elapsed: 7e9}}
)

// A drive is a process that drives the thread from here on.
type drive struct{ transcript.Driver }

// record writes the transcript of a thread that begins with driver 1, and returns its directory.
func record(t testing.TB, events ...transcript.Payload) string {
	t.Helper()
	return recordAt(t, clock(), events...)
}

func recordAt(t testing.TB, now func() time.Time, events ...transcript.Payload) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "t")
	options := transcript.Options{Key: own, Now: now}
	w, err := transcript.Create(dir, id, started(), transcript.Driver{Epoch: 1}, options)
	must(t, err)
	for _, e := range events {
		if d, is := e.(drive); is {
			must(t, w.Close())
			w, err = transcript.Open(dir, d.Driver, options)
		} else {
			_, err = w.Append(e)
		}
		must(t, err)
	}
	must(t, w.Close())
	return dir
}

func next(epoch int64) drive { return drive{transcript.Driver{Epoch: epoch}} }

// open opens a record after its first event.
func open(t testing.TB, dir string, last int64) *replay.Player {
	t.Helper()
	p := replay.Open(dir, last)
	t.Cleanup(p.Close)
	if e, err := p.Take(); err != nil || e.Type != transcript.TypeStarted {
		t.Fatal(e, err)
	}
	return p
}

// types takes all that is left.
func types(t testing.TB, p *replay.Player) string {
	t.Helper()
	var all []string
	for {
		first, err := p.Peek()
		must(t, err)
		e, err := p.Take()
		must(t, err)
		if first != e {
			t.Fatalf("%v was next, and %v is taken", first, e)
		}
		if e == nil {
			return strings.Join(all, " ")
		}
		all = append(all, string(e.Type))
	}
}

func limitsOf(turns int64) *transcript.Limits { return &transcript.Limits{Turns: &turns} }

// TestGoesOn: where a thread stopped and went on, or lost its process, nothing is played; the limits that it was given
// are.
func TestGoesOn(t *testing.T) {
	on := func(turns int64) transcript.Continued {
		return transcript.Continued{Principal: "ann", Limits: limitsOf(turns)}
	}
	for name, c := range map[string]struct {
		events  []transcript.Payload
		want    string
		resumed int
		limits  []int64
	}{
		"never stopped": {[]transcript.Payload{hook, mark, done, mark},
			"hook checkpoint thread_completed checkpoint", 1, nil},
		"interrupted": {[]transcript.Payload{hook, stopped, mark, next(2), on(7), done},
			"hook thread_completed", 2, []int64{7}},
		"without a checkpoint": {[]transcript.Payload{hook, stopped, next(2), on(7), done},
			"hook thread_completed", 2, []int64{7}},
		"without limits": {[]transcript.Payload{hook, stopped, mark, next(2), transcript.Continued{}, done},
			"hook thread_completed", 2, nil},
		"killed": {[]transcript.Payload{hook, next(2), on(7), done}, "hook thread_completed", 2, []int64{7}},
		"killed before a word": {[]transcript.Payload{hook, next(2), next(3), on(8), done},
			"hook thread_completed", 3, []int64{8}},
		"twice in a row": {[]transcript.Payload{stopped, mark, next(2), on(7), stopped, mark, next(3), on(9),
			hook}, "hook", 3, []int64{7, 9}},
		"stopped for now": {[]transcript.Payload{hook, stopped, mark}, "hook waiting checkpoint", 1, nil},
		"a checkpoint is no stop": {[]transcript.Payload{hook, mark, next(2), on(7)}, "hook checkpoint", 2,
			[]int64{7}},
	} {
		p := open(t, record(t, c.events...), 0)
		if got := types(t, p); got != c.want || p.Resumed() != c.resumed {
			t.Errorf("%s: played %s, resumed %d times", name, got, p.Resumed())
		}
		var turns []int64
		for _, l := range p.Limits() {
			turns = append(turns, *l.Turns)
		}
		if !reflect.DeepEqual(turns, c.limits) || p.Limits() != nil {
			t.Errorf("%s: limits %v", name, turns)
		}
	}
}

// TestLast: a player ends where it is to end, and has ended once it is closed.
func TestLast(t *testing.T) {
	dir := record(t, hook, mark, hook, done)
	for last, want := range map[int64]string{3: "hook", 4: "hook checkpoint",
		0: "hook checkpoint hook thread_completed", 99: "hook checkpoint hook thread_completed"} {
		if got := types(t, open(t, dir, last)); got != want {
			t.Errorf("up to line %d: %s", last, got)
		}
	}
	p := open(t, dir, 0)
	p.Close()
	if e, err := p.Peek(); e != nil || err != nil {
		t.Error(e, err)
	}
	p.Close()
}

// TestElapsed: the time that a thread stood still doesn't count.
func TestElapsed(t *testing.T) {
	p := open(t, record(t, hook, stopped, mark, next(2), transcript.Continued{}, hook, hook), 0)
	if p.Elapsed() != 0 {
		t.Error(p.Elapsed())
	}
	// Every event is a second after the one before, but the first two are one.
	for _, want := range []time.Duration{1, 5, 6} {
		if _, err := p.Take(); err != nil || p.Elapsed() != want*time.Second {
			t.Errorf("%s, want %d s: %v", p.Elapsed(), want, err)
		}
	}
}

// TestSetBack: a clock that is set back gives a thread no more time.
func TestSetBack(t *testing.T) {
	forward, n := clock(), 0
	p := open(t, recordAt(t, func() time.Time {
		if n++; n > 1 {
			return forward().Add(-time.Hour)
		}
		return forward()
	}, hook, stopped, mark, next(2), transcript.Continued{}, hook), 0)
	last := time.Duration(0)
	for e, err := p.Take(); e != nil; e, err = p.Take() {
		if must(t, err); p.Elapsed() < 0 {
			t.Errorf("at %s: %s", e.Type, p.Elapsed())
		}
		last = p.Elapsed()
	}
	if last <= 0 {
		t.Errorf("it has run for %s", last)
	}
}

// TestResult: what came of a call is found behind what came of others, in its turn alone.
func TestResult(t *testing.T) {
	other, of := call, result
	other.Call, of.Call = "c2", "c2"
	second := request
	second.Turn = 2
	largeOf := large
	largeOf.Call = "c2"
	p := open(t, record(t, request, answer, call, other, largeOf, of, large, result, mark, second,
		transcript.CallStarted{Call: "c3", Name: "x", Turn: 2}), 0)
	for range 3 {
		_, err := p.Take()
		must(t, err)
	}
	r, a, err := p.Result("c1")
	if err != nil || r == nil || r.Output != "done" || a == nil || a.Content != large.Content || a.Call != "c1" {
		t.Errorf("%+v, %v", r, err)
	}
	if r, a, err = p.Result("c2"); err != nil || r.Call != "c2" || a.Call != "c2" {
		t.Errorf("%+v, %+v, %v", r, a, err)
	}
	if r, a, err = p.Result("c3"); r != nil || a != nil || err != nil {
		t.Errorf("found in the turn before: %+v, %v", r, err)
	}
	if got := types(t, p); !strings.HasPrefix(got, "call_started artifact call_result artifact call_result") {
		t.Errorf("the search took something: %s left", got)
	}
	if r, a, err = p.Result("c3"); r != nil || a != nil || err != nil {
		t.Errorf("found at the end: %+v, %v", r, err)
	}
}

// TestAnswer: what came of a request is the next answer or failure before another request.
func TestAnswer(t *testing.T) {
	p := open(t, record(t, request, hook, failed, again, next(2), request, answer, request), 0)
	takes := func(want transcript.Type) {
		t.Helper()
		if e, err := p.Take(); err != nil || e.Type != want {
			t.Fatal(e, err)
		}
	}
	says := func(answered, failed bool) {
		t.Helper()
		a, err := p.Answer()
		if must(t, err); (a.Answer != nil) != answered || (a.Failed != nil) != failed || answered &&
			a.Answer.Text != "I'll look." || failed && a.Failed.Error.Code != "RATE_LIMITED" {
			t.Errorf("%+v, %+v", a.Answer, a.Failed)
		}
	}
	takes(transcript.TypeRequest)
	says(false, true)
	takes(transcript.TypeHook)
	says(false, true)
	takes(transcript.TypeClassified)
	takes(transcript.TypeRequest)
	says(false, false) // the process ended then
	takes(transcript.TypeRequest)
	says(true, false)
	takes(transcript.TypeAnswer)
	takes(transcript.TypeRequest)
	says(false, false) // so does the record
}

// TestDamage: a record that was changed is an error where that begins, whatever is asked for, and stays one.
func TestDamage(t *testing.T) {
	for name, asks := range map[string]func(*replay.Player) error{
		"peek":   func(p *replay.Player) error { _, err := p.Peek(); return err },
		"take":   func(p *replay.Player) error { _, err := p.Take(); return err },
		"match":  func(p *replay.Player) error { _, _, err := p.Match(request, 1, true); return err },
		"rest":   func(p *replay.Player) error { return p.Rest(1) },
		"result": func(p *replay.Player) error { _, _, err := p.Result("c1"); return err },
		"answer": func(p *replay.Player) error { _, err := p.Answer(); return err },
	} {
		for _, before := range [][]transcript.Payload{nil, {stopped}, {stopped, mark}, {next(2)}} {
			dir := record(t, append(append([]transcript.Payload{hook}, before...), request, answer)...)
			path := filepath.Join(dir, transcript.LinesFile)
			b, err := os.ReadFile(path)
			must(t, err)
			must(t, os.WriteFile(path, bytes.Replace(b, []byte(`"type":"request"`), []byte(`"type":"answer"`), 1),
				0o600))
			p := open(t, dir, 0)
			_, err = p.Take() // the hook
			must(t, err)
			for range 2 {
				if _, is := errors.AsType[*transcript.Problem](asks(p)); !is {
					t.Errorf("%s after %v: %v", name, before, asks(p))
				}
			}
			p.Close()
		}
	}
	p := replay.Open(t.TempDir(), 0)
	defer p.Close()
	if e, err := p.Take(); !errors.Is(err, fs.ErrNotExist) || e != nil {
		t.Error(e, err)
	}
}

// TestTogether: calls that run side by side ask one player.
func TestTogether(t *testing.T) {
	const calls = 50
	var events []transcript.Payload
	name := func(i int) string { return "c" + strings.Repeat("x", i) }
	for i := range calls {
		events = append(events, transcript.CallStarted{Call: name(i), Name: "x", Turn: 1})
	}
	for i := range calls {
		events = append(events, transcript.CallResult{Call: name(i), Status: transcript.CallOK, Output: name(i)})
	}
	p := open(t, record(t, events...), 0)
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			if r, _, err := p.Result(name(i)); err != nil || r == nil || r.Output != name(i) {
				t.Errorf("%d: %+v, %v", i, r, err)
			}
			if e, err := p.Take(); err != nil || e.Type != transcript.TypeCallStarted {
				t.Errorf("%d: %+v, %v", i, e, err)
			}
		})
	}
	wg.Wait()
}
