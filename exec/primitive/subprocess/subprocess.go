// Package subprocess is the primitive that runs one program, without a shell.
//
//	command     the program, by path or by a name
//	args        its arguments, passed unchanged
//	cwd         its working directory
//	within      a directory that must contain cwd, which is relative to it, with links resolved
//	input_data  its standard input; empty by default
//	env         variables in addition to those of the chain
//	params      a JSON object, such as {params_json}: each string, number and boolean at its top becomes a variable,
//	            see below
//	timeout     limit in seconds; then the program and everything that it started are killed
//	output      json: a single JSON value on standard output is the value; text: standard output is always text
//
// # Parameters as variables
//
// The parameter max-size becomes the variable PARAM_MAX_SIZE: its name in capitals, with "_" for every character
// outside A-Z 0-9. Two parameters may not share a variable. A number is written as in JSON, a boolean as true or
// false. Null, lists and objects become no variables, and env overrides variables of the same name.
//
// # Result
//
// The program's output goes to the sink at once, and package answer turns it into the value.
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
func (s *Subprocess) Run(ctx context.Context, action *primitive.Action, to primitive.Sink) (*primitive.Result, error) {
	command, err := command(action)
	if err != nil {
		return nil, err
	}
	spec := action.Sandbox
	spec.Limits.Wall = action.Wall()
	// A higher level costs little, and the result reports it.
	spec.Most = true
	inner, stop := context.WithCancel(ctx)
	defer stop()
	said := answer.New(to, stop)
	said.Plain = action.Config["output"] == "text"
	command.Stdout, command.Stderr = said.Stdout(), said.Stderr()
	ended, err := s.Machine.Run(inner, spec, *command)
	if err != nil {
		return nil, err
	}
	return said.Result(ended), nil
}

// command returns the command of an action.
func command(action *primitive.Action) (*proc.Command, error) {
	name, _ := action.Config["command"].(string)
	p, ok := action.Programs[name]
	if !ok {
		return nil, fmt.Errorf("the program %q was not looked for", name)
	}
	command := &proc.Command{Path: p.Path, Program: p.File, Dir: action.Dir}
	var err error
	if command.Args, err = action.Args(); err != nil {
		return nil, err
	}
	if command.Dir, err = directory(action); err != nil {
		return nil, err
	}
	if text, ok := action.Config["input_data"].(string); ok {
		command.Stdin = strings.NewReader(text)
	}
	command.Env = action.Env
	more, err := variables(action.Config)
	if err != nil {
		return nil, err
	}
	if len(more) > 0 {
		command.Env = slices.DeleteFunc(slices.Clone(action.Env), func(v string) bool {
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
			command.Env = append(command.Env, name+"="+text)
		}
		slices.Sort(command.Env)
	}
	return command, nil
}

// variables returns the environment variables in config.
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

// noDirectory returns the error for an invalid working directory; outside is the directory that should contain it, or
// "".
func noDirectory(dir, outside string) error {
	if outside != "" {
		return fault.New(fault.Denied, "the directory %q is not in %q", dir, outside).On("path", dir)
	}
	return fault.New(fault.Files, "directory %q not found", dir).On("path", dir)
}

// directory returns the working directory of the program.
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
	rel := filepath.Clean(dir) // so that the checked path is the one used, also where .. follows a link
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
	// The root prevents access outside, so that no error reveals whether a file exists there.
	info, err := root.Stat(rel)
	_, system := errors.AsType[syscall.Errno](err) // an error of the system, not os.Root's refusal
	switch {
	case system || err == nil && !info.IsDir():
		return "", noDirectory(dir, "")
	case err != nil:
		return "", noDirectory(dir, within)
	}
	// The sandbox still holds if a link changes after this: a working directory grants nothing.
	return filepath.EvalSymlinks(filepath.Join(top, rel))
}
