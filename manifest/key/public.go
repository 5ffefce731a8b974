package key

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
)

// invalid returns the error about an unusable key or key name.
func invalid(format string, args ...any) error {
	return fault.New(fault.Validation, "invalid key: "+format, args...).On("reason", "no-key")
}

// A Fingerprint names a public key: the BLAKE3-256 of its 32 bytes. It is comparable; the zero Fingerprint
// names nothing.
type Fingerprint [32]byte

// ParseFingerprint reads exactly the form that String writes.
func ParseFingerprint(s string) (f Fingerprint, err error) {
	if len(s) != 2*len(f) || !portable.Spelled(s, portable.Hex, "", len(s)) {
		return Fingerprint{}, fault.New(fault.Validation,
			"not a fingerprint: expected 64 lower-case hexadecimal digits")
	}
	hex.Decode(f[:], []byte(s)) // can't fail: length and digits are checked
	return f, nil
}

// String returns the 64 digits.
func (f Fingerprint) String() string { return hex.EncodeToString(f[:]) }

// Short returns the first 12 digits, the form shown to people. It is never written to a file.
func (f Fingerprint) Short() string { return hex.EncodeToString(f[:6]) }

// IsZero reports whether f is the zero Fingerprint.
func (f Fingerprint) IsZero() bool { return f == Fingerprint{} }

// Compare orders fingerprints by their bytes.
func (f Fingerprint) Compare(o Fingerprint) int { return bytes.Compare(f[:], o[:]) }

// MarshalText writes the form of String.
func (f Fingerprint) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText reads the form of String.
func (f *Fingerprint) UnmarshalText(b []byte) (err error) {
	*f, err = ParseFingerprint(string(b))
	return err
}

// A Public is a public key that has been checked. It is comparable. The zero Public is no key: nothing
// verifies under it.
type Public struct{ raw [32]byte }

// base64url is strict: unused bits must be zero. It still skips line ends, so lengths are checked first.
var base64url = base64.RawURLEncoding.Strict()

const textLen = 43

// ParsePublic reads exactly the form that String writes.
func ParsePublic(s string) (Public, error) {
	var raw [33]byte
	if len(s) != textLen {
		return Public{}, invalid("expected 43 characters of base64url, found %d", len(s))
	}
	if n, err := base64url.Decode(raw[:], []byte(s)); err != nil || n != 32 {
		return Public{}, invalid("%q is not base64url of 32 bytes", s)
	}
	return NewPublic(raw[:32])
}

// NewPublic returns the key with the 32 bytes of RFC 8032, or an error if they aren't worth trusting.
func NewPublic(raw []byte) (Public, error) {
	if len(raw) != 32 {
		return Public{}, invalid("expected 32 bytes, found %d", len(raw))
	}
	p := Public{[32]byte(raw)}
	if err := checkPoint(&p.raw); err != nil {
		return Public{}, err
	}
	return p, nil
}

// String returns the 43 characters of base64url.
func (p Public) String() string { return base64url.EncodeToString(p.raw[:]) }

// Bytes returns the 32 bytes.
func (p Public) Bytes() [32]byte { return p.raw }

// IsZero reports whether p is the zero Public, which is no key.
func (p Public) IsZero() bool { return p == Public{} }

// MarshalText writes the form of String.
func (p Public) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads the form of String.
func (p *Public) UnmarshalText(b []byte) (err error) {
	*p, err = ParsePublic(string(b))
	return err
}

// Fingerprint computes the fingerprint.
func (p Public) Fingerprint() Fingerprint { return Fingerprint(cas.Sum(p.raw[:])) }

// V1ID returns V1ID of the PEM that rye writes.
func (p Public) V1ID() string { return V1ID(p.PEM()) }

// V1ID returns the ID that signature lines of the first format use for the key in a PEM file of these bytes.
func V1ID(pem []byte) string {
	sum := sha256.Sum256(pem)
	return hex.EncodeToString(sum[:8])
}

// Verify reports whether sig is p's signature of msg.
func (p Public) Verify(msg, sig []byte) bool {
	if p.IsZero() || len(sig) != ed25519.SignatureSize || smallOrder((*[32]byte)(sig)) {
		return false
	}
	return ed25519.Verify(p.raw[:], msg, sig)
}
