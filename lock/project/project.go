package project

import (
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/semver"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/policy/glob"
	"github.com/rye-build/rye/manifest/policy/yamltree"
)

const (
	family = "rye.yaml"
	std    = "rye/std"

	maxRequires = 1000
	maxRoots    = 1000
)

// The keys of the file and of a requirement, in the order in which new ones are inserted.
var (
	order       = []string{"name", "version", "rye", "registries", "search", "requires", "packages", "roots"}
	requireKeys = []string{"version", "from", "index", "use", "allow"}
)

//go:embed schema.json
var schema string

// Schema returns the JSON Schema of rye.yaml, for editors. It accepts more than Parse, because it can't check ranges
// and portable paths.
func Schema() string { return schema }

// A Project is a parsed rye.yaml: immutable, and safe for concurrent use.
type Project struct {
	Name       string // may be empty, like the next two
	Version    string
	Rye        string // the oldest rye that may use it
	Registries []Registry
	Searched   bool // agents' searches ask the registries, too
	Requires   []Requirement
	Packages   Registries
	Roots      []Root // empty: all items of the project

	tree    yamltree.Tree
	running string
}

// Registries are the package registries: addresses or directories. Empty means the public registry.
type Registries struct{ NPM, PyPI Source }

// A Requirement is a bundle that the project uses.
type Requirement struct {
	ID     string
	Text   string // the range as written
	Range  semver.Range
	Source Source
	Use    []Root              // the bundle's items that are roots of the project; all of them by default
	Allow  map[string][]string // rights of a plugin's servers, by the last segments of their ids; see Secret
}

// NewRequirement returns a requirement of a bundle whose items are all roots.
func NewRequirement(id, versions string, source Source) (Requirement, error) {
	requirement := Requirement{ID: id, Text: versions, Source: source,
		Use: []Root{{Text: id, From: bundleSpace + id, glob: everything}}}
	if id == std {
		return requirement, fmt.Errorf("%q is part of rye and cannot be required", std)
	}
	if err := portable.CheckID(id); err != nil {
		return requirement, err
	}
	var err error
	if requirement.Range, err = semver.Parse(versions); err != nil {
		return requirement, err
	}
	if requirement.Range.Empty() {
		return requirement, fmt.Errorf("no version can match the range %q", versions)
	}
	return requirement, nil
}

// A Root is an item to lock, or a glob of items.
type Root struct {
	Text         string
	One          bool   // names one item, which must exist
	From         string // the label of the space to look in; empty for all spaces
	Line, Column int    // its place in the file; 0 if the file doesn't have it

	glob glob.Glob
}

// Own is the root that covers all items of the project.
const Own = "."

// The labels of spaces, as package lock/file has them.
const (
	ownSpace    = "project"
	bundleSpace = "system:"
)

var everything, _ = glob.Parse("**")

// Match reports whether the root covers an item in a space.
func (r *Root) Match(ref model.Ref, from string) bool {
	return (r.From == "" || r.From == from) && r.glob.Match(glob.Name{Kind: ref.Kind, ID: ref.ID})
}

// AllRoots returns the roots of the project and of the bundles that it requires directly. Without requirements it
// returns Roots, where an empty list means all items of the project.
func (p *Project) AllRoots() []Root {
	if len(p.Requires) == 0 {
		return p.Roots
	}
	all := slices.Clone(p.Roots)
	if len(all) == 0 {
		all = append(all, Root{Text: Own, From: ownSpace, glob: everything})
	}
	for _, r := range p.Requires {
		all = append(all, r.Use...)
	}
	return all
}

// A NewerError is a project that requires a newer rye.
type NewerError struct{ Want, Have string }

func (e *NewerError) Error() string {
	return fmt.Sprintf("%s: requires rye %s or newer, this is %s", family, e.Want, e.Have)
}

// Parse reads a rye.yaml. running is the version of the running rye; a text that isn't a version, as in a development
// build, is new enough for every project.
func Parse(b []byte, running string) (*Project, error) {
	t, err := yamltree.Parse(b)
	project := &Project{tree: t, running: running}
	if err == nil {
		err = project.read()
	}
	if err != nil {
		var where *yamltree.Error
		if errors.As(err, &where) {
			where.Family = family
		}
		return nil, err
	}
	return project, nil
}

// Format returns the file in the layout of package yamltree, comments kept.
func (p *Project) Format() []byte { return p.tree.Format() }

// Requirement returns the project's requirement of a bundle.
func (p *Project) Requirement(id string) (Requirement, bool) {
	for _, r := range p.Requires {
		if r.ID == id {
			return r, true
		}
	}
	return Requirement{}, false
}

func (p *Project) read() (err error) {
	root := p.tree.Root
	// This comes first: a newer rye may know words that are unknown here.
	if p.Rye, err = readVersion(root, "rye"); err != nil {
		return err
	}
	if p.Rye != "" && manifest.CheckVersion(p.running) == nil && manifest.CompareVersions(p.running, p.Rye) < 0 {
		return &NewerError{p.Rye, p.running}
	}
	if err := root.Fields(order...); err != nil {
		return err
	}
	if p.Name, err = root.TextOf("name"); err != nil {
		return err
	}
	if p.Name != "" {
		if err := portable.CheckID(p.Name); err != nil {
			return root.Get("name").Errorf("%s", err)
		}
	}
	if p.Version, err = readVersion(root, "version"); err != nil {
		return err
	}
	if n := root.Get("registries"); n != nil { // before the requirements, which may need one
		if err := p.readBundleRegistries(n); err != nil {
			return err
		}
	}
	if n := root.Get("search"); n != nil {
		if p.Searched = n.Text == "registries"; !p.Searched {
			return n.Errorf("search: expected registries, which lets agents search the registries of this file")
		}
	}
	if n := root.Get("requires"); n != nil {
		if err := p.readRequires(n); err != nil {
			return err
		}
	}
	if n := root.Get("packages"); n != nil {
		if err := p.readRegistries(n); err != nil {
			return err
		}
	}
	if n := root.Get("roots"); n != nil {
		return p.readRoots(n)
	}
	return nil
}

func readVersion(n *yamltree.Node, field string) (string, error) {
	text, err := n.TextOf(field)
	if err != nil || text == "" {
		return "", err
	}
	if err := manifest.CheckVersion(text); err != nil {
		return "", n.Get(field).Errorf("%s", err)
	}
	return text, nil
}

func (p *Project) readRequires(section *yamltree.Node) error {
	if section.Shape != yamltree.Mapping {
		return section.Errorf("expected entries under %q, as in acme/base: {version: \"^2.1\", from: \"../base\"}",
			section.Key)
	}
	if len(section.Kids) > maxRequires {
		return section.Errorf("more than %d requirements", maxRequires)
	}
	folded := make(map[string]string, len(section.Kids))
	for _, n := range section.Kids {
		r, err := p.readRequirement(n)
		if err != nil {
			return err
		}
		fold := portable.Fold(r.ID)
		if twin, ok := folded[fold]; ok {
			return n.Errorf("%q and %q differ only in case", r.ID, twin)
		}
		folded[fold] = r.ID
		p.Requires = append(p.Requires, r)
	}
	return nil
}

func (p *Project) readRegistries(section *yamltree.Node) error {
	if section.Shape != yamltree.Mapping {
		return section.Errorf(
			"expected an address or directory for each registry under %q, as in npm: \"https://npm.acme.example\"",
			section.Key)
	}
	if err := section.Fields("npm", "pypi"); err != nil {
		return err
	}
	for field, to := range map[string]*Source{"npm": &p.Packages.NPM, "pypi": &p.Packages.PyPI} {
		text, err := section.TextOf(field)
		if err != nil {
			return err
		}
		if section.Get(field) == nil {
			continue
		}
		*to, err = ParseSource(text, true)
		switch u, _ := url.Parse(text); {
		case err != nil || !to.Remote():
		case strings.Contains(text, "?"):
			err = badSource(text, "the address of a registry must not contain a query")
		case u.Scheme == "http" && !loopback(u.Hostname()): // registries sign nothing
			err = badSource(text, "expected an https address or a path")
		}
		if err != nil {
			return section.Get(field).Errorf("%s", err)
		}
	}
	return nil
}

func (p *Project) readRequirement(n *yamltree.Node) (Requirement, error) {
	fail := func(n *yamltree.Node, err error) (Requirement, error) { return Requirement{}, n.Errorf("%s", err) }
	if err := portable.CheckID(n.Key); err != nil {
		return fail(n, err)
	}
	if n.Shape != yamltree.Mapping {
		return Requirement{}, n.Errorf("expected a range and a source, as in {version: \"^2.1\", from: \"../base\"}")
	}
	if err := n.Fields(requireKeys...); err != nil {
		return Requirement{}, err
	}
	versions, err := n.Need("version")
	if err != nil {
		return Requirement{}, err
	}
	from, err := n.TextOf("from")
	if err != nil {
		return Requirement{}, err
	}
	index, err := n.TextOf("index")
	if err != nil {
		return Requirement{}, err
	}
	if from != "" && index != "" {
		return Requirement{}, n.Errorf("%q needs exactly one source: from or index", n.Key)
	}
	field := "from"
	if index != "" {
		field = "index"
	}
	var source Source
	if from+index == "" {
		if source, err = p.registryOf(n.Key); err != nil {
			return fail(n, err)
		}
	} else if source, err = ParseSource(from+index, index != ""); err != nil {
		return fail(n.Get(field), err)
	}
	if _, ok := source.Registry(); ok && from != "" {
		return Requirement{}, n.Get(field).Errorf("a registry stands under registries, and not in from")
	}
	r, err := NewRequirement(n.Key, versions, source)
	switch {
	case err != nil && n.Key == std:
		return fail(n, err)
	case err != nil:
		return fail(n.Get("version"), err)
	}
	if use := n.Get("use"); use != nil {
		if r.Use, err = readGlobs(use, bundleSpace+r.ID); err != nil {
			return r, err
		}
	}
	if allow := n.Get("allow"); allow != nil {
		r.Allow, err = readAllow(allow)
	}
	return r, err
}

func (p *Project) readRoots(section *yamltree.Node) error {
	roots, err := readGlobs(section, "")
	if err == nil && len(roots) == 0 {
		err = section.Errorf("%q is empty: leave it out to lock all items of the project", section.Key)
	}
	p.Roots = roots
	return err
}

// readGlobs reads refs and globs of the items in a space; "" means all spaces.
func readGlobs(section *yamltree.Node, from string) ([]Root, error) {
	words, err := section.ItemWords()
	if err == nil && len(words) > maxRoots {
		err = section.Errorf("more than %d roots", maxRoots)
	}
	if err != nil {
		return nil, err
	}
	roots := make([]Root, 0, len(words))
	for i, word := range words {
		root := Root{Text: word, From: from, glob: everything}
		if word == Own && from == "" {
			root.From = ownSpace
		} else if root.glob, err = glob.Parse(word); err != nil {
			return nil, section.Kids[i].Errorf("%s", err)
		}
		if at, ok := errors.AsType[*yamltree.Error](section.Kids[i].Errorf("here")); ok {
			root.Line, root.Column = at.Line, at.Column
		}
		if kind, _, ok := strings.Cut(word, ":"); ok {
			if err := model.CheckKind(kind); err != nil {
				return nil, section.Kids[i].Errorf("%s", err)
			}
			root.One = !strings.Contains(word, "*")
		}
		roots = append(roots, root)
	}
	return roots, nil
}
