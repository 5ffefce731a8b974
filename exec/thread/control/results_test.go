package control_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/transcript"
)

const id = "acme/plan-1795000000-a2b3c"

// write writes the transcript of a thread.
func write(t testing.TB, dir string, events ...transcript.Payload) {
	t.Helper()
	w, err := transcript.Create(dir, id, transcript.Started{Kind: "directive",
		Directive: transcript.Item{Ref: "directive:acme/plan", Digest: cas.Sum(nil)},
		Policy:    []cas.Digest{}, Grants: []string{"execute:tool:acme/*"}, Model: "m"}, transcript.Driver{Epoch: 1},
		transcript.Options{Key: own, Now: func() time.Time { return noon }})
	must(t, err)
	_, err = w.Append(events...)
	must(t, err, w.Close())
}

var used = transcript.Cost{Turns: 2, InputTokens: 30, OutputTokens: 4, Spend: 250_000_000, Below: 1_500_000_000,
	Elapsed: 1500 * time.Millisecond}

var resultsCost = control.Cost{Turns: 2, InputTokens: 30, OutputTokens: 4, Spend: 0.25, Below: 1.5, Seconds: 1.5}

// TestOf: what became of a thread is what its last event says, whatever stands before it and however it is signed.
func TestOf(t *testing.T) {
	for name, c := range map[string]struct {
		end  transcript.Payload
		want control.Result
	}{
		"completed": {transcript.Completed{Result: "done", Outputs: map[string]any{"n": 1.0}, Cost: used},
			control.Result{Success: true, Status: control.StatusCompleted, Result: "done",
				Outputs: map[string]any{"n": 1.0}, Cost: resultsCost}},
		"failed": {transcript.Failed{Error: transcript.Fault{Code: "LIMIT_EXCEEDED", Message: "100% used"},
			Cost: used},
			control.Result{Status: control.StatusFailed, Cost: resultsCost,
				Error: fault.New(fault.Limit, "100%% used")}},
		"unknown code": {transcript.Failed{Error: transcript.Fault{Code: "NEVER_HEARD", Message: "x"}, Cost: used},
			control.Result{Status: control.StatusFailed, Cost: resultsCost, Error: fault.New("NEVER_HEARD", "x")}},
		"cancelled": {transcript.Cancelled{By: "ann", Cost: used},
			control.Result{Status: control.StatusCancelled, Cost: resultsCost,
				Error: fault.New(fault.Cancelled, "the thread was cancelled")}},
		"killed": {transcript.Cancelled{By: "ann", Killed: true, Cost: used},
			control.Result{Status: control.StatusKilled, Cost: resultsCost,
				Error: fault.New(fault.Cancelled, "the thread was killed")}},
		"handed over": {transcript.HandedOff{Next: "acme/plan-1795000100-zz2b4", Reason: "context", Cost: used},
			control.Result{Status: control.StatusContinued, Cost: resultsCost, Next: "acme/plan-1795000100-zz2b4"}},
	} {
		for _, after := range [][]transcript.Payload{nil, {transcript.Checkpoint{Turn: 2}}} {
			dir := filepath.Join(t.TempDir(), "t")
			write(t, dir, append([]transcript.Payload{transcript.Waiting{State: "interrupted", Reason: "limit"},
				transcript.Checkpoint{Turn: 1}, c.end}, after...)...)
			c.want.Thread, c.want.Directive = id, "acme/plan"
			got, err := control.ResultOf(dir)
			must(t, err)
			if e, want := got.Error, c.want.Error; (e == nil) != (want == nil) || e != nil &&
				(e.Code != want.Code || e.Text != want.Text || e.Line().Exit == 0) {
				t.Errorf("%s: %v", name, e)
			}
			got.Error = c.want.Error
			if !reflect.DeepEqual(*got, c.want) {
				t.Errorf("%s: %+v, want %+v", name, got, c.want)
			}
		}
	}
}

// TestNoEnd: of a thread that hasn't ended, or whose transcript is damaged, nothing became.
func TestNoEnd(t *testing.T) {
	if r, err := control.ResultOf(t.TempDir()); !errors.Is(err, fs.ErrNotExist) || r != nil {
		t.Errorf("%+v, %v", r, err)
	}
	for name, edit := range map[string]func([]byte) []byte{
		"unfinished": func(b []byte) []byte { return b[:bytes.LastIndex(b[:len(b)-1], []byte("\n"))+1] },
		"torn":       func(b []byte) []byte { return b[:len(b)-1] },
		"edited": func(b []byte) []byte {
			return bytes.Replace(b, []byte(`"model":"m"`), []byte(`"model":"n"`), 1)
		},
		"line gone": func(b []byte) []byte { return b[bytes.IndexByte(b, '\n')+1:] },
		"no lines":  func([]byte) []byte { return []byte("hello\n") },
		"empty":     func([]byte) []byte { return nil },
	} {
		dir := filepath.Join(t.TempDir(), "t")
		write(t, dir, transcript.Completed{Result: "done"})
		path := filepath.Join(dir, transcript.LinesFile)
		b, err := os.ReadFile(path)
		must(t, err, os.WriteFile(path, edit(b), 0o600))
		if r, err := control.ResultOf(dir); fault.CodeOf(err) != fault.Integrity && !isProblem(err) || r != nil {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

func isProblem(err error) bool {
	_, is := errors.AsType[*transcript.Problem](err)
	return is
}

// TestUsage: a thread that has no end has used every token that its answers report, those of the cache too: a limit on
// tokens would begin anew when it is resumed.
func TestUsage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "t")
	write(t, dir, transcript.Request{Turn: 1, Attempt: 1, Digest: cas.Sum(nil), Messages: []any{},
		Provider: transcript.Item{Ref: "tool:acme/p"}, Model: "m"},
		transcript.Answer{Turn: 1, Attempt: 1, Stop: "stop", Cost: 7, Usage: &transcript.Usage{Input: 1, CacheRead: 20,
			CacheWrite: 300, Output: 4000, Reasoning: 50_000}})
	p, err := control.SoFar(dir)
	must(t, err)
	if got, want := p.Used(), (transcript.Cost{Turns: 1, InputTokens: 321, OutputTokens: 54_000,
		Spend: 7}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestSummarise: thread.json says what the transcript says, and is written anew when that has gone on.
func TestSummarise(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "t")
	turns := int64(7)
	request := transcript.Request{Turn: 1, Attempt: 1, Digest: cas.Sum(nil), Messages: []any{},
		Provider: transcript.Item{Ref: "tool:acme/p"}, Model: "m"}
	w, err := transcript.Create(dir, id, transcript.Started{Kind: "directive",
		Directive: transcript.Item{Ref: "directive:acme/plan"}, Policy: []cas.Digest{},
		Grants: []string{"execute:tool:acme/*"}, Model: "m", Limits: transcript.Limits{Turns: &turns}},
		transcript.Driver{Epoch: 1}, transcript.Options{Key: own, Now: func() time.Time { return noon }})
	must(t, err)
	t.Cleanup(func() { w.Close() })
	_, err = w.Append(request, transcript.Answer{Turn: 1, Attempt: 1, Cost: 5,
		Usage: &transcript.Usage{Input: 3, Reported: true}}, transcript.Checkpoint{Turn: 1})
	must(t, err, control.Summarise(dir, w.Report(), "interrupted"))
	read := func() (s map[string]any) {
		b, err := os.ReadFile(filepath.Join(dir, transcript.SummaryFile))
		must(t, err, json.Unmarshal(b, &s))
		if info, err := os.Stat(filepath.Join(dir, transcript.SummaryFile)); err != nil ||
			info.Mode().Perm() != 0o600 || !bytes.HasSuffix(b, []byte("}\n")) {
			t.Errorf("%v, %v, %s", info, err, b)
		}
		return s
	}
	s := read()
	if s["thread_id"] != id || s["status"] != "interrupted" || s["directive"] != "directive:acme/plan" ||
		s["kind"] != "directive" || s["turns"] != 1.0 || s["end"] != nil ||
		s["created_at"] != "2026-11-20T12:00:00Z" || s["limits"].(map[string]any)["turns"] != 7.0 ||
		s["models"].([]any)[0].(map[string]any)["cost"] != 5.0 ||
		s["last"].(map[string]any)["seq"] != 5.0 || s["capabilities"].([]any)[0] != "execute:tool:acme/*" {
		t.Errorf("%v", s)
	}
	_, err = w.Append(transcript.Completed{Result: "done <b>"}, transcript.Checkpoint{Turn: 1})
	must(t, err, control.Summarise(dir, w.Report(), "completed"))
	if s = read(); s["status"] != "completed" || s["end"].(map[string]any)["result"] != "done <b>" {
		t.Errorf("%v", s)
	}
	must(t, os.Remove(filepath.Join(dir, transcript.SummaryFile)),
		os.Mkdir(filepath.Join(dir, transcript.SummaryFile), 0o700))
	if err := control.Summarise(dir, w.Report(), "completed"); err == nil {
		t.Error("written in place of a directory")
	}
}

func TestFault(t *testing.T) {
	for _, c := range []struct {
		e    *fault.Error
		want string
	}{
		{fault.New(fault.Limit, "no more"), `{"error":{"code":"LIMIT_EXCEEDED","message":"no more"}}`},
		{fault.New(fault.Integrity, "changed").On("found", cas.Sum(nil)).On("line", int64(3)).Because("hidden"),
			`{"error":{"code":"INTEGRITY_FAILED","details":{"found":"` + cas.Sum(nil).String() +
				`","line":3},"message":"changed"}}`},
	} {
		got := control.FaultOf(c.e)
		if b, err := json.Marshal(got); err != nil || string(b) != c.want {
			t.Errorf("%s, %v", b, err)
		}
		if r := control.RecordedFault(c.e); r.Code != string(c.e.Code) || r.Message != c.e.Text || r.Status != 0 {
			t.Errorf("%+v", r)
		}
		if !reflect.DeepEqual(got, control.Values(got)) {
			t.Errorf("%v isn't made of JSON's values", got)
		}
	}
}

func TestValues(t *testing.T) {
	one := int64(1)
	for _, c := range []struct{ of, want any }{
		{nil, nil}, {3, 3.0}, {[]string(nil), nil}, {[]string{"a"}, []any{"a"}}, {transcript.Limits{Turns: &one},
			map[string]any{"turns": 1.0}},
		{map[string]any{"a": []int{1}}, map[string]any{"a": []any{1.0}}},
	} {
		if got := control.Values(c.of); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v becomes %#v", c.of, got)
		}
	}
	defer func() {
		if said, _ := recover().(string); !strings.Contains(said, "func() is not made of JSON") {
			t.Errorf("%q", said)
		}
	}()
	control.Values(func() {})
}

func TestReason(t *testing.T) {
	for code, want := range map[fault.Code]string{fault.Budget: "budget", fault.Cancelled: "signal",
		fault.Limit: "limit", fault.Denied: "limit"} {
		if got := control.Reason(fault.New(code, "x")); got != want {
			t.Errorf("%s: %s", code, got)
		}
	}
}

func TestAdd(t *testing.T) {
	sum := resultsCost
	sum.Add(resultsCost)
	if want := (control.Cost{Turns: 4, InputTokens: 60, OutputTokens: 8, Spend: 0.5, Below: 3,
		Seconds: 3}); sum != want {
		t.Errorf("%+v", sum)
	}
	if sum.Add(control.Cost{}); sum.Turns != 4 {
		t.Errorf("%+v", sum)
	}
}

// FuzzOf: whatever stands in the files of a thread, it is an error or one end with what belongs to it.
func FuzzOf(f *testing.F) {
	for _, end := range []transcript.Payload{transcript.Completed{Result: "done"},
		transcript.HandedOff{Next: "acme/b"}, transcript.Cancelled{Killed: true},
		transcript.Failed{Error: transcript.Fault{Code: "X", Message: strings.Repeat("x", transcript.MaxInline)}}} {
		dir := filepath.Join(f.TempDir(), "t")
		write(f, dir, end)
		lines, err := os.ReadFile(filepath.Join(dir, transcript.LinesFile))
		must(f, err)
		payloads, err := os.ReadFile(filepath.Join(dir, transcript.PayloadsFile))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			f.Fatal(err)
		}
		f.Add(lines, payloads)
		f.Add(lines[:len(lines)/2], payloads)
	}
	f.Fuzz(func(t *testing.T, lines, payloads []byte) {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, transcript.LinesFile), lines, 0o600),
			os.WriteFile(filepath.Join(dir, transcript.PayloadsFile), payloads, 0o600))
		r, err := control.ResultOf(dir)
		if (err == nil) != (r != nil) {
			t.Fatalf("%+v, %v", r, err)
		}
		if r == nil {
			return
		}
		failed := r.Status == control.StatusFailed || r.Status == control.StatusCancelled ||
			r.Status == control.StatusKilled
		if r.Thread == "" || r.Success != (r.Status == control.StatusCompleted) || failed != (r.Error != nil) ||
			(r.Status == control.StatusContinued) != (r.Next != "") {
			t.Fatalf("%+v", r)
		}
	})
}
