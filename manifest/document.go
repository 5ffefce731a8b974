package manifest

import (
	"bytes"
	"io"
	"slices"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/canon"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/sign"
)

// A Document is the common part of signed documents.
type Document struct {
	Domain     sign.Domain // of its signatures
	Name       string      // that its signatures vouch for
	ID         cas.Digest  // of its bytes without signature lines
	Signatures Signatures
}

// Sign adds the signature of a key. It keeps a valid signature of the key: signing again changes nothing.
func (d *Document) Sign(k key.Private, at time.Time) error {
	own := k.Public()
	line, err := sign.New(d.ID, d.claim(), k, at)
	if err != nil {
		return err
	}
	for _, l := range d.Signatures {
		if l.Key == line.Key && d.holds(l, own) {
			return nil
		}
	}
	rest := slices.DeleteFunc(slices.Clone(d.Signatures), func(l sign.Line) bool { return l.Key == line.Key })
	if len(rest) == sign.MaxLines {
		return sign.ErrTooMany
	}
	d.Signatures = merge(append(rest, line), nil)
	return nil
}

func (d *Document) claim() sign.Claim { return sign.Claim{Domain: d.Domain, Name: d.Name} }

// holds reports whether a line is k's signature of the document.
func (d *Document) holds(l sign.Line, k key.Public) bool {
	return l.Digest == d.ID && l.Key == k.Fingerprint() && d.claim().Holds(l, k)
}

// Merge sets the document's signatures to the union of these sets, which several places have stored for one document.
// It rejects a set with a line for other bytes. It drops invalid lines of the keys in known, which may be nil; of
// several by one key it keeps the latest, so that the order of the sets doesn't matter. Added lines can't push out a
// signature of a known key: beyond 16, lines of unknown keys go first. More than 16 of known keys are sign.ErrTooMany.
func (d *Document) Merge(known sign.Keys, sets ...Signatures) error {
	var good, rest []sign.Line
	for _, s := range sets {
		if err := s.check(d.ID); err != nil {
			return err
		}
		for _, l := range s {
			k, ok := key.Public{}, false
			if known != nil {
				k, ok = known(l.Key)
			}
			switch {
			case !ok:
				rest = append(rest, l)
			case d.holds(l, k):
				good = append(good, l)
			}
		}
	}
	good = merge(good, nil)
	rest = merge(rest, good)
	room := sign.MaxLines - len(good)
	if room < 0 {
		return sign.ErrTooMany
	}
	d.Signatures = merge(append(good, rest[:min(len(rest), room)]...), nil)
	return nil
}

// Check returns the known keys that signed the document; package policy decides whether they are enough. It fails as
// sign.CheckLines does.
func (d *Document) Check(keys sign.Keys) ([]sign.Signer, error) {
	return sign.CheckLines(d.Signatures, d.ID, d.claim(), keys)
}

// Split separates a document into its bytes without signature lines and its signatures. It keeps data; Join is its
// inverse.
func Split(data []byte) (body []byte, signatures Signatures, err error) {
	body = data
	for bytes.HasPrefix(body, []byte("#")) {
		n := bytes.IndexByte(body, '\n') + 1
		if n == 0 {
			n = len(body)
		}
		body = body[n:]
		if len(data)-len(body) > maxSignatures {
			break
		}
	}
	if signatures, err = parseLines(data[:len(data)-len(body)]); err != nil {
		return nil, nil, err
	}
	if err := signatures.check(cas.Sum(body)); err != nil {
		return nil, nil, err
	}
	return body, signatures, nil
}

// Join appends the signatures and the body to dst, as in a file that holds the whole document.
func Join(dst, body []byte, s Signatures) []byte { return append(s.Append(dst), body...) }

// A scan reads a document of a Spec and hashes it.
type scan struct {
	*canon.Scanner
	hash *hashing
}

// newScan begins a scan. If cut names a section, it also takes the digest of everything before that section.
func newScan(r io.Reader, spec *canon.Spec, cut string) *scan {
	h := newHashing(r, cut)
	return &scan{canon.NewScanner(h, spec), h}
}

// head reads everything before the first entry and reports whether it is good.
func (s *scan) head() bool {
	if !s.Header() {
		return false
	}
	s.hash.start(s.Body())
	return true
}

// document returns the Document after all of it was read, for signatures under a domain and a name.
func (s *scan) document(domain sign.Domain, name string) (Document, error) {
	d := Document{Domain: domain, Name: name, ID: s.hash.end()}
	var err error
	if d.Signatures, err = parseLines(joinLines(s.Comments())); err != nil {
		return Document{}, err
	}
	if err := d.Signatures.check(d.ID); err != nil {
		return Document{}, err
	}
	return d, nil
}
