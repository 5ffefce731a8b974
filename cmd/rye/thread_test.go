package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cmd/rye/audits"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/exec/audit/receipt"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/key"
)

// threadOf writes the transcript of a thread, signed by the machine of an app, into a directory. It ran with a lock of
// these bytes, nil for none.
func threadOf(a *cli.App, dir, id string, lock []byte, ended bool) error {
	p, err := audits.Dirs(a)
	if err != nil {
		return err
	}
	own, err := receipt.MachineKey(p.Machine)
	if err != nil {
		return err
	}
	voucher := receipt.Voucher(p.Machine, own.Public())
	if user, err := paths.Keys(a).Signing(); voucher == nil && err == nil {
		if voucher, err = receipt.Enroll(p.Machine, own.Public(), "build-7", user, a.Now()); err != nil {
			return err
		}
	}
	sum := func(s string) cas.Digest { return cas.Sum([]byte(s)) }
	provider := transcript.Item{Ref: "tool:rye/agent/providers/anthropic", Digest: sum("provider")}
	s := transcript.Started{Kind: "directive", Directive: transcript.Item{Ref: "directive:acme/deploy",
		Digest: sum("directive")}, Provider: provider,
		Loop: transcript.Item{Ref: "tool:rye/agent/loop", Digest: sum("loop")}, Model: "claude", Set: sum("set"),
		Policy: []cas.Digest{sum("policy")},
		Grants: []string{"execute:tool:acme/*"}, Limits: transcript.Limits{Turns: new(int64(25))}, Depth: 10,
		Principal: "ann"}
	if lock != nil {
		s.Lock = cas.Sum(lock)
	}
	w, err := transcript.Create(dir, id, s, transcript.Driver{Epoch: 1, Program: "rye test", Voucher: voucher},
		transcript.Options{Key: own, Now: a.Now})
	if err != nil {
		return err
	}
	call := map[string]any{"path": "a <b>", "list": []any{1, "x"}}
	large := strings.Repeat("line of a large result\n", 300)
	batches := [][]transcript.Payload{
		{transcript.Request{Turn: 1, Attempt: 1, Digest: sum("r1"),
			Messages: []any{transcript.Message{Role: "user", Text: "Deploy the site.\n\n\tgo\x1b[31m"}},
			Provider: provider, Model: "claude"}},
		{transcript.Answer{Turn: 1, Attempt: 1, Text: "I'll look.",
			Calls: []transcript.ToolCall{{ID: "toolu_01", Name: "acme_x", Input: call}}, Model: "claude-1",
			Usage: &transcript.Usage{Input: 120, Output: 48, CacheRead: 900, Reported: true}, Cost: 3_400_000},
			transcript.CallStarted{Call: "c1", ID: "toolu_01", Turn: 1, Name: "acme_x", Ref: "tool:acme/x",
				Digest: sum("x"), Risk: "write", Input: call},
			transcript.CallStarted{Call: "c2", Turn: 1, Name: "acme_y", Input: "```"}},
		{transcript.Artifact{Call: "c1", Digest: sum(large), Media: "text/plain", Content: large},
			transcript.CallResult{Call: "c1", Status: transcript.CallOK, Output: map[string]any{"status": "done"},
				Artifact: sum(large)},
			transcript.CallResult{Call: "c2", Status: transcript.CallRefused,
				Error: &transcript.Fault{Code: "PERMISSION_DENIED", Message: "no"}},
			transcript.Hook{ID: "watch", Event: "after_step", Action: "continue"}, transcript.Checkpoint{Turn: 1}},
		{transcript.Waiting{State: "interrupted", Reason: "budget"}, transcript.Continued{Message: "Go on."},
			transcript.Request{Turn: 2, Attempt: 1, Digest: sum("r2"), Kept: 1,
				Messages: []any{transcript.Message{Role: "tool", CallID: "toolu_01", Text: "done"}},
				Provider: provider, Model: "claude"},
			transcript.Classified{Turn: 2, Attempt: 1, Error: transcript.Fault{Code: "RATE_LIMITED", Message: "slow"},
				Category: "rate_limited", Action: "fail"},
			transcript.Limit{Code: "turns_exceeded", Current: 2, Max: 2}},
	}
	if ended {
		batches = append(batches, []transcript.Payload{transcript.Completed{Result: "Deployed.",
			Outputs: map[string]any{"url": "https://a.example"},
			Cost:    transcript.Cost{Turns: 2, InputTokens: 1020, OutputTokens: 48, Spend: 3_400_000}},
			transcript.Checkpoint{Turn: 2}})
	}
	for _, events := range batches {
		if _, err := w.Append(events...); err != nil {
			return errors.Join(err, w.Close())
		}
	}
	return w.Close()
}

// firstThread writes a thread as rye 1 does, signed by a key unless that is zero.
func firstThread(dir string, k key.Private) error {
	var b bytes.Buffer
	n := 0
	event := func(kind, payload string) {
		n++
		fmt.Fprintf(&b,
			`{"timestamp": %d.25, "thread_id": "test/spawn-1771402364", "event_type": "%s", "payload": %s}`+"\n",
			1771402364+n, kind, payload)
	}
	event("cognition_in", `{"text": "Spawn it.", "role": "user"}`)
	event("token_delta", `{"type": "text", "text": "Yes"}`)
	event("cognition_out", `{"text": "Yes.", "model": "claude-3"}`)
	event("tool_call_start", `{"tool": "rye_execute", "call_id": "toolu_1", "input": {"item_id": "x"}}`)
	event("tool_call_result", `{"call_id": "toolu_1", "output": "", "error": "denied"}`)
	if !k.IsZero() {
		sum := sha256.Sum256(b.Bytes())
		digits := hex.EncodeToString(sum[:])
		sig := k.Sign([]byte(digits))
		event("checkpoint",
			fmt.Sprintf(
				`{"turn": 1, "byte_offset": %d, "hash": "%s", "sig": "%s", "fp": "%s", "ts": "2026-02-18T08:12:44Z"}`,
				b.Len(), digits, base64.URLEncoding.EncodeToString(sig[:]), k.Public().V1ID()))
	}
	event("thread_error",
		`{"cost": {"turns": 1, "input_tokens": 12, "output_tokens": 3, "spend": 0.00728}, "error": "gave up"}`)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, transcript.LinesFile), b.Bytes(), 0o600)
}

// firstThreadFile writes the thread.json of rye 1.
func firstThreadFile(dir, status string, k key.Private) error {
	text := `{"directive":"test/spawn","status":"` + status + `"`
	sum := sha256.Sum256([]byte(text + "}"))
	digits := hex.EncodeToString(sum[:])
	sig := k.Sign([]byte(digits))
	return os.WriteFile(filepath.Join(dir, "thread.json"),
		fmt.Appendf(nil, `%s,"_signature":"rye:signed:2026-02-18T08:12:45Z:%s:%s:%s"}`,
			text, digits, base64.URLEncoding.EncodeToString(sig[:]), k.Public().V1ID()), 0o600)
}

// thread is "thread [-unfinished|-v1|-v1unsigned] ID [LOCK]": the thread is in .ai/threads/ID of the script's
// directory. One of rye 1 has a signed thread.json with a status in the place of a lock.
func thread(ts *testscript.TestScript, neg bool, args []string) {
	how := ""
	if len(args) > 0 && strings.HasPrefix(args[0], "-") {
		how, args = args[0], args[1:]
	}
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: thread [-unfinished|-v1|-v1unsigned] ID [LOCK]")
	}
	h, _, _ := testHost()
	h.Now = time.Now
	for _, name := range []string{"HOME", "USERPROFILE", "LOCALAPPDATA", "XDG_STATE_HOME", cli.EnvKey,
		cli.EnvPassphrase} {
		h.Environ = append(h.Environ, name+"="+ts.Getenv(name))
	}
	h.Getwd = func() (string, error) { return ts.MkAbs("."), nil }
	a, err := cli.NewApp(h, h.Terminal(true), cli.Globals{}, commands())
	ts.Check(err)
	dir := ts.MkAbs(filepath.Join(".ai", "threads", filepath.FromSlash(args[0])))
	var k key.Private
	switch how {
	case "-v1":
		k, err = paths.Keys(a).Open()
		ts.Check(err)
		fallthrough
	case "-v1unsigned":
		ts.Check(firstThread(dir, k))
		if len(args) == 2 {
			ts.Check(firstThreadFile(dir, args[1], k))
		}
		return
	}
	var lock []byte
	if len(args) == 2 {
		lock = []byte(ts.ReadFile(args[1]))
	}
	ts.Check(threadOf(a, dir, args[0], lock, how == ""))
}

// threadWords are those of the commands about threads, and what they need.
func threadWords(t *testing.T, home string) map[string][]string {
	t.Helper()
	h, _, _ := testHost("HOME="+home, "USERPROFILE="+home, "LOCALAPPDATA="+home)
	a, err := cli.NewApp(h, h.Terminal(true), cli.Globals{}, commands())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "t-1")
	if err := threadOf(a, dir, "t-1", nil, true); err != nil {
		t.Fatal(err)
	}
	return map[string][]string{"thread show": {dir}, "thread logs": {dir}, "thread cost": {dir},
		"thread verify": {dir}, "thread export": {dir, "-o", filepath.Join(t.TempDir(), "t.tar.zst")}}
}
