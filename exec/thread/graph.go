package thread

import (
	"context"
	"fmt"
	"slices"

	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/graph"
	"github.com/rye-build/rye/exec/thread/hook"
	"github.com/rye-build/rye/exec/thread/loop"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/toolcall"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/jcs"
)

// steps runs what decides the steps of the thread: its loop, or its graph.
func (t *thread) steps(ctx context.Context) (*loop.End, error) {
	if g := t.plan.Graph; g != nil {
		state, err := graph.Walk(ctx, g, t.inputs, walk{t})
		if err == nil {
			t.calls.Return(state)
			err = control.ErrReturned
		}
		return nil, err
	}
	program := t.plan.Program
	program.Config, program.Ask = object{"outputs": len(t.plan.Says.Outputs) > 0,
		"handoff_at": t.plan.Handoff.Threshold}, t.ask
	return t.engine.Loops.Run(ctx, program)
}

// A walk is the thread as the kernel of its graph.
type walk struct{ thread *thread }

// Begin implements graph.Kernel. A step is a turn.
func (w walk) Begin(ctx context.Context, node transcript.NodeStarted) error {
	t := w.thread
	if err := t.check(ctx); err != nil {
		return err
	}
	if _, err := t.hooks.fire(ctx, hook.BeforeStep, object{"node": node.Node}); err != nil {
		return err
	}
	t.record.turn++
	t.tell("")
	return t.record.append(false, node)
}

// Record implements graph.Kernel.
func (w walk) Record(durable bool, events ...transcript.Payload) error {
	return w.thread.record.append(durable, events...)
}

// Make implements graph.Kernel by calls as those of a model.
func (w walk) Make(ctx context.Context, wanted []provider.ToolCall, atOnce int, rest bool) ([]graph.Made, error) {
	thread := w.thread
	all := thread.calls.prepare(ctx, wanted)
	group := toolcall.NewGroup(rest)
	for _, call := range all {
		call.Group = group
	}
	if err := thread.hooks.beforeCalls(ctx, all); err != nil {
		return nil, err
	}
	atOnce = max(min(atOnce, int(thread.plan.Settings.Concurrent)), 1)
	if err := thread.watch.safe(); err != nil {
		return nil, err
	}
	for part := range slices.Chunk(all, together(all)) {
		if err := thread.calls.batch(ctx, part, atOnce); err != nil {
			return nil, err
		}
	}
	if err := thread.hooks.afterCalls(ctx, all); err != nil {
		return nil, err
	}
	return made(all)
}

// together returns how many calls of a graph are made in one go. Those of a greater risk are made one at a time: a
// person is asked about one after the other, and one that fails cancels none that is on its way.
func together(all []*toolCall) int {
	if slices.ContainsFunc(all, func(call *toolCall) bool {
		return call.Risk != "read" && call.Risk != "write" && call.Child == ""
	}) {
		return 1
	}
	return max(len(all), 1)
}

// made returns the results of calls for their graph.
func made(all []*toolCall) ([]graph.Made, error) {
	results := make([]graph.Made, len(all))
	for i, call := range all {
		v, err := jcs.Parse([]byte(call.text))
		if err != nil {
			return nil, err
		}
		results[i] = graph.Made{Status: call.Result.Status, Risk: call.Risk, Value: v}
	}
	return results, nil
}

// Decide implements graph.Kernel. Only a node that failed has a choice.
func (w walk) Decide(ctx context.Context, event string, data map[string]any) (string, error) {
	thread := w.thread
	if event != hook.Failure {
		_, err := thread.hooks.fire(ctx, event, data)
		return "", err
	}
	class := thread.plan.Classify(data)
	decision, err := thread.hooks.decide(ctx, event, data)
	if err != nil {
		return "", err
	}
	action, again := thread.plan.Failed(decision, &class, data)
	if action == hook.Retry {
		return action, thread.wait(ctx, again)
	} else if action == "" {
		err = thread.hooks.end(decision, event)
	}
	return action, err
}

// Ask implements graph.Kernel by a call, so that the record has the answer.
func (w walk) Ask(ctx context.Context, q graph.Question) (graph.Answer, error) {
	calls := &w.thread.calls
	gate := calls.number(calls.Gate(fmt.Sprintf("%d.1", q.Step), q.Node, q.Text, q.Timeout))
	if err := calls.batch(ctx, []*toolCall{gate}, 1); err != nil {
		return graph.Answer{}, err
	}
	results, err := made([]*toolCall{gate})
	if err != nil {
		return graph.Answer{}, err
	}
	return graph.Answered(&results[0])
}
