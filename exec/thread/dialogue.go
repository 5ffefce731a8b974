package thread

import (
	"context"
	"errors"
	"reflect"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/exec/classification"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/loop"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/replay"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// A dialogue is the conversation of a thread with its model: its requests, whose new messages alone are recorded, and
// the last failure.
type dialogue struct {
	model    provider.Model
	record   *record
	count    provider.Count     // the tokens of the last request
	tools    provider.Offers    // of the loop
	offered  []provider.Tool    // by the last request that was recorded
	sent     []provider.Message // by the loop, the last time
	recorded int                // how many of them the last recorded request has too
	requests int
	digests  provider.Digests

	classified *transcript.Classified // the record's classification of the last failure
}

// request makes the request of a turn.
func (d *dialogue) request(asked loop.Model) (q *provider.Request, err error) {
	d.count.Next(asked.Kept)
	d.recorded = min(d.recorded, asked.Kept)
	if d.sent, err = provider.ReadMessages(asked.Messages, d.sent, asked.Kept); err != nil {
		return nil, err
	}
	q = &provider.Request{Stream: true, Messages: d.sent}
	q.Tools, err = d.tools.Read(asked.Tools)
	return q, err
}

// write records a request, before the model is asked. The first attempt of a turn signs the turn before.
func (d *dialogue) write(request *provider.Request, digest cas.Digest, attempt, reserved int64) error {
	kept, turn := d.recorded, d.record.turn
	d.recorded = len(request.Messages)
	event := transcript.Request{Turn: turn, Attempt: attempt, Digest: digest, Kept: int64(kept), Model: request.Model,
		Reserved: reserved,
		Provider: transcript.Item{Ref: d.model.Provider().Ref.String(), Digest: d.model.Digest()}}
	event.Messages, _ = control.Values(append([]provider.Message{}, request.Messages[kept:]...)).([]any)
	if !reflect.DeepEqual(request.Tools, d.offered) {
		d.offered = request.Tools
		event.Tools, _ = control.Values(request.Tools).([]any)
	}
	if d.requests++; d.requests > 1 && attempt == 1 {
		return d.record.append(true, transcript.Checkpoint{Turn: turn - 1}, event)
	}
	return d.record.append(true, event)
}

// ask gets the answer to a request, from the record as long as that has one. undone says that a failed call has used
// nothing.
func (d *dialogue) ask(ctx context.Context, request *provider.Request, digest cas.Digest,
	live func(string)) (answer *provider.Answer, undone bool, err error) {
	if !d.record.Playing() {
		return d.model.Ask(ctx, request, digest, live)
	}
	recorded, err := d.record.Answer()
	switch {
	case err != nil:
		return nil, !errors.Is(err, replay.ErrTime), err
	case recorded.Answer != nil:
		answer, err = provider.Answered(recorded.Answer)
		return answer, false, err
	case recorded.Failed != nil:
		d.classified = recorded.Failed
		return nil, provider.Undone(recorded.Failed), provider.Failed(recorded.Failed, d.model)
	}
	return nil, false, provider.ErrLost
}

// classify returns the kind of failure that a model call had, and its event. If the record has a classification, it is
// used.
func (d *dialogue) classify(rules *classification.Rules, failure *provider.Failure,
	event transcript.Classified) (classification.Class, transcript.Classified) {
	recorded := d.classified
	d.classified = nil
	return provider.Classify(rules, failure, recorded, event)
}

// window is how many tokens a request and its answer may have together, 0 if that is unknown.
func (d *dialogue) window() int64 {
	if p := d.model.Provider(); p != nil {
		return p.Window(d.model.Name())
	}
	return 0
}

// share is how much of the context window is used.
func (d *dialogue) share() float64 {
	window := d.window()
	if window <= 0 {
		return 0
	}
	return float64(d.count.Filled()) / float64(window)
}

// pressure is what hooks know of a context window where so many tokens are used.
func (d *dialogue) pressure(tokens int64) object {
	window := d.window()
	return object{"usage_ratio": float64(tokens) / float64(max(window, 1)), "tokens_used": tokens,
		"tokens_limit": window}
}
