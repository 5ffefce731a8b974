package thread_test

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// TestFallback: a permanent failure, a failure after all retries, a missing key and a server that doesn't run go to
// the fallback, once, and the record says so.
func TestFallback(t *testing.T) {
	t.Parallel()
	use := provider.Usage{Input: 10, Output: 5}
	busy := modeltest.Turn{Status: 429, RetryAfter: "0"}
	for _, c := range []struct {
		name, model string
		start       thread.Start
		turns       []modeltest.Turn
		asked       string // the models, in order
		status      string
		fallbacks   int
	}{
		{"permanent", `provider="local" id="one" fallback="local/two"`, thread.Start{},
			[]modeltest.Turn{{Status: 400, Message: "no"},
				{Calls: []provider.ToolCall{executes("a", "acme/echo", object{"text": "x"})}, Usage: use},
				{Text: "done", Usage: use}},
			"one two two", thread.Completed, 1},
		{"later", `provider="local" id="one" fallback="local/two"`, thread.Start{},
			[]modeltest.Turn{{Calls: []provider.ToolCall{executes("a", "acme/echo", object{"text": "x"})}, Usage: use},
				{Status: 403, Message: "no"}, {Text: "done", Usage: use}},
			"one one two", thread.Completed, 1},
		{"both", `provider="local" id="one" fallback="local/two"`, thread.Start{},
			[]modeltest.Turn{{Status: 400, Message: "no"}, {Status: 400, Message: "no"}}, "one two", thread.Failed, 1},
		{"transient", `provider="local" id="one" fallback="local/two"`, thread.Start{},
			[]modeltest.Turn{{Status: 429, RetryAfter: "0"}, {Text: "done", Usage: use}}, "one one", thread.Completed,
			0},
		{"after all retries", `provider="local" id="one" fallback="local/two"`, thread.Start{},
			[]modeltest.Turn{busy, busy, busy, {Text: "done", Usage: use}}, "one one two two", thread.Completed, 1},
		{"a stopped server", `provider="stopped" id="one" fallback="local/two"`, thread.Start{},
			[]modeltest.Turn{{Calls: []provider.ToolCall{executes("a", "acme/echo", object{"text": "x"})}, Usage: use},
				{Text: "done", Usage: use}}, "two two", thread.Completed, 1},
		{"missing key", `provider="anthropic" tier="fast" fallback="local/two"`, thread.Start{},
			[]modeltest.Turn{{Text: "done", Usage: use}}, "two", thread.Completed, 1},
		{"of a provider", `provider="anthropic" tier="fast" fallback="local"`,
			thread.Start{Limits: []string{"spend=1"}}, []modeltest.Turn{{Text: "done", Usage: use}}, "qwen3:8b",
			thread.Completed, 1},
		{"the caller's", `provider="local" id="one" fallback="local/two"`, thread.Start{Model: "local/three"},
			[]modeltest.Turn{{Status: 400, Message: "no"}}, "three", thread.Failed, 0},
		{"none", `provider="local" id="one"`, thread.Start{}, []modeltest.Turn{{Status: 400, Message: "no"}}, "one",
			thread.Failed, 0},
	} {
		items := plain(strings.ReplaceAll(asking, `provider="local" id="test-model"`, c.model))
		items["tools/rye/agent/providers/stopped.yaml"] = stopped(t)
		items["config/resilience.yaml"] = "schema_version: \"1.0.0\"\nretry: {max_retries: 1}\n"
		w := newWorld(t, items, c.turns...)
		r, err := w.run(t.Context(), c.start)
		must(t, err)
		var asked []string
		for _, q := range w.server.Requests() {
			asked = append(asked, q.Model)
		}
		fallbacks := 0
		for _, e := range w.events(r) {
			var f transcript.Classified
			if e.Type != transcript.TypeClassified {
				continue
			}
			if must(t, e.Decode(&f)); f.Action == "fallback" {
				fallbacks++
			}
		}
		if strings.Join(asked, " ") != c.asked || r.Status != c.status || fallbacks != c.fallbacks {
			t.Errorf("%s: asked %q, %s, %d fallbacks, %v", c.name, asked, r.Status, fallbacks, r.Error)
		}
		if c.fallbacks == 0 || c.status != thread.Completed {
			continue
		}
		// The record plays: what failed fails again, and the same follows.
		again, err := w.run(t.Context(), thread.Start{Replay: filepath.Join(w.engine.Dir,
			filepath.FromSlash(r.Thread)), Limits: c.start.Limits})
		must(t, err)
		if !again.Success || again.Cost.Turns != r.Cost.Turns {
			t.Errorf("%s: replayed: %+v, %v", c.name, again, again.Error)
		}
	}
	w := newWorld(t, plain(strings.ReplaceAll(asking, `id="test-model"`, `id="one" fallback="nothing"`)))
	if r, err := w.run(t.Context(), thread.Start{}); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("%+v, %v", r, err)
	}
}

// stopped returns the item of a provider at whose address no server listens.
func stopped(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, listener.Close())
	server := modeltest.New(t)
	return strings.ReplaceAll(server.Item("local"), server.Host, listener.Addr().String())
}

// TestFallbackStopped: a thread doesn't begin while neither the model's server nor its fallback's runs.
func TestFallbackStopped(t *testing.T) {
	t.Parallel()
	items := plain(strings.ReplaceAll(asking, `provider="local" id="test-model"`,
		`provider="stopped" id="one" fallback="stopped/two"`))
	items["tools/rye/agent/providers/stopped.yaml"] = stopped(t)
	w := newWorld(t, items)
	if r, err := w.run(t.Context(), thread.Start{}); r != nil || fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("%+v, %v", r, err)
	}
}
