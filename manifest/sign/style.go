package sign

import (
	"bytes"
	"path"
	"strings"
)

// A Style says how signature lines are written in a file: one of the four comments, with one of the V1 rules if
// lines of the first format are to be read too, as in Hash|V1Tool. The zero Style is that of files which can't
// carry lines.
type Style uint8

const (
	NoStyle Style = iota
	Hash          // # …
	Slashes       // // …
	Angle         // <!-- … -->
	Dashes        // -- …

	// How files of the first format are hashed, and where their line stands. See v1.go.
	V1Directive Style = 1 << 4
	V1Tool      Style = 2 << 4 // bundle manifests too
	V1Knowledge Style = 3 << 4

	commentBits Style = 1<<4 - 1
)

type comment struct{ open, close string }

// comments is indexed by Style.
var comments = [...]comment{{}, {"# ", ""}, {"// ", ""}, {"<!-- ", " -->"}, {"-- ", ""}}

// StyleOf returns the Style that the extension of a file's name stands for in the kernel, NoStyle if none.
func StyleOf(name string) Style {
	switch strings.ToLower(path.Ext(name)) {
	case ".py", ".sh", ".bash", ".yaml", ".yml", ".toml", ".rb", ".pl", ".tcl", ".star":
		return Hash
	case ".js", ".mjs", ".cjs", ".ts", ".go", ".rs", ".java", ".c":
		return Slashes
	case ".md", ".html", ".xml":
		return Angle
	case ".lua", ".sql":
		return Dashes
	}
	return NoStyle
}

// ParseStyle returns the Style whose comments begin like this: "#", "//", "<!--" or "--".
func ParseStyle(open string) (Style, bool) {
	for s := Hash; s <= Dashes; s++ {
		if open+" " == comments[s].open {
			return s, true
		}
	}
	return NoStyle, false
}

// maxLine bounds the lines that are looked at, line end included. Longer ones are neither signature lines nor
// what these stand behind.
const maxLine = 1000

// maxPlace is as much of a file as Style.place looks at: a byte order mark and two lines.
const maxPlace = len("\ufeff") + 2*maxLine

// firstLine returns the first line of b without its end, and its length with it. An end that isn't there is
// reported as not ended.
func firstLine(b []byte) (line []byte, n int, ended bool) {
	if len(b) > maxLine {
		b = b[:maxLine]
	}
	n = bytes.IndexByte(b, '\n') + 1
	if n == 0 {
		return b, len(b), false
	}
	return bytes.TrimSuffix(b[:n-1], []byte("\r")), n, true
}

// place returns where the signature lines of a file stand, as an offset into it without them, and how they are
// written there. Only the first two lines are looked at, so that head may be the start of the file, or the start
// of the file with its lines still in it. It is not ok where no line can be put: below a line that doesn't end, or
// that goes on in the next.
func (s Style) place(head []byte) (at int, c comment, ok bool) {
	c = comments[s&commentBits]
	if bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) {
		return 0, c, false // UTF-16
	}
	if bytes.HasPrefix(head, []byte("\ufeff")) {
		at = len("\ufeff")
	}
	line, n, ended := firstLine(head[at:])
	rest := head[at+n:]
	switch {
	case n == maxLine && !ended:
		return at, c, true
	case string(line) == "---":
		if c.open != comments[Dashes].open { // there it is a comment as well
			c = comments[Hash]
		}
		return at + n, c, ended
	case c.open == comments[Hash].open && isCoding(line):
		return at + n, c, ended && !goesOn(line)
	case c.open == comments[Hash].open && ended && isComment(line):
		if second, m, ended := firstLine(rest); isCoding(second) && (ended || m < maxLine) {
			return at + n + m, c, ended && !goesOn(second)
		}
	case c.open == comments[Angle].open && bytes.HasPrefix(line, []byte("<?xml ")) &&
		bytes.HasSuffix(line, []byte("?>")):
		return at + n, c, ended
	}
	if bytes.HasPrefix(line, []byte("#!")) {
		return at + n, c, ended && !goesOn(line)
	}
	return at, c, true
}

// goesOn reports whether the line below may be a part of this comment. It is to Tcl and C: there a line put between
// the two would be read in the place of the other, which would count from then on.
func goesOn(line []byte) bool { return bytes.HasSuffix(line, []byte(`\`)) }

// isComment reports whether Python looks for a coding line below this one.
func isComment(line []byte) bool {
	line = bytes.TrimLeft(line, " \t\f")
	return len(line) == 0 || line[0] == '#'
}

// isCoding reports whether the line is what Python's reference calls an encoding declaration. Ruby and Emacs
// read the same lines.
func isCoding(line []byte) bool {
	line = bytes.TrimLeft(line, " \t\f")
	if len(line) == 0 || line[0] != '#' || bytes.HasPrefix(line, []byte(comments[Hash].open+magic)) {
		return false
	}
	for {
		_, after, found := bytes.Cut(line, []byte("coding"))
		if !found {
			return false
		}
		if len(after) > 0 && (after[0] == ':' || after[0] == '=') {
			value := bytes.TrimLeft(after[1:], " \t")
			if len(value) > 0 && (value[0] == '-' || value[0] == '_' || value[0] == '.' || isAlnum(value[0])) {
				return true
			}
		}
		line = after
	}
}

func isAlnum(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' }
