package session_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/exec/classification"
	"github.com/rye-build/rye/exec/consent"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/key/keytest"
)

func testProject(t testing.TB) *project {
	t.Helper()
	dir := t.TempDir()
	sandboxtest.Removable(t, dir)
	p, err := newProject(dir)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// open opens a session of a project.
func (p *project) open(t testing.TB, o session.Options) (*session.Session, error) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	w, err := workspace.Open(t.Context(), p.Paths, workspace.Options{})
	must(t, err)
	t.Cleanup(w.Close)
	o.Self = self
	s, err := session.Open(t.Context(), w, o)
	if err == nil {
		t.Cleanup(func() { s.Close() })
	}
	return s, err
}

// greeting calls the tool and returns what it answers.
func greeting(ctx context.Context, s *session.Session, name string) (string, error) {
	r, err := s.Call(ctx, &exec.Call{Ref: ref, Params: params.Values(map[string]any{"name": name})}, nil)
	if err != nil {
		return "", err
	}
	if r.Status != record.OK {
		return "", errors.New(r.Failure)
	}
	v, _ := r.Value.(map[string]any)
	return fmt.Sprint(v["greeting"]), nil
}

// in opens a session in a mode and calls the tool.
func (p *project) in(t *testing.T, o session.Options) (string, error) {
	t.Helper()
	s, err := p.open(t, o)
	if err != nil {
		return "", err
	}
	return greeting(t.Context(), s, "Ann")
}

func mode(m session.Mode) session.Options { return session.Options{Mode: m} }

// Without a lock a project with rye.yaml doesn't run, unless the caller says so; in CI nothing unlocked runs.
func TestNoLock(t *testing.T) {
	p := testProject(t)
	for _, c := range []struct {
		o    session.Options
		want fault.Code // "" if it runs
		hint string
	}{
		{session.Options{}, fault.NotLocked, "rye exec TOOL --unlocked"},
		{session.Options{CI: true}, fault.NotLocked, "rye lock"},
		{session.Options{CI: true, Mode: session.Mode{Unlocked: true}}, fault.NotLocked, "rye lock"},
		{session.Options{CI: true, Mode: session.Mode{Dev: true}}, fault.NotLocked, "rye lock"},
		{mode(session.Mode{Locked: true}), fault.NotLocked, "rye lock"},
		{mode(session.Mode{Pinned: true}), fault.NotLocked, "rye lock"},
		{mode(session.Mode{Unlocked: true}), "", ""},
		{mode(session.Mode{Dev: true}), "", ""},
		{mode(session.Mode{Dev: true, Pinned: true}), fault.Validation, ""},
		{mode(session.Mode{Dev: true, Locked: true}), fault.Validation, ""},
		{mode(session.Mode{Unlocked: true, Locked: true}), fault.Validation, ""},
		{mode(session.Mode{Unlocked: true, Pinned: true}), fault.Validation, ""},
	} {
		got, err := p.in(t, c.o)
		if c.want == "" && (err != nil || got != "hello, Ann") {
			t.Errorf("%+v: %q, %v", c.o.Mode, got, err)
		}
		if c.want == "" {
			continue
		}
		if err == nil || fault.CodeOf(err) != c.want || c.hint != "" && !slices.Contains(fault.Of(err).Hint, c.hint) {
			t.Errorf("%+v, CI %v: %v, want %s and the hint %q", c.o.Mode, c.o.CI, err, c.want, c.hint)
		}
	}
}

// With a lock, what it pins runs; a working tree that differs is refused.
func TestDrift(t *testing.T) {
	p := testProject(t)
	must(t, p.lock())
	for _, o := range []session.Options{{}, {CI: true}, mode(session.Mode{Locked: true}),
		mode(session.Mode{Pinned: true})} {
		if got, err := p.in(t, o); err != nil || got != "hello, Ann" {
			t.Errorf("%+v: %q, %v", o.Mode, got, err)
		}
	}
	if _, err := p.in(t, mode(session.Mode{Unlocked: true})); fault.CodeOf(err) != fault.Validation {
		t.Errorf("--unlocked with a lock: %v", err)
	}
	must(t, p.edit(strings.Replace(greet, "hello", "good day", 1)))
	_, err := p.in(t, session.Options{})
	f := fault.Of(err)
	want := []string{"rye exec tool:acme/greet --dev", "rye lock --sign tool:acme/greet",
		"rye exec tool:acme/greet --pinned", "rye diff tool:acme/greet"}
	if f.Code != fault.LockMismatch || f.Details["reason"] != "drift" || !slices.Equal(f.Hint, want) {
		t.Errorf("%v, %q", err, f.Hint)
	}
	if _, err := p.in(t, session.Options{CI: true}); slices.Contains(fault.Of(err).Hint, want[0]) {
		t.Error("--dev is offered in CI")
	}
	for m, want := range map[session.Mode]string{{Pinned: true}: "hello, Ann", {Dev: true}: "good day, Ann"} {
		if got, err := p.in(t, mode(m)); err != nil || got != want {
			t.Errorf("%+v: %q, %v", m, got, err)
		}
	}
	must(t, os.Remove(filepath.Join(p.Dir, ".ai", "tools", "acme", "greet.star")))
	if _, err := p.in(t, session.Options{}); !slices.Contains(fault.Of(err).Hint, "rye restore tool:acme/greet") {
		t.Errorf("a tool that is gone: %q", fault.Of(err).Hint)
	}
	must(t, p.write("rye.yaml", "requires:\n  acme/base: {version: \"^1\", from: ./base}\n"))
	if _, err := p.in(t, mode(session.Mode{Locked: true})); fault.CodeOf(err) != fault.LockMismatch {
		t.Errorf("--locked with another rye.yaml: %v", err)
	}
}

// What isn't locked is refused with the command that locks it.
func TestNotLocked(t *testing.T) {
	p := testProject(t)
	must(t, p.lock())
	s, err := p.open(t, session.Options{})
	must(t, err)
	for id, c := range map[string]struct {
		code fault.Code
		hint string
	}{
		"rye/file-system/read": {fault.NotLocked, "rye add tool:rye/file-system/read"},
		"acme/gret":            {fault.ToolNotFound, ""},
	} {
		_, err := s.Tool(t.Context(), model.Ref{Kind: "tool", ID: id})
		if fault.CodeOf(err) != c.code || c.hint != "" && !slices.Equal(fault.Of(err).Hint, []string{c.hint}) {
			t.Errorf("%s: %v, %q", id, err, fault.Of(err).Hint)
		}
	}
	if it, err := s.Tool(t.Context(), ref); err != nil || it.Ref != ref {
		t.Errorf("%v, %v", it, err)
	}
	if c, err := s.Config(t.Context(), classification.Name); err != nil || c == nil {
		t.Errorf("%v, %v", c, err)
	}
	dev, err := p.open(t, mode(session.Mode{Dev: true}))
	must(t, err)
	if _, err := dev.Tool(t.Context(), model.Ref{Kind: "tool",
		ID: "rye/file-system/read"}); fault.CodeOf(err) != fault.Validation {
		t.Errorf("a tool of the library with --dev: %v", err)
	}
}

// A session serves many calls at once.
func TestTogether(t *testing.T) {
	p := testProject(t)
	must(t, p.lock())
	s, err := p.open(t, session.Options{})
	must(t, err)
	const calls = 8
	var wait sync.WaitGroup
	for i := range calls {
		wait.Go(func() {
			name := fmt.Sprint("caller ", i)
			if got, err := greeting(t.Context(), s, name); err != nil || got != "hello, "+name {
				t.Errorf("%s: %q, %v", name, got, err)
			}
			if _, err := s.Config(t.Context(), classification.Name); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
}

// A session keeps its set when the lock is written anew, and takes each policy as it is when a call is prepared.
func TestChanges(t *testing.T) {
	p := testProject(t)
	must(t, p.lock())
	s, err := p.open(t, mode(session.Mode{Pinned: true}))
	must(t, err)
	must(t, p.edit(strings.Replace(greet, "hello", "good day", 1)), p.lock())
	if got, err := greeting(t.Context(), s, "Ann"); err != nil || got != "hello, Ann" {
		t.Errorf("the open session: %q, %v", got, err)
	}
	if got, err := p.in(t, session.Options{}); err != nil || got != "good day, Ann" {
		t.Errorf("a new session: %q, %v", got, err)
	}
	it, err := s.Tool(t.Context(), ref)
	must(t, err)
	runtime, err := s.Tool(t.Context(), model.Ref{Kind: "tool", ID: "rye/core/runtimes/starlark_runtime"})
	must(t, err)
	revoke := func(digest cas.Digest) {
		must(t, p.policy(fmt.Sprintf("\nrevoked:\n  %q: {reason: unsafe, date: \"2026-11-20\"}\n", digest)))
	}
	revoke(it.Raw)
	if got, err := greeting(t.Context(), s, "Ann"); err == nil || fault.CodeOf(err) != fault.Policy {
		t.Errorf("the tool is revoked: %q, %v", got, err)
	}
	revoke(runtime.Raw)
	if got, err := p.in(t, session.Options{}); err == nil || fault.CodeOf(err) != fault.Policy {
		t.Errorf("the library's runtime is revoked: %q, %v", got, err)
	}
}

// What changes while the user is asked about a call counts: policies, revocations and the working tree.
func TestApprovedMeanwhile(t *testing.T) {
	asks := "\nask:\n  greets: {names: [\"tool:acme/greet\"]}\n"
	for _, c := range []struct {
		name   string
		change func(p *project, it *ai.Item) error
		code   fault.Code
	}{
		{"nothing", func(*project, *ai.Item) error { return nil }, ""},
		{"the policy refuses", func(p *project, _ *ai.Item) error {
			return p.policy(strings.Replace(asks, "]}", "], answer: refuse}", 1))
		}, fault.Policy},
		{"the tool is revoked", func(p *project, it *ai.Item) error {
			return p.policy(asks + fmt.Sprintf("\nrevoked:\n  %q: {reason: unsafe, date: \"2026-11-20\"}\n", it.Raw))
		}, fault.Policy},
		{"the file differs from the lock", func(p *project, _ *ai.Item) error {
			return p.edit(strings.Replace(greet, "hello", "good day", 1))
		}, fault.LockMismatch},
		{"the policy doesn't ask any more", func(p *project, _ *ai.Item) error { return p.policy("") }, ""},
	} {
		p := testProject(t)
		must(t, p.policy(asks), p.lock())
		s, err := p.open(t, session.Options{})
		must(t, err)
		it, err := s.Tool(t.Context(), ref)
		must(t, err)
		asked, read := 0, 0
		door := &consent.Door{Approve: func(context.Context, *consent.Question) (*consent.Approval, error) {
			asked++
			return &consent.Approval{By: "a person"}, c.change(p, it)
		}}
		given := func(*params.Schema) (map[string]any, error) { // as from standard input, which is read once
			read++
			return map[string]any{"name": "Ann"}, nil
		}
		r, err := s.Call(t.Context(), &exec.Call{Ref: ref, Params: given, Door: door}, nil)
		if asked != 1 || read != 1 || (err != nil) != (c.code != "") || err != nil && fault.CodeOf(err) != c.code {
			t.Errorf("%s: asked %d times, read %d times, %v", c.name, asked, read, err)
		}
		if c.code == "" && (r == nil || fmt.Sprint(r.Value) != "map[greeting:hello, Ann]") {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
	p := testProject(t)
	must(t, p.policy(asks))
	s, err := p.open(t, mode(session.Mode{Unlocked: true}))
	must(t, err)
	door := &consent.Door{Approve: func(context.Context, *consent.Question) (*consent.Approval, error) {
		return &consent.Approval{By: "a person"}, p.edit(strings.Replace(greet, "hello", "good day", 1))
	}}
	if r, err := s.Call(t.Context(), &exec.Call{Ref: ref, Params: params.Values(map[string]any{"name": "Ann"}),
		Door: door}, nil); err == nil || fault.CodeOf(err) != fault.Conflict {
		t.Errorf("without a lock: %+v, %v", r, err)
	}
}

// TestConsentMeanwhile: a graph that changes while the user is asked about it isn't run, and its approval is dropped.
func TestConsentMeanwhile(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*project) error
		code   fault.Code
	}{
		"nothing": {func(*project) error { return nil }, ""},
		"the file": {func(p *project) error {
			return p.edit(strings.Replace(greet, "hello", "good day", 1))
		}, fault.Conflict},
		"the policy denies": {func(p *project) error {
			return p.policy("ask:\n  all: {answer: refuse}\n")
		}, fault.Policy},
	} {
		p := testProject(t)
		must(t, p.policy("ask:\n  all: {names: [\"tool:**\"]}\n"))
		s, err := p.open(t, mode(session.Mode{Unlocked: true}))
		must(t, err)
		it, err := s.Item(t.Context(), ref)
		must(t, err)
		dropped := 0
		door := &consent.Door{Approve: func(context.Context, *consent.Question) (*consent.Approval, error) {
			drop := func(context.Context, error) error { dropped++; return nil }
			return &consent.Approval{By: "a person", Drop: drop}, c.change(p)
		}}
		given := params.Values(map[string]any{"name": "Ann"})
		_, got, err := s.Consent(t.Context(), &exec.Call{Ref: ref, Params: given, Door: door}, it)
		if c.code == "" && (err != nil || got == nil || dropped != 0) || c.code != "" &&
			(err == nil || fault.CodeOf(err) != c.code || dropped != 1) {
			t.Errorf("%s: %+v, %v, dropped %d times", name, got, err, dropped)
		}
	}
}

// The call of a thread that was approved is still one of the thread: its tool finds that in its environment.
func TestApprovedInThread(t *testing.T) {
	p := testProject(t)
	must(t, p.policy("ask:\n  all: {names: [\"tool:**\"]}\n"))
	s, err := p.open(t, mode(session.Mode{Unlocked: true}))
	must(t, err)
	door := &consent.Door{Thread: "acme/plan-1795000000-a2b3c",
		Approve: func(context.Context, *consent.Question) (*consent.Approval, error) {
			return &consent.Approval{By: "a person"}, nil
		}}
	plan, err := s.Prepare(t.Context(), &exec.Call{Ref: ref, Params: params.Values(map[string]any{"name": "Ann"}),
		Door: door})
	must(t, err)
	defer plan.Close()
	if !slices.Contains(plan.Env, "RYE_THREAD=acme/plan-1795000000-a2b3c") {
		t.Errorf("its environment is %q", plan.Env)
	}
}

// A closed session runs nothing, and may be closed twice.
func TestClose(t *testing.T) {
	p := testProject(t)
	s, err := p.open(t, mode(session.Mode{Unlocked: true}))
	must(t, err)
	if _, err := greeting(t.Context(), s, "Ann"); err != nil {
		t.Fatal(err)
	}
	must(t, s.Close(), s.Close())
	if _, err := greeting(t.Context(), s, "Ann"); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("after Close: %v", err)
	}
	if _, err := s.Scratch(t.Context()); err == nil {
		t.Error("a scratch directory after Close")
	}
}

// A call that can't be recorded or signed isn't made.
func TestUnready(t *testing.T) {
	refused := errors.New("refused")
	for name, test := range map[string]struct {
		options session.Options
		change  func(p *project)
		want    error
	}{
		"no place for the log": {change: func(p *project) {
			p.State = workspace.Place{Err: refused}
		}, want: refused},
		"no place for the copies": {change: func(p *project) {
			p.Cache = workspace.Place{Err: refused}
		}, want: refused},
		"no home":                     {change: func(p *project) { p.User = workspace.Place{Err: refused} }},
		"a file where the log goes":   {change: func(p *project) { p.State.Path = filepath.Join(p.Dir, "rye.yaml") }},
		"a file where the copies go":  {change: func(p *project) { p.Cache.Path = filepath.Join(p.Dir, "rye.yaml") }},
		"a lock that can't be read":   {change: func(p *project) { must(t, p.write("rye.lock", "no lock")) }},
		"a policy that can't be read": {change: func(p *project) { must(t, p.policy("names: [")) }},
		"the project trusts less": {change: func(p *project) {
			must(t, p.write(".ai/policy.yaml", "rye: policy/2\n"))
		}},
		"unlocked and a broken policy": {
			options: mode(session.Mode{Unlocked: true}),
			change:  func(p *project) { must(t, os.Remove(filepath.Join(p.Dir, "rye.lock")), p.policy("names: [")) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := testProject(t)
			must(t, p.lock())
			test.change(p)
			if got, err := p.in(t, test.options); err == nil || test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// A policy that goes while a session is open stops its calls.
func TestPolicyGone(t *testing.T) {
	p := testProject(t)
	must(t, p.lock())
	s, err := p.open(t, session.Options{Keys: session.Keys{PEM: string(keytest.Alice().PEM())}})
	must(t, err)
	if got, err := greeting(t.Context(), s, "Ann"); err != nil || got != "hello, Ann" {
		t.Fatalf("%q, %v", got, err)
	}
	must(t, os.Remove(filepath.Join(p.User.Path, ".ai", "policy.yaml")))
	if got, err := greeting(t.Context(), s, "Ann"); err == nil {
		t.Errorf("%q without a policy", got)
	}
}

// Without a project and a home, only the library runs.
func TestNoHome(t *testing.T) {
	p := testProject(t)
	p.Dir, p.User = t.TempDir(), workspace.Place{Err: fs.ErrNotExist}
	s, err := p.open(t, session.Options{})
	must(t, err)
	if it, err := s.Tool(t.Context(), model.Ref{Kind: "tool", ID: "rye/file-system/read"}); err != nil ||
		it.Space.Label != "system:rye/std" {
		t.Errorf("%+v, %v", it, err)
	}
	if _, err := s.Tool(t.Context(), ref); !errors.Is(err, workspace.ErrNoProject) {
		t.Error(fault.CodeOf(err), err)
	}
}

// The key of the environment signs before a key on disk, unless signing is refused.
func TestKeys(t *testing.T) {
	refused := errors.New("refused")
	if _, err := (session.Keys{Check: func() error { return refused }}).Signing(); !errors.Is(err, refused) {
		t.Error(err)
	}
	if _, err := (session.Keys{}).Open(); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := (session.Keys{Dir: t.TempDir()}).Open(); err == nil {
		t.Error("an empty directory has a key")
	}
	locked, err := keytest.Alice().Lock("secret")
	must(t, err)
	keys := session.Keys{Dir: t.TempDir(), PEM: string(locked), Passphrase: "secret"}
	if k, err := keys.Signing(); err != nil || k.Public() != keytest.Alice().Public() {
		t.Error(err)
	}
	keys.Passphrase = "wrong"
	if _, err := keys.Signing(); err == nil {
		t.Error("a wrong passphrase opens a key")
	}
}

// TestNothingChosen: what rye itself chooses must be there, be sound and be Starlark; a caller who has gone gets
// nothing, nor does one who comes after Close.
func TestNothingChosen(t *testing.T) {
	p := testProject(t)
	must(t, p.write(".ai/tools/acme/broken.star", strings.Replace(greet, "description: Greets\n", "", 1)))
	s, err := p.open(t, mode(session.Mode{Unlocked: true}))
	must(t, err)
	tool := func(id string) model.Ref { return model.Ref{Kind: "tool", ID: id} }
	for id, code := range map[string]fault.Code{
		"rye/core/runtimes/starlark_runtime": fault.Validation, "acme/none": fault.ToolNotFound,
		"acme/broken": fault.Unsigned,
	} {
		if got, err := s.Program(t.Context(), tool(id)); err == nil || fault.CodeOf(err) != code {
			t.Errorf("%s: %+v, %v; want %s", id, got, err, code)
		}
	}
	loop, err := s.Chosen(t.Context(), tool("rye/agent/loop"))
	must(t, err)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	refused := func(ctx context.Context, when string) {
		t.Helper()
		_, program := s.Program(ctx, tool("rye/agent/loop"))
		_, chosen := s.Chosen(ctx, tool("rye/agent/loop"))
		_, found := s.Tool(ctx, ref)
		_, config := s.Config(ctx, classification.Name)
		_, rules := s.Rules(ctx)
		_, owns := s.Owns(ctx, loop)
		_, called := s.CallChosen(ctx, &exec.Call{Ref: tool("rye/agent/loop")}, nil)
		for i, err := range []error{program, chosen, found, config, rules, owns, called} {
			if err == nil && when == "gone" {
				t.Errorf("%s: %d: no error", when, i)
			}
		}
		if called == nil || owns == nil {
			t.Errorf("%s: %v, %v", when, called, owns)
		}
	}
	refused(gone, "gone")
	must(t, s.Close())
	refused(t.Context(), "closed")
}
