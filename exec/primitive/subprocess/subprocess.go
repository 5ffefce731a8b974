// Package subprocess is the primitive that starts one program, without a shell, and waits for it.
//
//	command     the program, by path or by a name
//	args        its arguments, each as it is
//	cwd         the directory it starts in
//	input_data  what it reads from standard input, which is empty without
//	env         variables beside those that the chain has
//	timeout     seconds, after which it is stopped with everything that it has started
//
// # What comes out of it
//
// What it writes to its standard streams goes to the sink as it comes. Of standard output, MaxValue bytes are kept to
// make a value of:
//
//	one JSON value          is the value. Of an object, "success": false says that it failed, whatever its status is,
//	                        and "error", or "stderr", why
//	anything else, or none  {"return_code": 1, "stderr": "…", "stdout": "…"}, each text with at most MaxText bytes and
//	                        what isn't UTF-8 as U+FFFD; "truncated": ["stdout"] names those that had more
//
// JSON is read by package jcs: a text with two meanings, as with a member twice, is no JSON. A status other than 0 is
// a failure, and its reason the end of standard error. Text is text: what a program says about permissions, or to a
// terminal, means nothing here.
package subprocess

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rye-build/rye/exec/env"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/manifest/jcs"
)

const (
	// MaxValue is how much of standard output is read as JSON.
	MaxValue = 16 << 20
	// MaxText is how much of each stream is kept where that isn't JSON.
	MaxText = 1 << 20
	// maxReason is how much of standard error is a reason.
	maxReason = 2000
)

// A Subprocess is the primitive.
type Subprocess struct {
	Machine *sandbox.Machine
}

// Starts implements primitive.Starter.
func (s *Subprocess) Starts(config map[string]any) []string {
	command, _ := config["command"].(string)
	return []string{command}
}

// Run implements primitive.Primitive.
func (s *Subprocess) Run(ctx context.Context, a *primitive.Action, to primitive.Sink) (*primitive.Result, error) {
	c, err := command(a)
	if err != nil {
		return nil, err
	}
	spec := a.Sandbox
	if t, ok := number(a.Config["timeout"]); ok {
		// What doesn't fit is longer than anything else that holds.
		if wall := t * float64(time.Second); wall < math.MaxInt64/2 && (spec.Limits.Wall == 0 || time.Duration(wall) < spec.Limits.Wall) {
			spec.Limits.Wall = max(time.Duration(wall), time.Millisecond)
		}
	}
	// What is more than asked for costs little, and the result says it.
	spec.Most = true
	inner, stop := context.WithCancel(ctx)
	defer stop()
	l := &listener{to: to, stop: stop}
	out := &capture{listener: l, stream: primitive.Stdout, most: MaxValue}
	errs := &capture{listener: l, stream: primitive.Stderr, most: MaxText, last: maxReason}
	c.Stdout, c.Stderr = out, errs
	ended, err := s.Machine.Run(inner, spec, *c)
	if err != nil {
		return nil, err
	}
	r := &primitive.Result{
		Ended: ended.Ended, Exit: ended.Exit.Code, Signal: ended.Exit.Signal,
		Level: ended.Level, Enforced: ended.Enforced, Usage: maps.Clone(ended.Usage),
	}
	r.Failed = r.Ended != "" || r.Exit != 0 || r.Signal != ""
	read(r, out, errs)
	if l.err != nil {
		// Also where the program was faster: not everything was passed on.
		r.Failed, r.Ended, r.Failure = true, cmp.Or(r.Ended, "cancelled"), "what it writes can't be passed on: "+l.err.Error()
	}
	return r, nil
}

// command makes the command of an action.
func command(a *primitive.Action) (*proc.Command, error) {
	name, _ := a.Config["command"].(string)
	p, ok := a.Programs[name]
	if !ok {
		return nil, fmt.Errorf("the program %q was not looked for", name)
	}
	c := &proc.Command{Path: p.Path, Program: p.File, Dir: a.Dir}
	if args, ok := a.Config["args"].([]any); ok {
		for _, arg := range args {
			text, ok := arg.(string)
			if !ok {
				return nil, fmt.Errorf("an argument is a text, and %v is none", arg)
			}
			c.Args = append(c.Args, text)
		}
	}
	if dir, ok := a.Config["cwd"].(string); ok && dir != "" {
		c.Dir = dir
	}
	if text, ok := a.Config["input_data"].(string); ok {
		c.Stdin = strings.NewReader(text)
	}
	c.Env = a.Env
	if more, ok := a.Config["env"].(map[string]any); ok {
		c.Env = slices.DeleteFunc(slices.Clone(a.Env), func(v string) bool {
			name, _, _ := strings.Cut(v, "=")
			_, again := more[name]
			return again
		})
		for _, name := range slices.Sorted(maps.Keys(more)) {
			text, ok := more[name].(string)
			if !ok {
				return nil, fmt.Errorf("the variable %q is a text, and %v is none", name, more[name])
			}
			if err := env.Check(name, text); err != nil {
				return nil, fmt.Errorf("config.env: %w", err)
			}
			c.Env = append(c.Env, name+"="+text)
		}
		slices.Sort(c.Env)
	}
	return c, nil
}

func number(v any) (float64, bool) {
	switch n := v.(type) {
	case float64:
		return n, true
	case int64:
		return float64(n), true
	}
	return 0, false
}

// read makes the value of what came out.
func read(r *primitive.Result, out, errs *capture) {
	var object map[string]any
	if v, ok := parse(out); ok {
		r.Value = v
		object, _ = v.(map[string]any)
	} else {
		value := map[string]any{"stdout": out.text(), "stderr": errs.text(), "return_code": int64(r.Exit)}
		var cut []any
		if out.total > MaxText {
			cut = append(cut, "stdout")
		}
		if errs.total > MaxText {
			cut = append(cut, "stderr")
		}
		if cut != nil {
			value["truncated"] = cut
		}
		r.Value = value
	}
	if success, ok := object["success"].(bool); ok && !success {
		r.Failed = true
		for _, name := range []string{"error", "stderr"} {
			if text := reason(object[name]); text != "" && r.Failure == "" {
				r.Failure = text
			}
		}
	}
	if r.Failed && r.Failure == "" {
		r.Failure = strings.TrimSpace(valid(errs.end))
	}
}

// reason is what an answer gives as its reason: a text, or an object with a message.
func reason(v any) string {
	if object, ok := v.(map[string]any); ok {
		v = object["message"]
	}
	text, _ := v.(string)
	if text = strings.TrimSpace(text); len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "…"
	}
	return text
}

// parse reads standard output as one JSON value.
func parse(out *capture) (any, bool) {
	if out.total > MaxValue {
		return nil, false
	}
	text := bytes.TrimSpace(out.kept)
	if len(text) == 0 {
		return nil, false
	}
	v, err := jcs.Parse(text)
	return v, err == nil
}

// A listener hands on what comes out to the sink, until that has enough: then it stops the program, which would not
// notice before it writes again.
type listener struct {
	to   primitive.Sink // nil: nobody listens
	stop func()

	one sync.Mutex // of both streams: they come at once
	err error      // of the sink
}

func (l *listener) emit(s primitive.Stream, b []byte) {
	l.one.Lock()
	defer l.one.Unlock()
	if l.to == nil || l.err != nil {
		return
	}
	if l.err = l.to.Emit(s, b); l.err != nil {
		l.stop()
	}
}

// A capture hands on what is written, and keeps the beginning and the end of it.
type capture struct {
	*listener
	stream primitive.Stream
	most   int // how much of the beginning
	last   int // how much of the end

	kept, end []byte
	total     int64
}

func (c *capture) Write(b []byte) (int, error) {
	c.total += int64(len(b))
	if room := c.most - len(c.kept); room > 0 {
		c.kept = append(c.kept, b[:min(room, len(b))]...)
	}
	if c.last > 0 {
		c.end = append(c.end, b[max(0, len(b)-c.last):]...)
		if extra := len(c.end) - c.last; extra > 0 {
			c.end = append(c.end[:0], c.end[extra:]...)
		}
	}
	c.emit(c.stream, b)
	return len(b), nil
}

// text is what a person can be shown of it.
func (c *capture) text() string {
	b := c.kept
	if len(b) > MaxText {
		b = b[:MaxText]
	}
	return valid(b)
}

func valid(b []byte) string { return strings.ToValidUTF8(string(b), "\ufffd") }
