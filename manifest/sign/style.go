package sign

import (
	"bytes"
	"path"
	"strings"
)

// A Style is the form of signature lines in a file: one of the four comments, combined with one of the V1 rules if the
// file may have lines of the first format, as in Hash|V1Tool. Files with the zero Style can't carry lines.
type Style uint8

const (
	NoStyle Style = iota
	Hash          // # …
	Slashes       // // …
	Angle         // <!-- … -->
	Dashes        // -- …

	// The rules of the first format: how files are hashed, and the place of the line. See v1.go.
	V1Directive Style = 1 << 4
	V1Tool      Style = 2 << 4 // bundle manifests too
	V1Knowledge Style = 3 << 4

	commentBits Style = 1<<4 - 1
)

type comment struct{ open, close string }

// comments is indexed by Style.
var comments = [...]comment{{}, {"# ", ""}, {"// ", ""}, {"<!-- ", " -->"}, {"-- ", ""}}

// StyleOf returns rye's Style for the extension of a file's name, or NoStyle.
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

// ParseStyle returns the Style whose comments begin with open: "#", "//", "<!--" or "--".
func ParseStyle(open string) (Style, bool) {
	for s := Hash; s <= Dashes; s++ {
		if open+" " == comments[s].open {
			return s, true
		}
	}
	return NoStyle, false
}

// maxLine limits the lines that this package reads, line end included. Longer lines are neither signature lines nor
// lines that signatures follow.
const maxLine = 1000

// maxPlace is the length that Style.place reads at most: a byte order mark and two lines.
const maxPlace = len("\ufeff") + 2*maxLine

// firstLine returns the first line of b without its end, its length with the end, and whether it has an end.
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

// place returns the offset of the signature lines in a file without them, and their comment. It reads only the first
// two lines, so head may be the start of the file, or the start of the file with its lines. It is not ok if a file has
// no place for a line: below a line that doesn't end, or that continues in the next.
func (s Style) place(head []byte) (at int, comment comment, ok bool) {
	comment = comments[s&commentBits]
	if bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) {
		return 0, comment, false // UTF-16
	}
	if bytes.HasPrefix(head, []byte("\ufeff")) {
		at = len("\ufeff")
	}
	line, n, ended := firstLine(head[at:])
	rest := head[at+n:]
	switch {
	case n == maxLine && !ended:
		return at, comment, true
	case string(line) == "---":
		if comment.open != comments[Dashes].open { // in Dashes it is a comment
			comment = comments[Hash]
		}
		return at + n, comment, ended
	case comment.open == comments[Hash].open && isCoding(line):
		return at + n, comment, ended && !goesOn(line)
	case comment.open == comments[Hash].open && ended && isComment(line):
		if second, m, ended := firstLine(rest); isCoding(second) && (ended || m < maxLine) {
			return at + n + m, comment, ended && !goesOn(second)
		}
	case comment.open == comments[Angle].open && bytes.HasPrefix(line, []byte("<?xml ")) &&
		bytes.HasSuffix(line, []byte("?>")):
		return at + n, comment, ended
	}
	if bytes.HasPrefix(line, []byte("#!")) {
		return at + n, comment, ended && !goesOn(line)
	}
	return at, comment, true
}

// goesOn reports whether this comment may continue in the next line. In Tcl and C it does: an inserted line would
// become part of the comment, and the line that was part of it before would become code.
func goesOn(line []byte) bool { return bytes.HasSuffix(line, []byte(`\`)) }

// isComment reports whether Python searches for a coding line below this one.
func isComment(line []byte) bool {
	line = bytes.TrimLeft(line, " \t\f")
	return len(line) == 0 || line[0] == '#'
}

// isCoding reports whether the line is an encoding declaration by Python's reference. Ruby and Emacs read the same
// lines.
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
