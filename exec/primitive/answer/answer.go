// Package answer makes a primitive's result of what a program has written and how it ended, whatever the program is
// and wherever it ran.
//
// What is written goes to the sink as it comes. Of standard output, MaxValue bytes are kept to make a value of:
//
//	one JSON value          is the value. Of an object, "success": false says that it failed, whatever its status is,
//	                        and "error", or "stderr", why
//	anything else, or none  {"return_code": 1, "stderr": "…", "stdout": "…"}, each text with at most MaxText bytes
//	                        and what isn't UTF-8 as U+FFFD; "truncated": ["stdout"] names those that had more
//
// An answer that is Plain is always of the second form, whatever is written.
//
// JSON is read by package jcs: a text with two meanings, as with a member twice, is no JSON. A status other than 0 is
// a failure, and its reason the end of standard error. Text is text: what a program says about permissions, or to a
// terminal, means nothing here.
package answer

import (
	"bytes"
	"cmp"
	"io"
	"maps"
	"strings"
	"sync"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/primitive"
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

// An Answer listens to one program.
type Answer struct {
	// Plain has what is written be text, though it is JSON. It is set before anything is written.
	Plain bool

	*listener
	out, errs *capture
}

// New returns an Answer that hands on to a sink, which may be nil. When the sink has enough, stop is called.
func New(to primitive.Sink, stop func()) *Answer {
	l := &listener{to: to, stop: stop}
	return &Answer{
		listener: l, out: &capture{listener: l, stream: primitive.Stdout, most: MaxValue},
		errs: &capture{listener: l, stream: primitive.Stderr, most: MaxText, last: maxReason},
	}
}

// Stdout is where the program's standard output is written to, by one goroutine at a time.
func (a *Answer) Stdout() io.Writer { return a.out }

// Stderr is where its standard error is.
func (a *Answer) Stderr() io.Writer { return a.errs }

// Result is what the program's end makes of what it has written. Nothing is written any more.
func (a *Answer) Result(ended *sandbox.Ending) *primitive.Result {
	r := &primitive.Result{
		Ended: ended.Ended, Exit: ended.Exit.Code, Signal: ended.Exit.Signal,
		Level: ended.Level, Enforced: ended.Enforced, Usage: maps.Clone(ended.Usage),
	}
	r.Failed = r.Ended != "" || r.Exit != 0 || r.Signal != ""
	read(r, a.Plain, a.out, a.errs)
	if a.err != nil {
		// Also where the program was faster: not everything was passed on.
		r.Failed, r.Ended, r.Failure = true, cmp.Or(r.Ended, "cancelled"),
			"its output can't be passed on: "+a.err.Error()
	}
	return r
}

// read makes the value of what came out.
func read(r *primitive.Result, plain bool, out, errs *capture) {
	if v, ok := parse(out); ok && !plain {
		r.Value = v
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
	if no, why := No(r.Value); no {
		r.Failed, r.Failure = true, why
	}
	if r.Failed && r.Failure == "" {
		r.Failure = strings.TrimSpace(valid(errs.end))
	}
}

// No reports whether a value is an answer that is no, and the reason that it gives.
func No(v any) (no bool, why string) {
	object, _ := v.(map[string]any)
	if success, ok := object["success"].(bool); !ok || success {
		return false, ""
	}
	return true, cmp.Or(reason(object["error"]), reason(object["stderr"]))
}

// reason is what an answer gives as its reason: a text, or an object with a message.
func reason(v any) string {
	if object, ok := v.(map[string]any); ok {
		v = object["message"]
	}
	text, _ := v.(string)
	return fault.Clip(strings.TrimSpace(text), maxReason)
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
	to   primitive.Sink // may be nil
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
