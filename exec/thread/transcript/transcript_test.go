package transcript

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/exec/audit/receipt"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
)

const (
	thread    = "acme/deploy-1795000000-k3v9q"
	vectorDir = "../../../testdata/vectors/exec/transcript"
)

var (
	noon = time.Date(2026, 11, 20, 12, 0, 0, 123e6, time.UTC)
	own  = keytest.Seeded(1)
	user = keytest.Seeded(2)
	eve  = keytest.Seeded(9)
)

func sum(s string) cas.Digest { return cas.Sum([]byte(s)) }

// clock counts seconds from noon.
func clock() func() time.Time {
	t := noon.Add(-time.Second)
	return func() time.Time {
		t = t.Add(time.Second)
		return t
	}
}

func options() Options { return Options{Key: own, Now: clock()} }

func voucherOf(t testing.TB, k key.Private) []byte {
	t.Helper()
	b, err := receipt.Vouch(k.Public(), "build-7", user, noon)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func started() Started {
	return Started{Kind: "directive", Directive: Item{Ref: "directive:acme/deploy", Digest: sum("directive")},
		Loop:     Item{Ref: "tool:rye/agent/loop", Digest: sum("loop")},
		Provider: Item{Ref: "tool:rye/agent/providers/anthropic", Digest: sum("provider")}, Model: "claude",
		Set:    sum("set"),
		Lock:   sum("lock"),
		Policy: []cas.Digest{sum("policy")}, Grants: []string{"execute:tool:acme/*"},
		Limits: Limits{Turns: new(int64(25)),
			Spend: new(int64(1e9))}, Depth: 10,
		Inputs: sum("{}"), Principal: "ann"}
}

func driver(epoch int64, voucher []byte) Driver {
	return Driver{Epoch: epoch, Host: "build-7", Process: 4711, Program: "rye test", Voucher: voucher}
}

// Two turns of a thread: it has every kind of event but those that stop it, and a large payload.
func turns() [][]Payload {
	call := map[string]any{"path": "a <b> & c"}
	large := strings.Repeat("large result\n", 330)
	provider := started().Provider
	return [][]Payload{
		{Request{Turn: 1, Attempt: 1, Digest: sum("r1"), Messages: []any{Message{Role: "user", Text: "Deploy."}},
			Tools:    []any{map[string]any{"name": "rye_execute"}},
			Provider: provider, Model: "claude", Reserved: 12e6}},
		{Classified{Turn: 1, Attempt: 1, Error: Fault{Code: "RATE_LIMITED", Message: "slow down", Status: 429},
			Category: "rate_limited",
			ID:       "http_429", Retryable: true, Action: "retry", Delay: 2e9},
			Hook{ID: "default_retry_transient", Event: "error", Layer: 2, Ref: "tool:rye/control", Action: "retry",
				Result: map[string]any{"action": "retry"}},
			Request{Turn: 1, Attempt: 2, Digest: sum("r1"), Kept: 1, Messages: []any{}, Provider: provider,
				Model: "claude", Reserved: 12e6}},
		{Answer{Turn: 1, Attempt: 2, Text: "I'll look.", Calls: []ToolCall{{ID: "toolu_01", Name: "rye_execute",
			Input: call}}, Stop: "tool_calls", Model: "claude-1",
			Usage: &Usage{Input: 120, Output: 48, CacheRead: 900, Reported: true}, Cost: 3400000, Duration: 8e8},
			CallStarted{Call: "c1", ID: "toolu_01", Turn: 1, Name: "rye_execute", Ref: "tool:acme/x",
				Digest: sum("x"), Risk: "write", Input: call}},
		{Artifact{Call: "c1", Digest: sum(large), Media: "text/plain", Content: large},
			CallResult{Call: "c1", Status: CallOK, Output: "done", Result: sum("done"), Artifact: sum(large),
				Exec: "c-81", Duration: 5e7}, Checkpoint{Turn: 1}},
		{Request{Turn: 2, Attempt: 1, Digest: sum("r2"), Kept: 1, Messages: []any{map[string]any{"role": "assistant",
			"text": "I'll look.", "opaque": map[string]any{"format": "x"}},
			Message{Role: "tool", CallID: "toolu_01", Text: "done"}}, Provider: provider, Model: "claude"},
			Limit{Code: "turns_exceeded", Current: 2, Max: 2, Action: "escalate"}, Answer{Turn: 2, Attempt: 1,
				Text: "Deployed."}},
	}
}

func completed() Completed {
	return Completed{Result: "Deployed.", Outputs: map[string]any{"url": "https://a.example"}, Cost: Cost{Turns: 2,
		InputTokens: 1020, OutputTokens: 48, Spend: 3400000}}
}

// checkpoint signs everything up to here.
func checkpoint(t testing.TB, w *Writer) {
	t.Helper()
	_, err := w.Append(Checkpoint{Turn: 1})
	must(t, err)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write writes a whole thread into a new directory.
func write(t testing.TB, id string, o Options) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), id)
	w, err := Create(dir, id, started(), driver(1, voucherOf(t, o.Key)), o)
	must(t, err)
	for _, events := range append(turns(), []Payload{completed(), Checkpoint{Turn: 2}}) {
		_, err := w.Append(events...)
		must(t, err)
		reports(t, w)
	}
	must(t, w.Close())
	return dir
}

// reports compares what a writer knows of a transcript with what others find.
func reports(t testing.TB, w *Writer) {
	t.Helper()
	got, want := w.Report(), verify(t, w.dir, Check{Keys: append(w.o.Trust, w.o.Key.Public()), Unfinished: true})
	if want.Machines = []Machine{}; want.Signed.Seq > 0 && !reflect.DeepEqual(got, want) {
		t.Errorf("the writer's report: %+v, want %+v", got, want)
	}
}

func verify(t testing.TB, dir string, c Check) *Report {
	t.Helper()
	r, err := Verify(t.Context(), dir, c)
	must(t, err)
	return r
}

func TestWhole(t *testing.T) {
	dir := write(t, thread, options())
	for _, k := range []key.Private{own, user} {
		r := verify(t, dir, Check{Keys: []key.Public{eve.Public(), k.Public()}, Thread: thread})
		if r.Problem != nil || r.Status != StatusCompleted || r.Lines != 16 || r.Unsigned != 0 || r.Checkpoints != 2 ||
			r.Turns != 2 || r.Calls != 1 || r.Torn ||
			len(r.Machines) != 1 || r.Machines[0] != (Machine{own.Public(), k.Public(), 2}) || len(r.Tools) != 1 ||
			r.Tools[0].Ref != "tool:acme/x" ||
			len(r.Models) != 1 || r.Models[0].Calls != 3 || r.Models[0].Failed != 1 || r.Models[0].Cost != 3400000 ||
			r.Models[0].Usage.CacheRead != 900 ||
			r.Started.Directive.Digest != sum("directive") || !r.Began.Equal(noon) ||
			!strings.Contains(string(r.End), `"url":"https://a.example"`) {
			t.Errorf("%+v, %v", r, r.Problem)
		}
		if _, err := Verify(t.Context(), dir, Check{Keys: []key.Public{k.Public()},
			Seen: []Position{r.Last}}); err != nil {
			t.Error(err)
		}
	}
	golden(t, LinesFile, read(t, dir, LinesFile))
	golden(t, PayloadsFile, read(t, dir, PayloadsFile))
	n := 0
	for e, err := range Read(dir) {
		must(t, err)
		n++
		if e.Large != nil {
			b, err := e.Large.Load(dir)
			if err != nil || !bytes.Equal(b, e.Payload) {
				t.Error(err)
			}
		}
		if n == 14 {
			break
		}
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	goldentest.File(t, filepath.Join(vectorDir, name), got)
}

func read(t testing.TB, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return b
}

// TestCreateMore: what a thread begins with is there from the first moment, or nothing is.
func TestCreateMore(t *testing.T) {
	large := Artifact{Call: "handoff", Digest: sum("x"), Media: "text/plain", Content: strings.Repeat("x", MaxInline)}
	dir := filepath.Join(t.TempDir(), "t")
	if _, err := Create(dir, thread, started(), driver(1, nil), options(), large,
		CallResult{Call: "c1", Status: CallOK}); err == nil {
		t.Error("a call ends without having begun")
	}
	if Exists(dir) {
		t.Error("it exists")
	}
	w, err := Create(dir, thread, started(), driver(1, nil), options(), large)
	must(t, err)
	if must(t, w.Close()); !Exists(dir) {
		t.Error("it doesn't exist")
	}
	var all []Type
	for e, err := range Read(dir) {
		must(t, err)
		all = append(all, e.Type)
	}
	if got := fmt.Sprint(all); got != "[thread_started driver artifact]" {
		t.Error(got)
	}
}
