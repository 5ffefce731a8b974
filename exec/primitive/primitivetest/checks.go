package primitivetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/manifest/jcs"
)

// values are of all JSON types, and include text that breaks careless quoting.
var values = []any{
	nil, true, false, int64(0), int64(-7), int64(1<<53 - 1), 1.5, "", "text", " spaces\tand\nlines ",
	"ünï ✓ \U0001F600", `"quoted" \ {x} ${HOME} $(id)`,
	[]any{}, []any{int64(1), "two", nil}, map[string]any{}, map[string]any{"a": map[string]any{"b": []any{true}}},
	strings.Repeat("long ", 20_000),
}

// same reports whether two values are equal in JSON.
func same(x, y any) bool {
	a, errA := jcs.Append(nil, x)
	b, errB := jcs.Append(nil, y)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

// gives runs an action whose value must be v.
func (s *suite) gives(v any) error {
	r, err := s.ok(s.Value(s, v), new(sink))
	if err != nil {
		return fmt.Errorf("%.100v: %w", v, err)
	}
	if got := s.Extract(r.Value); !same(got, v) {
		return fmt.Errorf("the value is %.200v; want %.200v", got, v)
	}
	return nil
}

func (s *suite) value() error {
	var errs []error
	values := values
	if testing.Short() {
		values = []any{values}
	}
	for _, v := range values {
		errs = append(errs, s.gives(v))
	}
	// A sink is optional.
	r, err := s.do(s.ctx, s.Value(s, "alone"), nil)
	if err == nil && (r.Failed || !same(s.Extract(r.Value), "alone")) {
		err = fmt.Errorf("without a sink: %+v", r)
	}
	return errors.Join(append(errs, err)...)
}

func (s *suite) answer() error {
	const reason = "no, because “it” isn't there"
	r, err := s.do(s.ctx, s.Fails(s, reason), new(sink))
	switch {
	case err != nil:
		return err
	case !r.Failed || r.Ended != "":
		return fmt.Errorf("expected a failure that nothing has ended: %+v", r)
	case !strings.Contains(r.Failure, reason):
		return fmt.Errorf("the reason is %q; want %q in it", r.Failure, reason)
	}
	return nil
}

func (s *suite) stream() error {
	if s.Stream == nil {
		to := new(sink)
		_, err := s.ok(s.Value(s, "quiet"), to)
		if err == nil && to.calls > 0 {
			err = fmt.Errorf("the sink was told something %d times", to.calls)
		}
		return err
	}
	long := 3 << 20
	if testing.Short() {
		long = 512 << 10 // still enough for several goroutines to write at once
	}
	for _, n := range []int{1, 1000, long} {
		a, want := s.Stream(s, n)
		to := &sink{slow: 50 * time.Microsecond}
		if _, err := s.ok(a, to); err != nil {
			return fmt.Errorf("%d bytes: %w", n, err)
		}
		got := to.got[primitive.Stdout].Bytes()
		if len(want) < n || !bytes.Equal(got, want) {
			return fmt.Errorf("%d bytes were sent, of at least %d, and %d came; the first that is another is at %d",
				len(want), n, len(got), differ(got, want))
		}
	}
	return nil
}

// differ returns the first index at which two texts differ.
func differ(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

func (s *suite) sink() error {
	if s.Stream == nil {
		return nil
	}
	endless := s.Forever(s)
	to := &sink{refuse: 1}
	r, err := s.do(s.ctx, endless.Action, to)
	switch {
	case err != nil:
		return fmt.Errorf("the action had begun, so there should be a result: %w", err)
	case to.wrong.Load() != nil:
		return *to.wrong.Load()
	case !r.Failed || r.Ended != "cancelled" || !strings.Contains(r.Failure, errSink.Error()):
		return fmt.Errorf("expected a failure because %q, cancelled: %+v", errSink, r)
	}
	return s.gone(endless)
}

func (s *suite) wrong() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.Wrong)) {
		to := new(sink)
		r, err := s.do(s.ctx, s.Wrong[name](s), to)
		switch bad, _ := errors.AsType[violation](err); {
		case bad.error != nil:
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		case err == nil:
			errs = append(errs, fmt.Errorf("%s: expected an error, got %+v", name, r))
		case to.calls > 0:
			errs = append(errs, fmt.Errorf("%s: there is an error, and the sink was told something: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func (s *suite) cancel() error {
	// A context that ended before the call: nothing happens, whether Run returns a result or an error.
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	e, to := s.Forever(s), new(sink)
	r, err := s.do(ctx, e.Action, to)
	bad, _ := errors.AsType[violation](err)
	switch {
	case bad.error != nil:
		return err
	case e.Begun() || to.calls > 0:
		return errors.New("it has begun though the context had ended")
	case err != nil && !errors.Is(err, context.Canceled):
		return fmt.Errorf("the context had ended, and the error is another: %w", err)
	case err == nil && r.Ended != "cancelled":
		return fmt.Errorf("the context had ended: %+v", r)
	}
	for name, make := range map[string]func() (context.Context, func()){
		"cancelled": func() (context.Context, func()) { return context.WithCancel(s.ctx) },
		// A deadline of the caller's context is a cancellation, not a limit of the action.
		"deadline": func() (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(s.ctx)
			return ctx, func() { cancel(context.DeadlineExceeded) }
		},
	} {
		ctx, stop := make()
		defer stop()
		endless := s.Forever(s)
		begun := false
		go func() {
			begun = s.until(endless.Begun)
			stop()
		}()
		r, err := s.do(ctx, endless.Action, new(sink))
		switch {
		case err != nil:
			return fmt.Errorf("%s while it ran, so there should be a result: %w", name, err)
		case r.Ended != "cancelled" || !begun:
			return fmt.Errorf("%s while it ran (%v): %+v", name, begun, r)
		}
		if err := s.gone(endless); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (s *suite) deadline() error {
	e := s.Forever(s)
	a := limited(e.Action, func(l *sandbox.Limits) { l.Wall = 300 * time.Millisecond })
	r, err := s.do(s.ctx, a, new(sink))
	switch {
	case err != nil:
		return err
	case r.Ended != "timeout":
		return fmt.Errorf("expected a timeout: %+v", r)
	}
	return s.gone(e)
}

func (s *suite) output() error {
	if s.Stream == nil {
		return nil
	}
	const most = 100_000
	a, _ := s.Stream(s, 10*most)
	a = limited(a, func(l *sandbox.Limits) { l.Output = most })
	to := new(sink)
	r, err := s.do(s.ctx, a, to)
	switch {
	case err != nil:
		return err
	case r.Ended != "output":
		return fmt.Errorf("expected an end because of the output: ended by %q", r.Ended)
	case to.size() > most:
		return fmt.Errorf("the sink got %d bytes; %d were allowed", to.size(), most)
	case to.wrong.Load() != nil:
		return *to.wrong.Load()
	}
	return nil
}

func (s *suite) together() error {
	many := 64
	if testing.Short() {
		many = 16
	}
	errs := make([]error, many)
	actions := make([]*primitive.Action, many)
	for i := range actions {
		actions[i] = s.Value(s, fmt.Sprint("value ", i))
	}
	var all sync.WaitGroup
	for i, a := range actions {
		all.Go(func() {
			r, err := s.ok(a, new(sink))
			if want := fmt.Sprint("value ", i); err == nil && !same(s.Extract(r.Value), want) {
				err = fmt.Errorf("the value is %.200v; want %q", r.Value, want)
			}
			errs[i] = err
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (s *suite) tries() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.Tries)) {
		for _, granted := range []bool{false, true} {
			a, done := s.Tries[name](s, granted)
			_, err := s.do(s.ctx, a, new(sink))
			bad, _ := errors.AsType[violation](err)
			switch {
			case bad.error != nil:
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			case done() != granted:
				errs = append(errs, fmt.Errorf("%s: granted %v, done %v, error %v", name, granted, done(), err))
			}
		}
	}
	return errors.Join(errs...)
}

func (s *suite) optional() error {
	starter, ok := s.Primitive.(primitive.Starter)
	if !ok {
		return nil
	}
	action := s.Value(s, "x")
	before, _ := snapshot(action)
	first := starter.Starts(action.Config)
	// The configuration may be empty or nonsense.
	for _, config := range []map[string]any{nil, {}, {"command": int64(1), "args": "x"}} {
		starter.Starts(config)
	}
	after, err := snapshot(action)
	if again := starter.Starts(action.Config); err != nil || !bytes.Equal(before, after) ||
		!slices.Equal(first, again) {
		return fmt.Errorf("it starts %q, then %q, and makes %s of %s (%v)", first, again, after, before, err)
	}
	for _, name := range first {
		if _, ok := action.Programs[name]; !ok {
			return fmt.Errorf("it starts %q, which the action has no program for", name)
		}
	}
	return nil
}
