package sign

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"slices"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/key"
)

// A Line is one parsed signature line, unverified.
type Line struct {
	Time   time.Time       // UTC, whole seconds, years 0 to 9999
	Digest cas.Digest      // of the file without its lines
	Tree   cas.Digest      // of the other files that the signature covers, or zero
	Sig    [64]byte        // Ed25519
	Key    key.Fingerprint // of the signer
}

const (
	magic   = "rye:signed:" // both formats begin like this
	magicV2 = magic + "v2:"

	timeLayout = "2006-01-02T15:04:05Z"
	hexLen     = 64
	sigLen     = 86
)

// ErrLine is the error of ParseLine for anything but the one form of a line.
var ErrLine = errors.New("not a signature line: expected rye:signed:v2:TIME:DIGEST[+TREE]:SIGNATURE:FINGERPRINT")

// base64url is strict: unused bits must be zero. It still skips line ends, but a line has none.
var base64url = base64.RawURLEncoding.Strict()

// ParseLine reads exactly the form that String writes.
func ParseLine[T string | []byte](text T) (line Line, err error) {
	if len(text) > maxLine {
		return Line{}, ErrLine
	}
	parser := parser{rest: []byte(text)}
	parser.literal(magicV2)
	stamp := parser.take(len(timeLayout))
	parser.literal(":")
	line.Digest = parser.digest()
	if bytes.HasPrefix(parser.rest, []byte("+")) {
		parser.literal("+")
		line.Tree = parser.digest()
		parser.bad = parser.bad || line.Tree.IsZero() // a zero tree has another form
	}
	parser.literal(":")
	sig := parser.take(sigLen)
	parser.literal(":")
	line.Key = key.Fingerprint(parser.digest())
	if parser.bad || len(parser.rest) > 0 {
		return Line{}, ErrLine
	}
	var ok bool
	if line.Time, ok = parseTime(stamp); !ok {
		return Line{}, ErrLine
	}
	if n, err := base64url.Decode(line.Sig[:], sig); err != nil || n != len(line.Sig) {
		return Line{}, ErrLine
	}
	return line, nil
}

// A parser reads fields of a text; once bad it stays bad.
type parser struct {
	rest []byte
	bad  bool
}

func (p *parser) take(n int) []byte {
	if p.bad = p.bad || len(p.rest) < n; p.bad {
		return nil
	}
	b := p.rest[:n]
	p.rest = p.rest[n:]
	return b
}

func (p *parser) literal(s string) { p.bad = string(p.take(len(s))) != s || p.bad }

func (p *parser) digest() cas.Digest {
	var text [7 + hexLen]byte
	d, err := cas.ParseDigest(append(append(text[:0], "blake3:"...), p.take(hexLen)...))
	p.bad = p.bad || err != nil
	return d
}

// parseTime accepts only text that formatting the time gives again: time.Parse alone allows fractions.
func parseTime(b []byte) (time.Time, bool) {
	t, err := time.Parse(timeLayout, string(b))
	return t, err == nil && string(t.AppendFormat(nil, timeLayout)) == string(b)
}

// appendDigest appends the digits without the prefix.
func appendDigest(b []byte, d cas.Digest) []byte {
	var text [7 + hexLen]byte
	return append(b, d.Append(text[:0])[7:]...)
}

// Append appends the text of String to b.
func (l Line) Append(b []byte) []byte {
	b = append(b, magicV2...)
	b = l.Time.AppendFormat(b, timeLayout)
	b = appendDigest(append(b, ':'), l.Digest)
	if !l.Tree.IsZero() {
		b = appendDigest(append(b, '+'), l.Tree)
	}
	b = base64url.AppendEncode(append(b, ':'), l.Sig[:])
	return appendDigest(append(b, ':'), cas.Digest(l.Key))
}

// String returns the line without comment marks: rye:signed:v2:…
func (l Line) String() string { return string(l.Append(nil)) }

// text returns lines as they appear in a file.
func text(c comment, lines []Line) (b []byte) {
	for i := range lines {
		b = append(b, c.open...)
		b = lines[i].Append(b)
		b = append(b, c.close...)
		b = append(b, '\n')
	}
	return b
}

// merge returns the lines in file order, one for each key: the one with the latest time, and at equal times the one
// with the greater text. It verifies nothing.
func merge(lines []Line) ([]Line, error) {
	slices.SortFunc(lines, func(a, b Line) int {
		return cmp.Or(a.Key.Compare(b.Key), b.Time.Compare(a.Time), bytes.Compare(b.Append(nil), a.Append(nil)))
	})
	lines = slices.CompactFunc(lines, func(a, b Line) bool { return a.Key == b.Key })
	if len(lines) > MaxLines {
		return nil, ErrTooMany
	}
	return lines, nil
}
