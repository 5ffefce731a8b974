// Package function is the primitive that calls a function of rye itself: a tool for rye's own knowledge and abilities,
// without a program or a script.
//
//	function  its name
//	params    its parameters, as JSON
//	options   an object that the tool, not its caller, passes to the function
//	more      another such object, overlaid on options at every depth, from a tool that runs this one
//	timeout   limit in seconds
//
// The primitive is created with its functions. Each declares its parameters by a Go type: a member that the type
// lacks, or of another type, is refused even if the tool's schema allows it.
//
// # How a call goes through here
//
// Functions.Run finds the function and checks the call (admit, Function.read), and then runs it with the action's time
// limit. A teller passes its output on to the sink (tell) and turns its value into the result (answer).
//
// # Permissions
//
// A function runs in this process, without a sandbox. So before it runs it declares the needs of a call: capabilities
// (package capability), and whether only the user's own calls may make it. A missing grant is fault.Denied. A chain
// with another signer's item in it, or called by one, is not the user's own. A pure tool, and so a build step, can't
// call functions, since they depend on the clock and the machine.
//
// # Result
//
// The function's return value, converted to JSON, is the value, and goes to the sink as one line on standard output.
// An object with "success": false is a failed answer, as in package answer; an error of the function becomes {"error":
// "…", "success": false}. Messages during the call go to standard error. Exceeding the limit on output or time ends
// it.
package function

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/answer"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// Functions is the primitive: the callable functions by name.
type Functions map[string]Function

// A Function is created by Of.
type Function struct {
	read  func(given map[string]any, text []byte) (Need, deed, error)
	seeks func(text []byte, options map[string]any) []string
}

type deed func(context.Context, *Call) (any, error)

// A Call is the action of a running function.
type Call struct {
	*primitive.Action
	Options map[string]any
	Errs    io.Writer // standard error, for messages while the function runs

	level    floor.Level
	enforced []string
}

// Confined records the sandbox of a program that the function has run. The result reports the lowest of these levels.
func (c *Call) Confined(level floor.Level, enforced []string) {
	if c.enforced == nil || level < c.level {
		c.level, c.enforced = level, append([]string{}, enforced...)
	}
}

// A Need is what a function requires of a call.
type Need struct {
	Permissions []capability.Capability
	Own         bool  // only the user's own tools
	Refused     error // why no tool may make this call; nil otherwise
}

// Of returns a function with the parameters P, a JSON object whose fields have json tags. needs returns the
// requirements of a call; nil for none. do returns a value for encoding/json. It must return when its context ends,
// and leave nothing running.
func Of[P any](needs func(P) Need, do func(context.Context, *Call, P) (any, error)) Function {
	names := map[string]bool{}
	for f := range reflect.TypeFor[P]().Fields() {
		names[f.Tag.Get("json")] = true
	}
	return Function{read: func(given map[string]any, text []byte) (need Need, _ deed, err error) {
		for name := range given { // exact names only: encoding/json ignores case
			if !names[name] {
				return need, nil, fmt.Errorf("unknown parameter %q", name)
			}
		}
		var p P
		if err := json.Unmarshal(text, &p); err != nil {
			return need, nil, err
		}
		if needs != nil {
			need = needs(p)
		}
		return need, func(ctx context.Context, c *Call) (any, error) { return do(ctx, c, p) }, nil
	}}
}

// Seeking returns a function that starts programs. Action.Programs has those that exist.
func Seeking[P any](f Function, seeks func(options map[string]any, p P) []string) Function {
	f.seeks = func(text []byte, options map[string]any) []string {
		var p P
		if err := json.Unmarshal(text, &p); err != nil {
			return nil // Run returns the error
		}
		return seeks(options, p)
	}
	return f
}

// Seeks implements primitive.Seeker.
func (f Functions) Seeks(config map[string]any) []string {
	name, _ := config["function"].(string)
	text, _ := config["params"].(string)
	if called := f[name]; called.seeks != nil {
		return called.seeks([]byte(text), options(config))
	}
	return nil
}

// Bare implements primitive.Bare. Functions that start programs need directories.
func (f Functions) Bare(config map[string]any) bool {
	name, _ := config["function"].(string)
	return f[name].seeks == nil
}

// options returns the options of a configuration, overlaid with its entry more.
func options(config map[string]any) map[string]any {
	below, _ := config["options"].(map[string]any)
	above, _ := config["more"].(map[string]any)
	return over(below, above)
}

func over(below, above map[string]any) map[string]any {
	both := maps.Clone(below)
	if both == nil {
		both = map[string]any{}
	}
	for name, v := range above {
		object, is := v.(map[string]any)
		if old, was := both[name].(map[string]any); is && was {
			v = over(old, object)
		}
		both[name] = v
	}
	return both
}

// badCall returns the error for an invalid call of a function.
func badCall(name string, err error) error {
	return fault.New(fault.Validation, "invalid call of rye's function %q: %v", name, err).On("function",
		name).Try("rye docs core-tools").From(err)
}

var (
	errPure = errors.New("a pure tool can't use the clock or the machine")
	errText = errors.New("config.params must be a JSON object, like {params_json}")
)

// Run implements primitive.Primitive.
func (f Functions) Run(ctx context.Context, action *primitive.Action, to primitive.Sink) (*primitive.Result, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	do, err := f.admit(action)
	if err != nil {
		return nil, err
	}
	inner, stop := context.WithCancel(ctx)
	defer stop()
	if wall := action.Wall(); wall > 0 {
		inner, stop = context.WithTimeout(inner, wall)
		defer stop()
	}
	began := time.Now()
	says := &teller{to: to, left: action.Sandbox.Limits.Output, stop: stop}
	if says.left <= 0 {
		says.left = sandbox.DefaultLimits().Output
	}
	call := &Call{Action: action, Options: options(action.Config), Errs: errs{says}}
	value, err := do(inner, call)
	if unavailable, ok := errors.AsType[*sandbox.UnavailableError](err); ok && call.enforced == nil {
		return nil, unavailable
	}
	result := &primitive.Result{
		Level: floor.Namespace, Enforced: []string{"in-process"},
		Usage: map[string]int64{"wall_ms": time.Since(began).Milliseconds()},
	}
	if call.enforced != nil {
		result.Level, result.Enforced = call.level, append(result.Enforced, call.enforced...)
	}
	switch {
	case says.ended != "":
	case err != nil && ctx.Err() != nil:
		says.end("cancelled", "cancelled")
	case err != nil && inner.Err() != nil:
		says.end("timeout", "it took too long")
	case err != nil:
		says.answer(result, map[string]any{"success": false, "error": err.Error()})
	default:
		says.answer(result, value)
	}
	if says.ended != "" {
		result.Failed, result.Ended, result.Failure = true, says.ended, says.why
	}
	return result, nil
}

// admit finds the called function, and refuses a call without the required permissions.
func (f Functions) admit(action *primitive.Action) (deed, error) {
	name, _ := action.Config["function"].(string)
	called, ok := f[name]
	if !ok {
		known := slices.Sorted(maps.Keys(f))
		return nil, fault.New(fault.Validation, "unknown function %q", name).On("function", name).On("known", known).
			Because("known functions: " + strings.Join(known, ", ")).Try("rye docs core-tools")
	}
	if action.Pure {
		return nil, badCall(name, errPure)
	}
	text, ok := action.Config["params"].(string)
	v, err := jcs.Parse([]byte(text))
	given, object := v.(map[string]any)
	if !ok || err != nil || !object {
		return nil, badCall(name, errText)
	}
	need, do, err := called.read(given, []byte(text))
	if err != nil {
		return nil, badCall(name, err)
	}
	if need.Refused != nil {
		return nil, need.Refused
	}
	if need.Own && action.Stranger {
		return nil, fault.New(fault.Denied,
			"rye's function %q is only for the user's own tools, and this call involves another signer's", name).
			On("capability", "").Try("rye docs core-tools")
	}
	for _, c := range need.Permissions {
		if !action.Permissions.Covers(c) {
			return nil, fault.New(fault.Denied, "rye's function %q needs %q, which the call wasn't granted", name,
				c.String()).On("capability", c.String()).
				Because(
					"a tool has the permissions that it declares; another signer's tool has those of them that a policy grants").
				Try("rye docs core-tools")
		}
	}
	return do, nil
}

// A teller passes on a function's output up to the limit, and ends a function that exceeds it.
type teller struct {
	to   primitive.Sink // may be nil
	stop func()

	mu         sync.Mutex
	left       int64
	ended, why string // what ended the function; "" for nothing
}

func (t *teller) end(by, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended, t.why = by, why
}

func (t *teller) tell(stream primitive.Stream, data []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended == "" && int64(len(data)) > t.left {
		t.ended, t.why = "output", "it wrote too much"
		t.stop()
	}
	if t.ended != "" {
		return errors.New(t.why)
	}
	t.left -= int64(len(data))
	if t.to == nil {
		return nil
	}
	err := t.to.Emit(stream, data)
	if err != nil {
		t.ended, t.why = "cancelled", "its output can't be passed on: "+err.Error()
		t.stop()
	}
	return err
}

// errs is standard error.
type errs struct{ *teller }

func (e errs) Write(b []byte) (int, error) {
	if err := e.tell(primitive.Stderr, b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// answer turns a function's value into a result, and passes it on.
func (t *teller) answer(result *primitive.Result, value any) {
	text, err := json.Marshal(value)
	if err == nil {
		value, err = jcs.Parse(text)
	}
	if err == nil {
		text, err = jcs.Append(nil, value)
	}
	if err != nil {
		result.Failed, result.Failure = true, "its result is not valid JSON: "+strings.ToValidUTF8(err.Error(),
			"\ufffd")
		return
	}
	if t.tell(primitive.Stdout, append(text, '\n')) != nil {
		return
	}
	result.Value = value
	if no, why := answer.No(value); no {
		result.Failed, result.Failure = true, why
	}
}
