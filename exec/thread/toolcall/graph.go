package toolcall

import (
	"cmp"
	"context"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/template/params"
)

// walks makes a call one that runs a graph as a thread, once the policies let it: they see it as the call of any tool.
func (m *Maker) walks(c *Call, it *ai.Item, given object) {
	c.Spawn, c.Child = &ChildArgs{Directive: c.Ref, Inputs: given}, m.o.NewID(c.Ref.ID)
	c.do = func(ctx context.Context) (_ *Answer, err error) {
		begins := !c.Begun
		if c.Begun { // or it waited for its approval
			if begins, err = m.Unmade(ctx, c); err != nil {
				return nil, err
			}
		}
		if !begins {
			return m.o.Child(ctx, c)
		}
		call := &exec.Call{Ref: c.Ref, Door: m.flow.Door(m.o.Approver, m.o.Thread, c.Record,
			m.plan.Directive.Ref.String()), Params: params.Values(given),
			Principal: m.o.Principal, Stranger: true}
		_, got, err := m.session.Consent(ctx, call, it)
		if err != nil {
			return nil, err
		}
		m.flow.Add(it.Ref, it.Model.Tags)
		if got == nil || got.Take == nil {
			return m.o.Child(ctx, c)
		}
		end, err := got.Take(ctx, c.Record)
		if err != nil {
			return nil, err
		}
		out, err := m.o.Child(ctx, c)
		return out, cmp.Or(err, end(context.WithoutCancel(ctx), ""))
	}
}

// Unmade reports whether a call that has begun was not made: it waits for its approval, or has got none.
func (m *Maker) Unmade(ctx context.Context, c *Call) (bool, error) {
	return m.o.Approver.Unmade(ctx, m.o.Thread, c.Record, c.Ref)
}
