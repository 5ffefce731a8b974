package sign

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"regexp"
	"slices"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/key"
)

// MaxV1 limits files of the first format, which Read keeps in memory.
const MaxV1 = 16 << 20

// A V1Line is the signature line of the first format.
type V1Line struct {
	Time   time.Time // not signed; zero if it isn't in the calendar
	SHA256 [32]byte  // of the bytes that the rule signs
	Sig    [64]byte  // of the hexadecimal digits of SHA256
	Key    string    // key.V1ID
	Origin string    // "provider@user" that a registry added, or ""; not signed

	whole bool     // the signature is 64 bytes in strict base64url
	found [32]byte // the digest of the file's bytes
}

const v1Bits = 3 << 4

var (
	base64v1 = base64.URLEncoding.Strict()

	// The fields of a line, in any comment: TIME:SHA256:SIGNATURE:KEY[|PROVIDER@USER].
	v1Fields = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(
			`^rye:signed:([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z):([a-f0-9]{64}):` +
				`([A-Za-z0-9_-]+={0,2}):([a-f0-9]{16})(?:\|([a-zA-Z0-9_-]+@[a-zA-Z0-9_-]+))?`)
	})
	v1OpenDirective = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`<directive[^>]*>`) })
)

// parseV1 reads a line after its comment mark and returns the text behind it.
func parseV1(text []byte) (v1line *V1Line, rest []byte, ok bool) {
	match := v1Fields().FindSubmatch(text)
	if match == nil {
		return nil, nil, false
	}
	v1line = &V1Line{Key: string(match[4]), Origin: string(match[5])}
	hex.Decode(v1line.SHA256[:], match[2])
	v1line.Time, _ = parseTime(match[1])
	var sig [66]byte // 88 characters
	if len(match[3]) == 88 {
		n, err := base64v1.Decode(sig[:], match[3])
		v1line.whole = err == nil && n == len(v1line.Sig)
	}
	copy(v1line.Sig[:], sig[:])
	return v1line, text[len(match[0]):], true
}

func isV1Line(text []byte) bool { return v1Fields().Match(text) }

// v1Line returns the end of the first line of b, which may also end in a CR, and whether the line ends.
func v1Line(b []byte) (n int, ended bool) {
	i := bytes.IndexAny(b, "\r\n")
	switch {
	case i < 0:
		return len(b), false
	case b[i] == '\r' && i+1 < len(b) && b[i+1] == '\n':
		return i + 2, true
	}
	return i + 1, true
}

// v1Shebang returns the length of the first line if that begins with #!/.
func v1Shebang(b []byte) int {
	if n, ended := v1Line(b); ended && bytes.HasPrefix(b, []byte("#!/")) {
		return n
	}
	return 0
}

// v1Comment returns the comment of a file's v1 line: for a tool "# ", whatever its language, unless the first line of
// text has the tool's own line comment.
func (s Style) v1Comment(text []byte) comment {
	own := comments[s&commentBits]
	switch {
	case s&v1Bits != V1Tool:
		return comments[Angle]
	case own.open != "" && own.close == "" && bytes.HasPrefix(text, []byte(own.open)):
		return own
	}
	return comments[Hash]
}

// findV1 reads the line of the first format at the start of a file, if the style has a rule.
func (s Style) findV1(head []byte) (*V1Line, bool) {
	switch s & v1Bits {
	case 0:
		return nil, false
	case V1Tool:
		head = head[v1Shebang(head):]
	}
	c := s.v1Comment(head)
	text, ok := bytes.CutPrefix(head[:min(len(head), 8*maxLine)], []byte(c.open))
	if !ok {
		return nil, false
	}
	l, rest, ok := parseV1(text)
	if !ok || !bytes.HasPrefix(rest, []byte(c.close)) {
		return nil, false
	}
	return l, true
}

// v1Cut returns the place of the line that signing again replaces, or of one of its ancestors: the text, with any line
// ends, that ^<!-- (rye|kiwi-mcp):(validated|signed):[^>]+-->\n matches or, behind a shebang and with the comment of
// v1Comment, ^# (rye|kiwi-mcp):(validated|signed):[^\n]+\n. Without a match, start and end are the place of a new
// line.
func (s Style) v1Cut(file []byte) (start, end int) {
	if s&v1Bits == V1Tool {
		start = v1Shebang(file)
	}
	open := s.v1Comment(file[start:]).open
	for _, mark := range []string{magic, "rye:validated:", "kiwi-mcp:signed:", "kiwi-mcp:validated:"} {
		text, ok := bytes.CutPrefix(file[start:], []byte(open+mark))
		if !ok {
			continue
		}
		if _, later := formatOf(slices.Concat([]byte(magic), text[:min(len(text), 16)])); mark == magic && later {
			break
		}
		least := 1
		if s&v1Bits != V1Tool {
			// A match of [^>]+--> ends at the first >, wherever lines end.
			least = bytes.IndexByte(text, '>') + 1
			if least < 4 || string(text[least-3:least]) != "-->" {
				break
			}
		}
		n, ended := v1Line(text[least-1:])
		n += least - 1
		isTool := s&v1Bits == V1Tool
		if length := len(bytes.TrimRight(text[:n], "\r\n")); ended &&
			(isTool && length > 0 || !isTool && length == least) {
			return start, len(file) - len(text) + n
		}
		break
	}
	return start, start
}

// v1NoPlace reports whether a line at an offset would follow a comment that may continue in it.
func (s Style) v1NoPlace(file []byte, at int) bool {
	return s&v1Bits == V1Tool && goesOn(bytes.TrimRight(file[:at], "\r\n"))
}

// v1Payload returns the bytes of a file that the rule signs.
func (s Style) v1Payload(file []byte) ([]byte, error) {
	if !utf8.Valid(file) {
		return nil, errors.New("not UTF-8")
	}
	start, end := s.v1Cut(file)
	if s&v1Bits == V1Tool {
		file = file[end:]
		return newlines(file[v1Shebang(file):]), nil // a shebang may also follow the line
	}
	text := newlines(slices.Concat(file[:start], file[end:]))
	if s&v1Bits == V1Knowledge {
		if front, ok := bytes.CutPrefix(text, []byte("---")); ok {
			if _, body, ok := bytes.Cut(front, []byte("---")); ok {
				return bytes.TrimFunc(body, pythonSpace), nil
			}
		}
		return text, nil
	}
	first := v1OpenDirective().FindIndex(text)
	last := bytes.LastIndex(text, []byte("</directive>"))
	if first == nil || last < first[1] {
		return nil, errors.New("no <directive> in a directive")
	}
	return text[first[0] : last+len("</directive>")], nil
}

// newlines makes every line end LF, as reading text in Python does.
func newlines(b []byte) []byte {
	b = bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))
	return bytes.ReplaceAll(b, []byte("\r"), []byte("\n"))
}

// pythonSpace is str.isspace, which has four separators more than Unicode's property.
func pythonSpace(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f }

// readV1 reads the rest of a file with a line of the first format.
func (s *Signed) readV1(r io.Reader, v1line *V1Line) error {
	block := block{v1: true, err: s.block.err, beyond: s.block.beyond}
	file, err := io.ReadAll(io.LimitReader(r, MaxV1+1))
	if err != nil {
		return err
	}
	if len(file) > MaxV1 {
		block.fail(layout("a file signed in the first format (v1) has more than %d bytes", MaxV1), true)
	}
	start, end := s.style.v1Cut(file)
	rest := slices.Concat(file[:start], file[end:])
	// The two formats may use different comments, so that they aren't seen as one block.
	if v2 := findBlock(rest[:min(len(rest), headSize)], s.style); v2.end > v2.start {
		block.fail(layout("the file has signature lines of both formats, v1 and v2"), false)
	}
	if s.style.v1NoPlace(file, start) {
		block.fail(layout("the line above the signature line ends in a backslash and may continue in it"), false)
	}
	if payload, err := s.style.v1Payload(file); err != nil {
		block.fail(layout("signed in the first format (v1), but %s", err), false)
	} else {
		v1line.found = sha256.Sum256(payload)
	}
	s.Format, s.V1, s.block = V1, v1line, block
	s.Raw, s.Stripped = cas.Sum(file), cas.Sum(rest)
	return nil
}

// CheckV1 verifies a file of Format V1 and returns the keys that signed it, at least one, of those that candidates
// returns for the 16 digits of a key. Its errors are those of Check.
//
// The result is evidence, not admission: the package comment lists the parts that such a signature leaves out.
func CheckV1(signed Signed, candidates func(id string) []key.Public) ([]Signer, error) {
	switch l := signed.V1; {
	case signed.block.err != nil:
		return nil, signed.block.err
	case signed.Format != V1:
		return nil, ErrUnsigned
	case l == nil:
		return nil, ErrV1Unread
	case l.found != l.SHA256:
		return nil, &IntegrityError{What: "content", Expected: "sha256:" + hex.EncodeToString(l.SHA256[:]),
			Found: "sha256:" + hex.EncodeToString(l.found[:])}
	}
	var signers []Signer
	found := candidates(signed.V1.Key)
	for _, p := range found {
		if signed.V1.whole && p.Verify([]byte(hex.EncodeToString(signed.V1.SHA256[:])), signed.V1.Sig[:]) {
			signers = append(signers, Signer{p, signed.V1.Time, V1})
		}
	}
	switch {
	case len(found) == 0:
		return nil, &UnknownKeyError{[]string{signed.V1.Key}}
	case len(signers) == 0:
		return nil, &SignatureInvalidError{Key: found[0].Fingerprint()}
	}
	return signers, nil
}

// StripV1 returns a file without the v1 line, or an older one, that its style has a rule for: the first step of
// signing it in v2.
func StripV1(file []byte, style Style) []byte {
	if style&v1Bits == 0 {
		return slices.Clone(file)
	}
	start, end := style.v1Cut(file)
	return slices.Concat(file[:start], file[end:])
}

// SignV1 returns a file signed in the first format, with a line in the place of its old one. It turns line ends into
// LF, as rye 1 did.
func SignV1(file []byte, style Style, signer key.Private, now time.Time) ([]byte, error) {
	if style&v1Bits == 0 {
		return nil, noStyle()
	}
	file = newlines(file)
	payload, err := style.v1Payload(file)
	if err != nil {
		return nil, err
	}
	start, end := style.v1Cut(file)
	if style.v1NoPlace(file, start) {
		return nil, noPlace()
	}
	rest := slices.Concat(file[:start], file[end:])
	if s, err := Read(bytes.NewReader(rest), style); err != nil || s.Format != None {
		return nil, layout("v2 signature lines are in the place of the v1 line")
	}
	sum := sha256.Sum256(payload)
	digits := hex.EncodeToString(sum[:])
	sig := signer.Sign([]byte(digits))
	line := "rye:signed:" + now.UTC().Format(timeLayout) + ":" + digits + ":" +
		base64v1.EncodeToString(sig[:]) + ":" + signer.Public().V1ID()
	if style&v1Bits == V1Tool {
		line = "# " + line + "\n"
	} else {
		line = "<!-- " + line + " -->\n"
	}
	return slices.Concat(rest[:start], []byte(line), rest[start:]), nil
}
