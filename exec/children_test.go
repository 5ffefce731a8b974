package exec_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/audit/receipt"
	"github.com/rye-build/rye/exec/chain"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/manifest/key"
)

// TestChildren: what a call calls is its child: in the log, in its receipt, and allowed no more than it is.
func TestChildren(t *testing.T) {
	w := newWorld(t)
	w.put(map[string]string{
		".ai/tools/acme/top.yaml": tool("acme/top", probing, "network: [a.example.com, b.example.com]",
			"files: {read: [docs]}", "config: {calls: [acme/mid, acme/mid]}"),
		".ai/tools/acme/mid.yaml": tool("acme/mid", probing, "network: [b.example.com, c.example.com]",
			"files: {read: ['.'], write: [docs]}", "config: {calls: [acme/low]}"),
		".ai/tools/acme/low.yaml": tool("acme/low", probing, "network: all", "permissions: [rye.load.knowledge.*]"),
		"docs/x":                  "",
	})
	for _, name := range []string{"top", "mid", "low"} {
		w.signed("tool:acme/"+name, alice)
	}
	b := w.base()
	if exec.CallerOf(t.Context()) != nil {
		t.Error("there is a caller outside of calls")
	}
	kept := map[cas.Digest][]byte{}
	granted := map[string]chain.Grants{}
	run := func(ctx context.Context, ref string) (*exec.Result, error) {
		p, err := w.kernel.Prepare(ctx, b, call(ref, nil))
		if err != nil {
			return nil, err
		}
		defer p.Close()
		granted[ref] = p.Grants
		r, err := p.Run(ctx, nil)
		if err == nil {
			kept[r.Digest] = r.Receipt
		}
		return r, err
	}
	w.probe.do = func(ctx context.Context, a *primitive.Action, _ primitive.Sink) (*primitive.Result, error) {
		if exec.CallerOf(ctx) == nil {
			return nil, errors.New("there is no caller")
		}
		list, _ := a.Config["calls"].([]any)
		for _, ref := range list {
			if _, err := run(ctx, "tool:"+ref.(string)); err != nil {
				return nil, err
			}
		}
		return gives(int64(len(list))), nil
	}
	top, err := run(t.Context(), "tool:acme/top")
	if err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]string{
		"tool:acme/top": "a.example.com b.example.com, docs, ", "tool:acme/mid": "b.example.com, docs, ",
		"tool:acme/low": "b.example.com, , ",
	} {
		g := granted[ref]
		got := fmt.Sprintf("%s, %s, %s", strings.Join(g.Network.Hosts, " "), strings.Join(g.Read, " "),
			strings.Join(g.Write, " "))
		if got != want || !g.Network.Bound || len(g.Permissions.Strings()) != 0 {
			t.Errorf("%s may %q (%+v); want %q", ref, got, g, want)
		}
	}

	// One receipt proves all calls to a reader who has the machine's public key.
	var tree []string
	get := func(d cas.Digest) ([]byte, error) { return kept[d], nil }
	visit := func(depth int, r *receipt.Receipt) error {
		tree = append(tree, fmt.Sprint(depth, " ", r.Call.Ref))
		return nil
	}
	keys := []key.Public{machine.Public()}
	if err := receipt.VerifyTree(top.Receipt, keys, get, visit); err != nil {
		t.Fatal(err)
	}
	want := []string{"0 tool:acme/top", "1 tool:acme/mid", "2 tool:acme/low", "1 tool:acme/mid", "2 tool:acme/low"}
	if !slices.Equal(tree, want) {
		t.Errorf("the tree is %q; want %q", tree, want)
	}
	another := func(cas.Digest) ([]byte, error) { return top.Receipt, nil }
	if err := receipt.VerifyTree(top.Receipt, keys, another, visit); err == nil {
		t.Error("another receipt stands for a child's")
	}

	// The log has the same.
	parents := map[string]int{}
	for _, r := range w.records() {
		parents[r.Call.Parent]++
	}
	if len(parents) != 4 || parents[""] != 1 || parents[top.ID] != 2 {
		t.Errorf("calls by their parents: %v", parents)
	}
	checkLog(w)
}

// TestEnds: a call ends with the one that made it.
func TestEnds(t *testing.T) {
	w := newWorld(t).with()
	b := w.base()
	ctx, cancel := context.WithCancel(t.Context())
	depth := 0
	w.probe.do = func(ctx context.Context, a *primitive.Action, to primitive.Sink) (*primitive.Result, error) {
		if depth++; depth > 1 {
			cancel()
			<-ctx.Done()
			return &primitive.Result{Failed: true, Ended: "cancelled"}, nil
		}
		p, err := w.kernel.Prepare(ctx, b, call(x, nil))
		if err != nil {
			return nil, err
		}
		defer p.Close()
		r, err := p.Run(ctx, to)
		if err != nil || r.Code != "CANCELLED" {
			t.Errorf("the child: %+v, %v", r, err)
		}
		return &primitive.Result{Failed: true, Ended: "cancelled"}, nil
	}
	r, err := w.prepare(call(x, nil)).Run(ctx, nil)
	if err != nil || r.Code != "CANCELLED" || depth != 2 {
		t.Errorf("%+v, %v, %d calls", r, err, depth)
	}
	if got := w.proved(r); len(got.Children) != 1 {
		t.Errorf("%+v", got.Children)
	}
}
