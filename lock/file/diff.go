package file

import (
	"fmt"
	"slices"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/sign"
)

// A Kind is the way in which an entry changed.
type Kind string

// The kinds of changes. A replaced entry has other bytes under the same version.
const (
	RequirementAdded   Kind = "requirement_added"
	RequirementRemoved Kind = "requirement_removed"
	RequirementChanged Kind = "requirement_changed" // the range
	SourceChanged      Kind = "source_changed"      // of a requirement, a bundle, or both
	RevisionChanged    Kind = "revision_changed"    // the same, within one repository
	BundleAdded        Kind = "bundle_added"
	BundleRemoved      Kind = "bundle_removed"
	BundleUpgraded     Kind = "bundle_upgraded"
	BundleDowngraded   Kind = "bundle_downgraded"
	BundleReplaced     Kind = "bundle_replaced"
	PinAdded           Kind = "pin_added"
	PinRemoved         Kind = "pin_removed"
	PinChanged         Kind = "pin_changed" // the version, the bytes, or those of the tool's other files
	PinMoved           Kind = "pin_moved"   // to another space or bundle
	PinRenamed         Kind = "pin_renamed" // the file has another name in the same space
	SignerAdded        Kind = "signer_added"
	SignerRemoved      Kind = "signer_removed"
	FormatLowered      Kind = "format_lowered"
	FormatRaised       Kind = "format_raised"
	InterfaceChanged   Kind = "interface_changed"
	GrantsChanged      Kind = "grants_changed"
	ToolchainAdded     Kind = "toolchain_added"
	ToolchainRemoved   Kind = "toolchain_removed"
	ToolchainChanged   Kind = "toolchain_changed" // to another version
	ToolchainReplaced  Kind = "toolchain_replaced"
	ArtifactAdded      Kind = "artifact_added"
	ArtifactRemoved    Kind = "artifact_removed"
	ArtifactReplaced   Kind = "artifact_replaced"
	DefinitionAdded    Kind = "definition_added"
	DefinitionRemoved  Kind = "definition_removed"
	DefinitionChanged  Kind = "definition_changed"
)

// A Change is one difference between two locks.
type Change struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name"`           // the id of a bundle, a ref, or what else the entry is called
	From string `json:"from,omitempty"` // what it was; for a signer, who it is
	To   string `json:"to,omitempty"`
}

// Diff returns the changes from a to b, sorted by section and name. Locks without a change are the same file. Both
// must be sorted, as Parse returns them. A missing lock counts as empty.
func Diff(a, b *Lock) []Change {
	var d differ
	d.requires(a, b)
	walk(a.Bundles, b.Bundles, compareBundles, d.bundle)
	walk(a.Pins, b.Pins, comparePins, d.pin)
	walk(a.Toolchain, b.Toolchain, comparePrograms, d.program)
	walk(a.Artifacts, b.Artifacts, compareArtifacts, d.artifact)
	walk(a.Definitions, b.Definitions, compareDefinitions, d.definition)
	return d.changes
}

// Weakens reports whether the change checks less than before, or trusts others: other signers, an older format, other
// grants, another origin, other bytes under an old version. Additional signers weaken nothing. Other grants count as
// weaker, because a hash can't show whether they are wider.
func (c Change) Weakens() bool {
	switch c.Kind {
	case SourceChanged, PinMoved, SignerRemoved, FormatLowered, GrantsChanged, BundleReplaced, ToolchainReplaced,
		ArtifactReplaced:
		return true
	}
	return false
}

// Weakening returns those changes that weaken.
func Weakening(changes []Change) []Change {
	var out []Change
	for _, c := range changes {
		if c.Weakens() {
			out = append(out, c)
		}
	}
	return out
}

// walk calls visit with the entries of each name in two sorted lists, nil where a list has none.
func walk[T any](before, after []T, compare func(a, b T) int, visit func(a, b *T)) {
	for len(before) > 0 || len(after) > 0 {
		order := 0
		switch {
		case len(after) == 0:
			order = -1
		case len(before) == 0:
			order = 1
		default:
			order = compare(before[0], after[0])
		}
		var x, y *T
		if order <= 0 {
			x, before = &before[0], before[1:]
		}
		if order >= 0 {
			y, after = &after[0], after[1:]
		}
		visit(x, y)
	}
}

// entry adds a change for an entry that was added, removed or has another text, by three kinds. It reports whether
// both locks have it.
func entry[T any](d *differ, a, b *T, kinds [3]Kind, name, text func(T) string) (both bool) {
	switch {
	case a == nil:
		d.add(kinds[0], name(*b), "", text(*b))
	case b == nil:
		d.add(kinds[1], name(*a), text(*a), "")
	default:
		d.compare(kinds[2], name(*a), text(*a), text(*b))
	}
	return a != nil && b != nil
}

type differ struct {
	changes []Change
	sources map[string][2]project.Source // changes already reported for requirements
}

func (d *differ) add(kind Kind, name, from, to string) {
	d.changes = append(d.changes, Change{kind, name, from, to})
}

func (d *differ) compare(kind Kind, name, from, to string) {
	if from != to {
		d.add(kind, name, from, to)
	}
}

func sourceText(s project.Source) string {
	if s.Index {
		return "index " + s.Where
	}
	return s.Where
}

// source reports a change of source once, though both the requirement and the bundle have it.
func (d *differ) source(name string, from, to project.Source) {
	if from == to || d.sources[name] == [2]project.Source{from, to} {
		return
	}
	if d.sources == nil {
		d.sources = map[string][2]project.Source{}
	}
	d.sources[name] = [2]project.Source{from, to}
	kind := SourceChanged
	if from.SamePlace(to) {
		kind = RevisionChanged
	}
	d.add(kind, name, sourceText(from), sourceText(to))
}

func (d *differ) requires(a, b *Lock) {
	walk(a.Requires, b.Requires, compareRequirements, func(a, b *project.Requirement) {
		if entry(d, a, b, [3]Kind{RequirementAdded, RequirementRemoved, RequirementChanged},
			func(r project.Requirement) string { return r.ID },
			func(r project.Requirement) string { return r.Text }) {
			d.source(a.ID, a.Source, b.Source)
		}
	})
}

func (d *differ) bundle(before, after *Bundle) {
	changed := BundleUpgraded
	if before != nil && after != nil && manifest.CompareVersions(before.Version, after.Version) > 0 {
		changed = BundleDowngraded
	}
	if !entry(d, before, after, [3]Kind{BundleAdded, BundleRemoved, changed}, func(b Bundle) string {
		return b.ID
	}, func(b Bundle) string { return b.Version }) {
		return
	}
	if before.Version == after.Version {
		d.compare(BundleReplaced, before.ID, before.Version+" "+before.Manifest.String(),
			after.Version+" "+after.Manifest.String())
	}
	d.source(before.ID, before.Source, after.Source)
}

func (d *differ) pin(before, after *Pin) {
	if before != nil && after != nil && before.same(after) {
		return // the usual case
	}
	if before == nil || after == nil {
		entry(d, before, after, [3]Kind{PinAdded, PinRemoved}, func(p Pin) string {
			return p.Ref.String()
		}, func(p Pin) string { return content(&p) })
		return
	}
	name := before.Ref.String()
	placed := before.From == after.From && (before.Size != after.Size || before.Mode != after.Mode ||
		before.Files != after.Files)
	if before.Version != after.Version || before.Digest != after.Digest || before.Tree != after.Tree || placed {
		d.add(PinChanged, name, content(before), content(after))
	}
	switch {
	case before.From != after.From:
		d.add(PinMoved, name, before.From, after.From)
	case before.Path != after.Path:
		d.add(PinRenamed, name, before.Path, after.Path)
	}
	for _, s := range missing(before.Signers, after.Signers) {
		d.add(SignerRemoved, name, s.String(), "")
	}
	for _, s := range missing(after.Signers, before.Signers) {
		d.add(SignerAdded, name, "", s.String())
	}
	// Without signers the format can't be lower: the removed signers are reported.
	if before.Format != after.Format && before.Format != sign.None && after.Format != sign.None {
		kind := FormatRaised
		if after.Format < before.Format {
			kind = FormatLowered
		}
		d.add(kind, name, before.Format.String(), after.Format.String())
	}
	d.compare(InterfaceChanged, name, DigestText(before.Interface), DigestText(after.Interface))
	d.compare(GrantsChanged, name, DigestText(before.Grants), DigestText(after.Grants))
}

func (p *Pin) same(o *Pin) bool {
	return p.Version == o.Version && p.Digest == o.Digest && p.Tree == o.Tree && p.Files == o.Files &&
		p.From == o.From &&
		p.Path == o.Path && p.Size == o.Size && p.Mode == o.Mode && slices.Equal(p.Signers, o.Signers) &&
		p.Format == o.Format && p.Interface == o.Interface && p.Grants == o.Grants
}

// content returns a text of the pinned bytes: version, digest and tree, and the fields that may change with them.
func content(pin *Pin) string {
	text := pin.Digest.String()
	if pin.Version != "" {
		text = pin.Version + " " + text
	}
	if !pin.Tree.IsZero() {
		text += " tree " + pin.Tree.String()
	}
	if !pin.Files.IsZero() {
		text += " files " + pin.Files.String()
	}
	if pin.Mode == cas.Exec {
		text += " executable"
	}
	return text
}

// DigestText returns the text of a digest, or "" for zero.
func DigestText(d cas.Digest) string {
	if d.IsZero() {
		return ""
	}
	return d.String()
}

// missing returns the elements of a that b lacks.
func missing(a, b []key.Fingerprint) []key.Fingerprint {
	var out []key.Fingerprint
	for _, f := range a {
		if !slices.Contains(b, f) {
			out = append(out, f)
		}
	}
	return out
}

func (d *differ) program(a, b *Program) {
	if a != nil && b != nil && a.Version == b.Version {
		d.compare(ToolchainReplaced, a.name(), a.Version+" "+a.Digest.String(), b.Version+" "+b.Digest.String())
		return
	}
	entry(d, a, b, [3]Kind{ToolchainAdded, ToolchainRemoved, ToolchainChanged}, Program.name, func(p Program) string {
		return p.Version
	})
}

func (d *differ) artifact(a, b *Artifact) {
	if a != nil && b != nil {
		d.compare(ArtifactReplaced, a.name(), fmt.Sprint(a.Digest, " ", a.Source, " ", a.Size),
			fmt.Sprint(b.Digest, " ", b.Source, " ", b.Size))
		return
	}
	entry(d, a, b, [3]Kind{ArtifactAdded, ArtifactRemoved}, Artifact.name, func(a Artifact) string {
		return a.Digest.String()
	})
}

func (d *differ) definition(a, b *Definition) {
	entry(d, a, b, [3]Kind{DefinitionAdded, DefinitionRemoved, DefinitionChanged}, func(d Definition) string {
		return d.Name
	},
		func(d Definition) string { return d.Digest.String() })
}
