package exec_test

import (
	"context"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/manifest/key"
)

// TestPass: what a tool passes on gets what its caller would have got, whatever that tool declares: all that it
// declares itself where a person calls, no more than the caller above has where a call does, and no more than the tool
// where another person signed that. It is a child all the same.
func TestPass(t *testing.T) {
	w := newWorld(t)
	w.put(map[string]string{
		".ai/tools/acme/top.yaml": tool("acme/top", probing, "network: [a.example.com]",
			"config: {calls: tool:acme/pass}"),
		".ai/tools/acme/pass.yaml": tool("acme/pass", probing, "permissions: [rye.execute.tool.*]",
			"config: {passes: tool:acme/low}"),
		".ai/tools/acme/bobs.yaml": tool("acme/bobs", probing, "network: [b.example.com]",
			"config: {passes: tool:acme/low}"),
		".ai/tools/acme/low.yaml": tool("acme/low", probing, "network: [a.example.com, b.example.com]"),
	})
	for name, by := range map[string]key.Private{"top": alice, "pass": alice, "low": alice, "bobs": bob} {
		w.signed("tool:acme/"+name, by)
	}
	b := w.base()
	var low []string
	ids := map[string]string{}
	run := func(ctx context.Context, c *exec.Call) (*exec.Result, error) {
		p, err := w.kernel.Prepare(ctx, b, c)
		if err != nil {
			return nil, err
		}
		defer p.Close()
		if ids[c.Ref.String()] = p.ID(); c.Ref.ID == "acme/low" {
			low = append(low, strings.Join(p.Grants.Network.Hosts, " ")+" for "+c.Principal)
		}
		return p.Run(ctx, nil)
	}
	w.probe.do = func(ctx context.Context, a *primitive.Action, _ primitive.Sink) (*primitive.Result, error) {
		if ref, ok := a.Config["calls"].(string); ok {
			_, err := run(ctx, call(ref, nil))
			return gives(int64(1)), err
		}
		if text, ok := a.Config["passes"].(string); ok {
			ref, err := model.ParseRef(text)
			if err != nil {
				return nil, err
			}
			within, c := exec.CallerOf(ctx).Pass(ctx, ref)
			c.Params = params.Values(map[string]any{})
			_, err = run(within, c)
			return gives(int64(2)), err
		}
		return gives(int64(3)), nil
	}
	for _, c := range []struct{ ref, want string }{
		{"tool:acme/pass", "a.example.com b.example.com for ann"},
		{"tool:acme/top", "a.example.com for ann"},
		{"tool:acme/bobs", " for ann"},
	} {
		low = nil
		r, err := run(t.Context(), call(c.ref, nil))
		if err != nil || r.Failed {
			t.Fatalf("%s: %+v, %v", c.ref, r, err)
		}
		if len(low) != 1 || low[0] != c.want {
			t.Errorf("%s: acme/low may reach %q; want %q", c.ref, low, c.want)
		}
		if c.ref == "tool:acme/pass" {
			if children := w.proved(r).Children; len(children) != 1 || children[0].Call != ids["tool:acme/low"] {
				t.Errorf("the children of what passes on: %+v", children)
			}
		}
	}
}
