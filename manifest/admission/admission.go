package admission

import (
	"errors"
	"io"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

// A Trust is the basis of decisions: the root policy, the project's if it has one, and the time. It is safe for
// concurrent use.
type Trust struct {
	Root    policy.Side
	Project *policy.Side
	Now     time.Time
}

// An Exam is the evidence about a subject, and the policies' decision.
type Exam struct {
	Subject
	Signed   sign.Signed     // the result of sign.Read
	Signers  []sign.Signer   // the keys with verified signatures
	Decision policy.Decision // Undecided if the file itself is invalid
	Identity Identity        // of a document, if the decision allows it
}

// Find finds a key by its fingerprint in either policy. Each policy decides separately about the verified signatures.
func (t *Trust) Find(f key.Fingerprint) (key.Public, bool) {
	for _, s := range t.sides() {
		if p, ok := s.Policy.Find(f); ok {
			return p, true
		}
	}
	return key.Public{}, false
}

// FindV1 finds the keys that match the 16 digits in a line of the first format.
func (t *Trust) FindV1(id string) (all []key.Public) {
	for _, s := range t.sides() {
		all = append(all, s.Policy.FindV1(id)...)
	}
	return all
}

func (t *Trust) sides() (sides []*policy.Side) {
	for _, s := range []*policy.Side{&t.Root, t.Project} {
		if s != nil && s.Policy != nil {
			sides = append(sides, s)
		}
	}
	return sides
}

// Decide asks the policies now about signatures that were verified before.
func (t *Trust) Decide(r policy.Request) policy.Decision {
	r.Now = t.Now
	return policy.Decide(r, t.Root, t.Project)
}

// Examine reads a file from its beginning and decides whether it may be used for a purpose. The error is about the
// file itself: errors of sign.Read and sign.Check that leave nothing to decide, of Subject.Identify, and of r. Without
// one, Decision is the answer, also about an unsigned file or one that only unknown keys signed. Examine returns an
// Exam in both cases, filled as far as it got.
//
// It reads a document twice. Examine is safe for concurrent use, each call with its own r.
func (t *Trust) Examine(s Subject, r io.ReadSeeker, purpose policy.Purpose) (*Exam, error) {
	e := &Exam{Subject: s}
	var err error
	if s.Known != nil && !s.IsDocument() {
		e.Signed, err = s.Known.Signed, s.Known.Err
	} else if _, err = r.Seek(0, io.SeekStart); err == nil {
		e.Signed, err = sign.Read(r, s.Signing())
	} else {
		return e, err
	}
	if s.Voucher != policy.ByKeys {
		err = vouched(err)
	}
	if err != nil {
		return e, err
	}
	if s.Kind() == "rotation" {
		return e, t.rotation(e, r)
	}
	unknown, err := t.verify(e)
	if err != nil {
		return e, err
	}
	e.Decision = t.Decide(e.request(unknown, purpose))
	switch {
	case !e.Decision.Allowed || !s.IsDocument():
		return e, nil
	case e.Signed.Format == sign.V1:
		return e, t.identifyV1(e, r, purpose)
	}
	e.Identity, err = s.Identify(r, e.Signed.Stripped, t.Now)
	return e, err
}

// identifyV1 requires a manifest of the first format to have the requested name. If a policy lists its digest, the
// policy knows what it is.
func (t *Trust) identifyV1(e *Exam, r io.ReadSeeker, purpose policy.Purpose) error {
	switch {
	case e.V1 == nil && (purpose == policy.ToShow || e.Decision.ByDigest):
		return nil
	case e.V1 == nil:
		return unread()
	}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return err
	}
	found, err := e.V1(r)
	if err == nil && found.Name == "" {
		err = unread()
	}
	if err != nil {
		return err
	}
	e.Identity = found
	return e.is(found, cas.Digest{}, t.Now)
}

// vouched ignores problems with the signature lines of a file that needs none. It keeps read errors.
func vouched(err error) error {
	_, broken := errors.AsType[*sign.IntegrityError](err)
	_, later := errors.AsType[*sign.VersionError](err)
	if broken || later || errors.Is(err, sign.ErrTooMany) {
		return nil
	}
	return err
}

// verify returns the signers of a file, and the unknown keys among its signature lines.
func (t *Trust) verify(e *Exam) (unknown []string, err error) {
	switch {
	case e.Voucher != policy.ByKeys:
		return nil, nil
	case e.Signed.Format == sign.V1:
		e.Signers, err = sign.CheckV1(e.Signed, t.FindV1)
	default:
		e.Signers, err = sign.Check(e.Signed, e.Claim(), t.Find)
	}
	return undecided(err)
}

// undecided separates the errors that a policy decides about: unsigned, or signed by unknown keys alone, which it
// returns.
func undecided(err error) (unknown []string, rest error) {
	if e, ok := errors.AsType[*sign.UnknownKeyError](err); ok {
		return e.Keys, nil
	}
	if errors.Is(err, sign.ErrUnsigned) {
		return nil, nil
	}
	return nil, err
}

func (e *Exam) request(unknown []string, purpose policy.Purpose) policy.Request {
	r := policy.Request{
		Name: e.Name, Purpose: purpose, Voucher: e.Voucher, Signers: e.Signers, Unknown: unknown,
		Raw: e.Signed.Raw, Stripped: e.Signed.Stripped, Tree: e.Tree, Files: e.Files, Listed: e.Listed,
	}
	if e.IsDocument() {
		r.Document = e.Signed.Stripped
	}
	return r
}

// ExamineDocument is Examine for a document that was already read, from a bundle or a lock that stores its lines
// separately. It checks the document's signatures, and its expiry if it has one, under its own name. Signed is the
// document without a raw digest: a document stored in two parts has none.
func (t *Trust) ExamineDocument(d *manifest.Document, expires time.Time, purpose policy.Purpose) (*Exam, error) {
	e := &Exam{Subject: Subject{Name: d.Name}, Signed: sign.Signed{Stripped: d.ID, Lines: d.Signatures}}
	if len(d.Signatures) > 0 {
		e.Signed.Format = sign.V2
	}
	signers, err := d.Check(t.Find)
	unknown, err := undecided(err)
	if err != nil {
		return e, err
	}
	e.Signers = signers
	e.Decision = t.Decide(e.request(unknown, purpose))
	if !e.Decision.Allowed {
		return e, nil
	}
	e.Identity = Identity{d.ID, d.Name, expires}
	return e, e.is(e.Identity, cas.Digest{}, t.Now)
}

// rotation decides about a rotation by the rule that it changes.
func (t *Trust) rotation(e *Exam, r io.ReadSeeker) error {
	if t.Root.Policy == nil {
		e.Decision = t.Decide(policy.Request{})
		return nil
	}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return err
	}
	doc, err := manifest.ReadRotation(r)
	if err != nil {
		return err
	}
	// The policy checks the expiry of the offer with everything else.
	if err := e.is(Identity{ID: doc.ID, Name: doc.Name}, e.Signed.Stripped, t.Now); err != nil {
		return err
	}
	e.Identity = Identity{doc.ID, doc.Name, doc.Step.Expires}
	signers, err := CheckRotation(doc, t.Root.Policy)
	unknown, err := undecided(err)
	if err != nil {
		return err
	}
	e.Signers = signers
	e.Decision.Answer = t.Root.DecideRotation(doc.Step, signers, unknown, t.Now)
	return nil
}

// CheckRotation returns the keys of a policy that signed a rotation, and the new key if it signed too. The new key
// vouches for itself here: its signature only proves that its owner has it.
func CheckRotation(doc *manifest.Rotation, p *policy.Policy) ([]sign.Signer, error) {
	fresh := doc.Step.Key.Public
	return doc.Check(func(f key.Fingerprint) (key.Public, bool) {
		if f == fresh.Fingerprint() {
			return fresh, true
		}
		return p.Find(f)
	})
}
