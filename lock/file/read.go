package file

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/canon"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/sign"
)

// Parse reads a lock. An error is a *canon.SyntaxError or an *Error with the line, a *canon.VersionError, or a
// *MergeError.
func Parse(b []byte) (*Lock, error) {
	p := parser{Scanner: canon.NewScannerBytes(b, &lockSpec)}
	// Nearly all lines are pins, and a pin is longer than its digest.
	l, err := p.parse(min(bytes.Count(b, []byte("\n")), len(b)/minPin))
	if err != nil {
		return nil, cause(b, err)
	}
	return l, nil
}

// parse reads a lock with about that many pins.
func (p *parser) parse(pins int) (*Lock, error) {
	p.lock.Pins = make([]Pin, 0, pins)
	err := p.read()
	if p.Err() != nil {
		err = p.Err()
	}
	if err != nil {
		return nil, err
	}
	if len(p.lock.Pins) == 0 {
		p.lock.Pins = nil
	}
	l := p.lock // alone, because the parser holds b
	return &l, nil
}

// cause returns a likelier reason why a file was refused with err: a conflict marker, or a carriage return. A valid
// file has neither, so they are looked for only after an error.
func cause(b []byte, err error) error {
	if line := mark(b); line > 0 {
		return &MergeError{line}
	}
	if at := bytes.Index(b, []byte("\r\n")); at >= 0 {
		line := 1 + bytes.Count(b[:at], []byte("\n"))
		return &Error{line, errors.New("the line ends in CR LF, expected LF: " +
			"git keeps them with \"rye.lock text eol=lf\" in .gitattributes")}
	}
	return err
}

// minPin is shorter than any pin.
const minPin = 100

type parser struct {
	*canon.Scanner
	canon.Keeper
	lock Lock

	// Caches for values that repeat in consecutive entries.
	from    string
	signers []key.Fingerprint
	prints  []string // signers as written in the file
}

func (p *parser) errorf(format string, args ...any) error {
	return &Error{p.Line(), fmt.Errorf(format, args...)}
}

func (p *parser) read() error {
	if !p.Header() {
		return p.Err()
	}
	if len(p.Comments()) > 0 {
		return &Error{1, errors.New("a lock isn't signed")}
	}
	entries := [...]func() error{
		inRequires: p.requirement, inBundles: p.bundle, inPins: p.pin,
		inToolchain: p.tool, inArtifacts: p.artifact, inDefinitions: p.definition, inEnd: p.end,
	}
	ended := false
	for p.Scan() {
		section := p.Section()
		if ended {
			return p.errorf("text after the end")
		}
		if err := entries[section](); err != nil {
			var own *Error
			if !errors.As(err, &own) {
				err = &Error{p.Line(), err}
			}
			return err
		}
		ended = section == inEnd
	}
	if !ended && p.Err() == nil {
		return &Error{0, errors.New("the file is truncated: its end is missing")}
	}
	return p.Err()
}

func (p *parser) digest(field int) (d cas.Digest, err error) {
	b := p.Str(field)
	if b == nil {
		return d, nil
	}
	// A zero digest means "missing", so it is invalid here.
	if d, err = cas.ParseDigest(b); err == nil && d.IsZero() {
		err = p.errorf("the digest is zero")
	}
	return d, err
}

func (p *parser) version(field int) (string, error) {
	v := p.Keep(p.Str(field))
	if v == "" && !p.Has(field) {
		return "", nil
	}
	return v, manifest.CheckVersion(v)
}

func (p *parser) end() error {
	if string(p.Key()) != Name {
		return p.errorf("expected %q", Name)
	}
	return nil
}

func (p *parser) source(from, index int) (project.Source, error) {
	if p.Has(from) == p.Has(index) {
		return project.Source{}, p.errorf("a bundle comes from one place: from, or index")
	}
	where := string(p.Str(from)) + string(p.Str(index))
	s, err := project.ParseSource(where, p.Has(index))
	if err == nil && s.Where != where {
		err = p.errorf("%q is written %q", where, s.Where)
	}
	return s, err
}

func (p *parser) requirement() error {
	source, err := p.source(requireFrom, requireIndex)
	if err != nil {
		return err
	}
	r, err := project.NewRequirement(string(p.Key()), string(p.Str(requireVersion)), source)
	p.lock.Requires = append(p.lock.Requires, r)
	return err
}

func (p *parser) bundle() (err error) {
	bundle := Bundle{ID: p.Keep(p.Key())}
	if err := portable.CheckID(bundle.ID); err != nil {
		return err
	}
	if System+bundle.ID == FromStd {
		return p.errorf("%q is part of rye and isn't locked as a bundle", bundle.ID)
	}
	if bundle.Version, err = p.version(bundleVersion); err != nil {
		return err
	}
	if bundle.Manifest, err = p.digest(bundleManifest); err != nil {
		return err
	}
	if bundle.Source, err = p.source(bundleFrom, bundleIndex); err == nil && !bundle.Source.Pinned() {
		what := "commit"
		if _, image := bundle.Source.OCI(); image {
			what = "digest"
		}
		err = p.errorf("%+q names no %s", bundle.Source.Where, what)
	}
	if _, registry := bundle.Source.Registry(); err == nil && (p.Has(bundleLog) != registry ||
		p.Has(bundleLeaf) != registry) {
		err = p.errorf("a bundle from a registry has log and leaf, and no other has them")
	}
	bundle.Log, bundle.Leaf = p.Keep(p.Str(bundleLog)), p.Int(bundleLeaf)
	p.lock.Bundles = append(p.lock.Bundles, bundle)
	return err
}

func (p *parser) pin() (err error) {
	var n Pin
	if n.Ref, err = model.ParseRef(p.Keep(p.Key())); err != nil {
		return err
	}
	if n.Version, err = p.version(pinVersion); err != nil {
		return err
	}
	for _, d := range []struct {
		to    *cas.Digest
		field int
	}{{&n.Digest, pinDigest}, {&n.Tree, pinTree}, {&n.Files, pinFiles}, {&n.Interface, pinInterface},
		{&n.Grants, pinGrants}} {
		if *d.to, err = p.digest(d.field); err != nil {
			return err
		}
	}
	if from := p.Str(pinFrom); string(from) != p.from || p.from == "" {
		if err := checkFrom(string(from)); err != nil {
			return err
		}
		p.from = p.Keep(from)
	}
	n.From = p.from
	if err := p.place(&n); err != nil {
		return err
	}
	if n.Signers, err = p.fingerprints(p.Strs(pinSigners)); err != nil {
		return err
	}
	switch string(p.Str(pinFormat)) {
	case "":
	case sign.V1.String():
		n.Format = sign.V1
	case sign.V2.String():
		n.Format = sign.V2
	default:
		return p.errorf("format %+q is neither %q nor %q", p.Str(pinFormat), sign.V1, sign.V2)
	}
	if (n.Format == sign.None) != (len(n.Signers) == 0) {
		return p.errorf("signers have a format, and a format has signers")
	}
	if n.From == FromStd && len(n.Signers) > 0 {
		return p.errorf("items of the library have no signers")
	}
	p.lock.Pins = append(p.lock.Pins, n)
	return nil
}

// place reads the location of a pin's file, which only pins without a manifest have.
func (p *parser) place(n *Pin) error {
	loose := n.From == FromProject || n.From == FromUser
	if p.Has(pinPath) != loose || p.Has(pinSize) != loose || p.Has(pinMode) != loose {
		return p.errorf(
			"path, size and mode are required for items from the project or the user, and invalid for others")
	}
	if n.Files.IsZero() == (loose && !n.Tree.IsZero()) {
		return p.errorf("files is required for a tree from the project or the user, and invalid otherwise")
	}
	if !loose {
		return nil
	}
	n.Path, n.Size = p.Keep(p.Str(pinPath)), p.Int(pinSize)
	if err := portable.Check(n.Path); err != nil {
		return err
	}
	if id := strings.TrimSuffix(n.Path, path.Ext(n.Path)); !strings.HasSuffix(id, "/"+n.Ref.ID) || id == n.Path {
		return p.errorf("%q is not a valid path of %s", n.Path, n.Ref)
	}
	switch string(p.Str(pinMode)) {
	case cas.File.String():
		n.Mode = cas.File
	case cas.Exec.String():
		n.Mode = cas.Exec
	default:
		return p.errorf("mode %+q is neither %q nor %q", p.Str(pinMode), cas.File, cas.Exec)
	}
	return nil
}

func checkFrom(from string) error {
	if from == FromProject || from == FromUser {
		return nil
	}
	id, ok := strings.CutPrefix(from, System)
	if !ok {
		return fmt.Errorf("unknown space %+q: expected %q, %q, or %q and a bundle", from, FromProject, FromUser,
			System)
	}
	return portable.CheckID(id)
}

func (p *parser) fingerprints(texts [][]byte) ([]key.Fingerprint, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	if slices.EqualFunc(texts, p.prints, func(b []byte, s string) bool { return string(b) == s }) {
		return p.signers, nil
	}
	p.prints = nil
	prints := make([]key.Fingerprint, len(texts))
	for i, text := range texts {
		f, err := key.ParseFingerprint(string(text))
		if err != nil {
			return nil, err
		}
		if i > 0 && f.Compare(prints[i-1]) <= 0 {
			return nil, p.errorf("signers must be sorted and unique")
		}
		prints[i] = f
	}
	for _, text := range texts {
		p.prints = append(p.prints, string(text))
	}
	p.signers = prints
	return prints, nil
}

func (p *parser) tool() (err error) {
	var program Program
	name := p.Keep(p.Key())
	program.Name, program.Platform, _ = strings.Cut(name, " ")
	goos, arch, ok := strings.Cut(program.Platform, "/")
	if !ok || !word(program.Name) || !word(goos) || !word(arch) || strings.Contains(arch, "/") {
		return p.errorf("invalid program %+q: expected NAME PLATFORM, such as \"python linux/amd64\"", name)
	}
	if program.Version = p.Keep(p.Str(toolVersion)); !word(program.Version) {
		return p.errorf("invalid version %+q of a program", program.Version)
	}
	program.Digest, err = p.digest(toolDigest)
	p.lock.Toolchain = append(p.lock.Toolchain, program)
	return err
}

func (p *parser) artifact() (err error) {
	name := p.Keep(p.Key())
	at := strings.LastIndexByte(name, '@')
	if at < 0 || !word(name[:at]) || !word(name[at+1:]) {
		return p.errorf("invalid artifact %+q: expected PACKAGE@VERSION, such as \"pypi:requests@2.32.3\"", name)
	}
	a := Artifact{Name: name[:at], Version: name[at+1:], Source: p.Keep(p.Str(artifactSource)),
		Size: p.Int(artifactSize)}
	if !registryDigest(a.Source) {
		return p.errorf(
			"invalid registry digest %+q: expected \"sha256:\" or \"sha512:\" and lower-case hex digits", a.Source)
	}
	a.Digest, err = p.digest(artifactDigest)
	p.lock.Artifacts = append(p.lock.Artifacts, a)
	return err
}

func (p *parser) definition() (err error) {
	d := Definition{Name: p.Keep(p.Key())}
	if !word(d.Name) {
		return p.errorf("invalid name %+q: expected visible ASCII without spaces, at most %d characters", d.Name,
			maxName)
	}
	d.Digest, err = p.digest(definitionDigest)
	p.lock.Definitions = append(p.lock.Definitions, d)
	return err
}

// word reports whether s is 1 to maxName visible characters of ASCII.
func word(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return s != "" && len(s) <= maxName
}

func registryDigest(s string) bool {
	algorithm, digits, _ := strings.Cut(s, ":")
	return (algorithm == "sha256" && len(digits) == 64 || algorithm == "sha512" && len(digits) == 128) &&
		strings.Trim(digits, "0123456789abcdef") == ""
}
