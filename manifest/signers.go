package manifest

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/canon"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/key"
)

// A SignerKey is the public key of a document's signer, and the owner it claims. It travels with the document as
// information and is never trusted.
type SignerKey struct {
	Public key.Public
	Owner  string // one line of visible text; may be empty
}

// maxOwner is the most bytes of an owner.
const maxOwner = 200

// AppendSignerKeys appends the keys that signed, one to a line: the public key and, after a space, its owner. They are
// sorted by fingerprint. It leaves out keys that didn't sign, and owners that don't fit on a line.
func AppendSignerKeys(dst []byte, s Signatures, keys []SignerKey) []byte {
	for _, l := range s {
		i := slices.IndexFunc(keys, func(k SignerKey) bool { return k.Public.Fingerprint() == l.Key })
		if i < 0 {
			continue
		}
		dst = append(dst, keys[i].Public.String()...)
		if owner := keys[i].Owner; owner != "" && len(owner) <= maxOwner && plain(owner) {
			dst = append(append(dst, ' '), owner...)
		}
		dst = append(dst, '\n')
	}
	return dst
}

// ParseSignerKeys reads exactly the form that AppendSignerKeys writes for a document with these signatures.
func ParseSignerKeys(b []byte, s Signatures) ([]SignerKey, error) {
	var keys []SignerKey
	for line := range strings.Lines(string(b)) {
		text, owner, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		p, err := key.ParsePublic(text)
		if err != nil {
			return nil, err
		}
		keys = append(keys, SignerKey{p, owner})
	}
	if len(keys) == 0 || !bytes.Equal(AppendSignerKeys(nil, s, keys), b) {
		return nil, fault.New(fault.Parsing, "invalid list of signers' keys")
	}
	return keys, nil
}

// signersSpec is the document that the package comment shows.
var signersSpec = canon.Spec{
	Format: "signers/2",
	Sections: []canon.Section{{Name: "keys", Fields: []canon.Field{
		{Name: "public", Max: 43},
		{Name: "owner", Optional: true, Max: maxOwner},
	}}},
	MaxBytes:   1 << 20,
	MaxEntries: 1 << 12,
}

// ReadSigners reads a list of signers, as AppendSigners writes it.
func ReadSigners(in io.Reader) (keys []SignerKey, err error) {
	scanner := canon.NewScanner(in, &signersSpec)
	for scanner.Scan() {
		k := SignerKey{Owner: string(scanner.Str(1))}
		if k.Public, err = key.ParsePublic(string(scanner.Str(0))); err != nil {
			return nil, badDocument("signers", scanner.Line(), err)
		}
		switch {
		case k.Public.Fingerprint().String() != string(scanner.Key()):
			return nil, badDocument("signers", scanner.Line(), errors.New("the key has another fingerprint"))
		case !plain(k.Owner):
			return nil, badDocument("signers", scanner.Line(), errors.New("owner is not one line of visible text"))
		}
		keys = append(keys, k)
	}
	return keys, scanner.Err()
}

// AppendSigners appends the document that names the keys, sorted by fingerprint. It leaves out owners that don't fit
// on a line.
func AppendSigners(dst []byte, keys []SignerKey) ([]byte, error) {
	e := canon.NewEncoderBytes(dst, &signersSpec)
	for _, k := range sorted(keys, func(k SignerKey) string { return k.Public.Fingerprint().String() }) {
		e.Begin(0, k.Public.Fingerprint().String())
		e.Str(0, k.Public.String())
		if k.Owner != "" && len(k.Owner) <= maxOwner && plain(k.Owner) {
			e.Str(1, k.Owner)
		}
		e.End()
	}
	err := e.Close()
	return e.Bytes(), err
}
