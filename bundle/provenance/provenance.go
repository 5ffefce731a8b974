package provenance

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/attest"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/key"
)

// buildType identifies the way in which rye makes bundles.
const buildType = "https://github.com/rye-build/rye/bundle/v1"

// Name is the name of the evidence in a manifest, and of its file next to manifest.yaml.
const Name = "provenance.dsse.json"

// A Place is where a statement is, which decides what it can name.
type Place uint8

// The places.
const (
	Inside Place = iota // evidence that the manifest names
	Beside              // travels with the manifest
)

// about returns the digest that a statement in a place names.
func (p Place) about(l *manifest.FileList) cas.Digest {
	if p == Beside {
		return l.ID
	}
	return l.Subject
}

// A Build describes how a bundle was made.
type Build struct {
	Builder    string     // a URI that identifies the builder
	Recipe     cas.Digest // of bundle.yaml; zero without one
	Invocation string     // the builder's name for this run; may be empty
	Started    time.Time  // may be zero, as may Finished
	Finished   time.Time
}

// An Error is an invalid field of a Build.
type Error struct {
	Field string // as in the predicate: "runDetails.builder.id"
	Msg   string
}

func (e *Error) Error() string { return fmt.Sprintf("provenance: %s %s", e.Field, e.Msg) }

// Attest returns an envelope with a statement on how a bundle was made, signed by each of the keys, at least one.
func Attest(l *manifest.FileList, at Place, b Build, keys ...key.Private) ([]byte, error) {
	predicate, err := b.predicate()
	if err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return nil, errNoKey
	}
	s := attest.Statement{
		Subjects:      []attest.Subject{{Name: l.Name, Digests: attest.DigestsOf(at.about(l))}},
		PredicateType: bundle.ProvenanceType,
		Predicate:     predicate,
	}
	payload, err := s.Append(nil)
	if err != nil {
		return nil, err
	}
	e, err := attest.NewEnvelope(attest.StatementPayload, payload)
	if err != nil {
		return nil, err
	}
	if err := e.Sign(keys...); err != nil {
		return nil, err
	}
	return e.Append(nil)
}

var errNoKey = errors.New("provenance: no signing key")

// Evidence returns the manifest's entry for bytes about it, such as an envelope or an SBOM.
func Evidence(name, mediaType string, b []byte) manifest.Evidence {
	return manifest.Evidence{Name: name, Digest: cas.Sum(b), Size: int64(len(b)), Type: mediaType}
}

// Embed returns an unsigned manifest like bundle with additional evidence, which replaces evidence of the same names.
func Embed(bundle *bundle.Bundle, more ...manifest.Evidence) (body []byte, l *manifest.FileList, err error) {
	head := *bundle.FileList
	head.Evidence = nil
	replaced := map[string]bool{}
	for _, e := range more {
		replaced[e.Name] = true
	}
	for _, e := range bundle.Evidence {
		if !replaced[e.Name] {
			head.Evidence = append(head.Evidence, e)
		}
	}
	head.Evidence = append(head.Evidence, more...)
	return manifest.AppendFileList(nil, &head, bundle.Files)
}

type object = map[string]any

// predicate returns the build as SLSA provenance v1.
func (b *Build) predicate() ([]byte, error) {
	if err := checkURI("runDetails.builder.id", b.Builder); err != nil {
		return nil, err
	}
	parameters := object{}
	if !b.Recipe.IsZero() {
		parameters["recipe"] = object{"name": "bundle.yaml", "digest": digests(b.Recipe)}
	}
	run := object{"builder": object{"id": b.Builder}}
	metadata := object{}
	if b.Invocation != "" {
		metadata["invocationId"] = b.Invocation
	}
	if !b.Started.IsZero() && !b.Finished.IsZero() && b.Finished.Before(b.Started) {
		return nil, &Error{"runDetails.metadata.finishedOn", "is before it started"}
	}
	for i, t := range []time.Time{b.Started.UTC(), b.Finished.UTC()} {
		name := []string{"startedOn", "finishedOn"}[i]
		if t.IsZero() {
			continue
		}
		if t.Year() < 0 || t.Year() > 9999 {
			return nil, &Error{"runDetails.metadata." + name, "is not in a year of four digits"}
		}
		metadata[name] = t.Format(time.RFC3339)
	}
	if len(metadata) > 0 {
		run["metadata"] = metadata
	}
	return jcs.Append(nil, object{
		"buildDefinition": object{"buildType": buildType, "externalParameters": parameters},
		"runDetails":      run,
	})
}

func digests(d cas.Digest) object {
	o := object{}
	for name, hex := range attest.DigestsOf(d) {
		o[name] = hex
	}
	return o
}

// checkURI requires an absolute URI of printable ASCII.
func checkURI(field, s string) error {
	u, err := url.Parse(s)
	printable := !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' })
	if err != nil || !u.IsAbs() || !printable || len(s) > 1000 {
		return &Error{field, fmt.Sprintf("is %+q, must be a URI with a scheme", clip(s))}
	}
	return nil
}

func clip(s string) string { return s[:min(len(s), 100)] }
