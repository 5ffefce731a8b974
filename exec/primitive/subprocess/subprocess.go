// Package subprocess is the primitive that starts one program, without a shell, and waits for it.
//
//	command     the program, by path or by a name
//	args        its arguments, each as it is
//	cwd         the directory it starts in
//	within      a directory that cwd, which is relative to it, has to lead into, links followed
//	input_data  what it reads from standard input, which is empty without
//	env         variables beside those that the chain has
//	params      a JSON object, as {params_json} is: each string, number and boolean at its top is a variable, see
//	            below
//	timeout     seconds, after which it is stopped with everything that it has started
//	output      json: standard output that is one JSON value is the value; text: it is text whatever it says
//
// # Parameters as variables
//
// The parameter max-size is the variable PARAM_MAX_SIZE: its name in capitals, with "_" for every character outside
// A-Z 0-9. Two parameters may not share a variable. A number is as JSON writes it, a boolean is true or false. Null,
// lists and objects are no variables, and what env names stays as it is.
//
// # What comes out of it
//
// What it writes to its standard streams goes to the sink as it comes, and makes the value as package answer says.
package subprocess

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/rye-build/rye/cas/fault"
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

// Ready implements primitive.Readier.
func (s *Subprocess) Ready(network bool) { s.Machine.Ready(network) }

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
	said.Plain = a.Config["output"] == "text"
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
	if c.Dir, err = directory(a); err != nil {
		return nil, err
	}
	if text, ok := a.Config["input_data"].(string); ok {
		c.Stdin = strings.NewReader(text)
	}
	c.Env = a.Env
	more, err := variables(a.Config)
	if err != nil {
		return nil, err
	}
	if len(more) > 0 {
		c.Env = slices.DeleteFunc(slices.Clone(a.Env), func(v string) bool {
			name, _, _ := strings.Cut(v, "=")
			_, again := more[name]
			return again
		})
		for _, name := range slices.Sorted(maps.Keys(more)) {
			text, ok := more[name].(string)
			if !ok {
				return nil, fmt.Errorf("the variable %q must be a string, not %v", name, more[name])
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

// variables returns what config says about the environment.
func variables(config map[string]any) (map[string]any, error) {
	set, _ := config["env"].(map[string]any)
	text, ok := config["params"].(string)
	if !ok {
		return set, nil
	}
	var params map[string]any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&params); err != nil {
		return nil, fmt.Errorf("config.params must be a JSON object, like {params_json}: %w", err)
	}
	all, from := map[string]any{}, map[string]string{}
	for _, param := range slices.Sorted(maps.Keys(params)) {
		name := "PARAM_" + strings.Map(func(r rune) rune {
			if 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
				return r
			}
			return '_'
		}, strings.ToUpper(param))
		switch v := params[param].(type) {
		case string:
			all[name] = v
		case json.Number, bool:
			all[name] = fmt.Sprint(v)
		default:
			continue
		}
		if other, taken := from[name]; taken {
			return nil, fault.New(fault.Validation, "the parameters %q and %q share the variable %s", other, param,
				name)
		}
		from[name] = param
	}
	maps.Copy(all, set)
	return all, nil
}

// noDirectory returns the error that a program can't start in a directory; outside is the one that it should be in, if
// any.
func noDirectory(dir, outside string) error {
	if outside != "" {
		return fault.New(fault.Denied, "the directory %q is not in %q", dir, outside).On("path", dir)
	}
	return fault.New(fault.Files, "directory %q not found", dir).On("path", dir)
}

// directory is where the program starts.
func directory(a *primitive.Action) (string, error) {
	dir, _ := a.Config["cwd"].(string)
	within, _ := a.Config["within"].(string)
	if within == "" {
		return cmp.Or(dir, a.Dir), nil
	}
	top, err := filepath.EvalSymlinks(within)
	if err != nil {
		return "", err
	}
	rel := filepath.Clean(dir) // what is looked at is where it starts, also where .. follows a link
	if filepath.IsAbs(dir) {
		if rel, err = filepath.Rel(within, dir); err != nil || !filepath.IsLocal(rel) {
			rel, err = filepath.Rel(top, dir)
		}
	}
	if err != nil || !filepath.IsLocal(rel) {
		return "", noDirectory(dir, within)
	}
	root, err := os.OpenRoot(top)
	if err != nil {
		return "", err
	}
	defer root.Close()
	// Nothing outside is looked at, so that an error can't reveal whether it exists.
	info, err := root.Stat(rel)
	_, system := errors.AsType[syscall.Errno](err) // and not os.Root's no
	switch {
	case system || err == nil && !info.IsDir():
		return "", noDirectory(dir, "")
	case err != nil:
		return "", noDirectory(dir, within)
	}
	// The sandbox holds whatever becomes of a link after this: where a program starts gives it nothing.
	return filepath.EvalSymlinks(filepath.Join(top, rel))
}
