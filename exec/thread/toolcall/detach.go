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
func (m *Maker) detach(ctx context.Context, call *Call) (*Answer, error) {
	background, session := &m.o.Background, m.session
	began := func(state string, process int) *Answer {
		return &Answer{Value: object{"success": true, "status": state, "thread": call.Child,
			"directive": call.Spawn.Directive.ID, "pid": process}}
	}
	if row, err := roster.Get(ctx, background.Roster, call.Child); call.Begun && err == nil {
		return began(string(row.State), row.Driver.Process), nil
	}
	k, err := session.Kernel()
	if err != nil {
		return nil, err
	}
	p := &Parent{Thread: m.o.Thread, Directive: m.plan.Directive.Ref.String(), Dir: background.Dir, Set: session.Set(),
		Grants: m.plan.Caps, Limits: *background.Limits, Chain: background.Chain,
		Machine: k.Machine, Now: background.Now(), Command: background.Command, Again: call.Begun}
	word, err := p.Start(ctx, call.Child, call.Spawn.Directive,
		&DetachedChild{Inputs: call.Spawn.Inputs, Model: call.Spawn.Model, Limits: call.Spawn.Limits, Part: call.Part,
			Chosen: call.Chosen})
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
