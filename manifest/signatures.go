package manifest

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/canon"
	"github.com/rye-build/rye/manifest/sign"
)

// Signatures are the signature lines of one document, sorted by fingerprint, one of each key, at most 16.
type Signatures []sign.Line

// maxSignatures is an upper bound for the bytes of signatures.
const maxSignatures = sign.MaxLines * (canon.MaxCommentLine + 1)

// Append appends the lines to dst: the content of a .sig file, and the beginning of a whole document.
func (s Signatures) Append(dst []byte) []byte {
	for _, l := range s {
		dst = append(l.Append(append(dst, "# "...)), '\n')
	}
	return dst
}

// ParseSignatures reads exactly the form that Append writes, for the document with an id. An empty file is
// sign.ErrUnsigned: a .sig file has at least one line.
func ParseSignatures(b []byte, id cas.Digest) (Signatures, error) {
	if len(b) == 0 {
		return nil, sign.ErrUnsigned
	}
	s, err := parseLines(b)
	if err != nil {
		return nil, err
	}
	if err := s.check(id); err != nil {
		return nil, err
	}
	return s, nil
}

func badLines(format string, args ...any) error {
	return &sign.IntegrityError{What: "lines", Reason: fmt.Sprintf(format, args...)}
}

func parseLines(b []byte) (Signatures, error) {
	var signatures Signatures
	for line := range bytes.Lines(b) {
		if len(signatures) == sign.MaxLines {
			return nil, sign.ErrTooMany
		}
		text, _ := bytes.CutPrefix(line, []byte("# "))
		l, err := sign.ParseLine(bytes.TrimSuffix(text, []byte("\n")))
		if version, ok := laterVersion(string(text)); ok {
			return nil, &sign.VersionError{Found: version}
		}
		if err != nil || !bytes.Equal(Signatures{l}.Append(nil), line) {
			return nil, badLines("line %d is not a signature line of a document: %+.100q", len(signatures)+1, line)
		}
		signatures = append(signatures, l)
	}
	return signatures, nil
}

// laterVersion returns the version of a line that looks like a signature line of another version.
func laterVersion(text string) (string, bool) {
	text, ok := strings.CutPrefix(text, "rye:signed:v")
	version, _, more := strings.Cut(text, ":")
	return "v" + version, ok && more && isNumber(version) && version != "2"
}

// joinLines joins lines without LF into a text.
func joinLines(lines [][]byte) []byte {
	var b []byte
	for _, line := range lines {
		b = append(append(b, line...), '\n')
	}
	return b
}

// check returns an error unless the lines are in order and sign the document with this id.
func (s Signatures) check(id cas.Digest) error {
	for i, l := range s {
		if i > 0 && l.Key.Compare(s[i-1].Key) <= 0 {
			return badLines("the signature lines are not one of each key, sorted by fingerprint")
		}
		if !l.Tree.IsZero() {
			return &sign.IntegrityError{What: "tree", Expected: l.Tree.String(), Found: "none"}
		}
		if l.Digest != id {
			return &sign.IntegrityError{What: "content", Expected: l.Digest.String(), Found: id.String()}
		}
	}
	return nil
}

// merge returns the lines of keys that have no line in without, sorted by fingerprint: of each key the latest, and at
// equal times the one with the greater signature.
func merge(lines, without []sign.Line) Signatures {
	lines = slices.DeleteFunc(slices.Clone(lines), func(l sign.Line) bool {
		return slices.ContainsFunc(without, func(o sign.Line) bool { return o.Key == l.Key })
	})
	slices.SortFunc(lines, func(a, b sign.Line) int {
		return cmp.Or(a.Key.Compare(b.Key), b.Time.Compare(a.Time), bytes.Compare(b.Sig[:], a.Sig[:]))
	})
	return slices.CompactFunc(lines, func(a, b sign.Line) bool { return a.Key == b.Key })
}
