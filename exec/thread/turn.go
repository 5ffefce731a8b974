package thread

import (
	"context"
	"fmt"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/classification"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/hook"
	"github.com/rye-build/rye/exec/thread/limits"
	"github.com/rye-build/rye/exec/thread/loop"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/replay"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// A turn is one question of the loop to the model: its request, and the attempt that is made at an answer.
type turn struct {
	thread   *thread
	dialogue *dialogue
	money    *money
	record   *record
	request  *provider.Request

	attempt  int64  // its number: 1, 2, …
	call     string // the attempt's name in the account: TURN.ATTEMPT
	input    int64  // the most tokens that the request may have
	reserved int64  // nano-dollars

	cost  int64             // nano-dollars that a failed attempt is taken to have cost
	usage *transcript.Usage // the tokens that it is taken to have used, nil for none
}

// askModel begins a turn, unless a limit is reached or a hook ends the thread.
func (t *thread) askModel(ctx context.Context, asked loop.Model) (any, error) {
	if err := t.check(ctx); err != nil {
		return nil, err
	}
	if _, err := t.hooks.fire(ctx, hook.BeforeStep, object{}); err != nil {
		return nil, err
	}
	request, err := t.dialogue.request(asked)
	if err != nil {
		return nil, err
	}
	t.record.turn++
	t.hooks.asked, t.hooks.replaced = 0, 0
	t.tell("")
	next := &turn{thread: t, dialogue: &t.dialogue, money: &t.money, record: &t.record, request: request}
	return next.run(ctx)
}

// run asks the model, again after failures that are worth it. The loop gets the answer, or what the failure was.
func (t *turn) run(ctx context.Context) (any, error) {
	if refusal, err := t.tooWide(ctx); refusal != nil || err != nil {
		return refusal, err
	}
	for t.attempt = 1; ; t.attempt++ {
		answer, failure, err := t.try(ctx)
		if err != nil {
			return nil, err
		}
		t.thread.tell("")
		if answer != nil {
			return provider.Seen(answer), nil
		}
		event, err := t.failed(ctx, failure)
		if err != nil {
			return nil, err
		}
		if event.Action == "fail" {
			return object{"error": object{"code": event.Error.Code, "message": event.Error.Message,
				"category": event.Category, "id": event.ID}}, nil
		}
		if err := t.thread.wait(ctx, event); err != nil {
			return nil, err
		}
	}
}

// tooWide refuses a request that the model's context window can't hold, before it is sent. It returns the loop's
// answer.
func (t *turn) tooWide(ctx context.Context) (any, error) {
	tokens := t.dialogue.count.About(t.request, t.dialogue.model.Provider().Overhead)
	event, answer := provider.TooWide(t.dialogue.model, tokens)
	if event == nil {
		return nil, nil
	}
	if err := t.record.append(true, *event); err != nil {
		return nil, err
	}
	return answer, t.thread.hooks.fills(ctx, hook.Full, tokens)
}

// try makes one model call: what it may cost is reserved before, and settled after it.
func (t *turn) try(ctx context.Context) (*provider.Answer, *provider.Failure, error) {
	model := t.dialogue.model
	t.request.Model = model.Name()
	t.input = t.dialogue.count.Most(t.request, model.Provider().Overhead)
	t.call = fmt.Sprintf("%d.%d", t.record.turn, t.attempt)
	if err := t.afford(ctx); err != nil {
		return nil, nil, err
	}
	digest, err := t.dialogue.digests.Of(t.request, t.dialogue.recorded)
	if err != nil {
		return nil, nil, err
	}
	if err := t.dialogue.write(t.request, digest, t.attempt, t.reserved); err != nil {
		return nil, nil, err
	}
	began := time.Now()
	answer, undone, err := t.dialogue.ask(ctx, t.request, digest, t.thread.start.Live.Text)
	if err == nil {
		return answer, nil, t.settle(ctx, answer, time.Since(began))
	}
	t.giveUp(undone)
	if failure := provider.FailureOf(err); failure != nil {
		return nil, failure, nil
	}
	return nil, nil, err
}

// afford bounds the request by the rest of the limits, and reserves what it may cost.
func (t *turn) afford(ctx context.Context) error {
	service, bounds := t.dialogue.model.Provider(), &t.money.limits
	for t.reserved = 0; ; {
		tokens := t.money.used().Tokens + t.input
		left := bounds.Tokens - tokens
		if left <= 0 {
			if err := t.thread.stop(ctx, &transcript.Limit{Code: "tokens_exceeded", Current: float64(tokens),
				Max: float64(bounds.Tokens)}, nil); err != nil {
				return err
			}
			continue
		}
		t.request.MaxTokens = min(left, service.MaxOutput(t.request.Model))
		if bounds.Spend == limits.Unlimited {
			return nil
		}
		worst, _ := service.Worst(t.request.Model, t.input, t.request.MaxTokens)
		short, err := t.money.reserve(ctx, t.call, worst)
		if err != nil {
			return err
		}
		if short == nil {
			t.reserved = worst
			return nil
		}
		over := t.money.over(worst)
		if err := t.thread.stop(ctx, over, limits.At(fault.Of(short), over)); err != nil {
			return err
		}
	}
}

// giveUp settles an attempt without an answer. Unless it has used nothing, all that was reserved is spent: what it has
// used isn't known.
func (t *turn) giveUp(undone bool) {
	t.cost, t.usage = 0, nil
	if !undone {
		t.cost, t.usage = t.reserved, provider.Lost(t.dialogue.classified, t.input, t.request.MaxTokens)
		t.money.tokens = provider.AddUsage(t.money.tokens, t.usage)
	}
	t.money.settle(t.call, t.cost, 0, 0)
}

// settle counts what an answer has used, and records it. Without usage in an answer, the reservation is kept. A thread
// that exceeds its budget ends.
func (t *turn) settle(ctx context.Context, answer *provider.Answer, took time.Duration) error {
	event := provider.RecordedAnswer(answer, t.record.turn, t.attempt, took)
	model := t.dialogue.model
	cost, known := model.Provider().Cost(model.Name(), answer.Usage)
	if !answer.Usage.Reported || !known {
		cost, event.Kept = t.reserved, t.reserved > 0
	}
	input, output := t.input, min(t.request.MaxTokens, provider.Size(answer.Message()))
	if answer.Usage.Reported {
		input, output = answer.Usage.Prompt(), answer.Usage.Answered()
		t.dialogue.count.Answered(t.request, input+output)
	} else {
		t.dialogue.count.Forget()
	}
	event.Cost = cost
	t.money.settle(t.call, cost, input, output)
	if err := t.record.append(false, event); err != nil {
		return err
	}
	if t.money.spent() <= t.money.limits.Spend {
		return nil
	}
	over := t.money.over(0)
	return t.thread.stop(ctx, over, limits.At(fault.New(fault.Budget,
		"the thread has spent $%.6f of $%.6f: a model call has cost more than it could",
		over.Current, over.Max), over))
}

// failed decides what is done about an attempt that has failed, and records that. The error ends the thread.
func (t *turn) failed(ctx context.Context, failure *provider.Failure) (*transcript.Classified, error) {
	class, event := t.dialogue.classify(t.thread.plan.Rules, failure,
		transcript.Classified{Turn: t.record.turn, Attempt: t.attempt, Cost: t.cost, Usage: t.usage})
	switch {
	case event.ID == replay.LostID:
		return &event, t.onLost(&event)
	case class.Category == classification.Permanent && t.thread.hooks.fallBack(class, &event):
		return &event, t.record.append(true, event)
	}
	return &event, t.thread.hooks.onFailure(ctx, failure, class, &event)
}

// onLost records that a model call is made again because its answer was lost. If hooks had already begun to do
// something about a failure, their result is unknown.
func (t *turn) onLost(event *transcript.Classified) error {
	began, open, err := t.record.Lost(control.RecordedFault(replay.Unknown("a hook's call")))
	if err != nil {
		return err
	}
	t.record.called += began
	return t.record.append(true, append(open, *event)...)
}
