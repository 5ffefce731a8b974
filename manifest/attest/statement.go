package attest

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/key"
)

// The types of statements, in envelopes and in statements.
const (
	StatementPayload = "application/vnd.in-toto+json"
	StatementType    = "https://in-toto.io/Statement/v1"
)

// maxSubjects is the most subjects of a statement. A statement about more files names their list as its subject.
const maxSubjects = 1 << 15

// A Statement is an in-toto Statement v1: it states the predicate about the subjects.
type Statement struct {
	Subjects      []Subject
	PredicateType string // a URI
	Predicate     []byte // a JSON object, canonical if it was read; nil for none
	Canonical     bool   // set by a caller whose Predicate is canonical: Append doesn't check it
}

// A Subject identifies bytes by their digests.
type Subject struct {
	Name    string // for people; may be empty
	Digests Digests
}

// Digests are digests of the same bytes, in lower-case hexadecimal digits, by the name of the algorithm as
// in-toto writes it: "blake3", "sha256", "sha512", "gitCommit".
type Digests map[string]string

// DigestsOf returns the set with only d.
func DigestsOf(d cas.Digest) Digests { return Digests{"blake3": hex.EncodeToString(d[:])} }

// Same reports whether o is about the same bytes: the two have a common algorithm, and the same digest for each
// common algorithm.
func (d Digests) Same(o Digests) bool {
	common := 0
	for algorithm, text := range d {
		switch other, ok := o[algorithm]; {
		case ok && other != text:
			return false
		case ok:
			common++
		}
	}
	return common > 0
}

func (d Digests) check() error {
	if len(d) == 0 || len(d) > 32 {
		return fmt.Errorf("%d digests of a subject", len(d))
	}
	for algorithm, text := range d {
		want := map[string]int{"blake3": 64, "sha256": 64, "sha512": 128, "gitCommit": 40, "sha1": 40}[algorithm]
		if !printable(algorithm, 64) || len(text) == 0 || len(text) > 256 || want > 0 && len(text) != want {
			return fmt.Errorf("%+q is not a digest of %+q", text, algorithm)
		}
		if !portable.Spelled(text, portable.Hex, "", len(text)) {
			return fmt.Errorf("%+q is not a digest of %+q: expected lower-case hexadecimal digits", text, algorithm)
		}
	}
	return nil
}

// Append appends the statement in its canonical form, JCS, the payload of an envelope.
func (s *Statement) Append(dst []byte) ([]byte, error) {
	if err := s.check(); err != nil {
		return dst, invalid("statement", err)
	}
	subjects := []any{}
	for _, sub := range s.Subjects {
		digests := map[string]any{}
		for algorithm, text := range sub.Digests {
			digests[algorithm] = text
		}
		m := map[string]any{"digest": digests}
		if sub.Name != "" {
			m["name"] = sub.Name
		}
		subjects = append(subjects, m)
	}
	object := map[string]any{"_type": StatementType, "subject": subjects, "predicateType": s.PredicateType}
	if s.Canonical {
		object["predicate"] = jcs.Text(s.Predicate)
	} else if s.Predicate != nil {
		v, err := jcs.Parse(s.Predicate)
		if _, ok := v.(map[string]any); err == nil && !ok {
			err = errors.New("the predicate is not an object")
		}
		if err != nil {
			return dst, invalid("statement", err)
		}
		object["predicate"] = v
	}
	out, err := jcs.Append(slices.Grow(dst, len(s.Predicate)+512*(1+len(subjects))), object)
	if err != nil {
		return dst, invalid("statement", err)
	}
	return out, nil
}

func (s *Statement) check() error {
	if len(s.Subjects) == 0 || len(s.Subjects) > maxSubjects {
		return fmt.Errorf("%d subjects: there must be 1 to %d", len(s.Subjects), maxSubjects)
	}
	if !printable(s.PredicateType, 1000) {
		return fmt.Errorf("%+q is not a predicate type", s.PredicateType)
	}
	for _, sub := range s.Subjects {
		if err := sub.Digests.check(); err != nil {
			return err
		}
	}
	return nil
}

// ParseStatement reads a statement. It need not be canonical. Outside the predicate, members that in-toto doesn't
// define are errors.
func ParseStatement(b []byte) (*Statement, error) {
	if len(b) > MaxEnvelope {
		return nil, invalid("statement", fmt.Errorf("larger than %d bytes", MaxEnvelope))
	}
	v, err := jcs.Parse(b)
	if err != nil {
		return nil, invalid("statement", err)
	}
	s, err := parseStatement(v)
	if err != nil {
		return nil, invalid("statement", err)
	}
	return s, nil
}

func parseStatement(v any) (*Statement, error) {
	object, err := object(v, "_type", "subject", "predicateType", "predicate")
	if err != nil {
		return nil, err
	}
	if object["_type"] != StatementType {
		return nil, fmt.Errorf("expected _type %q", StatementType)
	}
	statement := &Statement{}
	statement.PredicateType, _ = object["predicateType"].(string)
	subjects, _ := object["subject"].([]any)
	for _, v := range subjects {
		sub, err := parseSubject(v)
		if err != nil {
			return nil, err
		}
		statement.Subjects = append(statement.Subjects, sub)
	}
	if v, ok := object["predicate"]; ok {
		if _, ok := v.(map[string]any); !ok {
			return nil, errors.New("the predicate is not an object")
		}
		if statement.Predicate, err = jcs.Append(nil, v); err != nil {
			return nil, err
		}
	}
	return statement, statement.check()
}

// parseSubject reads a ResourceDescriptor. It ignores all but name and digests: the rest only helps to find the
// bytes.
func parseSubject(v any) (sub Subject, err error) {
	m, err := object(v, "name", "digest", "uri", "content", "downloadLocation", "mediaType", "annotations")
	if err != nil {
		return sub, err
	}
	name, ok := optionalString(m, "name")
	if !ok {
		return sub, errors.New("the name of a subject is not a string")
	}
	digests, _ := m["digest"].(map[string]any)
	sub = Subject{Name: name, Digests: Digests{}}
	for algorithm, v := range digests {
		text, ok := v.(string)
		if !ok {
			return sub, fmt.Errorf("the %+q digest is not a string", algorithm)
		}
		sub.Digests[algorithm] = text
	}
	return sub, nil
}

// About returns nil if one of the statement's subjects has these digests.
func (s *Statement) About(d Digests) error {
	for _, sub := range s.Subjects {
		if sub.Digests.Same(d) {
			return nil
		}
	}
	first := s.Subjects[0]
	return fault.New(fault.Integrity, "the statement is about %+q %v (%s), not about %v", first.Name, first.Digests,
		fault.Count(int64(len(s.Subjects)), "subject"), d)
}

// VerifyStatement reads a statement from an envelope. It returns the statement only if threshold of the keys signed
// it, its predicate has this type, and a subject has these digests.
func VerifyStatement(envelope []byte, keys []key.Public, threshold int, predicateType string,
	about Digests) (*Statement, []key.Public, error) {
	e, err := ParseEnvelope(envelope)
	if err != nil {
		return nil, nil, err
	}
	payloadType, payload, signers, err := e.Verify(keys, threshold)
	if err != nil {
		return nil, nil, err
	}
	if payloadType != StatementPayload {
		return nil, nil, badEnvelope("expected a payload of type %q, found %+q", StatementPayload, payloadType)
	}
	statement, err := ParseStatement(payload)
	if err != nil {
		return nil, nil, err
	}
	if statement.PredicateType != predicateType {
		return nil, nil, invalid("statement", fmt.Errorf("expected predicate type %q, found %+q", predicateType,
			statement.PredicateType))
	}
	if err := statement.About(about); err != nil {
		return nil, nil, err
	}
	return statement, signers, nil
}
