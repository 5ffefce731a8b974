package file

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/canon"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/sign"
)

// Name is the name of the file.
const Name = "rye.lock"

// The limits of a lock.
const (
	MaxBytes   = 128 << 20
	MaxEntries = 1 << 18
)

// The labels of the spaces of pins; a bundle's is System and its id.
const (
	FromProject = "project"
	FromUser    = "user"
	System      = "system:"
	FromStd     = System + "rye/std"
)

// A Lock is the content of the file. Parse returns sorted lists; Append takes them in any order. A Lock is safe for
// concurrent use while it isn't changed.
type Lock struct {
	Requires    []project.Requirement
	Bundles     []Bundle
	Pins        []Pin
	Toolchain   []Program
	Artifacts   []Artifact
	Definitions []Definition
}

// A Bundle is a bundle in its locked version.
type Bundle struct {
	ID       string
	Version  string
	Manifest cas.Digest // the id of its manifest
	Source   project.Source
	Log      string // of a bundle from a registry: the origin of its log, and the number of its entry there
	Leaf     int64
}

// A Pin is an item in its locked state.
type Pin struct {
	Ref     model.Ref
	Version string // may be empty
	Digest  cas.Digest
	Tree    cas.Digest // zero for an item of one file
	From    string     // the label of its space
	// in its space; like Size and Mode only for items from the project or the user, which no manifest lists
	Path string
	Size int64
	Mode cas.Mode
	// the tree of all files of the tool's directory by their paths in the space; set if Path and Tree are
	Files     cas.Digest
	Signers   []key.Fingerprint
	Format    sign.Format // of their signatures; sign.None without signers
	Interface cas.Digest  // zero without one, like Grants
	Grants    cas.Digest
}

// A Program is a program of the toolchain on one platform. If several have one name there, such as two versions of an
// interpreter, each has ":" and the beginning of its digest appended.
type Program struct {
	Name     string
	Platform string // such as linux/amd64
	Version  string
	Digest   cas.Digest
}

// An Artifact is a file of a package from a registry such as PyPI or npm.
type Artifact struct {
	Name    string // such as pypi:requests
	Version string // with ":" and the rest of a wheel's name appended
	Digest  cas.Digest
	Source  string // the registry's own digest, such as sha256:7075…
	Size    int64
}

// A Definition is the digest of a tool definition or of merged config.
type Definition struct {
	Name   string
	Digest cas.Digest
}

func (p Program) name() string  { return p.Name + " " + p.Platform }
func (a Artifact) name() string { return a.Name + "@" + a.Version }

// String returns the artifact's name in the lock: "pypi:requests@2.32.3:py3-none-any".
func (a Artifact) String() string { return a.name() }

// Tags returns the version, and the part of a wheel's name behind it, such as "py3-none-any". Other artifacts have no
// tags.
func (a Artifact) Tags() (version, tags string) {
	version, tags, _ = strings.Cut(a.Version, ":")
	return version, tags
}

// Pin returns the pin of an item, or nil. The pins must be sorted.
func (l *Lock) Pin(ref model.Ref) *Pin {
	i, found := slices.BinarySearchFunc(l.Pins, ref, func(p Pin, ref model.Ref) int { return CompareRefs(p.Ref, ref) })
	if !found {
		return nil
	}
	return &l.Pins[i]
}

// Named returns the ref of the pin that a ref names, or an id that only one kind has.
func (l *Lock) Named(name string) (ref model.Ref, ok bool) {
	if ref, err := model.ParseRef(name); err == nil {
		return ref, l.Pin(ref) != nil
	}
	for i := range l.Pins {
		if l.Pins[i].Ref.ID == name {
			if ok {
				return model.Ref{}, false
			}
			ref, ok = l.Pins[i].Ref, true
		}
	}
	return ref, ok
}

// Bundle returns the entry of a bundle, or nil. The bundles must be sorted.
func (l *Lock) Bundle(id string) *Bundle {
	i, found := slices.BinarySearchFunc(l.Bundles, id, func(b Bundle, id string) int {
		return strings.Compare(b.ID, id)
	})
	if !found {
		return nil
	}
	return &l.Bundles[i]
}

// ArtifactsOf returns the artifacts of one version of a package, such as "pypi:requests" and "2.32.3". They must be
// sorted.
func (l *Lock) ArtifactsOf(name, version string) []Artifact {
	begin, _ := slices.BinarySearchFunc(l.Artifacts, name+"@"+version, func(a Artifact, text string) int {
		return strings.Compare(a.name(), text)
	})
	var out []Artifact
	for _, a := range l.Artifacts[begin:] {
		if !strings.HasPrefix(a.name(), name+"@"+version) {
			break
		}
		if of, _ := a.Tags(); a.Name == name && of == version {
			out = append(out, a)
		}
	}
	return out
}

// The order of each section: by the bytes of the names.

func compareRequirements(a, b project.Requirement) int { return strings.Compare(a.ID, b.ID) }

func compareBundles(a, b Bundle) int { return strings.Compare(a.ID, b.ID) }

func comparePins(a, b Pin) int { return CompareRefs(a.Ref, b.Ref) }

func comparePrograms(a, b Program) int { return strings.Compare(a.name(), b.name()) }

func compareArtifacts(a, b Artifact) int { return strings.Compare(a.name(), b.name()) }

func compareDefinitions(a, b Definition) int { return strings.Compare(a.Name, b.Name) }

// CompareRefs orders refs like their texts. In a text a colon ends the kind, and it sorts after all characters of a
// kind except letters.
func CompareRefs(a, b model.Ref) int {
	if a.Kind == b.Kind {
		return strings.Compare(a.ID, b.ID)
	}
	return strings.Compare(a.Kind+":", b.Kind+":")
}

// An Error is an invalid entry in a lock that is a canonical document otherwise.
type Error struct {
	Line int // 0 for the whole file
	Err  error
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return "lock: " + e.Err.Error()
	}
	return fmt.Sprintf("lock: line %d: %v", e.Line, e.Err)
}

// Unwrap returns the underlying error.
func (e *Error) Unwrap() error { return e.Err }

// Fault implements the interface of package fault.
func (e *Error) Fault() *fault.Error {
	f := fault.New(fault.LockMismatch, "%v", e).From(e).Try("rye lock --resolve")
	if e.Line > 0 {
		f.On("line", e.Line)
	}
	return f
}

// lockSpec is the document described in the package comment.
var lockSpec = canon.Spec{
	Format: "lock/2",
	Sections: []canon.Section{
		{Name: "requires", Fields: []canon.Field{
			{Name: "version"},
			{Name: "from", Optional: true},
			{Name: "index", Optional: true},
		}},
		{Name: "bundles", Fields: []canon.Field{
			{Name: "version", Max: maxVersion},
			{Name: "manifest", Max: maxDigest},
			{Name: "from", Optional: true},
			{Name: "index", Optional: true},
			{Name: "log", Optional: true},
			{Name: "leaf", Type: canon.Int, Optional: true},
		}},
		{Name: "pins", Fields: []canon.Field{
			{Name: "version", Optional: true, Max: maxVersion},
			{Name: "digest", Max: maxDigest},
			{Name: "tree", Optional: true, Max: maxDigest},
			{Name: "from", Max: int64(len(System)) + portable.MaxID},
			{Name: "path", Optional: true, Max: portable.MaxPath},
			{Name: "size", Type: canon.Int, Optional: true},
			{Name: "mode", Optional: true, Max: 4},
			{Name: "files", Optional: true, Max: maxDigest},
			{Name: "signers", Type: canon.Strings, Optional: true, Max: maxSigners},
			{Name: "format", Optional: true, Max: 2},
			{Name: "interface", Optional: true, Max: maxDigest},
			{Name: "grants", Optional: true, Max: maxDigest},
		}},
		{Name: "toolchain", Fields: []canon.Field{{Name: "version", Max: maxVersion},
			{Name: "digest", Max: maxDigest}}},
		{Name: "artifacts", Fields: []canon.Field{{Name: "digest", Max: maxDigest}, {Name: "source", Max: 200},
			{Name: "size", Type: canon.Int}}},
		{Name: "definitions", Fields: []canon.Field{{Name: "digest", Max: maxDigest}}},
		{Name: "end"},
	},
	MaxBytes:   MaxBytes,
	MaxEntries: MaxEntries,
}

const (
	maxVersion = 100
	maxDigest  = 71
	maxSigners = 16
	maxName    = 200 // of a name from elsewhere
)

// Indexes into lockSpec.
const (
	inRequires, inBundles, inPins, inToolchain, inArtifacts, inDefinitions, inEnd = 0, 1, 2, 3, 4, 5, 6

	requireVersion, requireFrom, requireIndex              = 0, 1, 2
	bundleVersion, bundleManifest, bundleFrom, bundleIndex = 0, 1, 2, 3
	bundleLog, bundleLeaf                                  = 4, 5
	pinVersion, pinDigest, pinTree, pinFrom                = 0, 1, 2, 3
	pinPath, pinSize, pinMode, pinFiles                    = 4, 5, 6, 7
	pinSigners, pinFormat, pinInterface, pinGrants         = 8, 9, 10, 11
	toolVersion, toolDigest                                = 0, 1
	artifactDigest, artifactSource, artifactSize           = 0, 1, 2
	definitionDigest                                       = 0
)
