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
// What it writes to its standard streams goes to the sink as it comes, and makes the value as package answer says.
package subprocess

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rye-build/rye/exec/env"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/answer"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/sandbox"
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
	spec.Limits.Wall = a.Wall()
	// What is more than asked for costs little, and the result says it.
	spec.Most = true
	inner, stop := context.WithCancel(ctx)
	defer stop()
	said := answer.New(to, stop)
	c.Stdout, c.Stderr = said.Stdout(), said.Stderr()
	ended, err := s.Machine.Run(inner, spec, *c)
	if err != nil {
		return nil, err
	}
	return said.Result(ended), nil
}

// command makes the command of an action.
func command(a *primitive.Action) (*proc.Command, error) {
	name, _ := a.Config["command"].(string)
	p, ok := a.Programs[name]
	if !ok {
		return nil, fmt.Errorf("the program %q was not looked for", name)
	}
	c := &proc.Command{Path: p.Path, Program: p.File, Dir: a.Dir}
	var err error
	if c.Args, err = a.Args(); err != nil {
		return nil, err
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
