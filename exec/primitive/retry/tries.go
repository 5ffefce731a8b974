package retry

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/exec/classification"
	"github.com/rye-build/rye/exec/primitive"
)

// tries runs the action until it succeeds or may not be retried.
func (x *run) tries(ctx context.Context) (*primitive.Result, error) {
	var last *primitive.Result
	for n := 1; ; n++ {
		if err := x.turn(ctx, x.left()); err != nil {
			if last == nil {
				return nil, err
			}
			return x.ended(ctx, last, n-1, err), nil
		}
		result, err := x.try(ctx, n)
		if err != nil {
			if last == nil {
				return nil, err
			}
			return x.ended(ctx, last, n-1, err), nil
		}
		last = result
		x.usage["attempts"] = int64(n)
		wait, again := x.pause(ctx, n, result)
		if !again {
			return after(n, result), nil
		}
		if err := x.sleep(ctx, wait); err != nil {
			return x.ended(ctx, result, n, err), nil
		}
		if x.waited += wait; x.left() <= 0 {
			return after(n, result), nil
		}
	}
}

// after adds the number of tries to a failure's reason.
func after(n int, r *primitive.Result) *primitive.Result {
	if n > 1 && r.Failed {
		r.Failure = fmt.Sprintf("after %d tries: %s", n, r.Failure)
	}
	return r
}

// ended returns the last result after the next try failed to start.
func (x *run) ended(ctx context.Context, last *primitive.Result, n int, err error) *primitive.Result {
	if ctx.Err() != nil {
		last.Ended, last.Failure = "cancelled", "cancelled"
	} else {
		last.Failure += "; then " + err.Error()
	}
	return after(n, last)
}

// try runs the action once. The caller owns the result.
func (x *run) try(ctx context.Context, n int) (*primitive.Result, error) {
	a := *x.action
	most := a.Sandbox.Limits.Wall
	if n > 1 || x.waited > 0 {
		most = max(x.left(), time.Millisecond) // within the remaining time
	}
	if x.each > 0 && (most == 0 || x.each < most) {
		most = x.each
	}
	a.Sandbox.Limits.Wall = most
	x.tap = &tap{to: x.to, keep: x.cache != nil}
	r, err := x.Inner.Run(ctx, &a, x.tap)
	if err != nil {
		return nil, err
	}
	own := *r
	own.Usage = nil
	for name, n := range r.Usage {
		if strings.HasPrefix(name, "max_") || strings.HasPrefix(name, "peak") {
			x.usage[name] = max(x.usage[name], n)
		} else {
			x.usage[name] += n
		}
	}
	return &own, nil
}

// pause returns whether to retry after try n, and how long to wait before.
func (x *run) pause(ctx context.Context, n int, r *primitive.Result) (time.Duration, bool) {
	if n >= x.retry.attempts || !r.Failed || r.Ended != "" && r.Ended != "timeout" || x.tap.passed ||
		ctx.Err() != nil {
		return 0, false
	}
	c := x.rules.Of(doc(r))
	id := cmp.Or(c.ID, string(c.Category))
	t := cmp.Or(r.Trouble, &primitive.Trouble{})
	safe := t.Undone || t.Repeatable || x.action.Pure || x.retry.idempotent
	if !c.Retryable || !safe || c.Policy.MaxRetries > 0 && n > c.Policy.MaxRetries {
		return 0, false
	}
	wait := x.wait(&c.Policy, n, t.After)
	if x.left() <= wait {
		x.apply("retry: no time to wait %s after %s", wait.Round(time.Millisecond), id)
		return 0, false
	}
	x.apply("retry: %s, try %d after %s", id, n+1, wait.Round(time.Millisecond))
	return wait, true
}

// wait returns how long to wait after try n.
func (x *run) wait(p *classification.Policy, n int, asked time.Duration) time.Duration {
	wait := p.Wait(n-1, asked)
	if s := x.retry; s.own && (asked == 0 || p.Type != "use_header") {
		wait = min(s.first, s.longest)
		if !s.linear {
			wait = min(s.first<<min(n-1, MaxAttempts), s.longest)
		}
	}
	return wait + time.Duration(float64(wait)*x.retry.jitter*x.chance())
}

// outcome returns the evidence that a result gives about the service.
func (x *run) outcome(r *primitive.Result) outcome {
	if !r.Failed {
		return worked
	}
	if r.Ended != "" && r.Ended != "timeout" {
		return silent
	}
	c := x.rules.Of(doc(r)).Category
	if slices.Contains([]classification.Category{classification.Transient, classification.RateLimited,
		classification.Quota}, c) {
		return failed
	}
	return worked
}

// doc describes a failure for the classification.
func doc(result *primitive.Result) map[string]any {
	body, details := map[string]any{}, map[string]any{}
	trouble := cmp.Or(result.Trouble, &primitive.Trouble{})
	kind := trouble.Type
	if result.Ended == "timeout" {
		kind = "TimeoutError"
	}
	for name, text := range map[string]string{"type": kind, "code": trouble.Code, "message": result.Failure} {
		if text != "" {
			body[name] = text
		}
	}
	details["error"] = body
	if trouble.Status != 0 {
		details["status_code"] = int64(trouble.Status)
	}
	if result.Exit != 0 {
		details["exit"] = int64(result.Exit)
	}
	if result.Signal != "" {
		details["signal"] = result.Signal
	}
	if result.Ended == "cancelled" {
		details["cancelled"] = true
	}
	return details
}

// A tap passes on output, and records it for the cache.
type tap struct {
	to     primitive.Sink // may be nil
	keep   bool
	passed bool // some standard output was passed on
	kept   []chunk
	size   int
	large  bool // the output exceeds the recording's limit
}

// Emit implements primitive.Sink.
func (t *tap) Emit(stream primitive.Stream, data []byte) error {
	d, drops := t.to.(interface{ Drops(primitive.Stream) bool })
	t.passed = t.passed || stream == primitive.Stdout && !(drops && d.Drops(stream))
	if t.keep && !t.large {
		if t.size += len(data); t.size > MaxAnswer {
			t.large, t.kept = true, nil
		} else if last := len(t.kept) - 1; last >= 0 && t.kept[last].stream == stream {
			t.kept[last].b = append(t.kept[last].b, data...)
		} else {
			t.kept = append(t.kept, chunk{stream, slices.Clone(data)})
		}
	}
	if t.to == nil {
		return nil
	}
	return t.to.Emit(stream, data)
}
