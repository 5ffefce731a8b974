package sign

import (
	"encoding/binary"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/key"
)

// A Domain is the purpose of a signature. A signature made in one Domain counts in no other.
type Domain string

const (
	Item        Domain = "rye/v2/item"
	Manifest    Domain = "rye/v2/manifest"
	Policy      Domain = "rye/v2/policy"
	Revocations Domain = "rye/v2/revocations"
	Rotation    Domain = "rye/v2/rotation"
	Index       Domain = "rye/v2/index"
	Token       Domain = "rye/v2/token"
	Transcript  Domain = "rye/v2/transcript"
	Audit       Domain = "rye/v2/audit"
	Advisories  Domain = "rye/v2/advisories"
)

// A Claim is the statement of a signature about a file's bytes.
type Claim struct {
	Domain Domain
	Name   string     // as in "tool:rye/bash/bash" or "bundle:demo@1.0.0"
	Tree   cas.Digest // of the other files that the signature covers; zero without any
}

const maxName = 1000

func (c Claim) check() error {
	switch c.Domain {
	case Item, Manifest, Policy, Revocations, Rotation, Index, Token, Transcript, Audit, Advisories:
	default:
		return fault.New(fault.Validation, "unknown signature domain %s", quote(string(c.Domain)))
	}
	ok := c.Name != "" && len(c.Name) <= maxName
	for i := range len(c.Name) {
		ok = ok && 0x20 < c.Name[i] && c.Name[i] < 0x7f
	}
	if !ok {
		return fault.New(fault.Validation, "invalid name to sign: %s", quote(c.Name))
	}
	return nil
}

// appendMessage appends the signed message: the text of each field exactly as in the line, and the fields outside it.
func (c Claim) appendMessage(data []byte, line Line) []byte {
	data = append(append(data, c.Domain...), 0)
	data = field(data, func(b []byte) []byte { return append(b, c.Name...) })
	data = field(data, func(b []byte) []byte { return line.Time.AppendFormat(b, timeLayout) })
	data = field(data, func(b []byte) []byte { return appendDigest(b, line.Digest) })
	data = field(data, func(b []byte) []byte {
		if line.Tree.IsZero() {
			return b
		}
		return appendDigest(b, line.Tree)
	})
	return field(data, func(b []byte) []byte { return appendDigest(b, cas.Digest(line.Key)) })
}

// field appends the result of text after its length.
func field(b []byte, text func([]byte) []byte) []byte {
	at := len(b)
	b = text(append(b, 0, 0, 0, 0))
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

// Holds reports whether a line is p's signature of the claim. It does not compare the line's digest with the content:
// see CheckLines.
func (c Claim) Holds(l Line, p key.Public) bool {
	var buf [512]byte
	return c.check() == nil && l.Tree == c.Tree && l.Key == p.Fingerprint() &&
		p.Verify(c.appendMessage(buf[:0], l), l.Sig[:])
}

// Keys finds a known key by its fingerprint.
type Keys func(key.Fingerprint) (key.Public, bool)

// A Signer is the key of a signature and the time in its line.
type Signer struct {
	Key    key.Public
	Time   time.Time // information, not proof
	Format Format
}

// Check verifies the signatures that Read found and returns every known key that signed the content under the claim,
// at least one. It ignores lines of unknown keys; an invalid line of a known key is an error.
//
// It fails with ErrUnsigned, ErrV1, a *VersionError, an *IntegrityError, a *SignatureInvalidError or an
// *UnknownKeyError. Package policy decides whether the signatures are enough.
func Check(s Signed, c Claim, keys Keys) ([]Signer, error) {
	switch {
	case s.block.err != nil:
		return nil, s.block.err
	case s.Format == V1:
		return nil, ErrV1
	}
	return s.check(c, keys)
}

// CheckLines is Check for lines stored apart from their content, as those of documents are.
func CheckLines(lines []Line, content cas.Digest, c Claim, keys Keys) ([]Signer, error) {
	if err := disorder(lines); err != nil {
		return nil, err
	}
	if len(lines) > MaxLines {
		return nil, ErrTooMany
	}
	return (&Signed{Lines: lines, Stripped: content}).check(c, keys)
}

func (s *Signed) check(claim Claim, keys Keys) ([]Signer, error) {
	if err := claim.check(); err != nil {
		return nil, err
	}
	if len(s.Lines) == 0 {
		return nil, ErrUnsigned
	}
	if !s.anyFits() {
		// This comes before the keys, so that a damaged file of an unknown signer is reported as damaged.
		return nil, s.contentError(s.Lines[0].Digest)
	}
	var signers []Signer
	var unknown []string
	for _, line := range s.Lines {
		public, ok := keys(line.Key)
		if !ok || public.Fingerprint() != line.Key { // never trust a fingerprint: compute it
			unknown = append(unknown, line.Key.String())
			continue
		}
		switch {
		case line.Digest != s.Stripped:
			return nil, s.contentError(line.Digest)
		case line.Tree != claim.Tree:
			return nil, &IntegrityError{What: "tree", Expected: treeText(line.Tree), Found: treeText(claim.Tree)}
		case !s.held.has(claim, line, public) && !claim.Holds(line, public):
			return nil, &SignatureInvalidError{line.Key, claim.Name}
		}
		signers = append(signers, Signer{public, line.Time, V2})
	}
	if len(signers) == 0 {
		return nil, &UnknownKeyError{unknown}
	}
	return signers, nil
}

func treeText(d cas.Digest) string {
	if d.IsZero() {
		return "none"
	}
	return d.String()
}
