package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/canon"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/sign"
)

// Append appends the encoded lock. If it couldn't be read back, Append returns dst unchanged, with the error.
func Append(dst []byte, l *Lock) ([]byte, error) {
	b := bytes.NewBuffer(dst[:len(dst):len(dst)])
	if err := Write(b, l); err != nil {
		return dst, err
	}
	// Parsing it is the check: this keeps one set of rules, and no written lock is refused elsewhere.
	if _, err := Parse(b.Bytes()[len(dst):]); err != nil {
		return dst, err
	}
	return b.Bytes(), nil
}

// Canonical returns l as read back from its file, which means sorted, and the digest of that file. It returns an
// error if the file would be invalid. It never holds the whole file in memory.
func Canonical(l *Lock) (*Lock, cas.Digest, error) {
	r, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := Write(w, l)
		w.CloseWithError(err)
		written <- err
	}()
	h := cas.NewHasher()
	p := parser{Scanner: canon.NewScanner(io.TeeReader(r, h), &lockSpec)}
	out, err := p.parse(len(l.Pins))
	r.CloseWithError(errUnread)
	if e := <-written; e != nil && e != errUnread {
		err = e
	}
	if err != nil {
		return nil, cas.Digest{}, err
	}
	return out, h.Digest(), nil
}

var errUnread = errors.New("the reader has stopped")

// Write writes the encoded lock without checking that it can be read back.
func Write(w io.Writer, l *Lock) error {
	for _, a := range l.Artifacts {
		// An "@" in the version would be read as part of the name.
		if strings.Contains(a.Version, "@") {
			return &Error{0, fmt.Errorf("the version %+q of %+q has %q in it", a.Version, a.Name, "@")}
		}
	}
	e := encoder{Encoder: canon.NewEncoderBytes(nil, &lockSpec), w: w}
	e.write(l)
	if err := e.Close(); err != nil {
		return err
	}
	return e.drain(1)
}

type encoder struct {
	*canon.Encoder
	w       io.Writer
	failed  error // of the writer
	scratch []byte
	last    []key.Fingerprint
	prints  []string // the encoded signers of the last pin
}

// drain writes the buffer if it has at least that many bytes.
func (e *encoder) drain(least int) error {
	if b := e.Take(least); b != nil && e.failed == nil {
		_, e.failed = e.w.Write(b)
	}
	return e.failed
}

func (e *encoder) digest(field int, d cas.Digest) {
	e.scratch = d.Append(e.scratch[:0])
	e.StrBytes(field, e.scratch)
}

// given writes a digest unless it is zero.
func (e *encoder) given(field int, d cas.Digest) {
	if !d.IsZero() {
		e.digest(field, d)
	}
}

func (e *encoder) source(from, index int, s project.Source) {
	if s.Index {
		from = index
	}
	e.Str(from, s.Where)
}

func (e *encoder) write(lock *Lock) {
	for _, r := range sorted(lock.Requires, compareRequirements) {
		e.Begin(inRequires, r.ID)
		e.Str(requireVersion, r.Text)
		e.source(requireFrom, requireIndex, r.Source)
		e.End()
	}
	for _, b := range sorted(lock.Bundles, compareBundles) {
		e.Begin(inBundles, b.ID)
		e.Str(bundleVersion, b.Version)
		e.digest(bundleManifest, b.Manifest)
		e.source(bundleFrom, bundleIndex, b.Source)
		if b.Log != "" {
			e.Str(bundleLog, b.Log)
			e.Int(bundleLeaf, b.Leaf)
		}
		e.End()
	}
	pins := sorted(lock.Pins, comparePins)
	for i := range pins {
		e.pin(&pins[i])
		if e.drain(64<<10) != nil {
			return
		}
	}
	for _, t := range sorted(lock.Toolchain, comparePrograms) {
		e.Begin(inToolchain, t.name())
		e.Str(toolVersion, t.Version)
		e.digest(toolDigest, t.Digest)
		e.End()
	}
	for _, a := range sorted(lock.Artifacts, compareArtifacts) {
		e.Begin(inArtifacts, a.name())
		e.digest(artifactDigest, a.Digest)
		e.Str(artifactSource, a.Source)
		e.Int(artifactSize, a.Size)
		e.End()
	}
	for _, d := range sorted(lock.Definitions, compareDefinitions) {
		e.Begin(inDefinitions, d.Name)
		e.digest(definitionDigest, d.Digest)
		e.End()
	}
	e.Begin(inEnd, Name)
	e.End()
}

func (e *encoder) pin(pin *Pin) {
	e.scratch = appendRef(e.scratch[:0], pin.Ref)
	e.BeginBytes(inPins, e.scratch)
	if pin.Version != "" {
		e.Str(pinVersion, pin.Version)
	}
	e.digest(pinDigest, pin.Digest)
	e.given(pinTree, pin.Tree)
	e.Str(pinFrom, pin.From)
	if pin.Path != "" {
		e.Str(pinPath, pin.Path)
		e.Int(pinSize, pin.Size)
		e.Str(pinMode, pin.Mode.String())
	}
	e.given(pinFiles, pin.Files)
	if len(pin.Signers) > 0 {
		e.signers(pin.Signers)
	}
	if pin.Format != sign.None {
		e.Str(pinFormat, pin.Format.String())
	}
	e.given(pinInterface, pin.Interface)
	e.given(pinGrants, pin.Grants)
	e.End()
}

// signers writes fingerprints. Most pins have the same as the pin before.
func (e *encoder) signers(list []key.Fingerprint) {
	if !slices.Equal(list, e.last) {
		e.last, e.prints = slices.Clone(list), nil
		for _, f := range sorted(list, key.Fingerprint.Compare) {
			e.prints = append(e.prints, f.String())
		}
	}
	e.Strs(pinSigners, e.prints)
}

func appendRef(b []byte, r model.Ref) []byte {
	b = append(b, r.Kind...)
	b = append(b, ':')
	return append(b, r.ID...)
}

// sorted returns list in order. It copies the list if it isn't sorted.
func sorted[T any](list []T, compare func(a, b T) int) []T {
	if slices.IsSortedFunc(list, compare) {
		return list
	}
	list = slices.Clone(list)
	slices.SortFunc(list, compare)
	return list
}
