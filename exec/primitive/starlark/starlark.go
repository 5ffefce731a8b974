package starlark

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/answer"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/manifest/jcs"
)

// A Starlark is the primitive.
type Starlark struct {
	Machine *sandbox.Machine
	// Self starts this binary so that it calls Guest: an absolute path and arguments.
	Self []string
}

// DefaultSteps is how many steps a script may take that says nothing of it.
const DefaultSteps = 1_000_000_000

// childEnv is all that the child has: two threads for the language and its memory, and few words where it breaks.
var childEnv = []string{"GOMAXPROCS=2", "GOTRACEBACK=none"}

// Run implements primitive.Primitive.
func (s *Starlark) Run(ctx context.Context, a *primitive.Action, to primitive.Sink) (*primitive.Result, error) {
	r, err := newRequest(a)
	if err != nil {
		return nil, err
	}
	if len(s.Self) == 0 {
		return nil, errors.New("there is no program that reads Starlark: this one doesn't know where it is")
	}
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	var prints primitive.Sink
	if to != nil {
		prints = passing{to}
	}
	inner, stop := context.WithCancel(ctx)
	defer stop()
	said := answer.New(prints, stop)
	spec := a.Sandbox
	spec.Limits.Wall = a.Wall()
	spec.Most = true
	spec.Network = sandbox.Network{} // the language has no name for it
	ended, err := s.Machine.Run(inner, spec, proc.Command{
		Path: s.Self[0], Args: s.Self[1:], Env: childEnv, Dir: filepath.Dir(r.File),
		Stdin: bytes.NewReader(text), Stdout: said.Stdout(), Stderr: said.Stderr(),
	})
	if err != nil {
		return nil, err
	}
	out := said.Result(ended)
	read(out)
	if out.Failed && (out.Ended != "" || out.Value == nil) || to == nil {
		return out, nil
	}
	line, err := jcs.Append(nil, out.Value)
	if err != nil {
		return nil, err
	}
	if err := to.Emit(primitive.Stdout, append(line, '\n')); err != nil {
		out.Failed, out.Ended, out.Failure = true, "cancelled", "its result can't be passed on: "+err.Error()
	}
	return out, nil
}

// newRequest makes the request of an action.
func newRequest(a *primitive.Action) (*request, error) {
	r := &request{
		Function: "main", Params: json.RawMessage("{}"), Steps: DefaultSteps, Memory: a.Sandbox.Limits.Memory,
	}
	if len(a.Files.Read)+len(a.Files.Write) > 0 {
		r.Project, r.Read, r.Write, r.Deny = a.Files.Project, a.Files.Read, a.Files.Write, a.Sandbox.Deny
	}
	if r.Memory <= 0 {
		r.Memory = sandbox.DefaultLimits().Memory
	}
	r.File, _ = a.Config["file"].(string)
	if !filepath.IsAbs(r.File) {
		return nil, fmt.Errorf("config.file is the path of a file, as {tool_path} is, and %v is none", a.Config["file"])
	}
	if info, err := os.Stat(r.File); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%q is no file", r.File)
	}
	if f, ok := a.Config["function"]; ok {
		if r.Function, ok = f.(string); !ok || r.Function == "" {
			return nil, fmt.Errorf("config.function is the name of a function, and %v is none", f)
		}
	}
	if p, ok := a.Config["params"]; ok {
		text, ok := p.(string)
		if _, err := jcs.Parse([]byte(text)); !ok || err != nil {
			return nil, fmt.Errorf("config.params is JSON, as {params_json} is: %w", err)
		}
		r.Params = json.RawMessage(text)
	}
	if n, ok := a.Config["steps"]; ok {
		if r.Steps = whole(n); r.Steps == 0 {
			return nil, fmt.Errorf("config.steps is a whole number from 1 on, and %v is none", n)
		}
	}
	return r, nil
}

// whole returns a whole number from 1 on, 0 for anything else. A default of a schema is a float.
func whole(v any) uint64 {
	switch n := v.(type) {
	case int64:
		return uint64(max(n, 0))
	case float64:
		if n >= 1 && n <= maxWhole && n == math.Trunc(n) {
			return uint64(n)
		}
	}
	return 0
}

// passing hands on what the script prints. The answer is no output of its.
type passing struct{ to primitive.Sink }

// Emit implements primitive.Sink.
func (p passing) Emit(s primitive.Stream, b []byte) error {
	if s == primitive.Stdout {
		return nil
	}
	return p.to.Emit(s, b)
}

// read makes of the result of the child that of the script.
func read(r *primitive.Result) {
	object, _ := r.Value.(map[string]any)
	errs, _ := object["stderr"].(string)
	r.Value = nil
	value, answered := object["value"]
	reason, said := object["reason"].(string)
	switch {
	case r.Ended != "":
	case answered:
		r.Value = value
		if no, why := answer.No(value); no {
			r.Failed, r.Failure = true, why
		}
	case said:
		r.Failed, r.Failure, r.Exit = true, reason, 0
		if r.Ended, _ = object["ended"].(string); r.Ended != "memory" && r.Ended != "steps" {
			r.Ended = ""

			r.Value = map[string]any{"success": false, "error": reason}
		}
	case broken(errs):
		r.Failed, r.Failure, r.Ended = true, "", "memory"
	default:
		r.Failed = true
		r.Failure = strings.TrimSpace("what reads Starlark ended without an answer: " + r.Failure)
	}
}

// broken reports whether these are the last words of a process that was refused memory, or of one whose stack is too high.
func broken(errs string) bool {
	return slices.ContainsFunc([]string{"out of memory", "cannot allocate memory", "goroutine stack exceeds", "stack overflow"},
		func(words string) bool { return strings.Contains(errs, words) })
}
