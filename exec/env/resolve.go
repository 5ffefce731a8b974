package env

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/template"
)

const (
	// MaxVariable bounds a variable, name and value, in bytes.
	MaxVariable = 128<<10 - 2
	// MaxTotal bounds all variables together, in bytes.
	MaxTotal = 1 << 20
	// maxPrograms bounds the programs of a chain, so that no chain makes rye hash the whole disk.
	maxPrograms = 64
)

// A Host is the machine that a chain runs on.
type Host struct {
	Vars  map[string]string // the variables of this process
	Files Files
	Ask   Runner // runs version managers; nil: they can't be run
	Known *Known // the digests of programs; optional
}

// A Runner runs an unpinned program and returns its standard output, up to a limit.
type Runner interface {
	Run(ctx context.Context, path string, args, env []string) ([]byte, error)
}

// A Request describes a chain that needs an environment.
type Request struct {
	Host       Host
	Links      []Link            // of the chain, the tool first
	Project    string            // its directory; "" for none
	Home, Temp string            // private directories
	Forbidden  []string          // directories that PATH may not lead into: spaces, store, state
	Names      map[string]string // the kernel's names for templates, such as anchor_path
	DotEnv     []Variable
}

// A Link is the environment settings of a chain's link. Either value may be nil.
type Link struct {
	Name      string
	EnvConfig *value.Value
	EnvPaths  *value.Value // of the link's anchor, if that is active
}

// An Env is an environment.
type Env struct {
	Vars     map[string]string
	Keys     []string // the names set by .env and the chain, sorted
	Programs []Program
}

// List returns the variables as NAME=VALUE, sorted.
func (e *Env) List() []string {
	list := make([]string, 0, len(e.Vars))
	for name, v := range e.Vars {
		list = append(list, name+"="+v)
	}
	slices.Sort(list)
	return list
}

// Invalid returns the error for an invalid field of a link, such as env_config.env.LEVEL. The error of a missing
// program keeps its code.
func Invalid(link, field string, at value.Pos, err error) error {
	failure, ok := fault.Find(err)
	if !ok {
		failure = fault.New(fault.Validation, "%s", err)
	}
	if failure.Code != fault.Failed {
		failure.Code = fault.Validation
	}
	line := ""
	if at.Line > 0 {
		line = fmt.Sprintf(", line %d", at.Line)
	}
	failure.Text, failure.Err = fmt.Sprintf("%s of %q%s: %s", field, link, line, failure.Text), err
	return failure.On("ref", link).On("field", field)
}

// Resolve computes the environment of a chain.
func Resolve(ctx context.Context, request Request) (*Env, error) {
	if !filepath.IsAbs(request.Home) || !filepath.IsAbs(request.Temp) || request.Project != "" &&
		!filepath.IsAbs(request.Project) {
		return nil, fmt.Errorf("the directories %q, %q and %q must be absolute", request.Home, request.Temp,
			request.Project)
	}
	resolver := &resolver{Request: request, Files: request.Host.Files, interpreters: map[string]string{},
		dirs: map[string]fs.FileInfo{}}
	resolver.env = &Env{Vars: resolver.base()}
	resolver.path = filepath.SplitList(resolver.env.Vars["PATH"])
	resolver.given = resolver.env.Vars["PATH"]
	for _, v := range request.DotEnv {
		if err := resolver.set(v.Name, v.Value); err != nil {
			return nil, Invalid(".env", v.Name, value.Pos{Line: v.Line}, err)
		}
	}
	// Interpreters come first, the tool's before those of other links, since the first one for a variable wins.
	for i := range request.Links {
		if err := resolver.interpreter(ctx, &request.Links[i]); err != nil {
			return nil, err
		}
	}
	for _, l := range slices.Backward(request.Links) {
		if err := resolver.link(&l); err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	slices.Sort(resolver.env.Keys)
	resolver.env.Keys = slices.Compact(resolver.env.Keys)
	return resolver.env, resolver.fits()
}

// A resolver is the state of one Resolve.
type resolver struct {
	Request
	Files        Files
	env          *Env
	path         []string               // the entries of PATH
	given        string                 // the host's usable PATH as one string
	interpreters map[string]string      // interpreters' variables, with the links that set them
	dirs         map[string]fs.FileInfo // cache of directories in and above PATH
}

// link sets the variables of a link.
func (r *resolver) link(link *Link) error {
	if vars := link.EnvConfig.Get("env"); !vars.IsNull() {
		for i := range vars.Map {
			e := &vars.Map[i]
			if err := r.variable(e); err != nil {
				return Invalid(link.Name, "env_config.env."+e.Key, e.At, err)
			}
		}
	}
	if link.EnvPaths.IsNull() {
		return nil
	}
	for i := range link.EnvPaths.Map {
		e := &link.EnvPaths.Map[i]
		if err := r.paths(e); err != nil {
			return Invalid(link.Name, "anchor.env_paths."+e.Key, e.At, err)
		}
	}
	return nil
}

// variable sets one entry of env.
func (r *resolver) variable(entry *value.Entry) error {
	switch entry.Value.Kind {
	case value.Null:
		return nil
	case value.List, value.Map:
		return fmt.Errorf("expected a string, got %s", entry.Value.Kind)
	case value.Text:
		v, err := r.expand(entry.Value.Text)
		if err != nil {
			return err
		}
		return r.set(entry.Key, v)
	}
	return r.set(entry.Key, entry.Value.Text)
}

func (r *resolver) expand(text string) (string, error) {
	return template.Expand(text,
		func(name string) (string, bool) { v, ok := r.env.Vars[name]; return v, ok },
		func(name string) (string, bool) { v, ok := r.Names[name]; return v, ok })
}

// set sets a variable, if a link may set it.
func (r *resolver) set(name, value string) error {
	if err := checkName(name); err != nil {
		return err
	}
	if _, taken := r.interpreters[name]; taken {
		return refused(name, fmt.Sprintf("it is the interpreter of %q", r.interpreters[name]))
	}
	// Repeating the present value is allowed.
	if was, ok := r.env.Vars[name]; value != "" && (!ok || was != value) {
		if err := reserved(name); err != nil {
			return err
		}
	}
	if strings.EqualFold(name, "PATH") {
		if err := r.checkPath(name, value); err != nil {
			return err
		}
	}
	if value == "" && private[strings.ToUpper(name)] {
		return refused(name, "it is a private directory")
	}
	return r.put(name, value)
}

// put sets a variable.
func (r *resolver) put(name, v string) error {
	if strings.IndexByte(v, 0) >= 0 {
		return fmt.Errorf("the value of %q contains a NUL byte", name)
	}
	if len(name)+len(v) > MaxVariable {
		return fmt.Errorf("the variable %q has more than %d bytes", name, MaxVariable)
	}
	r.env.Vars[name] = v
	r.env.Keys = append(r.env.Keys, name)
	return nil
}

// checkPath checks a PATH that a link sets.
func (r *resolver) checkPath(name, v string) error {
	if name != "PATH" {
		return refused(name, "its name must be PATH")
	}
	if v == r.given {
		return nil
	}
	for _, dir := range filepath.SplitList(v) {
		if why := r.mayHold(dir); why != "" && !slices.Contains(r.path, dir) {
			return fmt.Errorf("the entry %q may not be in PATH: %s", dir, why)
		}
	}
	return nil
}

// paths sets one entry of env_paths.
func (r *resolver) paths(entry *value.Entry) error {
	if entry.Value.Kind != value.Map {
		return fmt.Errorf("expected an object with prepend and append, got %s", entry.Value.Kind)
	}
	var list []string
	add := func(dirs []string) {
		for _, dir := range dirs {
			if dir != "" && !slices.Contains(list, dir) {
				list = append(list, dir)
			}
		}
	}
	first, err := r.directories(entry.Value.Get("prepend"))
	if err != nil {
		return err
	}
	last, err := r.directories(entry.Value.Get("append"))
	if err != nil {
		return err
	}
	add(first)
	add(filepath.SplitList(r.env.Vars[entry.Key]))
	add(last)
	return r.set(entry.Key, strings.Join(list, string(filepath.ListSeparator)))
}

// directories expands the templates in a list of directories.
func (r *resolver) directories(v *value.Value) ([]string, error) {
	if v.IsNull() {
		return nil, nil
	}
	if v.Kind != value.List {
		return nil, fmt.Errorf("expected a list, got %s", v.Kind)
	}
	dirs := make([]string, 0, len(v.Items))
	for _, item := range v.Items {
		if item.Kind != value.Text {
			return nil, fmt.Errorf("expected a string, got %s", item.Kind)
		}
		dir, err := r.expand(item.Text)
		switch {
		case err != nil:
			return nil, err
		case !filepath.IsAbs(dir):
			return nil, fmt.Errorf("%q is not an absolute path", dir)
		case strings.ContainsRune(dir, filepath.ListSeparator):
			// It would be two directories.
			return nil, fmt.Errorf("%q contains a %q, so it can't be in a list of paths", dir, filepath.ListSeparator)
		}
		dirs = append(dirs, dir)
	}
	return dirs, nil
}

// fits checks the size of the whole environment.
func (r *resolver) fits() error {
	total := 0
	for _, name := range slices.Sorted(maps.Keys(r.env.Vars)) {
		total += len(name) + len(r.env.Vars[name]) + 2
	}
	if total > MaxTotal {
		return fmt.Errorf("the environment has %d bytes; at most %d are allowed", total, MaxTotal)
	}
	return nil
}
