package thread

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/classification"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/hook"
	"github.com/rye-build/rye/exec/thread/ledger"
	"github.com/rye-build/rye/exec/thread/limits"
	"github.com/rye-build/rye/exec/thread/loop"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/replay"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// askModel makes one turn: it asks the model, again after failures that are worth it. The loop gets the answer, or
// what the model call failed of.
func (t *thread) askModel(ctx context.Context, asked loop.Model) (any, error) {
	if err := t.check(ctx); err != nil {
		return nil, err
	}
	if _, err := t.fire(ctx, hook.BeforeStep, object{}); err != nil {
		return nil, err
	}
	q, err := t.request(asked)
	if err != nil {
		return nil, err
	}
	t.turn++
	t.asked = 0
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
		class, event := t.classify(failure, attempt)
		if event.ID == replay.LostID {
			err = t.onLost(&event)
		} else {
			err = t.onFailure(ctx, failure, class, &event)
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
	if on, err := t.recorder.WentOn(); on || err != nil {
		return err
	}
	d := why.Delay
	switch limit, err := t.recorder.Limit(func() *transcript.Limit {
		return t.limits.Late(t.recorder.Elapsed() + d)
	}); {
	case err != nil:
		return err
	case limit != nil:
		return t.stop(ctx, limit, fault.New(fault.Limit, "the next try is due in %s, later than the thread may run",
			d.Round(time.Second)).
			Because(why.Error.Message))
	case t.recorder.Playing():
		return t.safe()
	}
	ctx, done := t.watch.Soft(ctx)
	defer done()
	return cas.Sleep(ctx, d)
}

// tooWide refuses a request that the model's context window can't hold, before it is sent. It returns the loop's
// answer.
func (t *thread) tooWide(ctx context.Context, q *provider.Request) (any, error) {
	tokens := t.count.About(q, t.model.Provider().Overhead)
	event, answer := provider.TooWide(t.model, tokens)
	if event == nil {
		return nil, nil
	}
	if err := t.append(true, *event); err != nil {
		return nil, err
	}
	return answer, t.fills(ctx, hook.Full, tokens)
}

// classify says what kind of failure a model call had. What the record says of that counts.
func (t *thread) classify(failure *provider.Failure, attempt int64) (classification.Class, transcript.Classified) {
	was := t.classified
	t.classified = nil
	return provider.Classify(t.plan.Rules, failure, was,
		transcript.Classified{Turn: t.turn, Attempt: attempt, Cost: t.failed, Usage: t.lost})
}

// onLost records that a model call is made again because its answer was lost. If hooks had already begun to do
// something about a failure, it isn't known what came of that.
func (t *thread) onLost(event *transcript.Classified) error {
	began, open, err := t.recorder.Lost(control.RecordedFault(replay.Unknown("a hook's call")))
	if err != nil {
		return err
	}
	t.called += began
	return t.append(true, append(open, *event)...)
}

// safe is a point at which a thread that was asked to end does so, and one whose tokens have expired.
func (t *thread) safe() error {
	was, err := t.recorder.Cancelled()
	if err == nil && was != nil {
		return roster.RecordedRequest(was)
	}
	if q := t.watch.Asked(); q != nil && !t.recorder.Playing() {
		return q
	}
	return cmp.Or(err, t.chain.Check(t.Now()))
}

// check ends the loop if a limit is reached.
func (t *thread) check(ctx context.Context) error {
	if err := t.safe(); err != nil {
		return err
	}
	for {
		limit, err := t.recorder.Limit(func() *transcript.Limit { return t.limits.Reached(t.used()) })
		if err != nil || limit == nil {
			return err
		}
		if err := t.stop(ctx, limit, nil); err != nil {
			return err
		}
	}
}

// stop records that a limit is reached, and returns the error that ends the loop: nil if the record says that the
// thread went on, perhaps with other limits. why is nil for that of a limit.
func (t *thread) stop(ctx context.Context, limit *transcript.Limit, why error) (err error) {
	if limit.Code == replay.Time { // hooks have theirs
		ctx = t.outer
		defer func() { t.late = err }()
	}
	end := t.atLimit(ctx, limit)
	if !replay.Differs(end) && !errors.Is(end, replay.ErrEnds) {
		if on, err := t.recorder.WentOn(); on || err != nil {
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

// request makes the request of a turn. The answer may have as many tokens as the limit leaves.
func (t *thread) request(asked loop.Model) (*provider.Request, error) {
	t.count.Next(asked.Kept)
	t.recorded = min(t.recorded, asked.Kept)
	var err error
	if t.sent, err = provider.ReadMessages(asked.Messages, t.sent, asked.Kept); err != nil {
		return nil, err
	}
	q := &provider.Request{Stream: true, Messages: t.sent}
	q.Tools, err = t.tools.Read(asked.Tools)
	return q, err
}

// try makes one model call: what it may cost is reserved before, and settled after it.
func (t *thread) try(ctx context.Context, q *provider.Request, attempt int64) (*provider.Answer, *provider.Failure,
	error) {
	p, name := t.model.Provider(), t.model.Name()
	q.Model = name
	input := t.count.Most(q, p.Overhead)
	call := fmt.Sprintf("%d.%d", t.turn, attempt)
	reserved, err := t.afford(ctx, q, call, input)
	if err != nil {
		return nil, nil, err
	}
	digest, err := t.digests.Of(q, t.recorded)
	if err != nil {
		return nil, nil, err
	}
	if err := t.recordRequest(q, digest, attempt, reserved); err != nil {
		return nil, nil, err
	}
	began := time.Now()
	got, undone, err := t.answer(ctx, q, digest)
	if err != nil {
		t.failed, t.lost = 0, nil
		if !undone { // what was used isn't known
			t.failed, t.lost = reserved, provider.Lost(t.classified, input, q.MaxTokens)
			t.tokens = provider.AddUsage(t.tokens, t.lost)
		}
		t.money.Settle(call, t.failed)
		if f := provider.FailureOf(err); f != nil {
			return nil, f, nil
		}
		return nil, nil, err
	}
	return got, nil, t.settle(ctx, q, got, call, input, reserved, attempt, time.Since(began))
}

// afford bounds a request by what is left, and reserves what it may cost.
func (t *thread) afford(ctx context.Context, q *provider.Request, call string, input int64) (reserved int64,
	err error) {
	p := t.model.Provider()
	for {
		left := t.limits.Tokens - t.used().Tokens - input
		if left <= 0 {
			if err := t.stop(ctx, &transcript.Limit{Code: "tokens_exceeded", Current: float64(t.used().Tokens + input),
				Max: float64(t.limits.Tokens)}, nil); err != nil {
				return 0, err
			}
			continue
		}
		q.MaxTokens = min(left, p.MaxOutput(q.Model))
		if t.limits.Spend == limits.Unlimited {
			return 0, nil
		}
		worst, _ := p.Worst(q.Model, input, q.MaxTokens)
		short, err := t.reserve(ctx, call, worst)
		if err != nil || short == nil {
			return worst, err
		}
		own, below := t.money.Spent()
		over := &transcript.Limit{Code: replay.Spend, Current: float64(own+below+worst) / limits.Nano,
			Max: float64(t.limits.Spend) / limits.Nano}
		if err := t.stop(ctx, over, limits.At(fault.Of(short), over)); err != nil {
			return 0, err
		}
	}
}

// reserve sets money aside. short says that there isn't enough: as long as there is a record, that knows.
func (t *thread) reserve(ctx context.Context, call string, worst int64) (short, err error) {
	switch noMoney, known, err := t.recorder.Short(); {
	case err != nil:
		return nil, err
	case noMoney:
		return fault.New(fault.Budget, "the next model call may cost $%.6f, more than the budget has left",
			float64(worst)/limits.Nano), nil
	case known:
		return nil, nil
	}
	if err = t.money.Reserve(ctx, call, worst); ledger.IsShort(err) {
		return err, nil
	}
	return nil, err
}

// answer gets the answer to a request, from the record as long as that has one.
func (t *thread) answer(ctx context.Context, q *provider.Request, digest cas.Digest) (a *provider.Answer, undone bool,
	err error) {
	if !t.recorder.Playing() {
		return t.model.Ask(ctx, q, digest, t.Live.Text)
	}
	was, err := t.recorder.Answer()
	switch {
	case err != nil:
		return nil, !errors.Is(err, replay.ErrTime), err
	case was.Answer != nil:
		a, err = provider.Answered(was.Answer)
		return a, false, err
	case was.Failed != nil:
		t.classified = was.Failed
		return nil, provider.Undone(was.Failed), provider.Failed(was.Failed, t.model)
	}
	return nil, false, provider.ErrLost
}

// recordRequest writes what the model is asked, before it is.
func (t *thread) recordRequest(q *provider.Request, digest cas.Digest, attempt, reserved int64) error {
	kept := t.recorded
	t.recorded = len(q.Messages)
	event := transcript.Request{Turn: t.turn, Attempt: attempt, Digest: digest, Kept: int64(kept), Model: q.Model,
		Reserved: reserved,
		Provider: transcript.Item{Ref: t.model.Provider().Ref.String(), Digest: t.model.Digest()}}
	event.Messages, _ = control.Values(append([]provider.Message{}, q.Messages[kept:]...)).([]any)
	if !reflect.DeepEqual(q.Tools, t.offered) {
		t.offered = q.Tools
		event.Tools, _ = control.Values(q.Tools).([]any)
	}
	if t.requests++; t.requests > 1 && attempt == 1 {
		return t.append(true, transcript.Checkpoint{Turn: t.turn - 1}, event)
	}
	return t.append(true, event)
}

// settle counts what an answer has used, and records it. Without a plausible usage the reservation stays. Who has
// spent more than there was ends.
func (t *thread) settle(ctx context.Context, q *provider.Request, a *provider.Answer, call string, input, reserved,
	attempt int64, took time.Duration) error {
	event := provider.RecordedAnswer(a, t.turn, attempt, took)
	cost, known := t.model.Provider().Cost(t.model.Name(), a.Usage)
	if !a.Usage.Reported || !known {
		cost, event.Kept = reserved, reserved > 0
	}
	if a.Usage.Reported {
		t.tokens.InputTokens += a.Usage.Prompt()
		t.tokens.OutputTokens += a.Usage.Answered()
		t.count.Answered(q, a.Usage.Prompt()+a.Usage.Answered())
	} else {
		t.tokens.InputTokens += input
		t.tokens.OutputTokens += min(q.MaxTokens, provider.Size(a.Message()))
		t.count.Forget()
	}
	event.Cost = cost
	t.money.Settle(call, cost)
	if err := t.append(false, event); err != nil {
		return err
	}
	own, below := t.money.Spent()
	if own+below <= t.limits.Spend {
		return nil
	}
	over := &transcript.Limit{Code: replay.Spend, Current: float64(own+below) / limits.Nano,
		Max: float64(t.limits.Spend) / limits.Nano}
	return t.stop(ctx, over, limits.At(fault.New(fault.Budget,
		"the thread has spent $%.6f of $%.6f: a model call has cost more than it could",
		over.Current, over.Max), over))
}
