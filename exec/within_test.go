package exec_test

import (
	"context"
	"slices"
	"testing"

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
