package project

import (
	_ "embed"
	"errors"
	"fmt"
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

// The keys of the file and of a requirement, in the order in which a new one finds its place.
var (
	order       = []string{"name", "version", "rye", "requires", "packages", "roots"}
	requireKeys = []string{"version", "from", "index"}
)

//go:embed schema.json
var schema string

// Schema returns the JSON Schema of rye.yaml, for editors. What it accepts may still be refused: it knows neither
// ranges nor portable paths.
func Schema() string { return schema }

// A Project is a rye.yaml that has been read: immutable, and safe for use by many goroutines.
type Project struct {
	Name     string // may be empty, like the next two
	Version  string
	Rye      string // the oldest rye that may work on it
	Requires []Requirement
	Packages Registries
	Roots    []Root // empty: all items of the project

	tree    yamltree.Tree
	running string
}

// Registries say where packages of others come from: an address or a directory. Empty is the public one.
type Registries struct{ NPM, PyPI Source }

// A Requirement is a bundle that the project uses.
type Requirement struct {
	ID     string
	Text   string // the range as it is written
	Range  semver.Range
	Source Source
}

// NewRequirement returns the requirement that says so.
func NewRequirement(id, versions string, source Source) (Requirement, error) {
	r := Requirement{ID: id, Text: versions, Source: source}
	if id == std {
		return r, fmt.Errorf("%q is part of rye and cannot be required", std)
	}
	if err := portable.CheckID(id); err != nil {
		return r, err
	}
	var err error
	if r.Range, err = semver.Parse(versions); err != nil {
		return r, err
	}
	if r.Range.Empty() {
		return r, fmt.Errorf("no version can match the range %q", versions)
	}
	return r, nil
}

// A Root is an item, or many by a glob, that is to be locked.
type Root struct {
	Text         string
	One          bool // it names one item: there must be one
	Line, Column int  // where it stands

	glob glob.Glob
}

// Match reports whether the root is this item or covers it.
func (r *Root) Match(ref model.Ref) bool { return r.glob.Match(glob.Name{Kind: ref.Kind, ID: ref.ID}) }

// A NewerError is a project that requires a newer rye.
type NewerError struct{ Want, Have string }

func (e *NewerError) Error() string {
	return fmt.Sprintf("%s: requires rye %s or newer, this is %s", family, e.Want, e.Have)
}

// Parse reads a rye.yaml. running is the version of rye that reads it; what is no version, as that of a rye that is
// no release, is new enough for every project.
func Parse(b []byte, running string) (*Project, error) {
	t, err := yamltree.Parse(b)
	p := &Project{tree: t, running: running}
	if err == nil {
		err = p.read()
	}
	if err != nil {
		var where *yamltree.Error
		if errors.As(err, &where) {
			where.Family = family
		}
		return nil, err
	}
	return p, nil
}

// Format returns the file in the layout of package yamltree, comments kept.
func (p *Project) Format() []byte { return p.tree.Format() }

// Requirement returns what the project says of a bundle.
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
	// First of all: words that are unknown here may be known to the rye that is asked for.
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
		return section.Errorf("expected entries under %q, as in acme/base: {version: \"^2.1\", from: \"../base\"}", section.Key)
	}
	if len(section.Kids) > maxRequires {
		return section.Errorf("more than %d requirements", maxRequires)
	}
	folded := make(map[string]string, len(section.Kids))
	for _, n := range section.Kids {
		r, err := readRequirement(n)
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
		return section.Errorf("expected an address or directory for each registry under %q, as in npm: \"https://npm.acme.example\"", section.Key)
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
		if *to, err = ParseSource(text, true); err == nil && to.Remote() && strings.Contains(text, "?") {
			err = badSource(text, "the address of a registry must not contain a query")
		}
		if err != nil {
			return section.Get(field).Errorf("%s", err)
		}
	}
	return nil
}

func readRequirement(n *yamltree.Node) (Requirement, error) {
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
	if (from == "") == (index == "") {
		return Requirement{}, n.Errorf("%q needs exactly one source: from or index", n.Key)
	}
	field := "from"
	if index != "" {
		field = "index"
	}
	source, err := ParseSource(from+index, index != "")
	if err != nil {
		return fail(n.Get(field), err)
	}
	r, err := NewRequirement(n.Key, versions, source)
	switch {
	case err == nil:
		return r, nil
	case n.Key == std:
		return fail(n, err)
	}
	return fail(n.Get("version"), err)
}

func (p *Project) readRoots(section *yamltree.Node) error {
	words, err := section.ItemWords()
	switch {
	case err != nil:
		return err
	case len(words) == 0:
		return section.Errorf("%q is empty: leave it out to lock all items of the project", section.Key)
	case len(words) > maxRoots:
		return section.Errorf("more than %d roots", maxRoots)
	}
	for i, w := range words {
		g, err := glob.Parse(w)
		if err != nil {
			return section.Kids[i].Errorf("%s", err)
		}
		r := Root{Text: w, glob: g}
		if at, ok := errors.AsType[*yamltree.Error](section.Kids[i].Errorf("here")); ok {
			r.Line, r.Column = at.Line, at.Column
		}
		if kind, _, ok := strings.Cut(w, ":"); ok {
			if err := model.CheckKind(kind); err != nil {
				return section.Kids[i].Errorf("%s", err)
			}
			r.One = !strings.Contains(w, "*")
		}
		p.Roots = append(p.Roots, r)
	}
	return nil
}
