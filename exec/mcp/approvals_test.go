package mcp_test

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rye-build/rye/exec/approval"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/exec/mcp"
	"github.com/rye-build/rye/exec/serve"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/transcript"
)

const asksAll = "ask:\n  all: {names: [\"tool:acme/greet\"]}\n"

type noLog struct{}

func (noLog) Ask(context.Context, *record.Approval) error { return nil }

// requests are those of the user.
func (s *served) requests() *approval.Local {
	l := approval.Open(filepath.Join(s.p.Home, "state"), time.Now, noLog{}, nil)
	s.t.Cleanup(func() { l.Close() })
	return l
}

// await waits until the newest request is in a state, and returns it.
func (s *served) await(l *approval.Local, state approval.State) (r *approval.Request) {
	s.t.Helper()
	return s.awaitIn(l, approval.Filter{}, state)
}

// awaitIn waits until the newest request of a filter has a state. A minute is enough for any.
func (s *served) awaitIn(l *approval.Local, f approval.Filter, state approval.State) (r *approval.Request) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	if err := l.Watch(ctx, f, func(all []*approval.Request) (bool, error) {
		if len(all) == 0 {
			return false, nil
		}
		r = all[0]
		return r.State == state, nil
	}); err != nil {
		s.t.Fatalf("waiting for %s: %v: %+v", state, err, r)
	}
	return r
}

func (s *served) answer(l *approval.Local, id string, to approval.State) {
	s.t.Helper()
	_, err := l.Do(s.t.Context(), id, approval.Step{To: to, By: "bob", Through: "rye " + string(to),
		Reason: "because"})
	s.must(err)
}

func greeting(name string) object {
	return item("tool", "acme/greet", "parameters", object{"name": name})
}

// TestElicited: a client that has elicitation asks its user, whose answer counts as any other does.
func TestElicited(t *testing.T) {
	t.Parallel()
	var reply *sdk.ElicitResult
	var message string
	var before func()
	s := serveAsked(t, func(_ context.Context, q *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
		message = q.Params.Message
		if before != nil {
			before()
		}
		return reply, nil
	}, "tool:acme/greet")
	s.policy(asksAll)
	l := s.requests()
	accept := func(yes bool) *sdk.ElicitResult {
		return &sdk.ElicitResult{Action: "accept", Content: object{"approve": yes}}
	}
	for _, c := range []struct {
		name, tool string
		given      object
		reply      *sdk.ElicitResult
		state      approval.State
		made       bool
	}{
		{"yes", "execute", greeting("Ann"), accept(true), approval.Done, true},
		{"by its own name", "acme_greet", object{"name": "Bea"}, accept(true), approval.Done, true},
		{"no", "execute", greeting("Cem"), accept(false), approval.Denied, false},
		{"declined", "execute", greeting("Dan"), &sdk.ElicitResult{Action: "decline"}, approval.Denied, false},
		{"left open", "execute", greeting("Eve"), &sdk.ElicitResult{Action: "cancel"}, approval.Pending, false},
	} {
		reply = c.reply
		answer, failed := s.call(c.tool, c.given)
		if failed == c.made {
			t.Errorf("%s: %v", c.name, answer)
		}
		if r := s.await(l, c.state); c.made && (r.Through != "mcp" || r.By == "") {
			t.Errorf("%s: %+v", c.name, r)
		}
		if !strings.HasPrefix(message,
			"tool:acme/greet needs an approval: asked by \"all\" of your policy\n  name: ") {
			t.Errorf("%s: %q", c.name, message)
		}
	}
	// Another door answers while the user is asked.
	reply, before = &sdk.ElicitResult{Action: "cancel"}, func() {
		s.answer(l, s.await(l, approval.Pending).ID, approval.Denied)
	}
	if answer, failed := s.call("execute", greeting("Fay")); !failed ||
		!strings.Contains(fmt.Sprint(answer), "denied by bob") {
		t.Errorf("%v", answer)
	}
	// Who asks can't approve.
	before = func() { t.Error("the caller is asked") }
	s.policy("ask:\n  two: {names: [\"tool:acme/greet\"], separate: true}\n")
	if got := s.code("execute", greeting("Gus")); got != "APPROVAL_REQUIRED" {
		t.Error(got)
	}
}

// TestElicitedAgain: each call of a client is asked about, also one that was made before, and a denied one isn't asked
// about again.
func TestElicitedAgain(t *testing.T) {
	t.Parallel()
	asked, yes := 0, true
	s := serveAsked(t, func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
		asked++
		return &sdk.ElicitResult{Action: "accept", Content: object{"approve": yes}}, nil
	})
	s.policy(asksAll)
	for n := 1; n <= 3; n++ {
		if answer, failed := s.call("execute", greeting("Ann")); failed || asked != n {
			t.Errorf("call %d, asked %d times: %v", n, asked, answer)
		}
	}
	yes = false
	for range 2 {
		if answer, failed := s.call("execute", greeting("Bea")); !failed || asked != 4 {
			t.Errorf("asked %d times: %v", asked, answer)
		}
	}
}

// TestEndsAsking: a server ends although a call waits for the answer of its client's user, who never gives one: when
// it is closed, and a moment after its context has ended.
func TestEndsAsking(t *testing.T) {
	t.Parallel()
	asked, release := make(chan struct{}, 2), make(chan struct{})
	never := func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
		asked <- struct{}{}
		<-release
		return &sdk.ElicitResult{Action: "cancel"}, nil
	}
	defer close(release)
	s := serveAsked(t, never)
	s.policy(asksAll)
	s.closed = true
	end := func(what string, client *sdk.ClientSession, end func()) {
		t.Helper()
		go client.CallTool(context.Background(), &sdk.CallToolParams{Name: "execute", Arguments: greeting(what)})
		<-asked
		ended := make(chan struct{})
		go func() { end(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Errorf("%s: it still runs after a minute", what)
		}
	}
	end("closed", s.client, s.server.Close)

	other := mcp.New(mcp.Options{Open: s.open, Project: s.p.Dir, State: filepath.Join(s.p.Home, "state"),
		Version: "test", Now: time.Now, Warn: s.warn, Grace: time.Millisecond})
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- other.Run(ctx, mcp.Lines(fromClient, toClient)) }()
	client, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"},
		&sdk.ClientOptions{ElicitationHandler: never}).Connect(t.Context(), mcp.Lines(fromServer, toServer), nil)
	s.must(err)
	end("asked to end", client, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestClientLimits: limits that a client names only lower those of the directive.
func TestClientLimits(t *testing.T) {
	t.Parallel()
	s := serving(t)
	for _, c := range []struct{ given, want object }{
		{object{"spend": 100, "turns": 50, "tokens": 9000000, "duration_seconds": 86400, "spawns": 1000},
			object{"spend": 0.5, "turns": 3.0, "tokens": 100000.0, "duration_seconds": 1800.0, "spawns": 50.0}},
		{object{"spend": 0.25, "turns": 2}, object{"spend": 0.25, "turns": 2.0}},
	} {
		s.models.Add(modeltest.Turn{Text: "done"})
		answer, failed := s.call("execute", item("tool", "rye/agent/threads/thread_directive", "parameters",
			object{"directive_name": "acme/asking", "inputs": object{"topic": "x"}, "limit_overrides": c.given}))
		data, _ := answer["data"].(object)
		id, _ := data["thread"].(string)
		if failed || id == "" {
			t.Fatalf("%v", answer)
		}
		for e, err := range transcript.Read(filepath.Join(s.p.Dir, ".ai", "threads", filepath.FromSlash(id))) {
			s.must(err)
			var started transcript.Started
			s.must(e.Decode(&started))
			l := started.Limits
			got := object{"spend": float64(*l.Spend) / 1e9, "turns": float64(*l.Turns), "tokens": float64(*l.Tokens),
				"duration_seconds": float64(*l.Duration) / 1e9, "spawns": float64(*l.Spawns)}
			for name, want := range c.want {
				if got[name] != want {
					t.Errorf("%s is %v, want %v", name, got[name], want)
				}
			}
			break
		}
	}
}

// TestHeld: a client without elicitation learns which request waits. Once it is approved the server makes the call,
// once, and the same call again gets its outcome.
func TestHeld(t *testing.T) {
	t.Parallel()
	s := serving(t)
	s.policy(asksAll)
	l := s.requests()
	waits := func(name string) *approval.Request {
		t.Helper()
		answer, failed := s.call("execute", greeting(name))
		r := s.await(l, approval.Pending)
		if text := fmt.Sprint(answer); !failed || !strings.Contains(text, "APPROVAL_REQUIRED") ||
			!strings.Contains(text, "rye approve "+r.ID) {
			t.Fatalf("%v", answer)
		}
		return r
	}
	r := waits("Ann")
	if again := waits("Ann"); again.ID != r.ID || r.Door != approval.Server {
		t.Errorf("%+v, %+v", r, again)
	}
	s.answer(l, r.ID, approval.Approved)
	s.await(l, approval.Done)
	if answer, failed := s.call("execute", greeting("Ann")); failed ||
		!strings.Contains(fmt.Sprint(answer), "hello, Ann") {
		t.Errorf("%v", answer)
	}
	waits("Ann") // another call like it asks again
	s.answer(l, s.await(l, approval.Pending).ID, approval.Denied)
	if answer, failed := s.call("execute", greeting("Ann")); !failed ||
		!strings.Contains(fmt.Sprint(answer), "because") {
		t.Errorf("%v", answer)
	}
	r = waits("fail")
	s.answer(l, r.ID, approval.Approved)
	if r = s.await(l, approval.Done); r.Code != "EXECUTION_FAILED" {
		t.Errorf("%+v", r)
	}
	if answer, failed := s.call("execute", greeting("fail")); !failed ||
		!strings.Contains(fmt.Sprint(answer), "it was told to") {
		t.Errorf("%v", answer)
	}
	// A policy that refuses by now counts, and so does a lock that has changed.
	r = waits("Bea")
	s.policy("ask:\n  never: {names: [\"tool:acme/greet\"], answer: refuse}\n")
	s.answer(l, r.ID, approval.Approved)
	if r = s.await(l, approval.Done); r.Code != "POLICY_DENIED" {
		t.Errorf("%+v", r)
	}
	s.policy(asksAll)
	r = waits("Cem")
	s.edit("1.1.0")
	s.lock()
	s.answer(l, r.ID, approval.Approved)
	if r = s.await(l, approval.Superseded); r.Reason != "the lock has changed" {
		t.Errorf("%+v", r)
	}
}

// TestHeldLater: a server that has started since makes the call, and of two servers one does.
func TestHeldLater(t *testing.T) {
	t.Parallel()
	s := serving(t)
	s.policy(asksAll)
	l := s.requests()
	s.code("execute", greeting("Ann"))
	r := s.await(l, approval.Pending)
	s.closed = true
	s.server.Close()
	s.answer(l, r.ID, approval.Approved)
	var servers []*mcp.Server
	for range 2 {
		other := mcp.New(mcp.Options{Open: s.open, Project: s.p.Dir, State: filepath.Join(s.p.Home, "state"),
			Version: "test", Now: time.Now, Warn: s.warn})
		s.must(other.Open(t.Context()))
		servers = append(servers, other)
	}
	s.await(l, approval.Done)
	for _, other := range servers {
		other.Close()
	}
	b, err := l.Read(t.Context(), r.ID, approval.Result)
	s.must(err)
	if !strings.Contains(string(b), "hello, Ann") || len(s.warned) > 0 {
		t.Errorf("%s, %q", b, s.warned)
	}
}

// TestTokens: a request belongs to the token that made it (GWY-05): another's same call asks for itself and gets no
// result of it. Where the policy wants another person, the token's own principal can't approve, and the user can.
func TestTokens(t *testing.T) {
	t.Parallel()
	s := serving(t)
	s.policy("ask:\n  two: {names: [\"tool:acme/greet\"], separate: true}\n")
	h, l := s.listen(), s.requests()
	call := func(c *sdk.ClientSession) (string, bool) {
		t.Helper()
		r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "execute", Arguments: greeting("Ann")})
		s.must(err)
		return fmt.Sprint(r.StructuredContent), r.IsError
	}
	ann, bob := h.connect(h.secret("ann"), ""), h.connect(h.secret("ben"), "2025-11-25")
	if text, failed := call(ann); !failed || !strings.Contains(text, "APPROVAL_REQUIRED") {
		t.Fatal(text)
	}
	r := s.await(l, approval.Pending)
	if r.Principal != "token:ann" || r.Tenant != "acme" || !r.Separate {
		t.Errorf("%+v", r)
	}
	for _, by := range []string{"ann", "token:ann", ""} {
		if _, err := l.Do(t.Context(), r.ID, approval.Step{To: approval.Approved, By: by}); err == nil {
			t.Errorf("who asks approves as %q", by)
		}
	}
	s.answer(l, r.ID, approval.Approved)
	s.awaitIn(l, approval.Filter{ID: r.ID}, approval.Done)
	if text, failed := call(bob); !failed || !strings.Contains(text, "APPROVAL_REQUIRED") ||
		strings.Contains(text, r.ID) {
		t.Error(text)
	}
	if text, failed := call(ann); failed || !strings.Contains(text, "hello, Ann") {
		t.Error(text)
	}
	// What a token has asked for isn't done once the token is removed, though a later one has its name.
	bobs, err := approval.List(t.Context(), l, approval.Filter{Open: true})
	s.must(err, h.tokens.Remove(t.Context(), "ben"))
	if len(bobs) != 1 || bobs[0].Principal != "token:ben" {
		t.Fatalf("%+v", bobs)
	}
	later := serve.OpenTokens(filepath.Join(s.p.Home, "state"), func() time.Time {
		return time.Now().Add(time.Minute)
	})
	_, err = later.Add(t.Context(), serve.Token{Name: "ben", Tenant: "acme", Scopes: []serve.Scope{serve.Call}})
	s.must(err)
	s.answer(l, bobs[0].ID, approval.Approved)
	if r := s.await(l, approval.Superseded); r.ID != bobs[0].ID || r.Reason != "the token ben opens nothing any more" {
		t.Errorf("%+v", r)
	}
}

// TestThreadWaits: a thread that an agent has started stops at a call that waits, and the agent learns how it goes on.
func TestThreadWaits(t *testing.T) {
	t.Parallel()
	s := serving(t)
	s.p.Put("directives/acme/greeting.md", strings.Replace(strings.ReplaceAll(asking, "asking", "greeting"),
		"    <limits",
		"    <permissions><execute><tool>acme/*</tool></execute></permissions>\n    <limits", 1))
	s.lock()
	s.policy(asksAll)
	s.models.Handle(func(*modeltest.Request) modeltest.Turn {
		return modeltest.Turn{Calls: []provider.ToolCall{{ID: "c", Name: "rye_execute", Input: greeting("Ann")}}}
	})
	answer, failed := s.call("execute", item("tool", "rye/agent/threads/thread_directive", "parameters",
		object{"directive_name": "acme/greeting", "inputs": object{"topic": "x"}}))
	r := s.await(s.requests(), approval.Pending)
	if e, _ := answer["error"].(object); !failed || e["code"] != "APPROVAL_REQUIRED" ||
		!strings.HasPrefix(fmt.Sprint(e["suggestion"]), "rye approve "+r.ID+"\nrye thread resume "+r.Thread) {
		t.Errorf("%v", answer)
	}
}
