package vendor

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/canon"
)

const (
	format   = "vendor/2"
	head     = "rye: \"" + format + "\"\n"
	maxSmall = 64 << 10                // the size of the largest object in a pack
	maxLine  = 2*maxSmall + 2*64 + 100 // longer than any valid line
	maxPack  = 16 << 20                // much more than a pack has without a merge
	maxLines = 1 << 20
)

// signed is the kind of lines that name signatures. Package cas doesn't have it.
const signed cas.Kind = 0

const digits = 64 // of a digest

// A line is a line of a pack.
type line struct {
	id   cas.ID     // of kind signed: the digest is the document's
	blob cas.Digest // of its signature lines; else zero
	size int64
	data []byte // as written
	raw  []byte // the whole line, LF included
	at   int    // the offset of raw in the file
	no   int    // its number, from 1
}

// slot is the key by which two lines are duplicates.
type slot struct {
	id   cas.ID
	blob cas.Digest
}

func (l *line) slot() slot { return slot{l.id, l.blob} }

// lines iterates over the lines of a pack. It yields an invalid line as an *Error and continues, but stops after an
// error about the whole file, such as a *canon.VersionError.
func lines(name string, b []byte) iter.Seq2[line, error] {
	return func(yield func(line, error) bool) {
		prefix, _ := packPrefix(name)
		no, at := 0, 0
		for rest := b; len(rest) > 0; {
			no++
			raw := rest
			if n := bytes.IndexByte(rest, '\n'); n >= 0 {
				raw = rest[:n+1]
			}
			rest = rest[len(raw):]
			line := line{raw: raw, no: no, at: at}
			at += len(raw)
			if no == 1 {
				if err := checkHead(raw); err != nil {
					yield(line, &Error{name, 1, 0, err})
					return
				}
				continue
			}
			if string(raw) == head || isMark(raw) {
				continue
			}
			err := line.parse()
			if err == nil && !hasPrefix(line.id.Digest, prefix) {
				err = errElsewhere
			}
			if err != nil {
				err = &Error{name, no, 0, err}
			}
			if !yield(line, err) {
				return
			}
		}
		if no == 0 {
			yield(line{}, &Error{name, 0, 0, errNoHead})
		}
	}
}

func checkHead(raw []byte) error {
	if string(raw) == head {
		return nil
	}
	text := bytes.TrimRight(raw, "\r\n")
	if version, ok := bytes.CutPrefix(text, []byte(`rye: "vendor/`)); ok && len(text) < 100 {
		version, ok = bytes.CutSuffix(version, []byte(`"`))
		switch {
		case !ok || len(version) == 0 || len(bytes.Trim(version, "0123456789")) > 0:
		case string(version) != "2":
			return &canon.VersionError{Found: "vendor/" + string(version), Want: format}
		case bytes.HasSuffix(raw, []byte("\r\n")):
			return errCRLF
		}
	}
	return errNoHead
}

// isMark reports whether a line is one of git's conflict markers.
func isMark(raw []byte) bool {
	for _, mark := range []string{"<<<<<<< ", "||||||| ", ">>>>>>> "} {
		if bytes.HasPrefix(raw, []byte(mark)) {
			return true
		}
	}
	return string(raw) == "=======\n"
}

// parse parses l.raw. Decoding checks the data later.
func (l *line) parse() error {
	b, ended := bytes.CutSuffix(l.raw, []byte("\n"))
	if len(l.raw) > maxLine {
		return errLong
	}
	if !ended {
		return errCutOff
	}
	d, rest, ok := cutDigest(b)
	if !ok || len(rest) == 0 || rest[0] != ' ' {
		return errLine
	}
	kind, rest, ok := bytes.Cut(rest[1:], []byte(" "))
	if !ok {
		return errLine
	}
	l.id.Digest = d
	if string(kind) == "signatures" {
		if bytes.HasSuffix(rest, []byte("\r")) {
			return errCRLF
		}
		l.blob, rest, ok = cutDigest(rest)
		if !ok || len(rest) > 0 {
			return errLine
		}
		return nil
	}
	if l.id.Kind, ok = parseKind(kind); !ok {
		return errLine
	}
	size, data, ok := bytes.Cut(rest, []byte(" "))
	if !ok {
		return errLine
	}
	if bytes.HasSuffix(data, []byte("\r")) {
		return errCRLF
	}
	n, err := strconv.ParseInt(string(size), 10, 64)
	if err != nil || n < 0 || n > maxSmall || strconv.FormatInt(n, 10) != string(size) {
		return fmt.Errorf("%+.20q is no size of an object in a pack", size)
	}
	l.size, l.data = n, data
	return nil
}

func parseKind(b []byte) (cas.Kind, bool) {
	switch string(b) {
	case "blob":
		return cas.Blob, true
	case "tree":
		return cas.TreeKind, true
	case "document":
		return cas.Document, true
	}
	return 0, false
}

// cutDigest splits the digits of a digest off b.
func cutDigest(b []byte) (d cas.Digest, rest []byte, ok bool) {
	if len(b) < digits {
		return d, nil, false
	}
	var text [7 + digits]byte
	copy(text[copy(text[:], "blake3:"):], b)
	d, err := cas.ParseDigest(text[:])
	return d, b[digits:], err == nil
}

// hex returns the digits of a digest.
func hex(d cas.Digest) string { return d.String()[len("blake3:"):] }

// appendHex appends the digits of a digest.
func appendHex(dst []byte, d cas.Digest) []byte {
	const prefix = len("blake3:")
	from := len(dst)
	dst = d.Append(dst)
	return append(dst[:from], dst[from+prefix:]...)
}

func hasPrefix(d cas.Digest, prefix string) bool {
	for i := range len(prefix) {
		if nibble(d, i) != prefix[i] {
			return false
		}
	}
	return true
}

// nibble returns digit i of a digest.
func nibble(d cas.Digest, i int) byte {
	n := d[i/2] >> 4
	if i%2 == 1 {
		n = d[i/2] & 15
	}
	return "0123456789abcdef"[n]
}

// appendLine appends the line of a small object.
func appendLine(dst []byte, id cas.ID, b []byte) []byte {
	dst = append(appendHex(dst, id.Digest), ' ')
	dst = append(append(dst, id.Kind.String()...), ' ')
	dst = append(strconv.AppendInt(dst, int64(len(b)), 10), ' ')
	return append(appendData(dst, b), '\n')
}

// appendSigned appends the line that names the signatures of a document.
func appendSigned(dst []byte, document, blob cas.Digest) []byte {
	dst = append(appendHex(dst, document), " signatures "...)
	return append(appendHex(dst, blob), '\n')
}

// escapes maps bytes to the letters behind the backslash.
var escapes = [256]byte{'\n': 'n', '\r': 'r', 0: '0', '\\': '\\'}

func appendData(dst, data []byte) []byte {
	if bytes.IndexByte(data, '\\') < 0 && bytes.IndexByte(data, '\r') < 0 && bytes.IndexByte(data, 0) < 0 {
		return appendText(dst, data)
	}
	from := 0
	for i, c := range data {
		if letter := escapes[c]; letter != 0 {
			dst = append(append(dst, data[from:i]...), '\\', letter)
			from = i + 1
		}
	}
	return append(dst, data[from:]...)
}

// appendText is appendData for text in which only line ends are escaped, which are searched for many bytes at a time.
func appendText(dst, b []byte) []byte {
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			return append(dst, b...)
		}
		dst = append(append(dst, b[:i]...), '\\', 'n')
		b = b[i+1:]
	}
}

var (
	errEscape = errors.New(`not an escape: expected \n, \r, \0 or \\`)
	errRaw    = errors.New("a byte that would be escaped")
)

// decode appends the object of the line to dst. On an error, column is its position.
func (l *line) decode(dst []byte) (b []byte, column int, err error) {
	for _, c := range [...]byte{0, '\r'} {
		if i := bytes.IndexByte(l.data, c); i >= 0 {
			return dst, l.column(i), errRaw
		}
	}
	for rest := l.data; ; {
		i := bytes.IndexByte(rest, '\\')
		if i < 0 {
			return append(dst, rest...), 0, nil
		}
		dst = append(dst, rest[:i]...)
		char := byte(0)
		if i+1 < len(rest) {
			char = rest[i+1]
		}
		switch char {
		case 'n':
			char = '\n'
		case 'r':
			char = '\r'
		case '0':
			char = 0
		case '\\':
		default:
			return dst, l.column(len(l.data) - len(rest) + i), errEscape
		}
		dst, rest = append(dst, char), rest[i+2:]
	}
}

// object returns the object of a line of the named file. It doesn't check the digest.
func (l *line) object(name string) ([]byte, error) {
	b, column, err := l.decode(make([]byte, 0, l.size))
	if err == nil && int64(len(b)) != l.size {
		err = fmt.Errorf("the object has %d bytes, expected %d", len(b), l.size)
	}
	if err != nil {
		return nil, &Error{name, l.no, column, err}
	}
	return b, nil
}

// column returns the position of a data byte in the line.
func (l *line) column(i int) int { return len(l.raw) - 1 - len(l.data) + i + 1 }
