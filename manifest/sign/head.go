package sign

import (
	"bytes"
	"fmt"
	"slices"
)

// MaxLines is how many signature lines a file may carry.
const MaxLines = 16

// headSize is more than is ever looked at to find the lines: the byte order mark, two lines before the block,
// one line more than the block may have, and a line after it.
const headSize = 32 << 10

// A block is what the head of a file says about its signatures.
type block struct {
	start, end int // the bytes of the lines; equal if there are none
	lines      []Line
	v1         bool  // a line of the first format stands among them
	crlf       bool  // the lines are right but for their ends
	err        error // what is wrong with the block as it stands
	beyond     bool  // signing doesn't repair that
}

// findBlock looks for lines in the two places where a reader looks: first in the file, and where they belong.
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

// readBlock reads the lines that stand at an offset.
func readBlock(head []byte, at int, c comment) block {
	b := block{start: at, end: at}
	for {
		line, n, ended := firstLine(head[b.end:])
		text, ok := bytes.CutPrefix(line, []byte(c.open))
		if !ok || !bytes.HasPrefix(text, []byte(magic)) || !ended && n == maxLine {
			return b
		}
		version, ok := formatOf(text)
		switch {
		case !ok && (b.v1 || !isV1Line(text)):
			return b // some other text, and content
		case !ok:
			b.v1 = true
		case version != "v2":
			b.fail(&VersionError{version}, true)
		default:
			text, ok = bytes.CutSuffix(text, []byte(c.close))
			l, err := ParseLine(text)
			switch {
			case !ok || err != nil:
				b.fail(layout("line %d is not a whole signature line", lineNumber(head, b.end)), true)
			case !ended:
				b.fail(layout("line %d, a signature line, has no line end", lineNumber(head, b.end)), true)
			case len(b.lines) == MaxLines:
				b.fail(layout("%s", ErrTooMany), true)
				return b
			}
			if err == nil {
				b.lines = append(b.lines, l)
			}
		}
		b.end += n
	}
}

// fail keeps the first error, and that of those that signing doesn't repair.
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

// check puts the lines back where they belong in the rest of the head, and compares.
func (b *block) check(head []byte, style Style, c comment) {
	if b.v1 {
		if len(b.lines) > 0 {
			b.fail(layout("a signature line of the first format (v1) stands beside one of v2"), false)
		}
		return
	}
	if b.err != nil {
		return
	}
	rest := slices.Concat(head[:b.start], head[b.end:min(len(head), b.end+maxPlace)])
	at, want, ok := style.place(rest)
	switch {
	case !ok || at != b.start || want != c:
		b.fail(layout("signature lines stand at line %d, which is not their place", lineNumber(head, b.start)), false)
	case disorder(b.lines) != nil:
		b.fail(disorder(b.lines), false)
	case !bytes.Equal(text(c, b.lines), head[b.start:b.end]):
		// What parses is written back as it was, its line end aside.
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

// formatOf returns the version that stands in a line, if one does.
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
