package v1

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
)

const vectorDir = "../../../../testdata/vectors/exec/transcript"

var own, eve = keytest.Seeded(1), keytest.Seeded(9)

// A writer writes as rye 1 does.
type writer struct {
	bytes.Buffer
	n int
	k key.Private
}

func (w *writer) event(kind, payload string) {
	w.n++
	fmt.Fprintf(w, `{"timestamp": %d.25, "thread_id": "test/spawn-1771402364", "event_type": "%s", "payload": %s}`+
		"\n", 1771402364+w.n, kind, payload)
}

func (w *writer) checkpoint(turn int) {
	sum := sha256.Sum256(w.Bytes())
	digits := hex.EncodeToString(sum[:])
	sig := w.k.Sign([]byte(digits))
	w.event("checkpoint",
		fmt.Sprintf(
			`{"turn": %d, "byte_offset": %d, "hash": "%s", "sig": "%s", "fp": "%s", "ts": "2026-02-18T08:12:44Z"}`,
			turn, w.Len(), digits, base64.URLEncoding.EncodeToString(sig[:]), w.k.Public().V1ID()))
}

func sample(k key.Private) []byte {
	w := &writer{k: k}
	w.event("cognition_in", `{"text": "Do it \u00e9.", "role": "user"}`)
	w.event("token_delta", `{"type": "text", "text": "I"}`)
	w.event("cognition_out", `{"text": "I'll look.", "model": "claude-3"}`)
	w.event("tool_call_start", `{"tool": "rye_execute", "call_id": "toolu_1", "input": {"item_id": "x"}}`)
	w.event("tool_call_result", `{"call_id": "toolu_1", "output": "{'a': 1}"}`)
	w.event("tool_call_start", `{"tool": "rye_load", "call_id": "toolu_2", "input": {}}`)
	w.event("tool_call_result", `{"call_id": "toolu_2", "output": "", "error": "denied"}`)
	w.event("checkpoint_saved", `{"turn": "1"}`)
	w.checkpoint(1)
	w.event("cognition_in", `{"text": "{'a': 1}", "role": "tool"}`)
	w.event("cognition_out", `{"text": "Done.", "model": "claude-3"}`)
	w.event("context_limit_reached", `{"usage_ratio": 0.95, "tokens_used": 190000, "tokens_limit": 200000}`)
	w.checkpoint(2)
	w.event("thread_completed",
		`{"cost": {"turns": 2, "input_tokens": 1200, "output_tokens": 80, "spend": 0.007280999999999999, "elapsed_seconds": 4.5}}`)
	return w.Bytes()
}

func verify(t testing.TB, b []byte, keys ...key.Private) *transcript.Report {
	t.Helper()
	var publics Keys
	for _, k := range keys {
		publics = append(publics, k.Public())
	}
	r, err := Verify(t.Context(), bytes.NewReader(b), publics)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestVerify(t *testing.T) {
	b := sample(own)
	goldentest.File(t, filepath.Join(vectorDir, "v1.jsonl"), b)
	r := verify(t, b, eve, own)
	if r.Problem != nil || r.Status != transcript.StatusCompleted || r.Lines != 14 || r.Unsigned != 1 ||
		r.Checkpoints != 2 || r.Turns != 2 || r.Calls != 2 || r.Torn ||
		r.Thread != "test/spawn-1771402364" || len(r.Models) != 1 || r.Models[0].Calls != 2 || len(r.Tools) != 2 ||
		len(r.Machines) != 1 || r.Machines[0].Key != own.Public() {
		t.Errorf("%+v %v", r, r.Problem)
	}
	lines := bytes.SplitAfter(b, []byte("\n"))
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	replace := func(from, to string) []byte { return bytes.Replace(b, []byte(from), []byte(to), 1) }
	for _, c := range []struct {
		name string
		b    []byte
		keys []key.Private
		line int64
		kind string
	}{
		{"nothing", nil, nil, 1, transcript.Unsigned},
		{"an unknown key", b, []key.Private{eve}, 9, transcript.Untrusted},
		{"an edited line", replace("I'll look", "I'd look"), nil, 9, transcript.Edited},
		{"a line gone", join(lines[0], join(lines[2:]...)), nil, 8, transcript.Edited},
		{"a line doubled", join(lines[0], b), nil, 10, transcript.Edited},
		{"lines swapped", join(lines[1], lines[0], join(lines[2:]...)), nil, 9, transcript.Edited},
		{"a checkpoint gone", join(join(lines[:8]...), join(lines[9:]...)), nil, 12, transcript.Edited},
		{"a checkpoint elsewhere", join(join(lines[:7]...), lines[8], lines[7]), nil, 8, transcript.Edited},
		{"another offset", replace(`"byte_offset": `, `"byte_offset": 1`), nil, 9, transcript.Edited},
		{"no offset", replace(`"byte_offset"`, `"bite_offset"`), nil, 9, transcript.Edited},
		{"another signature", replace(`"sig": "`, `"sig": "AAAA`), nil, 9, transcript.Forged},
		{"without checkpoints", join(join(lines[:8]...), join(lines[9:12]...), lines[13]), nil, 13,
			transcript.Unsigned},
		{"another thread", join(join(lines[:9]...), bytes.Replace(lines[9], []byte("spawn"), []byte("spown"), 1)),
			nil, 10, transcript.Swapped},
		{"no JSON", join(lines[0], []byte("x\n")), nil, 2, transcript.Edited},
		{"a member twice", replace(`"payload": {`, `"payload": {}, "payload": {`), nil, 1, transcript.Edited},
		{"no payload", replace(`"payload"`, `"pay"`), nil, 1, transcript.Edited},
		{"a text as time", replace(`1771402365.25`, `"1"`), nil, 1, transcript.Edited},
		{"a long line", bytes.Repeat([]byte("x"), MaxLine+1), nil, 1, transcript.Edited},
	} {
		if c.keys == nil {
			c.keys = []key.Private{own}
		}
		if p := verify(t, c.b, c.keys...).Problem; p == nil || p.Line != c.line || p.Kind != c.kind {
			t.Errorf("%s: %v, want line %d: %s", c.name, p, c.line, c.kind)
		}
	}
	// Rewritten by a forger without the key, who signs with their own.
	if p := verify(t, sample(eve), own).Problem; p == nil || p.Kind != transcript.Untrusted {
		t.Error(p)
	}
	// A transcript without turns needs no checkpoint, and one may end within a line.
	if r := verify(t, lines[13], own); r.Problem != nil || r.Unsigned != 1 {
		t.Error(r.Problem)
	}
	if r := verify(t, b[:len(b)-9], own); r.Problem != nil || !r.Torn || r.Status != transcript.StatusUnfinished ||
		r.Unsigned != 0 {
		t.Errorf("%+v", r)
	}
	for what, word := range map[string]string{"thread_error": transcript.StatusError,
		"thread_cancelled": transcript.StatusCancelled, "thread_continued": transcript.StatusContinued} {
		if r := verify(t, replace("thread_completed", what), own); r.Status != word {
			t.Error(r.Status, word)
		}
	}
}

// TestEveryByte changes each byte that a checkpoint is about.
func TestEveryByte(t *testing.T) {
	b := sample(own)
	signed := bytes.LastIndexByte(b[:bytes.LastIndex(b, []byte(`"hash"`))], '\n')
	for i := range signed {
		changed := bytes.Clone(b)
		changed[i] ^= 1
		if verify(t, changed, own).Problem == nil {
			t.Fatalf("byte %d, %q", i, b[max(0, i-20):i+20])
		}
	}
}

func TestSays(t *testing.T) {
	r := NewReader(bytes.NewReader(sample(own)))
	var c Converter
	var types []string
	for {
		e, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if p := c.Says(e); p != nil {
			types = append(types, string(p.Type()))
			if d, ok := p.(transcript.Completed); ok && (d.Cost.Spend != 7281000 || d.Cost.Elapsed != 4500e6 ||
				d.Cost.InputTokens != 1200) {
				t.Errorf("%+v", d)
			}
		}
	}
	const want = "request answer call_started call_result call_started call_result checkpoint request answer limit checkpoint thread_completed"
	if got := strings.Join(types, " "); got != want {
		t.Error(got)
	}
	for _, p := range []struct {
		kind, payload string
		want          transcript.Payload
	}{
		{"thread_handoff", `{"new_thread_id": "a-2"}`, nil},
		{"thread_continued", `{}`, transcript.HandedOff{Next: "a-2"}},
		{"thread_error", `{"error": "no", "cost": {"spend": -1}}`,
			transcript.Failed{Error: transcript.Fault{Message: "no"}}},
		{"thread_cancelled", `{}`, transcript.Cancelled{}},
		{"thread_resumed", `{"message_preview": "go"}`, transcript.Continued{Message: "go"}},
		{"else", `{}`, nil},
	} {
		e, err := parse([]byte(`{"timestamp":1,"thread_id":"a-1","event_type":"` + p.kind + `","payload":` +
			p.payload + `}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Says(e); !reflect.DeepEqual(got, p.want) {
			t.Errorf("%s: %+v", p.kind, got)
		}
	}
	if !Is([]byte(`{"timestamp":1,"event_type":"x"}`)) || Is([]byte(`{"prev":"","event_type":"x"}`)) ||
		Is([]byte(`x`)) {
		t.Error("Is")
	}
}

func signThread(b string, k key.Private) []byte {
	sum := sha256.Sum256([]byte(b))
	digits := hex.EncodeToString(sum[:])
	sig := k.Sign([]byte(digits))
	return fmt.Appendf(nil, `, "_signature": "rye:signed:2026-02-18T08:12:44Z:%s:%s:%s"}`, digits,
		base64.URLEncoding.EncodeToString(sig[:]), k.Public().V1ID())
}

func TestThread(t *testing.T) {
	const file = `{"status": "error", "thread_id": "a-1", "cost": {"spend": 0.007280999999999999, "max": 1.0, "small": 1.1764999726437964e-05, "n": 6}, "x": [true, false, null, "é\u007f\n\"\\😀/"]`
	const canonical = `{"cost":{"max":1.0,"n":6,"small":1.1764999726437964e-05,"spend":0.007280999999999999},"status":"error","thread_id":"a-1","x":[true,false,null,"\u00e9\u007f\n\"\\\ud83d\ude00/"]}`
	good := append([]byte(file), signThread(canonical, own)...)
	if status, k, err := VerifyThread(good, Keys{eve.Public(), own.Public()}); err != nil || k != own.Public() ||
		status != "error" {
		t.Error(status, k, err)
	}
	for _, c := range []struct {
		b    []byte
		keys Keys
		code fault.Code
	}{
		{good, Keys{eve.Public()}, fault.UntrustedKey},
		{bytes.Replace(good, []byte("1.0"), []byte("1.00"), 1), Keys{own.Public()}, fault.Integrity},
		{bytes.Replace(good, []byte("a-1"), []byte("a-2"), 1), Keys{own.Public()}, fault.Integrity},
		{bytes.Replace(good, []byte(own.Public().V1ID()), []byte(eve.Public().V1ID()), 1), Keys{eve.Public()},
			fault.SignatureInvalid},
		{[]byte(file + "}"), Keys{own.Public()}, fault.Unsigned},
		{[]byte(`[]`), nil, fault.Parsing}, {[]byte(`{`), nil, fault.Parsing},
		{[]byte(`{"a":1,"a":2}`), nil, fault.Parsing},
	} {
		if _, _, err := VerifyThread(c.b, c.keys); err == nil || fault.CodeOf(err) != c.code {
			t.Errorf("%s: %v", c.b, err)
		}
	}
}

// What is read is one of rye 1's lines, and nothing that is read crashes those who look at it.
func FuzzRead(f *testing.F) {
	f.Add(sample(own))
	f.Add([]byte(
		`{"timestamp":1e9,"thread_id":"a","event_type":"checkpoint","payload":{"byte_offset":0,"hash":"e3b0","fp":"x"}}` +
			"\n"))
	f.Add([]byte(`{"timestamp":1,"thread_id":"a","event_type":"thread_completed","payload":{"cost":{"spend":1e300}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Verify(t.Context(), bytes.NewReader(b), Keys{own.Public()})
		if err != nil || r.Problem == nil && r.Turns > 0 && r.Checkpoints == 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		var c Converter
		for from := NewReader(bytes.NewReader(b)); ; {
			e, err := from.Next()
			if _, ok := errors.AsType[*transcript.Problem](err); ok || err == io.EOF {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			c.Says(e)
		}
	})
}
