package env

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
)

// A NotFoundError means that a program is missing. It is fs.ErrNotExist.
type NotFoundError struct {
	What  string   // such as "venv_python", or the name of the program
	Tried []string // paths
	Err   error    // why a file at one of the paths is unusable; may be nil
}

func (e *NotFoundError) Error() string {
	switch {
	case e.Err == nil:
		return fmt.Sprintf("%q not found: looked in %q", e.What, e.Tried)
	case len(e.Tried) == 0:
		return fmt.Sprintf("%q not found: %v", e.What, e.Err)
	}
	return fmt.Sprintf("%q not found: %v (looked in %q)", e.What, e.Err, e.Tried)
}

// Fault lists the paths on separate lines.
func (e *NotFoundError) Fault() *fault.Error {
	f := fault.New(fault.Failed, "%q not found", e.What).Try("rye doctor").From(e)
	if e.Err != nil {
		f.Text += ": " + e.Err.Error()
	}
	places := make([]string, len(e.Tried))
	for i, place := range e.Tried {
		places[i] = "looked in " + place
	}
	return f.List(places...)
}

// Unwrap returns fs.ErrNotExist, and the reason why an existing file is unusable.
func (e *NotFoundError) Unwrap() []error {
	if e.Err != nil {
		return []error{fs.ErrNotExist, e.Err}
	}
	return []error{fs.ErrNotExist}
}

// A wanted is the description of an interpreter in a link.
type wanted struct {
	kind, name, fallback string
	binary               string   // of system_binary and version_manager
	places               []string // of venv_python and node_modules, in the project
	manager, version     string
}

// interpreter finds the interpreter of a link, unless a link closer to the tool has set the same variable.
func (r *resolver) interpreter(ctx context.Context, link *Link) error {
	val := link.EnvConfig.Get("interpreter")
	if val.IsNull() {
		return nil
	}
	wanted, err := readInterpreter(val)
	if err == nil {
		if _, nearer := r.interpreters[wanted.name]; nearer {
			return nil
		}
		err = r.find(ctx, link.Name, wanted)
	}
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return Invalid(link.Name, "env_config.interpreter", val.At, err)
	}
	r.interpreters[wanted.name] = link.Name
	return nil
}

// fields lists the fields of each type of interpreter, in addition to type, var and fallback.
var fields = map[string][]string{
	"venv_python": {"venv_path"}, "node_modules": {"search_paths"}, "system_binary": {"binary"},
	"version_manager": {"manager", "version", "binary"},
}

// readInterpreter reads the description of an interpreter. Unknown fields are errors.
func readInterpreter(val *value.Value) (*wanted, error) {
	if val.Kind != value.Map {
		return nil, fmt.Errorf("expected an object, got %s", val.Kind)
	}
	wanted := &wanted{kind: val.Get("type").String(), name: val.Get("var").String(),
		fallback: val.Get("fallback").String(),
		binary:   val.Get("binary").String(),
		manager:  val.Get("manager").String(), version: val.Get("version").String()}
	known, ok := fields[wanted.kind]
	if !ok {
		return nil, fmt.Errorf("invalid type %q: expected node_modules, system_binary, venv_python or version_manager",
			wanted.kind)
	}
	for i := range val.Map {
		e := &val.Map[i]
		if e.Key == "search_paths" && slices.Contains(known, e.Key) {
			continue
		}
		if !slices.Contains(known, e.Key) && e.Key != "type" && e.Key != "var" && e.Key != "fallback" {
			return nil, fmt.Errorf("%q has no effect for %s", e.Key, wanted.kind)
		}
		if e.Value.Kind != value.Text && !e.Value.IsNull() {
			return nil, fmt.Errorf("%s must be a string, not %s", e.Key, e.Value.Kind)
		}
	}
	if err := reservedForInterpreters(wanted.name); err != nil {
		return nil, fmt.Errorf("var: %w", err)
	}
	switch wanted.kind {
	case "venv_python":
		wanted.places = []string{cmp.Or(val.Get("venv_path").String(), ".venv")}
	case "node_modules":
		paths := val.Get("search_paths")
		if wanted.places = []string{"node_modules/.bin"}; !paths.IsNull() {
			wanted.places = nil
			for _, item := range paths.Items {
				wanted.places = append(wanted.places, item.String())
			}
		}
		if len(wanted.places) == 0 || len(wanted.places) > 16 {
			return nil, errors.New("search_paths must be a list of 1 to 16 paths")
		}
	}
	for _, p := range wanted.places {
		if !filepath.IsLocal(filepath.FromSlash(p)) {
			return nil, fmt.Errorf("%q is not a path inside the project", p)
		}
	}
	return wanted, wanted.check()
}

// check checks the names of programs.
func (w *wanted) check() error {
	if w.kind == "system_binary" || w.kind == "version_manager" && w.binary != "" {
		if err := checkProgram(w.binary); err != nil {
			return fmt.Errorf("binary: %w", err)
		}
	}
	if w.fallback != "" && !filepath.IsAbs(w.fallback) {
		if err := checkProgram(w.fallback); err != nil {
			return fmt.Errorf("fallback: %w", err)
		}
	}
	if w.kind != "version_manager" {
		return nil
	}
	m, ok := managers[w.manager]
	if !ok {
		return fmt.Errorf("invalid manager %q: expected asdf, nvm, pyenv or rbenv", w.manager)
	}
	if w.binary = cmp.Or(w.binary, m.binary); w.binary == "" {
		return fmt.Errorf("binary is required for %s", w.manager)
	}
	if w.version == "" || len(w.version) > 64 || w.version[0] == '-' || w.version[0] == '.' ||
		strings.ContainsFunc(w.version, func(r rune) bool { return !strings.ContainsRune(versionChars, r) }) {
		return fmt.Errorf("%q is not a version", w.version)
	}
	return nil
}

const versionChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

// checkProgram returns an error if a name can't be looked up in PATH.
func checkProgram(name string) error {
	if name == "" || len(name) > 255 || name == "." || name == ".." || name[0] == '-' ||
		strings.ContainsAny(name, "/\\:\x00") {
		return fmt.Errorf("%q is not the name of a program: expected a name without a path", name)
	}
	return nil
}

// find finds a program and sets its variable.
func (r *resolver) find(ctx context.Context, link string, wanted *wanted) error {
	program, err := r.locate(ctx, wanted)
	// An unusable program is not silently replaced by the fallback.
	if missing, ok := errors.AsType[*NotFoundError](err); ok && missing.Err == nil && wanted.fallback != "" {
		program, err = r.binary(wanted.fallback)
		program.Fallback = true
	}
	if err != nil {
		return err
	}
	program.Name, program.Link, program.Type = wanted.name, link, wanted.kind
	if err := r.report(program); err != nil {
		return err
	}
	return r.put(wanted.name, program.Path)
}

// locate finds a program by the rules of its type.
func (r *resolver) locate(ctx context.Context, wanted *wanted) (Program, error) {
	switch wanted.kind {
	case "venv_python":
		p, err := r.first(wanted.kind, r.inProject(wanted.places, "bin/python", "Scripts/python.exe", "bin/python3"))
		if err == nil {
			p.Version = r.venvVersion(filepath.Join(r.Project, filepath.FromSlash(wanted.places[0]), "pyvenv.cfg"))
		}
		return p, err
	case "node_modules":
		return r.first(wanted.kind, r.inProject(wanted.places, "node", "node.exe"))
	case "version_manager":
		return r.managed(ctx, wanted)
	}
	return r.binary(wanted.binary)
}

// inProject returns the path of each name in each place of the project.
func (r *resolver) inProject(places []string, names ...string) []string {
	if r.Project == "" {
		return nil
	}
	var all []string
	for _, place := range places {
		for _, name := range names {
			if isExe := strings.HasSuffix(name, ".exe"); isExe && windows || !isExe && !windows {
				all = append(all, filepath.Join(r.Project, filepath.FromSlash(place), filepath.FromSlash(name)))
			}
		}
	}
	return all
}

// venvVersion returns the version that a virtual environment declares; "" if it declares none.
func (r *resolver) venvVersion(file string) string {
	b, err := r.readSome(file, 16<<10)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		key, v, _ := strings.Cut(line, "=")
		if key = strings.TrimSpace(key); key == "version" || key == "version_info" {
			if v = strings.TrimSpace(v); v != "" && len(v) <= 64 && !strings.ContainsFunc(v, func(r rune) bool {
				return !strings.ContainsRune(versionChars+"+", r)
			}) {
				return v
			}
		}
	}
	return ""
}
