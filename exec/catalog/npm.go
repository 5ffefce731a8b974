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
	"github.com/rye-build/rye/lock/packages"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/jcs"
)

// A Package is an npm package that is a server: a list that pins it and all that it needs, and the program in it.
type Package struct {
	Name, Version string
	List          []byte // package-lock.json
	Main          string // the program, below the directory of the packages
}

// listName is the name of a list next to a server's item, and listDir its directory.
const listName = "package-lock.json"

func listDir(server string) string { return "_" + server }

// ParsePackage reads NAME@VERSION. The version is one version, not a range or a tag.
func ParsePackage(text string) (*Package, error) {
	i := strings.LastIndexByte(text, '@')
	parsed := &Package{}
	if i > 0 {
		parsed.Name, parsed.Version = text[:i], text[i+1:]
	}
	if parsed.Name == "" || manifest.CheckVersion(parsed.Version) != nil {
		return nil, fault.New(fault.Validation, "--npm is %q, and not NAME@VERSION",
			text).Because("the version must be exact, as in server-files@1.2.3").
			Try("rye help mcp add")
	}
	for segment := range strings.SplitSeq(strings.TrimPrefix(parsed.Name, "@"), "/") {
		if portable.CheckID(segment) != nil || strings.Count(parsed.Name, "/") > 1 ||
			strings.Contains(parsed.Name, "/") != strings.HasPrefix(parsed.Name, "@") {
			return nil, fault.New(fault.Validation, "%q is not the name of an npm package",
				parsed.Name).Try("rye help mcp add")
		}
	}
	return parsed, nil
}

// String is the package as npm writes it.
func (p *Package) String() string { return p.Name + "@" + p.Version }

// Take takes the list that pins the package, and finds the program in it.
func (p *Package) Take(list []byte) error {
	all, err := packages.PackageLock(bytes.NewReader(list))
	if err != nil {
		return fault.New(fault.Validation, "the list of packages of %s: %v", p, err).From(err).Try("rye docs packages")
	}
	place := "node_modules/" + p.Name
	i := slices.IndexFunc(all, func(q packages.Package) bool { return q.At == place })
	if i < 0 {
		return fault.New(fault.Validation, "the list of packages has no %s", p)
	}
	if all[i].Version != p.Version {
		return fault.New(fault.Validation, "the list of packages has %s@%s, not %s", p.Name, all[i].Version, p)
	}
	bin, err := binOf(list, place, p.Name)
	if err != nil {
		return fault.New(fault.Validation, "%s: %v", p, err)
	}
	p.List, p.Main = list, path.Join(place, bin)
	return nil
}

// binOf returns the program of a package, as its list has it.
func binOf(list []byte, at, name string) (string, error) {
	v, err := jcs.Parse(list)
	if err != nil {
		return "", err
	}
	whole, _ := v.(map[string]any)
	entries, _ := whole["packages"].(map[string]any)
	entry, _ := entries[at].(map[string]any)
	file := ""
	switch bin := entry["bin"].(type) {
	case string:
		file = bin
	case map[string]any:
		if one, ok := bin[path.Base(name)].(string); ok {
			file = one
		} else if len(bin) == 1 {
			for _, one := range bin {
				file, _ = one.(string)
			}
		} else {
			return "", errors.New("it has several programs: " + strings.Join(slices.Sorted(maps.Keys(bin)), ", "))
		}
	}
	if file == "" {
		return "", errors.New("it has no program: no bin in its package.json")
	}
	file = strings.TrimPrefix(file, "./")
	if err := portable.Check(file); err != nil || strings.ContainsAny(file, "{}$") {
		return "", errors.New("its program has the path " + file + ", which can't be used")
	}
	return file, nil
}

// Use makes a server of the package, which gets some arguments.
func (s *Spec) Use(server string, p *Package, args []string) {
	s.Transport, s.Command = Stdio, "node"
	s.Args = append([]string{"{packages_path}/" + p.Main}, args...)
	s.Lib, s.Packages = listDir(server), path.Join(listDir(server), listName)
}

// WorkDir is the directory that npm works in, in an otherwise empty one.
const WorkDir = "work"

// Resolving returns the item that makes the list of a package with npm: it runs no script of a package, and may reach
// the registry and write one directory.
func (p *Package) Resolving(registry, host string) []byte {
	args := []string{"install", "--package-lock-only", "--ignore-scripts", "--no-audit", "--no-fund", "--save-exact",
		"--lockfile-version=3"}
	if registry != "" {
		args = append(args, "--registry="+registry)
	}
	var text []byte
	for _, f := range []struct {
		name  string
		value any
	}{
		{"version", "1.0.0"}, {"tool_type", "program"}, {"executor_id", "rye/core/primitives/subprocess"},
		{"category", "npm"},
		{"description", "Lists what an npm package needs"}, {"risk", "write"},
	} {
		text = appendField(text, f.name, f.value)
	}
	g := Grants{Write: []string{WorkDir}, Network: []string{host}}
	text = g.append(text)
	return appendField(text, "config", map[string]any{"command": "npm", "args": append(args, p.String()),
		"cwd": "{project_path}/" + WorkDir, "timeout": 120.0})
}
