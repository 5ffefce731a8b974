package toolcall

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/captoken"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/thread/limits"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/key"
)

// A DetachedChild is a thread that one of another process has started.
type DetachedChild struct {
	Parent string         `json:"parent"`
	Inputs map[string]any `json:"inputs"`
	Model  string         `json:"model,omitempty"`
	Limits []string       `json:"limits,omitempty"` // NAME=VALUE
	Most   limits.Set     `json:"most"`             // the parent's
	Part   int64          `json:"part,omitzero"`    // of what is left of the parent's budget it may have one such part
	Chosen bool           `json:"chosen,omitempty"` // rye itself chooses the directive
	Tokens []string       `json:"tokens"`           // that grant what it may do, the parent's first
}

// A Parent is the thread that starts a child.
type Parent struct {
	Thread, Directive string
	Dir               string // of all threads
	Set               cas.Digest
	Grants            capability.Set
	Limits            limits.Set
	Chain             *captoken.Chain // of this process
	Machine           key.Private
	Now               time.Time
	// runs it for a job; nil: no process can be started
	Command func(directive model.Ref) (proc.Command, error)
	Again   bool // a process that was killed may have left a directory and a log
}

// forever is how long a token counts of a thread whose time has no limit.
const forever = 24 * time.Hour

// Start starts the thread of a child in a process, and returns when it is registered.
func (p *Parent) Start(ctx context.Context, thread string, directive model.Ref, started *DetachedChild) (*Word,
	error) {
	if p.Command == nil {
		return nil, fault.New(fault.Validation, "async_exec isn't possible here: only rye run starts processes")
	}
	command, err := p.Command(directive)
	if err != nil {
		return nil, err
	}
	if p.Limits.Depth < 1 {
		return nil, fault.New(fault.Limit, "the thread has reached a limit: depth_exceeded").On("limit",
			"depth_exceeded")
	}
	lasts := min(p.Limits.Duration, forever)
	own := captoken.New(p.Thread, p.Directive, p.Set, p.Grants, p.Limits.Depth, p.Now, lasts)
	child := captoken.New(thread, directive.String(), p.Set, p.Grants, p.Limits.Depth-1, p.Now, lasts)
	if started.Tokens, err = p.Chain.Give(p.Machine, own, child, p.Now); err != nil {
		return nil, err
	}
	if len(started.Tokens) > captoken.MaxChain {
		return nil, fault.New(fault.TooDeep,
			"the thread can't start another process: its chain of tokens has %d already",
			captoken.MaxChain).On("thread", p.Thread)
	}
	started.Parent, started.Most = p.Thread, p.Limits
	dir := filepath.Join(p.Dir, filepath.FromSlash(thread))
	if p.Again {
		_ = os.Remove(filepath.Join(dir, LogFile))
		_ = os.Remove(dir) // unless there is more
	}
	job := &Job{Thread: thread, Child: started}
	if err := job.Sign(p.Machine); err != nil {
		return nil, err
	}
	return StartDetached(ctx, command, dir, job)
}

// An Above is what a thread gets from the one that has started it in another process.
type Above struct {
	Parent string
	Most   limits.Set
	Part   int64
	Chosen bool
	Chain  *captoken.Chain
}

// Bound lowers the limits of the thread to what the one above allows.
func (a *Above) Bound(l *limits.Set) {
	l.Cap(&a.Most)
	l.Depth = min(l.Depth, a.Chain.Last().Depth)
}

// Take verifies the tokens and the signature of a job with a child, and returns what the thread gets and its inputs.
func (j *Job) Take(machine key.Public, directive model.Ref, set cas.Digest, now time.Time) (*Above, map[string]any,
	error) {
	detachedChild := j.Child
	chain, err := captoken.Take(detachedChild.Tokens,
		captoken.Use{Machine: machine, Thread: j.Thread, Parent: detachedChild.Parent,
			Directive: directive.String(), Set: set, Now: now})
	if err != nil {
		return nil, nil, err
	}
	inputs := make(map[string]any, len(detachedChild.Inputs))
	for name, given := range detachedChild.Inputs {
		b, err := json.Marshal(given)
		if err == nil {
			inputs[name], err = jcs.Parse(b)
		}
		if err != nil {
			return nil, nil, invalidInput(name, err)
		}
	}
	if err := j.verify(machine); err != nil {
		return nil, nil, err
	}
	return &Above{Parent: detachedChild.Parent, Most: detachedChild.Most, Part: detachedChild.Part,
		Chosen: detachedChild.Chosen, Chain: chain}, inputs, nil
}

// invalidInput is the error of a value that is JSON to its sender and none here, as a number beyond all.
func invalidInput(name string, err error) error {
	why := err.Error()
	if at, ok := errors.AsType[*jcs.SyntaxError](err); ok {
		why = at.Msg
	}
	return fault.New(fault.Validation, "the input %q is invalid: %s", name, why).From(err).On("field", name)
}
