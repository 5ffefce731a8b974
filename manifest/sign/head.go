package sign

import (
	"bytes"
	"fmt"
	"slices"
)

// MaxLines is the most signature lines of a file.
const MaxLines = 16

// headSize is more than a search for the lines needs: the byte order mark, two lines before the block, one line more
// than the block may have, and a line after it.
const headSize = 32 << 10

// A block is the signature lines found in the head of a file.
type block struct {
	start, end int // the bytes of the lines; equal if there are none
	lines      []Line
	v1         bool  // the block has a line of the first format
	crlf       bool  // only the line ends are wrong
	err        error // the problem with the block, if any
	beyond     bool  // signing again does not repair err
}

// findBlock searches the two places where lines may be: the start of the file, and the place of the style.
func findBlock(head []byte, style Style) block {
	first := comments[style&commentBits]
	if first.open == "" {
		return block{}
	}
	at, c, _ := style.place(head)
	if b := readBlock(head, 0, first); b.end > 0 {
		b.check(head, style, first)
		return b
	}
	b := readBlock(head, at, c)
	if b.end > b.start {
		b.check(head, style, c)
	}
	return b
}

const crlfLines = "signature lines end with CR LF"

// readBlock reads the lines at an offset.
func readBlock(head []byte, at int, comment comment) block {
	block := block{start: at, end: at}
	for {
		line, n, ended := firstLine(head[block.end:])
		text, ok := bytes.CutPrefix(line, []byte(comment.open))
		if !ok || !bytes.HasPrefix(text, []byte(magic)) || !ended && n == maxLine {
			return block
		}
		version, ok := formatOf(text)
		switch {
		case !ok && (block.v1 || !isV1Line(text)):
			return block // other text: content
		case !ok:
			block.v1 = true
		case version != "v2":
			block.fail(&VersionError{version}, true)
		default:
			text, ok = bytes.CutSuffix(text, []byte(comment.close))
			line, err := ParseLine(text)
			switch {
			case !ok || err != nil:
				block.fail(layout("line %d is not a whole signature line", lineNumber(head, block.end)), true)
			case !ended:
				block.fail(layout("line %d, a signature line, has no line end", lineNumber(head, block.end)), true)
			case len(block.lines) == MaxLines:
				block.fail(layout("%s", ErrTooMany), true)
				return block
			}
			if err == nil {
				block.lines = append(block.lines, line)
			}
		}
		block.end += n
	}
}

// fail keeps the first error, and prefers errors that signing does not repair.
func (b *block) fail(err error, beyond bool) {
	if b.err == nil || beyond && !b.beyond {
		b.err = err
	}
	b.beyond = b.beyond || beyond
}

func layout(format string, args ...any) error {
	return &IntegrityError{What: "lines", Reason: fmt.Sprintf(format, args...)}
}

func lineNumber(head []byte, at int) int { return 1 + bytes.Count(head[:at], []byte("\n")) }

// check puts the lines back into the rest of the head, and compares.
func (b *block) check(head []byte, style Style, comment comment) {
	if b.v1 {
		if len(b.lines) > 0 {
			b.fail(layout("the file has signature lines of both formats, v1 and v2"), false)
		}
		return
	}
	if b.err != nil {
		return
	}
	rest := slices.Concat(head[:b.start], head[b.end:min(len(head), b.end+maxPlace)])
	at, want, ok := style.place(rest)
	switch {
	case !ok || at != b.start || want != comment:
		b.fail(layout("signature lines at line %d are in the wrong place", lineNumber(head, b.start)), false)
	case disorder(b.lines) != nil:
		b.fail(disorder(b.lines), false)
	case !bytes.Equal(text(comment, b.lines), head[b.start:b.end]):
		// A line that parses is written back unchanged, except for its line end.
		b.crlf = true
		b.fail(layout(crlfLines), false)
	}
}

func disorder(lines []Line) error {
	for i := 1; i < len(lines); i++ {
		switch c := lines[i-1].Key.Compare(lines[i].Key); {
		case c == 0:
			return layout("two signature lines of the key %s", lines[i].Key.Short())
		case c > 0:
			return layout("signature lines are not sorted by fingerprint")
		}
	}
	return nil
}

// formatOf returns the version in a line, if the line has one.
func formatOf(text []byte) (string, bool) {
	text, _, found := bytes.Cut(text[len(magic):], []byte(":"))
	digits, ok := bytes.CutPrefix(text, []byte("v"))
	if !found || !ok || len(digits) == 0 || bytes.ContainsFunc(digits, func(r rune) bool {
		return r < '0' || r > '9'
	}) {
		return "", false
	}
	return string(text), true
}
