package toolcall

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/exec/captoken"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/thread/limits"
	"github.com/rye-build/rye/exec/thread/roster"
)

// A Background starts children in processes of their own.
type Background struct {
	Command func(directive model.Ref) (proc.Command, error) // nil: there are none
	Roster  roster.Roster
	Dir     string // of the threads
	Limits  *limits.Set
	Chain   *captoken.Chain // of this process
	Now     func() time.Time
}

// detach starts a child in a process of its own. One that was begun is there.
func (m *Maker) detach(ctx context.Context, c *Call) (*Answer, error) {
	b, s := &m.o.Background, m.session
	began := func(state string, process int) *Answer {
		return &Answer{Value: object{"success": true, "status": state, "thread_id": c.Child,
			"directive": c.Spawn.Directive.ID, "pid": process}}
	}
	if row, err := roster.Get(ctx, b.Roster, c.Child); c.Begun && err == nil {
		return began(string(row.State), row.Driver.Process), nil
	}
	k, err := s.Kernel()
	if err != nil {
		return nil, err
	}
	p := &Parent{Thread: m.o.Thread, Directive: m.plan.Directive.Ref.String(), Dir: b.Dir, Set: s.Set(),
		Grants: m.plan.Caps, Limits: *b.Limits, Chain: b.Chain,
		Machine: k.Machine, Now: b.Now(), Command: b.Command, Again: c.Begun}
	word, err := p.Start(ctx, c.Child, c.Spawn.Directive,
		&DetachedChild{Inputs: c.Spawn.Inputs, Model: c.Spawn.Model, Limits: c.Spawn.Limits, Part: c.Part,
			Chosen: c.Chosen})
	if err != nil {
		return nil, err
	}
	return began(string(roster.Running), word.Process), nil
}

// Summary is the result of a thread that a call has started and waited for, nil for none. The result has this text.
func (m *Maker) Summary(c *Call, text string) any {
	if !c.Result.Artifact.IsZero() {
		text = m.Artifacts.Text(c.Result.Artifact.String())
	}
	var result struct {
		Result string `json:"result"`
	}
	if json.Unmarshal([]byte(text), &result) != nil || result.Result == "" {
		return nil
	}
	return result.Result
}
