package recipe

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/semver"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/policy/glob"
	"github.com/rye-build/rye/manifest/policy/yamltree"
)

// File is the name of the file, in the directory that holds .ai.
const File = "bundle.yaml"

// maxEntries bounds every list, and so the time to match all globs against all files.
const maxEntries = 1000

// A Recipe is the parsed bundle.yaml. It is immutable and safe for concurrent use.
type Recipe struct {
	ID, Version          string
	Description, License string
	Entrypoint           string // a ref, or ""
	Expires              time.Time
	Include              []Pattern // empty: the items that the bundle's id names
	Exclude, Assets      []Glob
	Executable           []Glob
	AllowSecret          []Allowed
	Requires             []manifest.Require // in the order of the file
	Build                []Step             // in the order of the file
	Plugin               bool               // all files of a plugin, without bundle.yaml

	patterns []written // in the order of the file
}

// An Allowed is an entry of allow-secret: files that may contain apparent secrets.
type Allowed struct {
	Glob   Glob
	Reason string
}

// A Pattern includes files of .ai: those that a glob matches, or those of a kind's items whose refs a glob matches.
type Pattern struct {
	paths Glob
	kind  *model.Kind // of items, else nil
	refs  glob.Glob
}

// order is the order of the fields.
var order = []string{"id", "version", "description", "license", "entrypoint", "expires", "include", "exclude",
	"assets", "executable", "allow-secret", "requires",
	"build"}

//go:embed schema.json
var schema string

// Schema returns the JSON Schema of bundle.yaml, for editors. Parse refuses more than the schema does, which checks
// neither portable paths nor version ranges.
func Schema() string { return schema }

// New returns the recipe of a directory without bundle.yaml.
func New(id, version string) (*Recipe, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	if err := manifest.CheckVersion(version); err != nil {
		return nil, err
	}
	return &Recipe{ID: id, Version: version}, nil
}

// Library is the bundle in every rye. Other bundles may use it without requiring it.
const Library = "rye/std"

func checkID(id string) error {
	if id == Library {
		return fmt.Errorf("%q is reserved for rye's own library", Library)
	}
	return portable.CheckID(id)
}

// A Line is a field of bundle.yaml.
type Line struct {
	Name  string
	Value any
}

// Text returns the bytes of a directory's bundle.yaml, or fs.ErrNotExist.
func Text(dir string) ([]byte, error) { return osfile.ReadSmall(filepath.Join(dir, File), 1<<20) }

// Read reads the bundle.yaml of a directory. It returns nil if the file is missing.
func Read(dir string) (*Recipe, error) {
	text, err := Text(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r, err := Parse(text)
	if err != nil {
		e := fault.Of(err)
		e.Code = fault.Config
		return nil, e
	}
	return r, nil
}

// Parse reads the text of bundle.yaml.
func Parse(file []byte) (*Recipe, error) {
	tree, err := yamltree.Parse(file)
	r := new(Recipe)
	if err == nil {
		err = r.read(tree.Root)
	}
	if err != nil {
		if e, ok := err.(*yamltree.Error); ok {
			e.Family = File
		}
		return nil, err
	}
	return r, nil
}

func (r *Recipe) read(root *yamltree.Node) error {
	if err := root.Fields(order...); err != nil {
		return err
	}
	for _, read := range []func(*yamltree.Node) error{r.readHead, r.readText, r.readFiles, r.readSecrets,
		r.readRequires, r.readBuild} {
		if err := read(root); err != nil {
			return err
		}
	}
	return nil
}

func (r *Recipe) readHead(root *yamltree.Node) (err error) {
	for _, field := range []struct {
		name  string
		to    *string
		check func(string) error
	}{{"id", &r.ID, checkID}, {"version", &r.Version, manifest.CheckVersion}} {
		if root.Get(field.name) == nil {
			return root.Errorf("%q is missing", field.name)
		}
		if *field.to, err = root.TextOf(field.name); err != nil {
			return err
		}
		if err := field.check(*field.to); err != nil {
			return root.Get(field.name).Errorf("%v", err)
		}
	}
	if r.Entrypoint, err = root.TextOf("entrypoint"); err != nil {
		return err
	}
	if r.Entrypoint != "" {
		if _, err := model.ParseRef(r.Entrypoint); err != nil {
			return root.Get("entrypoint").Errorf("%v", err)
		}
	}
	r.Expires, err = root.Date("expires")
	return err
}

func (r *Recipe) readText(root *yamltree.Node) error {
	for _, field := range []struct {
		name string
		to   *string
	}{{"description", &r.Description}, {"license", &r.License}} {
		text, err := root.TextOf(field.name)
		switch {
		case err != nil:
			return err
		case strings.TrimSpace(text) != text:
			return root.Get(field.name).Errorf("%q begins or ends with a space", field.name)
		case strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) }):
			return root.Get(field.name).Errorf("%q contains invisible characters", field.name)
		}
		*field.to = text
	}
	return nil
}

func (r *Recipe) readFiles(root *yamltree.Node) error {
	err := eachText(root, "include", func(n *yamltree.Node, text string) error {
		p, err := parsePattern(text)
		if err != nil {
			return n.Errorf("%v", err)
		}
		r.Include = append(r.Include, p)
		r.wrote(n, "include", text, p.match)
		return nil
	})
	if err != nil {
		return err
	}
	for _, field := range []struct {
		name string
		to   *[]Glob
	}{{"exclude", &r.Exclude}, {"assets", &r.Assets}, {"executable", &r.Executable}} {
		err := eachText(root, field.name, func(n *yamltree.Node, text string) error {
			g, err := ParseGlob(text)
			if err == nil && field.name == "assets" && inAI(text) {
				err = fmt.Errorf("%+q is in .ai: list it under \"include\"", fault.Clip(text, 100))
			}
			if err != nil {
				return n.Errorf("%v", err)
			}
			*field.to = append(*field.to, g)
			r.wrote(n, field.name, text, g.Match)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// eachText calls read with each text of a list, and refuses duplicates.
func eachText(root *yamltree.Node, name string, read func(n *yamltree.Node, text string) error) error {
	list := root.Get(name)
	if list == nil {
		return nil
	}
	if list.Shape != yamltree.List {
		return list.Errorf("expected a list under %q", name)
	}
	if len(list.Kids) > maxEntries {
		return list.Errorf("%q has more than %d entries", name, maxEntries)
	}
	seen := make(map[string]bool, len(list.Kids))
	for _, n := range list.Kids {
		switch {
		case n.Text == "":
			return n.Errorf("expected a path")
		case seen[n.Text]:
			return n.Errorf("duplicate %+q", fault.Clip(n.Text, 100))
		}
		seen[n.Text] = true
		if err := read(n, n.Text); err != nil {
			return err
		}
	}
	return nil
}

// parsePattern parses an entry of include.
func parsePattern(text string) (Pattern, error) {
	if name, _, ok := strings.Cut(text, ":"); ok {
		kinds := model.Builtin()
		i := slices.IndexFunc(kinds, func(k *model.Kind) bool { return k.Name == name })
		if i < 0 {
			return Pattern{},
				fmt.Errorf("%+q is not of a built-in kind: expected a path such as \".ai/tools/acme/**\"",
					fault.Clip(text, 100))
		}
		g, err := glob.Parse(text)
		return Pattern{kind: kinds[i], refs: g}, err
	}
	glob, err := ParseGlob(text)
	switch {
	case err != nil:
		return Pattern{}, err
	case !inAI(text):
		return Pattern{},
			fmt.Errorf(
				"%+q is not in .ai: expected a path such as \".ai/tools/acme/**\"; list other files under \"assets\"",
				fault.Clip(text, 100))
	}
	first, _, _ := strings.Cut(text[len(".ai/"):], "/")
	if Never(first) {
		return Pattern{}, fmt.Errorf("%+q is never bundled", ".ai/"+first)
	}
	return Pattern{paths: glob}, nil
}

func inAI(path string) bool { return strings.HasPrefix(path, ".ai/") }

// Never reports whether a name directly in .ai is never part of a bundle.
func Never(name string) bool {
	switch portable.Fold(name) {
	case "auth", "bundles", "cache", "keys", "lockfiles", "logs", "outputs", "parsers", "policy.yaml",
		"installed.yaml", "logs.policy", "signers.yaml", "threads", "trusted_keys", "vendor":
		return true
	}
	return false
}

func (r *Recipe) readSecrets(root *yamltree.Node) error {
	return eachEntry(root, "allow-secret", "a reason", "testdata/key.pem: why it may be there",
		func(n *yamltree.Node) error {
			g, err := ParseGlob(n.Key)
			if err != nil {
				return n.Errorf("%v", err)
			}
			r.AllowSecret = append(r.AllowSecret, Allowed{g, n.Text})
			r.wrote(n, "allow-secret", n.Key, g.Match)
			return nil
		})
}

func (r *Recipe) readRequires(root *yamltree.Node) error {
	return eachEntry(root, "requires", "a range of versions", `acme/base: "^2.0"`, func(n *yamltree.Node) error {
		if err := portable.CheckID(n.Key); err != nil {
			return n.Errorf("%v", err)
		}
		switch n.Key {
		case r.ID:
			return n.Errorf("%q requires itself", r.ID)
		case Library:
			return n.Errorf("%q is part of rye: remove it from \"requires\"", Library)
		}
		if _, err := semver.Parse(n.Text); err != nil {
			return n.Errorf("%v", err)
		}
		r.Requires = append(r.Requires, manifest.Require{BundleID: n.Key, Version: n.Text})
		return nil
	})
}

// eachEntry calls read with each entry of a mapping of texts.
func eachEntry(root *yamltree.Node, name, what, example string, read func(*yamltree.Node) error) error {
	m := root.Get(name)
	if m == nil {
		return nil
	}
	if m.Shape != yamltree.Mapping {
		return m.Errorf("expected entries under %q, as in %s", name, example)
	}
	if len(m.Kids) > maxEntries {
		return m.Errorf("%q has more than %d entries", name, maxEntries)
	}
	for _, n := range m.Kids {
		if n.Shape != yamltree.Scalar || n.Text == "" {
			return n.Errorf("expected %s after %+q", what, fault.Clip(n.Key, 100))
		}
		if err := read(n); err != nil {
			return err
		}
	}
	return nil
}
