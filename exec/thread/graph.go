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
type walk struct{ *thread }

// Begin implements graph.Kernel. A step is a turn.
func (w walk) Begin(ctx context.Context, e transcript.NodeStarted) error {
	if err := w.check(ctx); err != nil {
		return err
	}
	if _, err := w.hooks.fire(ctx, hook.BeforeStep, object{"node": e.Node}); err != nil {
		return err
	}
	w.record.turn++
	w.tell("")
	return w.record.append(false, e)
}

// Record implements graph.Kernel.
func (w walk) Record(durable bool, events ...transcript.Payload) error {
	return w.record.append(durable, events...)
}

// Make implements graph.Kernel by calls as those of a model.
func (w walk) Make(ctx context.Context, wanted []provider.ToolCall, atOnce int, rest bool) ([]graph.Made, error) {
	all := make([]*toolCall, len(wanted))
	group := toolcall.NewGroup(rest)
	for i, c := range w.calls.PrepareAll(ctx, wanted) {
		all[i] = w.number(c)
		c.Group = group
	}
	if err := w.hooks.beforeCalls(ctx, all); err != nil {
		return nil, err
	}
	atOnce = max(min(atOnce, int(w.plan.Settings.Concurrent)), 1)
	if err := w.watch.safe(); err != nil {
		return nil, err
	}
	for part := range slices.Chunk(all, toolcall.Together(atOnce, all, func(c *toolCall) *toolcall.Call {
		return c.Call
	})) {
		if err := w.batch(ctx, part, atOnce); err != nil {
			return nil, err
		}
	}
	if err := w.hooks.afterCalls(ctx, all); err != nil {
		return nil, err
	}
	return w.made(all)
}

// made is what came of calls.
func (w walk) made(all []*toolCall) ([]graph.Made, error) {
	made := make([]graph.Made, len(all))
	for i, c := range all {
		v, err := jcs.Parse([]byte(c.text))
		if err != nil {
			return nil, err
		}
		made[i] = graph.Made{Status: c.Result.Status, Risk: c.Risk, Value: v}
	}
	return made, nil
}

// Decide implements graph.Kernel. Only a node that failed has a choice.
func (w walk) Decide(ctx context.Context, event string, data map[string]any) (string, error) {
	if event != hook.Failure {
		_, err := w.hooks.fire(ctx, event, data)
		return "", err
	}
	class := w.plan.Classify(data)
	d, err := w.hooks.decide(ctx, event, data)
	if err != nil {
		return "", err
	}
	action, again := w.plan.Failed(d, &class, data)
	if action == hook.Retry {
		return action, w.wait(ctx, again)
	} else if action == "" {
		err = w.hooks.end(d, event)
	}
	return action, err
}

// Ask implements graph.Kernel by a call, so that the record has the answer.
func (w walk) Ask(ctx context.Context, q graph.Question) (graph.Answer, error) {
	c := w.number(w.calls.Gate(fmt.Sprintf("%d.1", q.Step), q.Node, q.Text, q.Timeout))
	if err := w.batch(ctx, []*toolCall{c}, 1); err != nil {
		return graph.Answer{}, err
	}
	made, err := w.made([]*toolCall{c})
	if err != nil {
		return graph.Answer{}, err
	}
	return graph.Answered(&made[0])
}
