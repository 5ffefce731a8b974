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
	"github.com/rye-build/rye/exec/thread/plan"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/replay"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/condition"
)

// hooks asks the hooks of a thread's plan about events, and records which of them ran.
type hooks struct {
	plan     *plan.Plan
	id       string // of the thread
	record   *record
	money    *money
	dialogue *dialogue
	calls    *calls // that hooks make
	asked    int    // how many events the loop has told of in this turn
	replaced int64  // attempts of this turn at the model whose fallback answers now
}

// fire asks the hooks of an event. An error ends the thread: the decision to do so is one.
func (h *hooks) fire(ctx context.Context, event string, data object) (*hook.Decision, error) {
	decision, err := h.decide(ctx, event, data)
	if err != nil {
		return decision, err
	}
	return decision, h.end(decision, event)
}

// end returns the error that ends the thread by a decision; nil if the record says that it went on.
func (h *hooks) end(decision *hook.Decision, event string) error {
	end := decision.End(event, false)
	if end != nil && decision.Stops() {
		if on, err := h.record.WentOn(); on || err != nil {
			return err
		}
	}
	return end
}

// decide asks the hooks of an event, and records which of them ran, also if one has ended the thread.
func (h *hooks) decide(ctx context.Context, event string, data object) (*hook.Decision, error) {
	decision, ran, err := h.consult(ctx, event, data)
	return decision, cmp.Or(err, h.record.append(len(ran) > 0, ran...))
}

// consult asks the hooks of an event. Its caller records which of them ran.
func (h *hooks) consult(ctx context.Context, event string, data object) (*hook.Decision, []transcript.Payload, error) {
	if !h.plan.Hooks.Any(event) {
		return new(hook.Decision), nil, nil
	}
	data["turn"], data["thread_id"], data["cost"] = h.record.turn, h.id, h.money.conditions(h.dialogue.share())
	r := &hookRunner{calls: h.calls}
	decision, err := h.plan.Hooks.Fire(ctx, event, data, r)
	if err = cmp.Or(r.broken, err); err != nil {
		return new(hook.Decision), r.ran, err
	}
	return decision, r.ran, nil
}

// A hookRunner does what the hooks of one event say, as the model's calls are made.
type hookRunner struct {
	calls  *calls
	broken error // ends the thread
	ran    []transcript.Payload
}

// Record implements hook.Runner.
func (h *hookRunner) Record(ran transcript.Hook) error {
	h.ran = append(h.ran, ran)
	return nil
}

// Run implements hook.Runner. The texts that a hook names are read; all else needs the permissions of the directive.
func (h *hookRunner) Run(ctx context.Context, asked *hook.Hook, params map[string]any) (any, error) {
	wanted, text, err := h.calls.ForHook(ctx, asked, params)
	if wanted == nil {
		return text, err
	}
	call := h.calls.number(h.calls.Prepare(ctx, *wanted))
	if h.broken = h.calls.batch(ctx, []*toolCall{call}, 1); h.broken != nil {
		return nil, h.broken
	}
	if !call.Result.Artifact.IsZero() && h.calls.plan.Graph == nil {
		return call.Said(h.calls.Artifacts.Text(call.Result.Artifact.String()))
	}
	return call.Said(call.text)
}

// maxAsked is how many events a loop may tell of between two model calls.
const maxAsked = 64

// ask answers a loop that tells of an event. What hooks decide is for the loop to follow.
func (h *hooks) ask(ctx context.Context, asked loop.Hook) (any, error) {
	if !h.plan.Hooks.Knows(asked.Event) {
		return nil, fault.New(fault.Validation, "the loop tells of an unknown event %.100q",
			asked.Event).Try("rye docs hooks")
	}
	if h.asked++; h.asked > maxAsked {
		return nil, fault.New(fault.Limit, "the loop tells of more than %d events in one turn", maxAsked)
	}
	decision, err := h.decide(ctx, asked.Event, asked.Data)
	return decision.Doc(), err
}

// onFailure asks the hooks what is done about a failed model call, and records that. The error ends the thread.
func (h *hooks) onFailure(ctx context.Context, failure *provider.Failure, class classification.Class,
	event *transcript.Classified) error {
	decision, ran, err := h.react(ctx, failure, class, event)
	if err := cmp.Or(err, h.record.append(true, append([]transcript.Payload{*event}, ran...)...)); err != nil {
		return err
	}
	if err := h.end(decision, hook.Failure); err != nil || !decision.Stops() {
		return err
	}
	event.Action = hook.Retry // the thread went on
	return nil
}

// react asks the hooks about a failed model call, and puts into its event what is done about it. Its caller records
// which hooks ran.
func (h *hooks) react(ctx context.Context, failure *provider.Failure, class classification.Class,
	event *transcript.Classified) (*hook.Decision, []transcript.Payload, error) {
	names := condition.Names{cmp.Or(class.ID, string(class.Category)), string(class.Category), class.Name,
		event.Error.Code, failure.Code}
	decision, ran, err := h.consult(ctx, hook.Failure, object{
		"error": object{"code": names, "message": event.Error.Message,
			"type": cmp.Or(failure.Type, failure.Code), "status": int64(failure.Status),
			"provider": failure.Provider},
		"classification": object{"id": class.ID, "code": class.ID, "category": string(class.Category),
			"retryable":    class.Retryable,
			"retry_policy": object{"type": class.Policy.Type}},
		"attempt": event.Attempt,
	})
	if err != nil {
		return decision, ran, err
	}
	event.Action = "fail"
	tries := event.Attempt - h.replaced
	switch decision.Control {
	case "":
		h.fallBack(class, event)
	case hook.Retry:
		if tries > h.plan.Settings.MaxRetries || class.Policy.MaxRetries > 0 &&
			tries > int64(class.Policy.MaxRetries) {
			h.fallBack(class, event)
			return decision, ran, nil
		}
		event.Action, event.Delay = hook.Retry, class.Policy.Wait(int(tries-1), failure.After)
		if decision.Delay != nil {
			event.Delay = *decision.Delay
		} else if class.Policy.Type == "none" {
			event.Delay = time.Second
		}
	case hook.Abort:
		event.Action = hook.Abort
	}
	return decision, ran, nil
}

// fallBack lets a turn that a failure would end go on with the model's fallback, if an unused one is left.
func (h *hooks) fallBack(class classification.Class, event *transcript.Classified) bool {
	if class.Category == classification.Cancelled || !provider.FallBack(h.dialogue.model) {
		return false
	}
	event.Action, h.replaced = "fallback", event.Attempt
	h.dialogue.count.Forget() // it counts other tokens
	return true
}

// atLimit records that a limit is reached, and asks the hooks about it. The error ends the thread; nil for the usual
// one.
func (h *hooks) atLimit(ctx context.Context, limit *transcript.Limit) error {
	limit.Action = hook.Escalate // what threads do unless a hook decides
	if err := h.record.append(true, *limit); err != nil {
		return err
	}
	decision, err := h.decide(ctx, hook.Limit, object{"limit_code": limit.Code, "current_value": limit.Current,
		"current_max": limit.Max})
	switch {
	case err != nil:
		return err
	case decision.Control == "":
		return fault.New(fault.Failed, "limit exceeded: %s (%g of %g)", limit.Code, limit.Current,
			limit.Max).On("limit", limit.Code).Try("rye docs hooks")
	case decision.Control == hook.Fail || decision.Control == hook.Abort || decision.Error != "":
		return decision.End(hook.Limit, limit.Code == replay.Spend)
	}
	return nil
}

// beforeCalls asks the hooks about calls before they are made.
func (h *hooks) beforeCalls(ctx context.Context, calls []*toolCall) error {
	if !h.plan.Hooks.Any(hook.CallStart) {
		return nil
	}
	for _, call := range calls {
		decision, err := h.fire(ctx, hook.CallStart, call.Before())
		if err != nil {
			return err
		}
		if decision.Control == hook.Skip {
			call.Skip(decision)
		}
	}
	return nil
}

// afterCalls asks the hooks about calls that were made.
func (h *hooks) afterCalls(ctx context.Context, calls []*toolCall) error {
	if !h.plan.Hooks.Any(hook.CallResult) {
		return nil
	}
	for _, call := range calls {
		if _, err := h.fire(ctx, hook.CallResult, call.After()); err != nil {
			return err
		}
	}
	return nil
}

// afterStep asks the hooks at the end of a turn with calls, and when the context window fills up.
func (h *hooks) afterStep(ctx context.Context, calls int) error {
	if _, err := h.fire(ctx, hook.AfterStep, object{"calls": int64(calls)}); err != nil ||
		!h.plan.Window.Pressed(h.dialogue.share()) {
		return err
	}
	return h.fills(ctx, hook.Pressure, h.dialogue.count.Filled())
}

// fills asks the hooks of an event about the context window, where so many tokens are used.
func (h *hooks) fills(ctx context.Context, event string, tokens int64) error {
	_, err := h.fire(ctx, event, h.dialogue.pressure(tokens))
	return err
}

// afterReturn asks the hooks about the outputs, and returns the error that ends the loop.
func (h *hooks) afterReturn(ctx context.Context, outputs map[string]any) error {
	_, err := h.fire(ctx, hook.Return, object{"outputs": outputs})
	return cmp.Or(err, control.ErrReturned)
}

// afterEnd tells the hooks how the thread ends. Nothing that they decide changes it.
func (h *hooks) afterEnd(ctx context.Context, result *Result, why *fault.Error) error {
	data := object{"status": result.Status, "result": result.Result, "outputs": control.Values(result.Outputs)}
	if why != nil {
		data["error"] = object{"code": string(why.Code), "message": why.Text}
	}
	if ctx.Err() != nil || result.Status == Interrupted || result.Status == Waiting || why != nil &&
		roster.RequestOf(why) != nil {
		return nil
	}
	_, err := h.decide(ctx, hook.Complete, data)
	if err == nil && h.plan.Graph != nil {
		_, err = h.decide(ctx, graph.Completed, data)
	}
	return err
}
