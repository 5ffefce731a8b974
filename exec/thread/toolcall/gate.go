package toolcall

import (
	"cmp"
	"context"
	"time"

	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/thread/provider"
)

// Gate is the call by which a gate of the graph asks a person. It waits as a call does that needs an approval.
func (m *Maker) Gate(id, node, text string, span time.Duration) *Call {
	c := &Call{ToolCall: provider.ToolCall{ID: id, Name: "gate", Input: object{"node": node, "ask": text}},
		Risk: "read"}
	c.do = func(ctx context.Context) (*Answer, error) {
		answer, err := m.o.Approver.Gate(ctx, m.o.Thread, c.Record, m.plan.Directive, text,
			cmp.Or(m.o.Principal, session.User()), span)
		return &Answer{Value: object{"answer": answer}}, err
	}
	return c
}
