package primitivetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// A sink records output, and notices violations of the contract of primitive.Sink.
type sink struct {
	got    [2]bytes.Buffer
	calls  int
	refuse int           // the number of the first call that returns an error; 0: none
	slow   time.Duration // the duration of a call, so that simultaneous calls meet
	busy   atomic.Bool
	over   atomic.Bool
	wrong  atomic.Pointer[error]
}

var errSink = errors.New("the sink has enough")

func (s *sink) note(err error) { s.wrong.CompareAndSwap(nil, &err) }

// Emit implements primitive.Sink.
func (s *sink) Emit(stream primitive.Stream, data []byte) error {
	if !s.busy.CompareAndSwap(false, true) {
		s.note(errors.New("two told the sink something at once"))
		return nil
	}
	defer s.busy.Store(false)
	time.Sleep(s.slow)
	s.calls++
	switch {
	case s.over.Load():
		s.note(errors.New("the sink was told something after Run had returned"))
	case stream > primitive.Stderr:
		s.note(fmt.Errorf("the sink was told of the stream %d", stream))
	case s.refuse > 0 && s.calls > s.refuse:
		s.note(errors.New("the sink was told more although it had enough"))
	default:
		s.got[stream].Write(data)
	}
	if s.refuse > 0 && s.calls >= s.refuse {
		return errSink
	}
	return nil
}

// size returns the number of bytes received.
func (s *sink) size() int64 { return int64(s.got[0].Len() + s.got[1].Len()) }

// ends lists the possible values of Result.Ended.
var ends = []string{"", "timeout", "cancelled", "memory", "cpu", "processes", "output", "written", "steps"}

// A violation is a breach of the contract, as opposed to an error of Run.
type violation struct{ error }

// do runs an action and checks everything that must hold for every run. It returns a breach as a violation.
func (s *suite) do(ctx context.Context, action *primitive.Action, to primitive.Sink) (*primitive.Result, error) {
	before, err := snapshot(action)
	if err != nil {
		return nil, violation{fmt.Errorf("the action of the test: %w", err)}
	}
	type end struct {
		r   *primitive.Result
		err error
	}
	ended := make(chan end, 1)
	go func() {
		r, err := s.Primitive.Run(ctx, action, to)
		ended <- end{r, err}
	}()
	var outcome end
	select {
	case outcome = <-ended:
	case <-time.After(s.patience):
		return nil, violation{fmt.Errorf("it doesn't end")}
	}
	if watched, ok := to.(*sink); ok && watched != nil {
		watched.over.Store(true)
	}
	after, err := snapshot(action)
	if err != nil || !bytes.Equal(before, after) {
		return nil, violation{fmt.Errorf("the action was changed from\n%s to\n%s (%v)", before, after, err)}
	}
	if (outcome.r == nil) == (outcome.err == nil) {
		return nil, violation{fmt.Errorf("result %+v and error %v: expected one of them", outcome.r, outcome.err)}
	}
	if outcome.err != nil {
		return nil, outcome.err
	}
	return outcome.r, sound(outcome.r, action.Sandbox.Level)
}

// sound checks a result by itself.
func sound(result *primitive.Result, least floor.Level) error {
	_, err := jcs.Append(nil, result.Value)
	switch {
	case err != nil:
		return violation{fmt.Errorf("the value is no JSON: %w", err)}
	case !slices.Contains(ends, result.Ended):
		return violation{fmt.Errorf("it was ended by %q, which is no word for that", result.Ended)}
	case result.Failure != "" && !result.Failed, result.Ended != "" && !result.Failed:
		return violation{fmt.Errorf("it has not failed, and says why (%q) or what ended it (%q)", result.Failure,
			result.Ended)}
	case result.Level < least:
		return violation{fmt.Errorf("%v was enforced where %v is the least", result.Level, least)}
	}
	for name, n := range result.Usage {
		if n < 0 {
			return violation{fmt.Errorf("it used %d of %q", n, name)}
		}
	}
	return nil
}

// ok runs an action that must succeed.
func (s *suite) ok(a *primitive.Action, to *sink) (*primitive.Result, error) {
	r, err := s.do(s.ctx, a, to)
	switch {
	case err != nil:
		return nil, err
	case r.Failed:
		return nil, fmt.Errorf("it failed: %q, ended by %q, status %d, signal %q", r.Failure, r.Ended, r.Exit,
			r.Signal)
	case to.wrong.Load() != nil:
		return nil, *to.wrong.Load()
	}
	return r, nil
}

// snapshot encodes an action, to detect changes.
func snapshot(a *primitive.Action) ([]byte, error) {
	config := any(a.Config)
	if a.Config == nil {
		config = nil
	}
	text, err := jcs.Append(nil, config)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(text, " %q %q %+v %+v", a.Env, a.Dir, a.Sandbox, a.Programs), nil
}

// limited returns a copy of an action with other limits.
func limited(a *primitive.Action, change func(*sandbox.Limits)) *primitive.Action {
	again := *a
	change(&again.Sandbox.Limits)
	return &again
}
