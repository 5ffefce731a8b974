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
func Walk(ctx context.Context, declared *graph.Graph, inputs map[string]any, kernel Kernel) (map[string]any, error) {
	walk := &walk{Graph: declared, Kernel: kernel, inputs: inputs, state: object{}}
	doc := walk.doc()
	for _, a := range declared.State {
		v, err := a.Value.Fill(doc)
		if err != nil {
			return nil, tooMuch(err)
		}
		walk.state[a.Name] = v
	}
	var err error
	if walk.digest, err = digestOf(walk.state); err != nil {
		return nil, err
	}
	if _, err := kernel.Decide(ctx, Started, object{"inputs": inputs, "state": walk.state}); err != nil {
		return nil, err
	}
	last := declared.Start
	for at := declared.Start; at != ""; {
		last = at
		if at, err = walk.take(ctx, declared.Node(at)); err != nil {
			return nil, err
		}
	}
	return walk.state, kernel.Record(true, transcript.Returned{Step: walk.step, Node: last, Digest: walk.digest})
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
func tooDeep(what string, value any) error {
	var fits func(value any, left int) bool
	fits = func(value any, left int) bool {
		switch value := value.(type) {
		case []any:
			return left > 0 && !slices.ContainsFunc(value, func(e any) bool { return !fits(e, left-1) })
		case object:
			for _, e := range value {
				if left == 0 || !fits(e, left-1) {
					return false
				}
			}
		}
		return true
	}
	if fits(value, MaxDepth) {
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
func (w *walk) take(ctx context.Context, node *graph.Node) (next string, err error) {
	w.step++
	if err := w.Begin(ctx, transcript.NodeStarted{Step: w.step, Node: node.Name, Kind: node.Type}); err != nil {
		return "", err
	}
	ending, err := w.do(ctx, node)
	if err != nil {
		return "", err
	}
	ends := w.settle(node, ending)
	next = w.follow(node, ending)
	result := transcript.NodeResult{Step: w.step, Node: node.Name, Status: "ok", Next: next,
		Calls: ending.calls, Cause: ending.cause}
	if ending.failed != nil {
		result.Status = "error"
		result.Error = &transcript.Fault{Code: string(ending.failed.Code), Message: clip(ending.failed.Text)}
	}
	if err := w.Record(false, result); err != nil {
		return "", err
	}
	if err := w.save(next, ending.calls == 0); err != nil {
		return "", err
	}
	if _, err := w.Decide(ctx, "after_step", object{"node": node.Name, "status": result.Status, "next": next,
		"calls": ending.calls, "state": w.state}); err != nil {
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
func (w *walk) settle(node *graph.Node, ending *outcome) error {
	if ending.failed == nil && len(ending.assign) > 0 {
		state := maps.Clone(w.state)
		maps.Copy(state, ending.assign)
		if _, err := digestOf(state); err != nil {
			ending.failed = fault.Of(err)
		} else {
			w.state = state
		}
	}
	if len(ending.noted) > 0 {
		w.state = maps.Clone(w.state)
		maps.Copy(w.state, ending.noted)
	}
	if ending.failed == nil {
		return nil
	}
	failure := object{"code": string(ending.failed.Code), "message": clip(ending.failed.Text)}
	w.state = maps.Clone(w.state)
	w.state[graph.LastError] = object{"node": node.Name, "error": failure}
	w.result = object{"status": "error", "error": failure}
	if to, goesOn := w.On(node); to == "" && !goesOn && !ending.goesOn {
		return fault.New(fault.Failed, "the node %q failed: %s: %s", node.Name, ending.failed.Code,
			clip(ending.failed.Text)).On("node", node.Name).On("reason", string(ending.failed.Code)).
			Try("rye docs graphs")
	}
	return nil
}

// follow returns the node that follows.
func (w *walk) follow(node *graph.Node, ending *outcome) string {
	if ending.failed != nil {
		if to, goesOn := w.On(node); to != "" && !ending.goesOn {
			return to
		} else if !goesOn && !ending.goesOn {
			return "" // the graph ends
		}
	}
	if ending.next != nil {
		return *ending.next
	}
	return node.Follow(w.doc())
}

// do does what a node does.
func (w *walk) do(ctx context.Context, node *graph.Node) (*outcome, error) {
	switch node.Type {
	case graph.Action:
		return w.act(ctx, node)
	case graph.Foreach:
		return w.each(ctx, node)
	case graph.Gate:
		return w.gate(ctx, node)
	}
	return &outcome{next: new(string)}, nil
}

// maxMessage is how much of an error's message is kept.
const maxMessage = 2048

func clip(s string) string { return fault.Clip(s, maxMessage) }
