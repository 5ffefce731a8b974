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

// Name is what the file is called.
const Name = "rye.lock"

// The limits of a lock.
const (
	MaxBytes   = 128 << 20
	MaxEntries = 1 << 18
)

// The labels of spaces that a pin can be from; those of bundles are System and the bundle's id.
const (
	FromProject = "project"
	FromUser    = "user"
	System      = "system:"
	FromStd     = System + "rye/std"
)

// A Lock is what the file says. The lists that Parse returns are sorted by what names their entries; Append takes
// them in any order. A Lock is safe for use by many goroutines as long as it isn't changed.
type Lock struct {
	Requires    []project.Requirement
	Bundles     []Bundle
	Pins        []Pin
	Toolchain   []Program
	Artifacts   []Artifact
	Definitions []Definition
}

// A Bundle is the one version of a bundle that is used.
type Bundle struct {
	ID       string
	Version  string
	Manifest cas.Digest // the id of its manifest
	Source   project.Source
}

// A Pin is the one state of an item that is used.
type Pin struct {
	Ref     model.Ref
	Version string // may be empty
	Digest  cas.Digest
	Tree    cas.Digest // zero for an item of one file
	From    string     // the label of its space
	// in its space, like Size and Mode for what is from the project or the user: of those no manifest tells
	Path string
	Size int64
	Mode cas.Mode
	// the tree of all files of the tool's directory by their paths in the space; where there is Path and Tree
	Files     cas.Digest
	Signers   []key.Fingerprint
	Format    sign.Format // of their signatures; sign.None without signers
	Interface cas.Digest  // zero where there is none, like Grants
	Grants    cas.Digest
}

// A Program is one of the toolchain on one platform. Where one name stands for several there, as two versions of an
// interpreter, each has ":" and the beginning of its digest behind the name.
type Program struct {
	Name     string
	Platform string // as in linux/amd64
	Version  string
	Digest   cas.Digest
}

// An Artifact is a file of a package from a registry such as PyPI or npm.
type Artifact struct {
	Name    string // as in pypi:requests
	Version string // with ":" and the rest of a wheel's name behind it
	Digest  cas.Digest
	Source  string // the registry's own digest, as in sha256:7075…
	Size    int64
}

// A Definition is the digest of a tool definition or of merged config.
type Definition struct {
	Name   string
	Digest cas.Digest
}

func (p Program) name() string  { return p.Name + " " + p.Platform }
func (a Artifact) name() string { return a.Name + "@" + a.Version }

// String returns what the lock calls the artifact: "pypi:requests@2.32.3:py3-none-any".
func (a Artifact) String() string { return a.name() }

// Tags returns what stands behind the version in the name of a wheel, "py3-none-any", and the version without it. Of
// others there is none.
func (a Artifact) Tags() (version, tags string) {
	version, tags, _ = strings.Cut(a.Version, ":")
	return version, tags
}

// Pin returns the pin of an item, nil if there is none. The pins must be sorted.
func (l *Lock) Pin(ref model.Ref) *Pin {
	i, found := slices.BinarySearchFunc(l.Pins, ref, func(p Pin, ref model.Ref) int { return CompareRefs(p.Ref, ref) })
	if !found {
		return nil
	}
	return &l.Pins[i]
}

// Bundle returns what is said of a bundle, nil if nothing is. The bundles must be sorted.
func (l *Lock) Bundle(id string) *Bundle {
	i, found := slices.BinarySearchFunc(l.Bundles, id, func(b Bundle, id string) int {
		return strings.Compare(b.ID, id)
	})
	if !found {
		return nil
	}
	return &l.Bundles[i]
}

// ArtifactsOf returns the artifacts of one version of a package, as in "pypi:requests" and "2.32.3". They must be
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

// The orders of the sections: that of the bytes of the names.

func compareRequirements(a, b project.Requirement) int { return strings.Compare(a.ID, b.ID) }

func compareBundles(a, b Bundle) int { return strings.Compare(a.ID, b.ID) }

func comparePins(a, b Pin) int { return CompareRefs(a.Ref, b.Ref) }

func comparePrograms(a, b Program) int { return strings.Compare(a.name(), b.name()) }

func compareArtifacts(a, b Artifact) int { return strings.Compare(a.name(), b.name()) }

func compareDefinitions(a, b Definition) int { return strings.Compare(a.Name, b.Name) }

// CompareRefs orders refs as their texts are ordered: the colon stands behind everything that a kind may have but
// letters.
func CompareRefs(a, b model.Ref) int {
	if a.Kind == b.Kind {
		return strings.Compare(a.ID, b.ID)
	}
	return strings.Compare(a.Kind+":", b.Kind+":")
}

// An Error is an invalid entry in a lock that is otherwise a canonical document.
type Error struct {
	Line int // 0 when the file as a whole is meant
	Err  error
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return "lock: " + e.Err.Error()
	}
	return fmt.Sprintf("lock: line %d: %v", e.Line, e.Err)
}

// Unwrap returns what is wrong.
func (e *Error) Unwrap() error { return e.Err }

// Fault implements the interface of package fault.
func (e *Error) Fault() *fault.Error {
	f := fault.New(fault.LockMismatch, "%v", e).From(e).Try("rye lock --resolve")
	if e.Line > 0 {
		f.On("line", e.Line)
	}
	return f
}

// lockSpec is the document of the package comment.
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
	maxName    = 200 // of what others call something
)

// Indexes into lockSpec.
const (
	inRequires, inBundles, inPins, inToolchain, inArtifacts, inDefinitions, inEnd = 0, 1, 2, 3, 4, 5, 6

	requireVersion, requireFrom, requireIndex              = 0, 1, 2
	bundleVersion, bundleManifest, bundleFrom, bundleIndex = 0, 1, 2, 3
	pinVersion, pinDigest, pinTree, pinFrom                = 0, 1, 2, 3
	pinPath, pinSize, pinMode, pinFiles                    = 4, 5, 6, 7
	pinSigners, pinFormat, pinInterface, pinGrants         = 8, 9, 10, 11
	toolVersion, toolDigest                                = 0, 1
	artifactDigest, artifactSource, artifactSize           = 0, 1, 2
	definitionDigest                                       = 0
)
