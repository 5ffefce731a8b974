package starlark

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/answer"
	"github.com/rye-build/rye/exec/primitive/worker"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/manifest/jcs"
)

// A Starlark is the primitive.
type Starlark struct {
	Machine *sandbox.Machine
	Self    []string // the command that starts this binary so that it calls Guest: an absolute path, then arguments

	once sync.Once
	kept *worker.Pool
}

// pool returns the pool of guests.
func (s *Starlark) pool() *worker.Pool {
	s.once.Do(func() { s.kept = &worker.Pool{Host: worker.Host{Machine: s.Machine, Self: s.Self, Env: guestEnv}} })
	return s.kept
}

// Ready implements primitive.Readier.
func (s *Starlark) Ready(bool) { s.pool().Ready() }

// Close implements primitive.Closer.
func (s *Starlark) Close() error { return s.pool().Close() }

// DefaultSteps is the default limit on a script's steps.
const DefaultSteps = 1_000_000_000

// guestEnv limits the guest to two threads, one of them for garbage collection, and to a short message if it crashes.
var guestEnv = []string{"GOMAXPROCS=2", "GOTRACEBACK=none"}

// Run implements primitive.Primitive.
func (s *Starlark) Run(ctx context.Context, action *primitive.Action, to primitive.Sink) (*primitive.Result, error) {
	r, err := newRequest(action)
	if err != nil {
		return nil, err
	}
	inner, stop := context.WithCancel(ctx)
	defer stop()
	output := answer.New(to, stop)
	spec := action.Sandbox
	spec.Limits.Wall = action.Wall()
	// A place decides about each path, so a script doesn't need a directory laid out, which would show its files late.
	spec.Keep = slices.DeleteFunc(slices.Clone(spec.Keep), func(at string) bool {
		_, err := os.Lstat(at)
		return errors.Is(err, os.ErrNotExist)
	})
	call := worker.Call{Sandbox: spec, Request: r, Dir: filepath.Dir(r.File), Out: output.Stdout(),
		Errs: output.Stderr(), Stop: stop}
	var end *worker.End
	if key := shared(action, &call); key != "" {
		end, err = s.pool().Run(inner, call, key, func(e *worker.End) bool { return !limited(e) })
	} else {
		end, err = s.pool().Host.Run(inner, call)
	}
	if err != nil {
		return nil, err
	}
	out := output.Result(&end.Ending)
	result(out, end)
	if out.Failed && (out.Ended != "" || out.Value == nil) || to == nil {
		return out, nil
	}
	line, err := jcs.Append(nil, out.Value)
	if err != nil {
		return nil, err
	}
	if err := to.Emit(primitive.Stdout, append(line, '\n')); err != nil {
		out.Failed, out.Ended, out.Failure = true, "cancelled", "the result can't be passed on: "+err.Error()
	}
	return out, nil
}

// newRequest returns the request for an action.
func newRequest(action *primitive.Action) (*request, error) {
	request := &request{Function: "main", Params: json.RawMessage("{}"), Steps: DefaultSteps,
		Memory: action.Sandbox.Limits.OrDefaults().Memory}
	if len(action.Files.Read)+len(action.Files.Write) > 0 {
		request.Project, request.Read, request.Write, request.Deny = action.Files.Project, action.Files.Read,
			action.Files.Write, action.Sandbox.Deny
	}
	request.File, _ = action.Config["file"].(string)
	if !filepath.IsAbs(request.File) {
		return nil, fmt.Errorf("config.file must be the path of a file, like {tool_path}, not %v",
			action.Config["file"])
	}
	if info, err := os.Stat(request.File); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%q is not a regular file", request.File)
	}
	if f, ok := action.Config["function"]; ok {
		if request.Function, ok = f.(string); !ok || request.Function == "" {
			return nil, fmt.Errorf("config.function must be the name of a function, not %v", f)
		}
	}
	if p, ok := action.Config["params"]; ok {
		text, ok := p.(string)
		if _, err := jcs.Parse([]byte(text)); !ok || err != nil {
			return nil, fmt.Errorf("config.params must be JSON, like {params_json}: %w", err)
		}
		request.Params = json.RawMessage(text)
	}
	if n, ok := action.Config["steps"]; ok {
		if request.Steps = whole(n); request.Steps == 0 {
			return nil, fmt.Errorf("config.steps must be an integer from 1 on, not %v", n)
		}
	}
	return request, nil
}

// whole returns a positive integer, or 0 for any other value. A schema's default arrives as a float.
func whole(v any) uint64 {
	if n, ok := jcs.Number(v); ok && n >= 1 && n <= maxWhole && n == math.Trunc(n) {
		return uint64(n)
	}
	return 0
}

// endOf parses the guest's answer.
func endOf(end *worker.End) map[string]any {
	answered, _ := jcs.Parse(end.Text)
	object, _ := answered.(map[string]any)
	return object
}

// limited reports whether a limit ended the script, or its end is unknown.
func limited(end *worker.End) bool {
	object := endOf(end)
	ended, _ := object["ended"].(string)
	return object == nil || ended != "" || end.Ended != ""
}

// result completes a result with the script's answer.
func result(result *primitive.Result, end *worker.End) {
	result.Value = nil
	object := endOf(end)
	value, has := object["value"]
	reason, failed := object["reason"].(string)
	switch {
	case result.Ended != "":
	case has:
		result.Value = value
		if no, why := answer.No(value); no {
			result.Failed, result.Failure = true, why
		}
	case failed:
		result.Failed, result.Failure, result.Exit = true, reason, 0
		if result.Ended, _ = object["ended"].(string); result.Ended != "memory" && result.Ended != "steps" {
			result.Ended, result.Value = "", map[string]any{"success": false, "error": reason}
		}
	default:
		result.Failed, result.Failure = true, end.Broken
	}
}
