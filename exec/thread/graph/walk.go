package graph

import (
	"context"
	"maps"
	"slices"

	"github.com/rye-build/rye/ai/graph"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/jcs"
)

type object = map[string]any

// The limits of a walk.
const (
	MaxState    = 1 << 20 // bytes of the state as JSON
	MaxElements = 10_000  // of the list of one foreach
	MaxDepth    = 60      // of the state, and of what a call is given: the record has both within other values
)

// The events that hooks of graphs are for, beside those of threads.
const (
	Started   = "graph_started"
	Completed = "graph_completed"
)

// A Kernel is the thread that a graph runs as. An error of any function ends the walk.
type Kernel interface {
	// Begin begins a step, unless a limit is reached.
	Begin(context.Context, transcript.NodeStarted) error
	// Record records its result.
	Record(durable bool, events ...transcript.Payload) error
	// Make makes calls, at most so many at once, and returns their results in their order. With rest the first that
	// fails cancels the rest.
	Make(ctx context.Context, calls []provider.ToolCall, atOnce int, rest bool) ([]Made, error)
	// Decide asks the hooks of an event: "retry" has waited, "continue" goes on without the result, all else decides
	// nothing.
	Decide(ctx context.Context, event string, data map[string]any) (action string, err error)
	// Ask has a person answer a question. An answer that doesn't come is an error.
	Ask(context.Context, Question) (Answer, error)
}

// Made is the result of a call.
type Made struct {
	Status string // as a transcript has it
	Risk   string
	Value  any // as the model of a thread would be given it
}

// A walk is on its way.
type walk struct {
	*graph.Graph
	Kernel
	inputs map[string]any
	state  map[string]any
	digest cas.Digest
	step   int64
	result any // of the last action
}

// Walk walks a graph to its end, and returns its state.
func Walk(ctx context.Context, g *graph.Graph, inputs map[string]any, k Kernel) (map[string]any, error) {
	w := &walk{Graph: g, Kernel: k, inputs: inputs, state: object{}}
	doc := w.doc()
	for _, a := range g.State {
		v, err := a.Value.Fill(doc)
		if err != nil {
			return nil, tooMuch(err)
		}
		w.state[a.Name] = v
	}
	var err error
	if w.digest, err = digestOf(w.state); err != nil {
		return nil, err
	}
	if _, err := k.Decide(ctx, Started, object{"inputs": inputs, "state": w.state}); err != nil {
		return nil, err
	}
	last := g.Start
	for at := g.Start; at != ""; {
		last = at
		if at, err = w.take(ctx, g.Node(at)); err != nil {
			return nil, err
		}
	}
	return w.state, k.Record(true, transcript.Returned{Step: w.step, Node: last, Digest: w.digest})
}

// doc is what templates and conditions are about.
func (w *walk) doc() object { return object{"state": w.state, "inputs": w.inputs, "result": w.result} }

// digestOf returns the digest of a state, and refuses one that is too large.
func digestOf(state map[string]any) (cas.Digest, error) {
	if err := tooDeep("the state", state); err != nil {
		return cas.Digest{}, err
	}
	b, err := jcs.Append(nil, state)
	if err != nil {
		return cas.Digest{}, err
	}
	if len(b) > MaxState {
		return cas.Digest{}, fault.New(fault.Resource, "the state has %d bytes; at most %d are allowed", len(b),
			MaxState).On("limit", MaxState)
	}
	return cas.Sum(b), nil
}

// tooDeep refuses a value whose parts are nested too deep.
func tooDeep(what string, v any) error {
	var fits func(v any, left int) bool
	fits = func(v any, left int) bool {
		switch v := v.(type) {
		case []any:
			return left > 0 && !slices.ContainsFunc(v, func(e any) bool { return !fits(e, left-1) })
		case object:
			for _, e := range v {
				if left == 0 || !fits(e, left-1) {
					return false
				}
			}
		}
		return true
	}
	if fits(v, MaxDepth) {
		return nil
	}
	return fault.New(fault.Resource, "%s is nested more than %d levels deep", what, MaxDepth).On("limit", MaxDepth)
}

// tooMuch is the error of a template.
func tooMuch(err error) error { return fault.New(fault.Resource, "%v", err).From(err) }

// An outcome is how a node ended.
type outcome struct {
	calls  int64
	assign map[string]any
	failed *fault.Error // nil if it didn't
	goesOn bool         // without the result, as a hook decides
	next   *string      // that the node has decided; nil: by its edges
	cause  string
	noted  map[string]any // of the state, also if it failed
}

// take takes one step, and returns the next node, "" at the end.
func (w *walk) take(ctx context.Context, n *graph.Node) (next string, err error) {
	w.step++
	if err := w.Begin(ctx, transcript.NodeStarted{Step: w.step, Node: n.Name, Kind: n.Type}); err != nil {
		return "", err
	}
	o, err := w.do(ctx, n)
	if err != nil {
		return "", err
	}
	ends := w.settle(n, o)
	next = w.follow(n, o)
	said := transcript.NodeResult{Step: w.step, Node: n.Name, Status: "ok", Next: next, Calls: o.calls, Cause: o.cause}
	if o.failed != nil {
		said.Status, said.Error = "error", &transcript.Fault{Code: string(o.failed.Code), Message: clip(o.failed.Text)}
	}
	if err := w.Record(false, said); err != nil {
		return "", err
	}
	if err := w.save(next, o.calls == 0); err != nil {
		return "", err
	}
	if _, err := w.Decide(ctx, "after_step", object{"node": n.Name, "status": said.Status, "next": next,
		"calls": o.calls, "state": w.state}); err != nil {
		return "", err
	}
	return next, ends
}

// save records the state. Where nothing else makes it durable before something happens, it is at once.
func (w *walk) save(next string, durable bool) error {
	digest, err := digestOf(w.state)
	if err != nil {
		return err
	}
	s := transcript.State{Step: w.step, Next: next, Digest: digest, Same: digest == w.digest}
	if w.digest = digest; !s.Same {
		s.State = w.state
	}
	return w.Record(durable, s, transcript.Checkpoint{Turn: w.step})
}

// settle makes what a node assigns the state, and notes its error. It returns the error of a node whose graph ends
// with it.
func (w *walk) settle(n *graph.Node, o *outcome) error {
	if o.failed == nil && len(o.assign) > 0 {
		state := maps.Clone(w.state)
		maps.Copy(state, o.assign)
		if _, err := digestOf(state); err != nil {
			o.failed = fault.Of(err)
		} else {
			w.state = state
		}
	}
	if len(o.noted) > 0 {
		w.state = maps.Clone(w.state)
		maps.Copy(w.state, o.noted)
	}
	if o.failed == nil {
		return nil
	}
	failure := object{"code": string(o.failed.Code), "message": clip(o.failed.Text)}
	w.state = maps.Clone(w.state)
	w.state[graph.LastError] = object{"node": n.Name, "error": failure}
	w.result = object{"status": "error", "error": failure}
	if to, goesOn := w.On(n); to == "" && !goesOn && !o.goesOn {
		return fault.New(fault.Failed, "the node %q failed: %s: %s", n.Name, o.failed.Code, clip(o.failed.Text)).
			On("node", n.Name).On("reason", string(o.failed.Code)).Try("rye docs graphs")
	}
	return nil
}

// follow returns the node that follows.
func (w *walk) follow(n *graph.Node, o *outcome) string {
	if o.failed != nil {
		if to, goesOn := w.On(n); to != "" && !o.goesOn {
			return to
		} else if !goesOn && !o.goesOn {
			return "" // the graph ends
		}
	}
	if o.next != nil {
		return *o.next
	}
	return n.Follow(w.doc())
}

// do does what a node does.
func (w *walk) do(ctx context.Context, n *graph.Node) (*outcome, error) {
	switch n.Type {
	case graph.Action:
		return w.act(ctx, n)
	case graph.Foreach:
		return w.each(ctx, n)
	case graph.Gate:
		return w.gate(ctx, n)
	}
	return &outcome{next: new(string)}, nil
}

// maxMessage is how much of an error's message is kept.
const maxMessage = 2048

func clip(s string) string { return fault.Clip(s, maxMessage) }
