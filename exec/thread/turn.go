package thread

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rye-build/rye/cas"
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

// askModel makes one turn: it asks the model, again after failures that are worth it. The loop gets the answer, or
// what the failure of the model call.
func (t *thread) askModel(ctx context.Context, asked loop.Model) (any, error) {
	if err := t.check(ctx); err != nil {
		return nil, err
	}
	if _, err := t.hooks.fire(ctx, hook.BeforeStep, object{}); err != nil {
		return nil, err
	}
	q, err := t.dialogue.request(asked)
	if err != nil {
		return nil, err
	}
	t.record.turn++
	t.hooks.asked = 0
	t.tell("")
	if wide, err := t.tooWide(ctx, q); wide != nil || err != nil {
		return wide, err
	}
	for attempt := int64(1); ; attempt++ {
		answer, failure, err := t.try(ctx, q, attempt)
		if err != nil {
			return nil, err
		}
		t.tell("")
		if answer != nil {
			return provider.Seen(answer), nil
		}
		class, event := t.dialogue.classify(t.plan.Rules, failure, attempt)
		switch {
		case event.ID == replay.LostID:
			err = t.onLost(&event)
		case class.Category == classification.Permanent && provider.FallBack(t.dialogue.model):
			err = t.onFallback(&event)
		default:
			err = t.hooks.onFailure(ctx, failure, class, &event)
		}
		if err != nil {
			return nil, err
		}
		if event.Action == "fail" {
			return map[string]any{"error": map[string]any{"code": event.Error.Code, "message": event.Error.Message,
				"category": event.Category, "id": event.ID}}, nil
		}
		if err := t.wait(ctx, &event); err != nil {
			return nil, err
		}
	}
}

// wait waits before another try. A wait that is longer than the time that the thread has left ends the thread at once.
func (t *thread) wait(ctx context.Context, why *transcript.Classified) error {
	if on, err := t.record.WentOn(); on || err != nil {
		return err
	}
	d := why.Delay
	switch limit, err := t.record.Limit(func() *transcript.Limit {
		return t.money.limits.Late(t.record.Elapsed() + d)
	}); {
	case err != nil:
		return err
	case limit != nil:
		return t.stop(ctx, limit, fault.New(fault.Limit, "the next try is due in %s, later than the thread may run",
			d.Round(time.Second)).
			Because(why.Error.Message))
	case t.record.Playing():
		return t.watch.safe()
	}
	ctx, done := t.watch.Soft(ctx)
	defer done()
	return cas.Sleep(ctx, d)
}

// tooWide refuses a request that the model's context window can't hold, before it is sent. It returns the loop's
// answer.
func (t *thread) tooWide(ctx context.Context, q *provider.Request) (any, error) {
	tokens := t.dialogue.count.About(q, t.dialogue.model.Provider().Overhead)
	event, answer := provider.TooWide(t.dialogue.model, tokens)
	if event == nil {
		return nil, nil
	}
	if err := t.record.append(true, *event); err != nil {
		return nil, err
	}
	return answer, t.hooks.fills(ctx, hook.Full, tokens)
}

// onLost records that a model call is made again because its answer was lost. If hooks had already begun to do
// something about a failure, their result is unknown.
func (t *thread) onLost(event *transcript.Classified) error {
	began, open, err := t.record.Lost(control.RecordedFault(replay.Unknown("a hook's call")))
	if err != nil {
		return err
	}
	t.record.called += began
	return t.record.append(true, append(open, *event)...)
}

// onFallback records that the turn goes on with the next model, which counts other tokens.
func (t *thread) onFallback(event *transcript.Classified) error {
	event.Action = "fallback"
	t.dialogue.count.Forget()
	return t.record.append(true, *event)
}

// check ends the loop if a limit is reached.
func (t *thread) check(ctx context.Context) error {
	if err := t.watch.safe(); err != nil {
		return err
	}
	for {
		limit, err := t.record.Limit(func() *transcript.Limit { return t.money.limits.Reached(t.money.used()) })
		if err != nil || limit == nil {
			return err
		}
		if err := t.stop(ctx, limit, nil); err != nil {
			return err
		}
	}
}

// stop records that a limit is reached, and returns the error that ends the loop: nil if the thread went on by its
// record, perhaps with other limits. why is nil for that of a limit.
func (t *thread) stop(ctx context.Context, limit *transcript.Limit, why error) (err error) {
	if limit.Code == replay.Time { // hooks have theirs
		ctx = t.deadline.outer
		defer func() { t.deadline.late = err }()
	}
	end := t.hooks.atLimit(ctx, limit)
	if !replay.Differs(end) && !errors.Is(end, replay.ErrEnds) {
		if on, err := t.record.WentOn(); on || err != nil {
			return err
		}
	}
	if end != nil {
		return end
	}
	if why != nil {
		return why
	}
	return limits.Fault(limit)
}

// try makes one model call: what it may cost is reserved before, and settled after it.
func (t *thread) try(ctx context.Context, q *provider.Request, attempt int64) (*provider.Answer, *provider.Failure,
	error) {
	p, name := t.dialogue.model.Provider(), t.dialogue.model.Name()
	q.Model = name
	input := t.dialogue.count.Most(q, p.Overhead)
	call := fmt.Sprintf("%d.%d", t.record.turn, attempt)
	reserved, err := t.afford(ctx, q, call, input)
	if err != nil {
		return nil, nil, err
	}
	digest, err := t.dialogue.digests.Of(q, t.dialogue.recorded)
	if err != nil {
		return nil, nil, err
	}
	if err := t.dialogue.write(q, digest, attempt, reserved); err != nil {
		return nil, nil, err
	}
	began := time.Now()
	got, undone, err := t.dialogue.ask(ctx, q, digest, t.start.Live.Text)
	if err != nil {
		t.dialogue.failed, t.dialogue.lost = 0, nil
		if !undone { // what was used isn't known
			t.dialogue.failed, t.dialogue.lost = reserved, provider.Lost(t.dialogue.classified, input, q.MaxTokens)
			t.money.tokens = provider.AddUsage(t.money.tokens, t.dialogue.lost)
		}
		t.money.settle(call, t.dialogue.failed, 0, 0)
		if f := provider.FailureOf(err); f != nil {
			return nil, f, nil
		}
		return nil, nil, err
	}
	return got, nil, t.settle(ctx, q, got, call, input, reserved, attempt, time.Since(began))
}

// afford bounds a request by the rest of the limits, and reserves what it may cost.
func (t *thread) afford(ctx context.Context, q *provider.Request, call string, input int64) (reserved int64,
	err error) {
	p := t.dialogue.model.Provider()
	for {
		left := t.money.limits.Tokens - t.money.used().Tokens - input
		if left <= 0 {
			if err := t.stop(ctx, &transcript.Limit{Code: "tokens_exceeded",
				Current: float64(t.money.used().Tokens + input), Max: float64(t.money.limits.Tokens)},
				nil); err != nil {
				return 0, err
			}
			continue
		}
		q.MaxTokens = min(left, p.MaxOutput(q.Model))
		if t.money.limits.Spend == limits.Unlimited {
			return 0, nil
		}
		worst, _ := p.Worst(q.Model, input, q.MaxTokens)
		short, err := t.money.reserve(ctx, call, worst)
		if err != nil || short == nil {
			return worst, err
		}
		over := t.money.over(worst)
		if err := t.stop(ctx, over, limits.At(fault.Of(short), over)); err != nil {
			return 0, err
		}
	}
}

// settle counts what an answer has used, and records it. Without usage in an answer, the reservation is kept. A thread
// that exceeds its budget ends.
func (t *thread) settle(ctx context.Context, q *provider.Request, a *provider.Answer, call string, input, reserved,
	attempt int64, took time.Duration) error {
	event := provider.RecordedAnswer(a, t.record.turn, attempt, took)
	cost, known := t.dialogue.model.Provider().Cost(t.dialogue.model.Name(), a.Usage)
	if !a.Usage.Reported || !known {
		cost, event.Kept = reserved, reserved > 0
	}
	output := min(q.MaxTokens, provider.Size(a.Message()))
	if a.Usage.Reported {
		input, output = a.Usage.Prompt(), a.Usage.Answered()
		t.dialogue.count.Answered(q, input+output)
	} else {
		t.dialogue.count.Forget()
	}
	event.Cost = cost
	t.money.settle(call, cost, input, output)
	if err := t.record.append(false, event); err != nil {
		return err
	}
	if t.money.spent() <= t.money.limits.Spend {
		return nil
	}
	over := t.money.over(0)
	return t.stop(ctx, over, limits.At(fault.New(fault.Budget,
		"the thread has spent $%.6f of $%.6f: a model call has cost more than it could",
		over.Current, over.Max), over))
}
