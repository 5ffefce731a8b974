package exec_test

import (
	"context"
	"slices"
	"testing"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/consent"
	"github.com/rye-build/rye/exec/primitive"
)

// TestThreadVariable: a tool that a thread calls, and one that this tool calls, has the thread's id in its
// environment.
func TestThreadVariable(t *testing.T) {
	const id, want = "acme/plan-1795000000-a2b3c", "RYE_THREAD=acme/plan-1795000000-a2b3c"
	w := newWorld(t).with()
	if p := w.prepare(call(x, nil)); slices.ContainsFunc(p.Env, func(v string) bool { return v == want }) {
		t.Errorf("without a thread: %q", p.Env)
	}
	c := call(x, nil)
	c.Door = &consent.Door{Thread: id}
	p := w.prepare(c)
	if !slices.Contains(p.Env, want) {
		t.Errorf("its environment is %q", p.Env)
	}
	w.probe.do = func(ctx context.Context, _ *primitive.Action, _ primitive.Sink) (*primitive.Result, error) {
		below := call(x, nil)
		q, err := w.kernel.Prepare(ctx, w.base(), below)
		if err != nil {
			return nil, err
		}
		defer q.Close()
		if !slices.Contains(q.Env, want) {
			t.Errorf("below: %q", q.Env)
		}
		return gives(map[string]any{}), nil
	}
	if _, err := p.Run(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// TestThreadGrants: what a thread's tool may do is what its thread allows it, and never the call of a model: nothing
// of the thread's budget would be reserved for that.
func TestThreadGrants(t *testing.T) {
	within := func(texts ...string) *capability.Set {
		s, err := capability.ParseSet(texts)
		if err != nil {
			t.Fatal(err)
		}
		return &s
	}
	w := newWorld(t).with("permissions: [rye.execute.tool.acme.*, rye.load.knowledge.acme.note]")
	for name, c := range map[string]struct {
		within *capability.Set
		want   int
	}{
		"no thread": {nil, 2}, "one of them": {within("rye.load.knowledge.*"), 1}, "others": {within("rye.sign.*"), 0},
	} {
		one := call(x, nil)
		one.Within = c.within
		if got := w.prepare(one).Grants.Permissions.Strings(); len(got) != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
	w.with("tier_mapping: {general: m}")
	priced := call(x, nil)
	w.prepare(priced)
	priced.Within = within("rye.*")
	if _, err := w.kernel.Prepare(t.Context(), w.base(), priced); fault.CodeOf(err) != fault.Denied {
		t.Errorf("a provider is called as a tool: %v", err)
	}
}
