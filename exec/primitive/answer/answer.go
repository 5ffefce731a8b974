// Package answer is the conversion of a program's output and exit into a primitive's result, for every kind of
// program.
//
// Output goes to the sink at once. The first MaxValue bytes of standard output become the value:
//
//	one JSON value          is the value. In an object, "success": false means failure, whatever the exit status is,
//	                        and "error", or else "stderr", is the reason
//	anything else, or none  {"return_code": 1, "stderr": "…", "stdout": "…"}, each text with at most MaxText bytes
//	                        and invalid UTF-8 as U+FFFD; "truncated": ["stdout"] names texts that were longer
//
// With Plain set, the value always has the second form.
//
// Package jcs parses the JSON: ambiguous text, such as an object with a duplicate member, is no JSON. A status other
// than 0 is a failure, and its reason is the end of standard error. Output is only text: permissions or terminal
// sequences in it have no effect.
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
	// MaxValue bounds the standard output that is parsed as JSON.
	MaxValue = 16 << 20
	// MaxText bounds the text of each stream in a value.
	MaxText = 1 << 20
	// maxReason bounds the end of standard error that becomes a reason.
	maxReason = 2000
)

// An Answer records the output of one program.
type Answer struct {
	// Plain keeps JSON output as text. Set it before the program writes.
	Plain bool

	*listener
	out, errs *capture
}

// New returns an Answer that passes output on to a sink, which may be nil. It calls stop when the sink returns an
// error.
func New(to primitive.Sink, stop func()) *Answer {
	l := &listener{to: to, stop: stop}
	return &Answer{
		listener: l, out: &capture{listener: l, stream: primitive.Stdout, most: MaxValue},
		errs: &capture{listener: l, stream: primitive.Stderr, most: MaxText, last: maxReason},
	}
}

// Stdout returns the writer for the program's standard output, for one goroutine at a time.
func (a *Answer) Stdout() io.Writer { return a.out }

// Stderr returns the writer for its standard error.
func (a *Answer) Stderr() io.Writer { return a.errs }

// Result is what the program's end makes of what it has written. Nothing is written any more.
func (a *Answer) Result(ended *sandbox.Ending) *primitive.Result {
	result := &primitive.Result{
		Ended: ended.Ended, Exit: ended.Exit.Code, Signal: ended.Exit.Signal,
		Level: ended.Level, Enforced: ended.Enforced, Denied: ended.Denied,
		Asides: ended.Asides, Closed: ended.Closed, Usage: maps.Clone(ended.Usage),
	}
	result.Failed = result.Ended != "" || result.Exit != 0 || result.Signal != ""
	read(result, a.Plain, a.out, a.errs)
	if a.err != nil {
		// Even if the program succeeded: part of its output was not passed on.
		result.Failed, result.Ended, result.Failure = true, cmp.Or(result.Ended, "cancelled"),
			"its output can't be passed on: "+a.err.Error()
	}
	return result
}

// read sets the result's value and reason from the output.
func read(result *primitive.Result, plain bool, out, errs *capture) {
	if v, ok := parse(out); ok && !plain {
		result.Value = v
	} else {
		value := map[string]any{"stdout": out.text(), "stderr": errs.text(), "return_code": int64(result.Exit)}
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
		result.Value = value
	}
	if no, why := No(result.Value); no {
		result.Failed, result.Failure = true, why
	}
	if result.Failed && result.Failure == "" {
		result.Failure = strings.TrimSpace(valid(errs.end))
	}
}

// No reports whether a value is an answer with "success": false, and its reason.
func No(v any) (no bool, why string) {
	object, _ := v.(map[string]any)
	if success, ok := object["success"].(bool); !ok || success {
		return false, ""
	}
	return true, cmp.Or(reason(object["error"]), reason(object["stderr"]))
}

// reason returns the reason in an answer: a text, or an object with a message.
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

// A listener passes output on to the sink. After an error of the sink it stops the program, which would notice only
// at its next write.
type listener struct {
	to   primitive.Sink // may be nil
	stop func()

	one sync.Mutex // both streams write at the same time
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

// A capture passes on one stream, and records its beginning and its end.
type capture struct {
	*listener
	stream primitive.Stream
	most   int // bytes of the beginning
	last   int // bytes of the end

	kept, end []byte
	total     int64
}

func (c *capture) Write(data []byte) (int, error) {
	c.total += int64(len(data))
	if room := c.most - len(c.kept); room > 0 {
		c.kept = append(c.kept, data[:min(room, len(data))]...)
	}
	if c.last > 0 {
		c.end = append(c.end, data[max(0, len(data)-c.last):]...)
		if extra := len(c.end) - c.last; extra > 0 {
			c.end = append(c.end[:0], c.end[extra:]...)
		}
	}
	c.emit(c.stream, data)
	return len(data), nil
}

// text returns the recorded beginning as valid UTF-8.
func (c *capture) text() string {
	b := c.kept
	if len(b) > MaxText {
		b = b[:MaxText]
	}
	return valid(b)
}

func valid(b []byte) string { return strings.ToValidUTF8(string(b), "\ufffd") }
