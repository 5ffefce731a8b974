package toolcall

import (
	"cmp"
	"context"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/template/params"
)

// walks makes a call one that runs a graph as a thread, once the policies let it: they see it as the call of any tool.
func (m *Maker) walks(child *Call, it *ai.Item, inputs object) {
	child.Spawn, child.Child = &ChildArgs{Directive: child.Ref, Inputs: inputs}, m.o.NewID(child.Ref.ID)
	child.do = func(ctx context.Context) (_ *Answer, err error) {
		begins := !child.Begun
		if child.Begun { // or it waited for its approval
			if begins, err = m.Unmade(ctx, child); err != nil {
				return nil, err
			}
		}
		if !begins {
			return m.o.Child(ctx, child)
		}
		call := &exec.Call{Ref: child.Ref, Door: m.flow.Door(m.o.Approver, m.o.Thread, child.Record,
			m.plan.Directive.Ref.String()), Params: params.Values(inputs),
			Principal: m.o.Principal, Stranger: true}
		_, got, err := m.session.Consent(ctx, call, it)
		if err != nil {
			return nil, err
		}
		m.flow.Add(it.Ref, it.Model.Tags)
		if got == nil || got.Take == nil {
			return m.o.Child(ctx, child)
		}
		end, err := got.Take(ctx, child.Record)
		if err != nil {
			return nil, err
		}
		out, err := m.o.Child(ctx, child)
		return out, cmp.Or(err, end(context.WithoutCancel(ctx), ""))
	}
}

// Unmade reports whether a call that has begun was not made: it waits for its approval, or has got none.
func (m *Maker) Unmade(ctx context.Context, c *Call) (bool, error) {
	return m.o.Approver.Unmade(ctx, m.o.Thread, c.Record, c.Ref)
}
