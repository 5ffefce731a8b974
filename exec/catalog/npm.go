package catalog

import (
	"bytes"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/exec/catalog/launcher"
	"github.com/rye-build/rye/lock/packages"
	"github.com/rye-build/rye/manifest/jcs"
)

const (
	packageLock = "package-lock.json"
	publicNPM   = "registry.npmjs.org"
)

// npm lets npm list a package. It runs no script of one.
func (r *Resolver) npm(p *launcher.Package, registry string, roots bool) {
	r.Written = packageLock
	r.args = []string{"npm", "install", "--package-lock-only", "--ignore-scripts", "--no-audit", "--no-fund",
		"--save-exact", "--lockfile-version=3"}
	if registry == "" {
		r.Hosts = []string{publicNPM}
	} else {
		r.args = append(r.args, "--registry="+registry)
	}
	if roots {
		r.args = append(r.args, "--cafile="+Roots)
	}
	r.args = append(r.args, p.String())
}

// useNPM makes a server of a program of an npm package, whose list npm has made.
func (s *Spec) useNPM(p *launcher.Package, list []byte) ([]Beside, error) {
	place := "node_modules/" + p.Name
	all, err := packages.PackageLock(bytes.NewReader(list))
	if _, err = find(p, all, err, func(q *packages.Package) bool { return q.At == place }); err != nil {
		return nil, err
	}
	bin, err := binOf(list, place, p)
	if err != nil {
		return nil, fault.New(fault.Validation, "%s: %v", p, err)
	}
	s.Command, s.Args = "node", append([]string{path.Join("{packages_path}", place, bin)}, p.Args...)
	return []Beside{{packageLock, list}}, nil
}

// binOf returns the file of a program of a package, as its list has it.
func binOf(list []byte, at string, p *launcher.Package) (string, error) {
	v, err := jcs.Parse(list)
	if err != nil {
		return "", err
	}
	whole, _ := v.(map[string]any)
	entries, _ := whole["packages"].(map[string]any)
	entry, _ := entries[at].(map[string]any)
	programs, _ := entry["bin"].(map[string]any)
	if one, ok := entry["bin"].(string); ok {
		programs = map[string]any{path.Base(p.Name): one}
	}
	if len(programs) == 0 {
		return "", errors.New("it has no program: no bin in its package.json")
	}
	names := slices.Sorted(maps.Keys(programs))
	name := p.Program
	if name == "" {
		if name = path.Base(p.Name); programs[name] == nil && len(names) == 1 {
			name = names[0]
		}
		if programs[name] == nil {
			return "", errors.New("it has several programs: " + strings.Join(names, ", "))
		}
	}
	file, _ := programs[name].(string)
	if file == "" {
		return "", errors.New("it has no program " + name + ", only " + strings.Join(names, ", "))
	}
	file = strings.TrimPrefix(file, "./")
	if err := portable.Check(file); err != nil || isTemplate(file) {
		return "", errors.New("its program has the path " + file + ", which can't be used")
	}
	return file, nil
}
