package loop

import (
	"fmt"
	"slices"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/jcs"
)

// A Question is what a loop asks by a function of ctx: a First, Tools, Model, Calls, Hook, Usage, Handoff or
// Checkpoint. Its values are JSON's, as the loop wrote them.
type Question interface {
	// Function is the name of the function.
	Function() string
}

// First asks for the messages that begin the thread.
type First struct{}

// Tools asks for the tools that the model is offered.
type Tools struct{}

// A Model asks the model.
type Model struct {
	Messages []any // all of them
	Kept     int   // how many of them were there the last time
	Tools    []any // the same slice as the last time if they are the same
}

// Calls asks for the results of tool calls.
type Calls struct{ Calls []any }

// A Hook asks what the hooks of an event decide.
type Hook struct {
	Event string
	Data  map[string]any
}

// Usage asks what the thread has used.
type Usage struct{}

// A Handoff hands the work over to a new thread.
type Handoff struct{ Messages []any }

// A Checkpoint has what was recorded so far signed.
type Checkpoint struct{}

func (First) Function() string      { return "first" }
func (Tools) Function() string      { return "tools" }
func (Model) Function() string      { return "model" }
func (Calls) Function() string      { return "calls" }
func (Hook) Function() string       { return "hook" }
func (Usage) Function() string      { return "usage" }
func (Handoff) Function() string    { return "handoff" }
func (Checkpoint) Function() string { return "checkpoint" }

// question reads a question. A child that breaks the rules of the conversation gets an error, which ends its loop.
func (r *running) question(received *frame) (q Question, err error) {
	v, err := jcs.Parse(received.Args)
	if err != nil {
		return nil, err
	}
	args, ok := v.(map[string]any)
	if !ok || questions[received.Ask] == nil && len(args) > 0 {
		return nil, fmt.Errorf("the loop asks for %q", received.Ask)
	}
	switch received.Ask {
	case "first":
		return First{}, nil
	case "tools":
		return Tools{}, nil
	case "usage":
		return Usage{}, nil
	case "checkpoint":
		return Checkpoint{}, nil
	case "model":
		var m Model
		if m.Messages, m.Kept, err = r.whole("messages", args); err == nil {
			m.Tools, _, err = r.whole("tools", args)
		}
		return m, err
	case "handoff":
		var h Handoff
		h.Messages, _, err = r.whole("messages", args)
		return h, err
	case "calls":
		list, ok := args["calls"].([]any)
		if !ok && args["calls"] != nil {
			return nil, fault.New(fault.Validation, "the loop makes calls that can't be read: a list expected")
		}
		return Calls{list}, nil
	case "hook":
		var h Hook
		h.Event, _ = args["event"].(string)
		if h.Data, ok = args["data"].(map[string]any); !ok {
			h.Data = map[string]any{}
		}
		return h, nil
	}
	return nil, fault.New(fault.Validation, "the loop calls %s, which this version of rye doesn't have", received.Ask)
}

// whole returns the whole list of a parameter, from the new entries that the loop has sent, and how many entries are
// old.
func (r *running) whole(param string, args map[string]any) (all []any, kept int, err error) {
	old := r.lists[param]
	sent, _ := args[param].(map[string]any)
	keep, _ := jcs.Number(sent["keep"])
	add, ok := sent["add"].([]any)
	if !ok || keep < 0 || int(keep) > len(old) {
		return nil, 0, fmt.Errorf("the loop sends %s that can't be put together", param)
	}
	if int(keep) < len(old) {
		old = slices.Clip(old[:int(keep)]) // Ask may have kept what follows
	}
	r.lists[param] = append(old, add...)
	return r.lists[param], int(keep), nil
}
