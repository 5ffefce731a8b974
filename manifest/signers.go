package manifest

import (
	"bytes"
	"slices"
	"strings"

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
