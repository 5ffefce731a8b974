package provider

import (
	"context"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/template/params"
)

// A service is a model that a provider's item reaches.
type service struct {
	choice  Choice
	raw     cas.Digest
	session *session.Session
}

func (s *service) Name() string        { return s.choice.Model }
func (s *service) String() string      { return s.choice.String() }
func (s *service) Provider() *Provider { return s.choice.Provider }
func (s *service) Digest() cas.Digest  { return s.raw }

// Ask implements Model by a call of the provider's item.
func (s *service) Ask(ctx context.Context, r *Request, _ cas.Digest, live func(string)) (a *Answer, undone bool,
	err error) {
	p := s.choice.Provider
	values, err := p.Params(*r)
	if err != nil {
		return nil, true, err
	}
	call := &exec.Call{Ref: p.Ref, Params: params.Values(values)}
	var stream *Stream
	var to primitive.Sink
	if r.Stream && p.Streams() {
		stream = p.Stream(Deltas{Text: live})
		to = stream
	}
	result, err := s.session.CallChosen(ctx, call, to)
	switch {
	case ctx.Err() != nil:
		return nil, false, context.Cause(ctx)
	case err != nil:
		return nil, result == nil, err
	}
	a, err = p.Answer(&result.Result, stream)
	return a, err != nil && free(&result.Result), err
}

// free reports whether a failed call cost nothing: the service was unreachable, or answered with an HTTP error. A
// gateway that answers 502 or 504 doesn't know what the service behind it did. If an item retries by itself, only the
// last try's status is known.
func free(r *primitive.Result) bool {
	t := r.Trouble
	return t != nil && (t.Undone || t.Status >= 400 && t.Status != http502 && t.Status != http504 &&
		r.Usage["attempts"] <= 1)
}

// HTTP statuses of gateways. Only a few packages may import net/http.
const (
	http502 = 502 // bad gateway
	http504 = 504 // gateway timeout
)
