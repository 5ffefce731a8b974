package plan

import (
	"context"
	"fmt"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/agenttools"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/thread/loop"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// The ids of the items.
const (
	LoopID         = "rye/agent/loop"
	ContextID      = "rye/agent/context"
	GuardID        = "rye/agent/guard"
	ContinuationID = "rye/agent/continuation"
)

// Limits of what items return.
const (
	maxMessages = 4096
	maxBytes    = 8 << 20 // of messages
	MaxGuarded  = 16 << 10
	steps       = 50_000_000
)

// A Agents runs the items.
type Agents struct {
	Session *session.Session
	Loops   *loop.Host
}

// Program returns what runs an item in a loop host.
func (a *Agents) Program(ctx context.Context, id string) (*session.Program, *loop.Loop, error) {
	p, err := a.Session.Program(ctx, model.Ref{Kind: "tool", ID: id})
	if err != nil {
		return nil, nil, err
	}
	l := &loop.Loop{Files: p.Files, Main: p.Main, Own: p.Space.Builtin, Level: floor.Landlock}
	if l.Own {
		l.Level = floor.None
	}
	return p, l, nil
}

// ask asks an item.
func (a *Agents) ask(ctx context.Context, id string, about any) (any, error) {
	_, l, err := a.Program(ctx, id)
	if err != nil {
		return nil, err
	}
	l.Config, l.Steps = about, steps
	l.Ask = func(_ context.Context, q loop.Question) (any, error) {
		return nil, fault.New(fault.Validation, "%q calls %s, which only a loop can", id, q.Function())
	}
	end, err := a.Loops.Run(ctx, l)
	switch {
	case err != nil:
		return nil, err
	case end.Ended != "":
		return nil, fault.New(fault.Resource, "%q was stopped by a limit: %s", id, end.Ended).On("limit", end.Ended)
	case end.Reason != "":
		return nil, fault.New(fault.Failed, "%q failed: %s", id, end.Reason)
	}
	return end.Value, nil
}

// messages asks an item for messages.
func (a *Agents) messages(ctx context.Context, id string, about any) ([]any, error) {
	v, err := a.ask(ctx, id, about)
	if err != nil {
		return nil, err
	}
	wrong := func(format string, args ...any) ([]any, error) {
		return nil, fault.New(fault.Validation, "%q must return a list of messages: %s", id,
			fmt.Sprintf(format, args...))
	}
	list, ok := v.([]any)
	if !ok || len(list) == 0 || len(list) > maxMessages {
		return wrong("1 to %d", maxMessages)
	}
	for i, m := range list {
		m, _ := m.(map[string]any)
		switch role, _ := m["role"].(string); role {
		case "user", "assistant", "tool":
		default:
			return wrong("message %d has no role", i)
		}
		if _, ok := m["text"].(string); !ok && m["calls"] == nil {
			return wrong("message %d has no text and no calls", i)
		}
	}
	if b, err := jcs.Append(nil, list); err != nil || len(b) > maxBytes {
		return wrong("they have more than %d bytes, or can't be written", maxBytes)
	}
	return list, nil
}

// First returns the messages that begin a thread, for its directive, inputs, and what hooks gave.
func (a *Agents) First(ctx context.Context, item *model.Model, inputs map[string]any, texts []string) ([]any, error) {
	d, outputs, hooked := item.Directive, []any{}, []any{}
	for _, o := range d.Outputs {
		outputs = append(outputs, map[string]any{"name": o.Name, "description": o.Description})
	}
	for _, text := range texts {
		hooked = append(hooked, text)
	}
	return a.messages(ctx, ContextID, map[string]any{
		"directive": map[string]any{"name": d.Name, "description": d.Description,
			"text": agenttools.Fill(agenttools.Prompt(item), inputs)},
		"outputs": outputs, "texts": hooked,
	})
}

// Continue returns the messages that begin a thread that goes on.
func (a *Agents) Continue(ctx context.Context, about map[string]any) ([]any, error) {
	return a.messages(ctx, ContinuationID, about)
}

// Parts of a large result that the guard can choose from, in bytes.
const (
	longText = 8 << 10
	short    = 1 << 10
)

// Guard returns what the model is given of a large result of a tool, as text. share is how much of the context window
// is used.
func (a *Agents) Guard(ctx context.Context, tool, ref, text string, share float64) (string, error) {
	v, err := a.ask(ctx, GuardID, map[string]any{
		"tool": tool, "artifact": ref, "size": len(text), "beginning": Page(text, 0, longText),
		"short": Page(text, 0, short),
		"end":   Tail(text, short), "share": share,
	})
	if err != nil {
		return "", err
	}
	b, err := jcs.Append(nil, v)
	if err != nil {
		return "", fault.New(fault.Validation, "%q returns what JSON can't have: %v", GuardID, err)
	}
	if len(b) > MaxGuarded {
		return "", fault.New(fault.Limit, "%q returns %d bytes; at most %d are allowed", GuardID, len(b), MaxGuarded)
	}
	return string(b), nil
}
