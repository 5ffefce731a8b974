package starlark

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// A pattern matches paths, as in "**/*.go":
//
//   - any characters of one segment, ? one character, [a-z] one of these, [!a-z] one of the others
//     **      as a whole segment: any number of segments, including none
//     {a,b}   either
//
// A pattern without "/" matches the last segment, at any depth.
type pattern struct{ expression *regexp.Regexp }

var (
	errPattern  = &failure{"the pattern must be a relative path without .."}
	errBrackets = &failure{`the pattern has an unclosed "[" or "{"`}
)

func newPattern(text string) (*pattern, error) {
	if text == "" || strings.HasPrefix(text, "/") || slices.Contains(strings.Split(text, "/"), "..") {
		return nil, errPattern
	}
	if !strings.Contains(text, "/") {
		text = "**/" + text
	}
	var out strings.Builder
	out.WriteString("^")
	braces := 0
	for len(text) > 0 {
		switch char := text[0]; {
		case strings.HasPrefix(text, "**/") && (out.Len() == 1 || strings.HasSuffix(out.String(), "/")):
			out.WriteString("(?:[^/]+/)*")
			text = text[3:]
			// Several ** in a row mean the same as one.
			for strings.HasPrefix(text, "**/") {
				text = text[3:]
			}
			continue
		case text == "**" && strings.HasSuffix(out.String(), "/"):
			out.WriteString(".+")
			text = text[1:]
		case char == '*':
			out.WriteString("[^/]*")
		case char == '?':
			out.WriteString("[^/]")
		case char == '[':
			n, ok := class(&out, text)
			if !ok {
				return nil, errBrackets
			}
			text = text[n:]
			continue
		case char == '{':
			braces++
			out.WriteString("(?:")
		case char == '}' && braces > 0:
			braces--
			out.WriteString(")")
		case char == ',' && braces > 0:
			out.WriteString("|")
		default:
			// Copy text up to the next special character.
			n := 1
			for n < len(text) && !strings.ContainsRune("*?[{},/", rune(text[n])) {
				n++
			}
			out.WriteString(regexp.QuoteMeta(text[:n]))
			text = text[n:]
			continue
		}
		text = text[1:]
	}
	if braces > 0 {
		return nil, errBrackets
	}
	e, err := regexp.Compile(out.String() + "$")
	if err != nil {
		return nil, &failure{"the pattern has an invalid set in brackets"}
	}
	return &pattern{e}, nil
}

// class writes a set of characters, and returns its length in the text.
func class(out *strings.Builder, text string) (int, bool) {
	set, not := strings.CutPrefix(text[1:], "!")
	// A bracket at the first position belongs to the set.
	end := strings.IndexByte(set[min(1, len(set)):], ']') + 1
	if end == 0 {
		return 0, false
	}
	n := len(text) - len(set) + end + 1
	set = set[:end]
	out.WriteString("[")
	if not {
		out.WriteString("^/")
	}
	out.WriteString(strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`, "^", `\^`, "&", `\&`).Replace(set))
	out.WriteString("]")
	return n, true
}

func (p *pattern) matches(at string) bool { return p.expression.MatchString(at) }

// A found is an entry of a walk.
type found struct {
	path  string // relative to the project
	below string // relative to the start of the walk
	entry fs.DirEntry
}

// walk calls each with every granted entry below a directory, sorted within each directory. It leaves out names that
// match skip, whose patterns have one segment, and everything below them. It doesn't follow symbolic links.
func (p *place) walk(at string, skip []string, each func(found) error) error {
	var over []*pattern
	for _, s := range skip {
		o, err := newPattern(s)
		if err != nil {
			return err
		}
		over = append(over, o)
	}
	at, err := p.clean(at)
	if err != nil {
		return err
	}
	total := 0
	var visit func(at, below string) error
	visit = func(at, below string) error {
		entries, _, err := p.list(at)
		if err != nil {
			return err
		}
		if total += len(entries); total > MaxEntries {
			return &fileError{at, "has more than 100,000 entries below it: start deeper, or skip some"}
		}
		for _, e := range entries {
			if slices.ContainsFunc(over, func(o *pattern) bool { return o.matches(e.Name()) }) {
				continue
			}
			f := found{path.Join(at, e.Name()), path.Join(below, e.Name()), e}
			if err := each(f); err != nil {
				return err
			}
			if e.IsDir() {
				if err := visit(f.path, f.below); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return visit(at, ".")
}
