package thread

import (
	"cmp"
	"context"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/classification"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/graph"
	"github.com/rye-build/rye/exec/thread/hook"
	"github.com/rye-build/rye/exec/thread/loop"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/replay"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/condition"
)

// fire asks the hooks of an event. An error ends the thread: the decision to do so is one.
func (t *thread) fire(ctx context.Context, event string, data object) (*hook.Decision, error) {
	d, err := t.decide(ctx, event, data)
	if err != nil {
		return d, err
	}
	return d, t.end(d, event)
}

// end returns the error that ends the thread by a decision; nil if the record says that it went on.
func (t *thread) end(d *hook.Decision, event string) error {
	end := d.End(event, false)
	if end != nil && d.Stops() {
		if on, err := t.record.WentOn(); on || err != nil {
			return err
		}
	}
	return end
}

// decide asks the hooks of an event.
func (t *thread) decide(ctx context.Context, event string, data object) (*hook.Decision, error) {
	r := &hookRunner{thread: t}
	d, err := r.decide(ctx, event, data)
	return d, cmp.Or(err, t.record.append(len(r.ran) > 0, r.ran...))
}

// decide asks the hooks of an event. What ran is to be recorded by the caller.
func (r *hookRunner) decide(ctx context.Context, event string, data object) (*hook.Decision, error) {
	t := r.thread
	if !t.plan.Hooks.Any(event) {
		return new(hook.Decision), nil
	}
	data["turn"], data["thread_id"], data["cost"] = t.record.turn, t.id, t.money.conditions(t.dialogue.share())
	d, err := t.plan.Hooks.Fire(ctx, event, data, r)
	if err = cmp.Or(r.broken, err); err != nil {
		return new(hook.Decision), err
	}
	return d, nil
}

// A hookRunner does what hooks say, as the model's calls are made.
type hookRunner struct {
	*thread
	broken error // ends the thread
	ran    []transcript.Payload
}

// Record implements hook.Runner.
func (r *hookRunner) Record(h transcript.Hook) error {
	r.ran = append(r.ran, h)
	return nil
}

// Run implements hook.Runner. The texts that a hook names are read; all else needs the permissions of the directive.
func (r *hookRunner) Run(ctx context.Context, h *hook.Hook, given map[string]any) (any, error) {
	w, text, err := r.calls.ForHook(ctx, h, given)
	if w == nil {
		return text, err
	}
	c := r.number(r.calls.Prepare(ctx, *w))
	if r.broken = r.batch(ctx, []*toolCall{c}, 1); r.broken != nil {
		return nil, r.broken
	}
	if !c.Result.Artifact.IsZero() && r.plan.Graph == nil {
		return c.Said(r.calls.Artifacts.Text(c.Result.Artifact.String()))
	}
	return c.Said(c.text)
}

// maxAsked is how many events a loop may tell of between two model calls.
const maxAsked = 64

// askHook answers a loop that tells of an event. What hooks decide is for the loop to follow.
func (t *thread) askHook(ctx context.Context, asked loop.Hook) (any, error) {
	if !t.plan.Hooks.Knows(asked.Event) {
		return nil, fault.New(fault.Validation, "the loop tells of an unknown event %.100q",
			asked.Event).Try("rye docs hooks")
	}
	if t.asked++; t.asked > maxAsked {
		return nil, fault.New(fault.Limit, "the loop tells of more than %d events in one turn", maxAsked)
	}
	d, err := t.decide(ctx, asked.Event, asked.Data)
	return d.Doc(), err
}

// first returns the messages that begin the thread, with what the hooks of thread_started give.
func (t *thread) first(ctx context.Context) (any, error) {
	if t.family.handed != nil {
		return t.family.handed, nil
	}
	d, err := t.fire(ctx, hook.Started, object{"directive": t.start.Directive.ID, "model": t.dialogue.model.String(),
		"limits": control.Values(t.money.limits.Record()), "inputs": t.inputs})
	if err != nil {
		return nil, err
	}
	return t.engine.Agents().First(ctx, t.plan.Directive.Model, t.inputs, d.Texts)
}

// onFailure asks the hooks what is made of a failed model call, and records that. The error ends the thread.
func (t *thread) onFailure(ctx context.Context, f *provider.Failure, class classification.Class,
	event *transcript.Classified) error {
	r := &hookRunner{thread: t}
	d, err := r.onFailure(ctx, f, class, event)
	if err := cmp.Or(err, t.record.append(true, append([]transcript.Payload{*event}, r.ran...)...)); err != nil {
		return err
	}
	if err := t.end(d, hook.Failure); err != nil || !d.Stops() {
		return err
	}
	event.Action = hook.Retry // the thread went on
	return nil
}

func (r *hookRunner) onFailure(ctx context.Context, f *provider.Failure, class classification.Class,
	event *transcript.Classified) (*hook.Decision, error) {
	if class.Category == classification.Permanent && provider.FallBack(r.dialogue.model) {
		event.Action = "fallback"
		r.dialogue.count.Forget()
		return new(hook.Decision), nil
	}
	names := condition.Names{cmp.Or(class.ID, string(class.Category)), string(class.Category), class.Name,
		event.Error.Code, f.Code}
	d, err := r.decide(ctx, hook.Failure, object{
		"error": object{"code": names, "message": event.Error.Message, "type": cmp.Or(f.Type, f.Code),
			"status": int64(f.Status), "provider": f.Provider},
		"classification": object{"id": class.ID, "code": class.ID, "category": string(class.Category),
			"retryable":    class.Retryable,
			"retry_policy": object{"type": class.Policy.Type}},
		"attempt": event.Attempt,
	})
	if err != nil {
		return d, err
	}
	event.Action = "fail"
	switch d.Control {
	case hook.Retry:
		if event.Attempt > r.plan.Settings.MaxRetries || class.Policy.MaxRetries > 0 &&
			event.Attempt > int64(class.Policy.MaxRetries) {
			return d, nil
		}
		event.Action, event.Delay = hook.Retry, class.Policy.Wait(int(event.Attempt-1), f.After)
		if d.Delay != nil {
			event.Delay = *d.Delay
		} else if class.Policy.Type == "none" {
			event.Delay = time.Second
		}
	case hook.Abort:
		event.Action = hook.Abort
	}
	return d, nil
}

// atLimit records that a limit is reached, and asks the hooks about it. The error ends the thread; nil for the usual
// one.
func (t *thread) atLimit(ctx context.Context, l *transcript.Limit) error {
	l.Action = hook.Escalate // what threads do unless a hook decides
	if err := t.record.append(true, *l); err != nil {
		return err
	}
	d, err := t.decide(ctx, hook.Limit, object{"limit_code": l.Code, "current_value": l.Current, "current_max": l.Max})
	switch {
	case err != nil:
		return err
	case d.Control == "":
		return fault.New(fault.Failed, "limit exceeded: %s (%g of %g)", l.Code, l.Current, l.Max).On("limit",
			l.Code).Try("rye docs hooks")
	case d.Control == hook.Fail || d.Control == hook.Abort || d.Error != "":
		return d.End(hook.Limit, l.Code == replay.Spend)
	}
	return nil
}

// beforeCalls asks the hooks about calls before they are made.
func (t *thread) beforeCalls(ctx context.Context, calls []*toolCall) error {
	if !t.plan.Hooks.Any(hook.CallStart) {
		return nil
	}
	for _, c := range calls {
		d, err := t.fire(ctx, hook.CallStart, c.Before())
		if err != nil {
			return err
		}
		if d.Control == hook.Skip {
			c.Skip(d)
		}
	}
	return nil
}

// afterCalls asks the hooks about calls that were made.
func (t *thread) afterCalls(ctx context.Context, calls []*toolCall) error {
	if !t.plan.Hooks.Any(hook.CallResult) {
		return nil
	}
	for _, c := range calls {
		if _, err := t.fire(ctx, hook.CallResult, c.After()); err != nil {
			return err
		}
	}
	return nil
}

// afterStep asks the hooks at the end of a turn with calls, and when the context window fills up.
func (t *thread) afterStep(ctx context.Context, calls int) error {
	if _, err := t.fire(ctx, hook.AfterStep, object{"calls": int64(calls)}); err != nil ||
		!t.plan.Window.Pressed(t.dialogue.share()) {
		return err
	}
	return t.fills(ctx, hook.Pressure, t.dialogue.count.Filled())
}

// fills asks the hooks of an event about the context window, where so many tokens are used.
func (t *thread) fills(ctx context.Context, event string, tokens int64) error {
	_, err := t.fire(ctx, event, t.dialogue.pressure(tokens))
	return err
}

// afterReturn asks the hooks about the outputs, and returns the error that ends the loop.
func (t *thread) afterReturn(ctx context.Context) error {
	_, err := t.fire(ctx, hook.Return, object{"outputs": t.calls.Returned()})
	return cmp.Or(err, control.ErrReturned)
}

// afterEnd tells the hooks how the thread ends. Nothing that they decide changes it.
func (t *thread) afterEnd(ctx context.Context, r *Result, why *fault.Error) error {
	data := object{"status": r.Status, "result": r.Result, "outputs": control.Values(r.Outputs)}
	if why != nil {
		data["error"] = object{"code": string(why.Code), "message": why.Text}
	}
	if ctx.Err() != nil || r.Status == Interrupted || r.Status == Waiting || why != nil &&
		roster.RequestOf(why) != nil {
		return nil
	}
	_, err := t.decide(ctx, hook.Complete, data)
	if err == nil && t.plan.Graph != nil {
		_, err = t.decide(ctx, graph.Completed, data)
	}
	return err
}
