package thread

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/loop"
	"github.com/rye-build/rye/exec/thread/plan"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/toolcall"
	"github.com/rye-build/rye/exec/thread/transcript"
)

type object = map[string]any

// A toolCall is a call of the model, as the record has it.
type toolCall struct {
	*toolcall.Call
	artifact *transcript.Artifact
	text     string // that the model is given
	over     bool
}

// number gives a call its name in the record.
func (t *thread) number(c *toolcall.Call) *toolCall {
	c.Record = t.record.name()
	return &toolCall{Call: c}
}

// makeCalls makes the calls of one turn, and returns the messages with their results.
func (t *thread) makeCalls(ctx context.Context, asked loop.Calls) (any, error) {
	var wanted []provider.ToolCall
	if err := provider.Decode(asked.Calls, &wanted); err != nil {
		return nil, fault.New(fault.Validation, "the loop makes calls that can't be read: %v", err)
	}
	if len(wanted) > provider.MaxCalls {
		return nil, fault.New(fault.Limit, "the loop makes %d calls in one turn; at most %d are allowed", len(wanted),
			provider.MaxCalls)
	}
	calls := make([]*toolCall, len(wanted))
	for i, c := range t.calls.PrepareAll(ctx, wanted) {
		calls[i] = t.number(c)
	}
	if err := t.hooks.beforeCalls(ctx, calls); err != nil {
		return nil, err
	}
	workers := int(t.plan.Settings.Concurrent)
	if slices.ContainsFunc(calls, func(c *toolCall) bool { return c.Inside || c.Risk != "read" && c.Child == "" }) {
		workers = 1
	}
	for rest := calls; len(rest) > 0; {
		n := 1
		if workers > 1 {
			n = len(rest)
		}
		if err := t.watch.safe(); err != nil {
			return nil, err
		}
		if err := t.batch(ctx, rest[:n], workers); err != nil {
			return nil, err
		}
		if err := t.hooks.afterCalls(ctx, rest[:n]); err != nil {
			return nil, err
		}
		rest = rest[n:]
		if outputs := t.calls.Returned(); outputs != nil {
			return nil, t.hooks.afterReturn(ctx, outputs)
		}
	}
	if err := t.hooks.afterStep(ctx, len(calls)); err != nil {
		return nil, err
	}
	messages := make([]any, len(calls))
	for i, c := range calls {
		m := object{"role": "tool", "call_id": c.ID, "text": c.text}
		if c.Result.Status != transcript.CallOK {
			m["failed"] = true
		}
		messages[i] = m
		t.dialogue.count.Add(int64(len(c.text)))
	}
	return messages, nil
}

// batch makes calls side by side. Each is in the record before it begins, and its result before anything else happens.
func (t *thread) batch(ctx context.Context, calls []*toolCall, workers int) error {
	events := make([]transcript.Payload, len(calls))
	for i, c := range calls {
		events[i] = c.Started(t.record.turn)
	}
	had, err := t.record.put(true, events...)
	if err != nil {
		return err
	}
	for i, e := range had {
		var was transcript.CallStarted
		if err := e.Decode(&was); err != nil {
			return err
		}
		calls[i].Begun, calls[i].Child = true, was.Child
	}
	for calls = slices.Clone(calls); len(calls) > 0; { // in the order of the record
		of, err := t.record.NextResult()
		if err != nil {
			return err
		}
		i := max(0, slices.IndexFunc(calls, func(c *toolCall) bool { return c.Record == of }))
		if !calls[i].Begun {
			break
		}
		if done, err := t.recall(ctx, calls[i]); err != nil {
			return err
		} else if !done {
			break
		}
		if err := t.appendResults(calls[i : i+1]); err != nil {
			return err
		}
		calls = slices.Delete(calls, i, i+1)
	}
	open := slices.Clone(calls[:min(len(calls), 1)])
	for _, c := range calls[len(open):] {
		if c.Begun { // beside the first that has no result
			if done, err := t.recall(ctx, c); err != nil {
				return err
			} else if done {
				continue
			}
		}
		open = append(open, c)
	}
	err = cas.Parallel(ctx, workers, len(open), func(ctx context.Context, i int) error {
		var text string
		err := t.watch.valid()
		if err == nil {
			text, err = open[i].Make(ctx)
		} else {
			text, err = open[i].End(transcript.CallRefused, fault.Of(err)) // and the thread ends before the next ones
		}
		if err != nil || open[i].Waits != nil { // the others end first
			return err
		}
		return t.guard(ctx, open[i], text)
	})
	return errors.Join(err, t.appendResults(calls))
}

// appendResults records what came of the calls that are over, and returns what the first waits for that isn't.
func (t *thread) appendResults(calls []*toolCall) (waits error) {
	var results []transcript.Payload
	for _, c := range calls {
		if waits = cmp.Or(waits, c.Waits); !c.over {
			continue
		}
		if c.artifact != nil {
			results = append(results, *c.artifact)
		}
		results = append(results, c.Result)
	}
	return errors.Join(t.record.append(false, results...), waits)
}

// guard makes a result what the model is given: JSON, or what the guard makes of an artifact.
func (t *thread) guard(ctx context.Context, c *toolCall, text string) (err error) {
	c.over, c.text, c.Result.Result = true, text, cas.Sum([]byte(text))
	if len(text) > plan.MaxGuarded {
		c.Result.Artifact = c.Result.Result
		c.artifact = &transcript.Artifact{Call: c.Record, Digest: c.Result.Result, Media: "application/json",
			Content: text}
		if t.plan.Graph != nil { // which takes all of it
			return nil
		}
		if c.text, err = t.plan.Agents.Guard(ctx, c.Name, t.calls.Artifacts.Keep(text), text,
			t.dialogue.share()); err != nil {
			return err
		}
	}
	c.Result.Output = c.text
	return nil
}
