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
// file itself: errors of sign.Read and sign.Check that leave nothing to decide, of Subject.Identify, and of in.
// Without one, Decision is the answer, also about an unsigned file or one that only unknown keys signed. Examine
// returns an Exam in both cases, filled as far as it got.
//
// It reads a document twice. Examine is safe for concurrent use, each call with its own in.
func (t *Trust) Examine(subject Subject, in io.ReadSeeker, purpose policy.Purpose) (*Exam, error) {
	exam := &Exam{Subject: subject}
	var err error
	if subject.Known != nil && !subject.IsDocument() {
		exam.Signed, err = subject.Known.Signed, subject.Known.Err
	} else if _, err = in.Seek(0, io.SeekStart); err == nil {
		exam.Signed, err = sign.Read(in, subject.Signing())
	} else {
		return exam, err
	}
	if subject.Voucher != policy.ByKeys {
		err = vouched(err)
	}
	if err != nil {
		return exam, err
	}
	if subject.Kind() == "rotation" {
		return exam, t.rotation(exam, in)
	}
	unknown, err := t.verify(exam)
	if err != nil {
		return exam, err
	}
	exam.Decision = t.Decide(exam.request(unknown, purpose))
	switch {
	case !exam.Decision.Allowed || !subject.IsDocument():
		return exam, nil
	case exam.Signed.Format == sign.V1:
		return exam, t.identifyV1(exam, in, purpose)
	}
	exam.Identity, err = subject.Identify(in, exam.Signed.Stripped, t.Now)
	return exam, err
}

// identifyV1 requires a manifest of the first format to have the requested name. If a policy lists its digest, the
// policy knows what it is.
func (t *Trust) identifyV1(exam *Exam, r io.ReadSeeker, purpose policy.Purpose) error {
	switch {
	case exam.V1 == nil && (purpose == policy.ToShow || exam.Decision.ByDigest):
		return nil
	case exam.V1 == nil:
		return unread()
	}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return err
	}
	found, err := exam.V1(r)
	if err == nil && found.Name == "" {
		err = unread()
	}
	if err != nil {
		return err
	}
	exam.Identity = found
	return exam.is(found, cas.Digest{}, t.Now)
}

// vouched ignores problems with the signature lines of a file that needs none. It keeps read errors.
func vouched(err error) error {
	_, broken := errors.AsType[*sign.IntegrityError](err)
	_, later := errors.AsType[*sign.VersionError](err)
	if broken || later {
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
		Advice: e.Advice,
	}
	if e.IsDocument() {
		r.Document = e.Signed.Stripped
	}
	return r
}

// ExamineDocument is Examine for a document that was already read, from a bundle or a lock that stores its lines
// separately. It checks the document's signatures, and its expiry if it has one, under its own name. Signed is the
// document without a raw digest: a document stored in two parts has none.
func (t *Trust) ExamineDocument(document *manifest.Document, expires time.Time, purpose policy.Purpose) (*Exam,
	error) {
	exam := &Exam{Subject: Subject{Name: document.Name},
		Signed: sign.Signed{Stripped: document.ID, Lines: document.Signatures}}
	if len(document.Signatures) > 0 {
		exam.Signed.Format = sign.V2
	}
	signers, err := document.Check(t.Find)
	unknown, err := undecided(err)
	if err != nil {
		return exam, err
	}
	exam.Signers = signers
	exam.Decision = t.Decide(exam.request(unknown, purpose))
	if !exam.Decision.Allowed {
		return exam, nil
	}
	exam.Identity = Identity{document.ID, document.Name, expires}
	return exam, exam.is(exam.Identity, cas.Digest{}, t.Now)
}

// rotation decides about a rotation by the rule that it changes.
func (t *Trust) rotation(exam *Exam, r io.ReadSeeker) error {
	if t.Root.Policy == nil {
		exam.Decision = t.Decide(policy.Request{})
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
	if err := exam.is(Identity{ID: doc.ID, Name: doc.Name}, exam.Signed.Stripped, t.Now); err != nil {
		return err
	}
	exam.Identity = Identity{doc.ID, doc.Name, doc.Step.Expires}
	signers, err := CheckRotation(doc, t.Root.Policy)
	unknown, err := undecided(err)
	if err != nil {
		return err
	}
	exam.Signers = signers
	exam.Decision.Answer = t.Root.DecideRotation(doc.Step, signers, unknown, t.Now)
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
