package hook

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/condition"
)

// The layers, in the order in which hooks run.
const (
	Directive int64 = iota + 1
	Hooks
	Context
	Builtin
	Infra
)

// The events that this package treats specially.
const (
	Started    = "thread_started"
	BeforeStep = "before_step"
	AfterStep  = "after_step"
	CallStart  = "tool_call_start"
	CallResult = "tool_call_result"
	Failure    = "error"
	Limit      = "limit"
	Return     = "directive_return"
	Pressure   = "context_window_pressure"
	Full       = "context_limit_reached"
	Complete   = "after_complete"
)

// The control actions.
const (
	Retry    = "retry"
	Fail     = "fail"
	Abort    = "abort"
	Continue = "continue"
	Skip     = "skip"
	Escalate = "escalate"
	Suspend  = "suspend"
)

var controls = []string{Retry, Fail, Abort, Continue, Skip, Escalate, Suspend}

// Config and Events are the names of the config.
const (
	Config = "hook_conditions"
	Events = "events"
)

// A Hook is one hook.
type Hook struct {
	ID    string
	Layer int64

	Control string // control action; "" runs an item
	Verb    string // of package capability
	Ref     model.Ref
	Dry     bool

	events    []string
	condition *condition.Condition
	params    map[string]any
	delay     *time.Duration
	text      string // message of an error
}

// A Set is the hooks of a thread. It is immutable.
type Set struct {
	hooks    []*Hook // in the order in which they run
	events   []string
	anyEvent bool // accept unknown events
}

// A Decision is the result of an event's hooks.
type Decision struct {
	Control string // "" without a decision
	Delay   *time.Duration
	Error   string
	By      string   // id of the deciding hook
	Texts   []string // from hooks, in order
}

// A Runner runs and records hooks.
type Runner interface {
	// Run runs a hook's item and returns its result as JSON values.
	Run(ctx context.Context, h *Hook, params map[string]any) (any, error)
	// Record records that a hook ran.
	Record(h transcript.Hook) error
}

// Any reports whether an event has hooks.
func (s *Set) Any(event string) bool {
	return slices.ContainsFunc(s.hooks, func(h *Hook) bool { return slices.Contains(h.events, event) })
}

// Knows reports whether an event exists.
func (s *Set) Knows(event string) bool { return s.anyEvent || slices.Contains(s.events, event) }

// Fire runs the hooks of an event. data has JSON values and condition.Names. An error ends the thread.
func (s *Set) Fire(ctx context.Context, event string, data map[string]any, r Runner) (*Decision, error) {
	d := new(Decision)
	for _, h := range s.hooks {
		if !slices.Contains(h.events, event) || !h.condition.Holds(data) {
			continue
		}
		if err := h.run(ctx, event, data, r, d); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// maxText bounds a text from a hook, in bytes.
const maxText = 256 << 10

// run runs one hook and merges its decision into decision.
func (h *Hook) run(ctx context.Context, event string, data map[string]any, runner Runner, decision *Decision) error {
	record := transcript.Hook{ID: h.ID, Event: event, Layer: h.Layer}
	mine := Decision{Control: h.Control, Delay: h.delay, Error: asText(fill(h.text, data))}
	if h.Control == "" {
		record.Ref = h.Ref.String()
		params, _ := fill(h.params, data).(map[string]any)
		value, err := runner.Run(ctx, h, params)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			e := fault.Of(err)
			record.Error = &transcript.Fault{Code: string(e.Code), Message: e.Text}
			if err := runner.Record(record); err != nil || event != Started {
				return err
			}
			return fault.Wrap(err, "the hook %q of thread_started can't run: %v", h.ID, e.Text)
		}
		record.Result = value
		text := ""
		if mine, text = typed(value); len(text) > maxText {
			return fault.New(fault.Limit, "the hook %q returned %d bytes of text; at most %d are allowed", h.ID,
				len(text), maxText)
		}
		if text != "" {
			decision.Texts = append(decision.Texts, text)
		}
	}
	record.Action = mine.Control
	if h.Layer != Infra && decision.Control == "" && mine.Control != "" {
		decision.Control, decision.Delay, decision.Error, decision.By = mine.Control, mine.Delay, mine.Error, h.ID
	}
	return runner.Record(record)
}

// typed parses the result of an item: a decision or a text.
func typed(v any) (decision Decision, text string) {
	object, ok := v.(map[string]any)
	if !ok {
		text, _ = v.(string)
		return decision, text
	}
	if action, _ := object["action"].(string); slices.Contains(controls, action) {
		decision.Control = action
		decision.Error, _ = object["error"].(string)
		if wait, err := seconds(object["delay"]); err == nil {
			decision.Delay = wait
		}
		return decision, ""
	}
	for _, name := range []string{"text", "content", "body"} {
		if text, ok := object[name].(string); ok {
			return decision, text
		}
	}
	return decision, ""
}

// End returns the error with which a decision about an event ends the thread, or nil if the thread continues. money
// means that the event is about money.
func (d *Decision) End(event string, money bool) error {
	text := d.Error
	say := func(code fault.Code, otherwise string) error {
		if text == "" {
			text = otherwise
		}
		return fault.New(code, "%s", text).On("hook", d.By).On("event", event).Try("rye docs hooks")
	}
	switch d.Control {
	case Fail:
		return say(fault.Failed, fmt.Sprintf("the hook %q ends the thread", d.By))
	case Abort:
		return say(fault.Cancelled, fmt.Sprintf("the hook %q cancels the thread", d.By))
	case Escalate, Suspend:
		code := fault.Limit
		if money {
			code = fault.Budget
		}
		return say(code, fmt.Sprintf("the hook %q stops the thread", d.By))
	}
	return nil
}

// Stops reports whether a decision interrupts the thread, which can continue later.
func (d *Decision) Stops() bool { return d.Control == Escalate || d.Control == Suspend }

// TypeOf returns a code with its form in older hooks, such as permission_denied.
func TypeOf(code string) condition.Names { return condition.Names{strings.ToLower(code), code} }

// Doc returns the decision in the form for a loop, or nil without one.
func (d *Decision) Doc() any {
	if d.Control == "" && len(d.Texts) == 0 {
		return nil
	}
	m := map[string]any{"action": d.Control, "texts": slices.Collect(asAny(d.Texts))}
	if d.Delay != nil {
		m["delay"] = d.Delay.Seconds()
	}
	if d.Error != "" {
		m["error"] = d.Error
	}
	return m
}
