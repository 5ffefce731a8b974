package exec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/rye-build/rye/exec/audit/redact"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/manifest/jcs"
)

// answers is the primitive that calls the functions which make results.
const answers = "rye/core/primitives/starlark"

// answerWall is the time limit of an answer. It does not count towards the tool's own limit.
const answerWall = time.Minute

// checkAnswer refuses a tool whose answer function can't be called.
func (p *Plan) checkAnswer() error {
	if p.tool.Answer == "" {
		return nil
	}
	if at := p.Chain[0].Item.Path; path.Ext(at) != ".star" {
		return ConfigError(p.call.Ref, fmt.Errorf("answer: needs a Starlark file, and %q isn't one", path.Base(at)))
	}
	if p.kernel.Primitives[answers] == nil {
		return noPrimitive(p.call.Ref, answers)
	}
	return nil
}

// answer makes the result of a tool of what its primitive gave.
func (p *Plan) answer(ctx context.Context, action *primitive.Action, did *primitive.Result, to primitive.Sink,
	hide *redact.Redactor) *primitive.Result {
	result := *did
	no := func(err error) *primitive.Result {
		result.Value, result.Failed, result.Failure = nil, true, "its answer can't be made: "+hide.Text(err.Error())
		return &result
	}
	if ctx.Err() != nil {
		return &result // the caller is gone
	}
	given, err := jcs.Append(nil, map[string]any{
		"params": hide.Result(p.Params), "result": did.Value, "failed": did.Failed, "failure": did.Failure,
		"ended":  did.Ended,
		"signal": did.Signal, "seconds": action.Wall().Seconds(),
	})
	if err != nil {
		return no(err)
	}
	limits := action.Sandbox.Limits
	limits.Wall = answerWall
	said, err := p.kernel.Primitives[answers].Run(ctx, &primitive.Action{
		Config: map[string]any{"file": p.toolPath, "function": p.tool.Answer, "params": string(given)},
		Dir:    p.scratch.Home, Own: p.copied.Root, Pure: true,
		// It reads the pinned files and nothing else.
		Sandbox: sandbox.Spec{
			Level: action.Sandbox.Level, Read: []string{p.copied.Root}, Deny: p.kernel.Secret, Limits: limits,
		},
	}, to)
	switch {
	case err != nil:
		return no(err)
	case said.Ended != "":
		result.Ended = cmp.Or(did.Ended, said.Ended)
		return no(errors.New(cmp.Or(said.Failure, said.Ended)))
	}
	result.Value = said.Value
	object, _ := said.Value.(map[string]any)
	yes, _ := object["success"].(bool)
	result.Failed = did.Ended != "" || said.Failed || did.Failed && !yes
	if result.Failure = ""; result.Failed {
		result.Failure = cmp.Or(said.Failure, did.Failure)
	}
	return &result
}

// aside is a sink without the primitive's standard output, which the answer replaces.
type aside struct{ to primitive.Sink }

// Drops reports whether the sink discards a stream.
func (s aside) Drops(stream primitive.Stream) bool { return stream == primitive.Stdout }

// Emit implements primitive.Sink.
func (s aside) Emit(stream primitive.Stream, b []byte) error {
	if s.to == nil || s.Drops(stream) {
		return nil
	}
	return s.to.Emit(stream, b)
}
