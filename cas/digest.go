package cas

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"strings"

	"github.com/zeebo/blake3"
)

// Size is the length of a digest in bytes.
const Size = 32

// prefix begins every written digest: there is one algorithm and one spelling.
const prefix = "blake3:"

// A Digest is the BLAKE3-256 hash of raw bytes. It is comparable; the zero Digest names nothing.
type Digest [Size]byte

// Sum returns the digest of b.
func Sum(b []byte) Digest { return blake3.Sum256(b) }

// ErrDigest is the error of ParseDigest for anything but the one spelling of a digest.
var ErrDigest = errors.New(`not a digest: expected "blake3:" and 64 lower-case hexadecimal digits`)

// ParseDigest reads only the form that String writes: upper case, another algorithm, missing digits or surrounding
// space are all ErrDigest.
func ParseDigest[T string | []byte](s T) (Digest, error) {
	var d Digest
	var text [2 * Size]byte
	if len(s) != len(prefix)+len(text) || string(s[:len(prefix)]) != prefix {
		return Digest{}, ErrDigest
	}
	copy(text[:], s[len(prefix):])
	if !getHex(&d, &text) {
		return Digest{}, ErrDigest
	}
	return d, nil
}

// nibble returns the value of a lower-case hexadecimal digit, or 255.
func nibble(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	}
	return 255
}

// String returns "blake3:" and the 64 hexadecimal digits.
func (d Digest) String() string { return string(d.Append(nil)) }

// Append appends the text of String to b.
func (d Digest) Append(b []byte) []byte {
	var text [2 * Size]byte
	putHex(&text, &d)
	return append(append(b, prefix...), text[:]...)
}

// Short returns the first 12 hexadecimal digits, the form shown to people. It is never written to a file.
func (d Digest) Short() string { return hex.EncodeToString(d[:6]) }

// IsZero reports whether d is the zero Digest.
func (d Digest) IsZero() bool { return d == Digest{} }

// Compare orders digests by their bytes.
func (d Digest) Compare(o Digest) int { return bytes.Compare(d[:], o[:]) }

// MarshalText writes the form of String.
func (d Digest) MarshalText() ([]byte, error) { return d.Append(nil), nil }

// UnmarshalText reads the form of String.
func (d *Digest) UnmarshalText(b []byte) (err error) {
	*d, err = ParseDigest(b)
	return err
}

// ParsePrefix reads an abbreviated digest as people type it: an optional "blake3:", then 4 to 64 lower-case digits.
// It returns the digits. Only commands that read accept abbreviations.
func ParsePrefix(s string) (string, bool) {
	s = strings.TrimPrefix(s, prefix)
	if len(s) < 4 || len(s) > 2*Size {
		return "", false
	}
	for i := range len(s) {
		if nibble(s[i]) > 15 {
			return "", false
		}
	}
	return s, true
}

// HasPrefix reports whether the digits of d begin with those that ParsePrefix returned.
func (d Digest) HasPrefix(digits string) bool {
	return strings.HasPrefix(hex.EncodeToString(d[:(len(digits)+1)/2]), digits)
}

// A Hasher computes the digest of the bytes written to it.
type Hasher struct{ h *blake3.Hasher }

// NewHasher returns a Hasher of no bytes.
func NewHasher() Hasher { return Hasher{blake3.New()} }

// Write never fails.
func (h Hasher) Write(b []byte) (int, error) { return h.h.Write(b) }

// Digest returns the digest of everything written so far.
func (h Hasher) Digest() (d Digest) {
	h.h.Sum(d[:0])
	return d
}

// Clone returns a Hasher of the bytes written to h so far.
func (h Hasher) Clone() Hasher { return Hasher{h.h.Clone()} }

// Reset forgets the bytes written so far.
func (h Hasher) Reset() { h.h.Reset() }

var _ io.Writer = Hasher{}
