package catalog

import (
	"context"
	"path"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/catalog/launcher"
	"github.com/rye-build/rye/lock/packages"
)

// A Lister runs the item of Resolving for a package, once a person has agreed, and returns the file that it wrote.
type Lister func(ctx context.Context, p *launcher.Package) ([]byte, error)

// FromLauncher returns the specification that starts a server from pinned packages instead of with npx, npm exec or
// uvx, and the files that its item's signature must cover, by their paths from the item's directory. name is the last
// segment of the server's id; the files are in the directory "_" + name. A launcher that can't be pinned is a
// *launcher.Skip. Any other command is returned as it is, without files. Nothing of the package runs.
func FromLauncher(ctx context.Context, s *Spec, name string, list Lister) (*Spec, []Beside, error) {
	if s.Transport != Stdio {
		return s, nil, nil
	}
	p, skip := launcher.Read(s.Command, s.Args)
	switch {
	case skip != nil:
		return nil, nil, skip
	case p == nil:
		return s, nil, nil
	}
	written, err := list(ctx, p)
	if err == nil && p.Ecosystem == packages.PyPI {
		if written, err = requirementsOf(written); err != nil {
			err = unusable(p, err)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	return s.fromList(p, name, written)
}

// FromList is FromLauncher for a list that was made before: the bytes of the file ListOf. It returns nil for a command
// that has none.
func FromList(s *Spec, name string, list []byte) (*Spec, []Beside, error) {
	if p, _ := launcher.Read(s.Command, s.Args); p != nil && s.Transport == Stdio {
		return s.fromList(p, name, list)
	}
	return nil, nil, nil
}

// ListOf is the path of the list of packages of a server that a launcher would start, from its item's directory.
func ListOf(p *launcher.Package, name string) string {
	if p.Ecosystem == packages.NPM {
		return "_" + name + "/" + packageLock
	}
	return "_" + name + "/" + requirements
}

func (s *Spec) fromList(p *launcher.Package, name string, list []byte) (*Spec, []Beside, error) {
	pinned, dir := *s, "_"+name
	pinned.Lib, pinned.Packages = dir, ListOf(p, name)
	use := pinned.usePython
	if p.Ecosystem == packages.NPM {
		use = pinned.useNPM
	}
	files, err := use(p, list)
	if err != nil {
		return nil, nil, err
	}
	for i := range files {
		files[i].Path = path.Join(dir, files[i].Path)
	}
	return &pinned, files, nil
}

// unusable is the error of a list of packages.
func unusable(p *launcher.Package, err error) error {
	return fault.New(fault.Validation, "the list of packages of %s: %v", p, err).From(err).Try("rye docs packages")
}

// find checks a list and returns the package itself.
func find(p *launcher.Package, all []packages.Package, err error, is func(*packages.Package) bool) (*packages.Package,
	error) {
	if err != nil {
		return nil, unusable(p, err)
	}
	for i := range all {
		if !is(&all[i]) {
			continue
		}
		if version := all[i].Version; !p.Allows(version) {
			return nil, fault.New(fault.Validation, "the list of packages has %s@%s, not %s", p.Name, version, p)
		}
		return &all[i], nil
	}
	return nil, fault.New(fault.Validation, "the list of packages has no %s", p)
}

// WorkDir is the directory that a resolver works in, in an otherwise empty one, and Roots a file there with the
// certificates that it trusts.
const (
	WorkDir = "work"
	Roots   = "roots.pem"
)

// A Resolver is the program that lists what a package needs.
type Resolver struct {
	Name    string // npm or pip
	Written string // the file that it writes in WorkDir
	Hosts   []string
	args    []string
}

// ResolverOf returns the name of the resolver of a package.
func ResolverOf(p *launcher.Package) string {
	if p.Ecosystem == packages.NPM {
		return "npm"
	}
	return pip
}

// Hint returns the command that shows whether the registry has a package.
func (r *Resolver) Hint(p *launcher.Package) string {
	if r.Name == pip {
		return fault.Command("pip index versions", p.Name)
	}
	return fault.Command("npm view", p.String())
}

// NewResolver returns the resolver of a package. registry is the one of rye.yaml, "" for the public one, and host its
// host. With roots it trusts the certificates in Roots.
func NewResolver(p *launcher.Package, registry, host string, roots bool) *Resolver {
	r := &Resolver{Name: ResolverOf(p), Hosts: []string{host}}
	if p.Ecosystem == packages.NPM {
		r.npm(p, registry, roots)
	} else {
		r.pip(p, registry, roots)
	}
	return r
}

// Item returns the item that lists what the package needs: it runs no code of a package, and may reach the registry
// and write one directory.
func (r *Resolver) Item() []byte {
	config := map[string]any{"command": r.args[0], "args": r.args[1:], "cwd": "{project_path}/" + WorkDir,
		"timeout": 120.0}
	if r.Name == pip {
		config["env"] = map[string]any{"PIP_CONFIG_FILE": noFile} // else a file could name other indexes
	}
	var text []byte
	for _, f := range []struct {
		name  string
		value any
	}{
		{"version", "1.0.0"}, {"tool_type", "program"}, {"executor_id", "rye/core/primitives/subprocess"},
		{"category", r.Name}, {"description", "Lists what a package needs"}, {"risk", "write"},
	} {
		text = appendField(text, f.name, f.value)
	}
	if r.Name == pip {
		text = appendField(text, "env_config", pythonConfig)
	}
	g := Grants{Write: []string{WorkDir}, Network: r.Hosts}
	return appendField(g.append(text), "config", config)
}

// isTemplate reports whether a text would be filled in as part of an argument.
func isTemplate(text string) bool { return strings.ContainsAny(text, "{}$") }
