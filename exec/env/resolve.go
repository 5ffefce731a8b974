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
	e, ok := fault.Find(err)
	if !ok {
		e = fault.New(fault.Validation, "%s", err)
	}
	if e.Code != fault.Failed {
		e.Code = fault.Validation
	}
	line := ""
	if at.Line > 0 {
		line = fmt.Sprintf(", line %d", at.Line)
	}
	e.Text, e.Err = fmt.Sprintf("%s of %q%s: %s", field, link, line, e.Text), err
	return e.On("ref", link).On("field", field)
}

// Resolve computes the environment of a chain.
func Resolve(ctx context.Context, q Request) (*Env, error) {
	if !filepath.IsAbs(q.Home) || !filepath.IsAbs(q.Temp) || q.Project != "" && !filepath.IsAbs(q.Project) {
		return nil, fmt.Errorf("the directories %q, %q and %q must be absolute", q.Home, q.Temp, q.Project)
	}
	r := &resolver{Request: q, Files: q.Host.Files, interpreters: map[string]string{}, dirs: map[string]fs.FileInfo{}}
	r.env = &Env{Vars: r.base()}
	r.path = filepath.SplitList(r.env.Vars["PATH"])
	r.given = r.env.Vars["PATH"]
	for _, v := range q.DotEnv {
		if err := r.set(v.Name, v.Value); err != nil {
			return nil, Invalid(".env", v.Name, value.Pos{Line: v.Line}, err)
		}
	}
	// Interpreters come first, the tool's before those of other links, since the first one for a variable wins.
	for i := range q.Links {
		if err := r.interpreter(ctx, &q.Links[i]); err != nil {
			return nil, err
		}
	}
	for _, l := range slices.Backward(q.Links) {
		if err := r.link(&l); err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	slices.Sort(r.env.Keys)
	r.env.Keys = slices.Compact(r.env.Keys)
	return r.env, r.fits()
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
func (r *resolver) link(l *Link) error {
	if vars := l.EnvConfig.Get("env"); !vars.IsNull() {
		for i := range vars.Map {
			e := &vars.Map[i]
			if err := r.variable(e); err != nil {
				return Invalid(l.Name, "env_config.env."+e.Key, e.At, err)
			}
		}
	}
	if l.EnvPaths.IsNull() {
		return nil
	}
	for i := range l.EnvPaths.Map {
		e := &l.EnvPaths.Map[i]
		if err := r.paths(e); err != nil {
			return Invalid(l.Name, "anchor.env_paths."+e.Key, e.At, err)
		}
	}
	return nil
}

// variable sets one entry of env.
func (r *resolver) variable(e *value.Entry) error {
	switch e.Value.Kind {
	case value.Null:
		return nil
	case value.List, value.Map:
		return fmt.Errorf("expected a string, got %s", e.Value.Kind)
	case value.Text:
		v, err := r.expand(e.Value.Text)
		if err != nil {
			return err
		}
		return r.set(e.Key, v)
	}
	return r.set(e.Key, e.Value.Text)
}

func (r *resolver) expand(text string) (string, error) {
	return template.Expand(text,
		func(name string) (string, bool) { v, ok := r.env.Vars[name]; return v, ok },
		func(name string) (string, bool) { v, ok := r.Names[name]; return v, ok })
}

// set sets a variable, if a link may set it.
func (r *resolver) set(name, v string) error {
	if err := checkName(name); err != nil {
		return err
	}
	if _, taken := r.interpreters[name]; taken {
		return refused(name, fmt.Sprintf("it is the interpreter of %q", r.interpreters[name]))
	}
	// Repeating the present value is allowed.
	if was, ok := r.env.Vars[name]; v != "" && (!ok || was != v) {
		if err := reserved(name); err != nil {
			return err
		}
	}
	if strings.EqualFold(name, "PATH") {
		if err := r.checkPath(name, v); err != nil {
			return err
		}
	}
	if v == "" && private[strings.ToUpper(name)] {
		return refused(name, "it is a private directory")
	}
	return r.put(name, v)
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
func (r *resolver) paths(e *value.Entry) error {
	if e.Value.Kind != value.Map {
		return fmt.Errorf("expected an object with prepend and append, got %s", e.Value.Kind)
	}
	var list []string
	add := func(dirs []string) {
		for _, dir := range dirs {
			if dir != "" && !slices.Contains(list, dir) {
				list = append(list, dir)
			}
		}
	}
	first, err := r.directories(e.Value.Get("prepend"))
	if err != nil {
		return err
	}
	last, err := r.directories(e.Value.Get("append"))
	if err != nil {
		return err
	}
	add(first)
	add(filepath.SplitList(r.env.Vars[e.Key]))
	add(last)
	return r.set(e.Key, strings.Join(list, string(filepath.ListSeparator)))
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
