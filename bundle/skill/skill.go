package skill

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rye-build/rye/ai/flags"
	"github.com/rye-build/rye/ai/parse"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
)

// Main is the file that makes a folder a skill.
const Main = "SKILL.md"

// MaxText bounds SKILL.md, because a model reads all of it.
const MaxText = 1 << 20

// A File is one file of a skill, by its path in the folder.
type File struct {
	Path  string
	Exec  bool
	Bytes []byte
}

// Mode returns the file's mode.
func (f *File) Mode() cas.Mode {
	if f.Exec {
		return cas.Exec
	}
	return cas.File
}

// Perm returns the permissions that the file gets.
func (f *File) Perm() fs.FileMode {
	if f.Exec {
		return 0o755
	}
	return 0o644
}

// A Skill is a skill's folder as read.
type Skill struct {
	Text
	Path    string // of the folder in the source; "." for the source itself
	Files   []File // sorted by path
	LeftOut []string
	// Licences are files of the nearest directory above that has some, if the skill has none of its own.
	Licences []File
	// Err says why the skill is invalid. Of such a skill only Name, its folder's, and Path are set.
	Err error
}

// A Text is the parsed SKILL.md.
type Text struct {
	Front, Body []byte // the lines between the two "---", and the text after them
	lines       [2][]byte

	Name, Description, License, Compatibility string
	AllowedTools                              []string
	Hooks                                     []string // commands of hooks, a field that only some clients know
	Version                                   string   // from metadata
	Warnings                                  []string
}

// Bytes returns the original file.
func (t *Text) Bytes() []byte { return slices.Concat(t.lines[0], t.Front, t.lines[1], t.Body) }

// ParseText parses SKILL.md; errors use the name file.
func ParseText(file string, data []byte) (*Text, error) {
	bad := func(at value.Pos, format string, args ...any) *fault.Error {
		at.Column = max(at.Column, 1) // the parser may not know the column
		return fault.New(fault.Validation, "%q is no skill: its front matter is malformed", file).
			Because(fmt.Sprintf("%s:%d:%d: ", file, at.Line, at.Column)+fmt.Sprintf(format, args...)).
			On("reason", "front-matter").On("file", file).On("line", at.Line).On("column",
			at.Column).Try("rye docs skills")
	}
	switch {
	case len(data) > MaxText:
		return nil, tooLarge(file, int64(len(data)), MaxText)
	case !utf8.Valid(data):
		return nil, refused("utf8", file, "is not UTF-8")
	case bytes.IndexByte(data, 0) >= 0:
		return nil, refused("nul", file, "contains a NUL")
	}
	text := &Text{}
	first, rest := line(data)
	if !isDashes(first) {
		return nil, bad(value.Pos{Line: 1, Column: 1}, "the first line must be ---")
	}
	text.lines[0] = first
	n := 0
	for {
		l, more := line(rest[n:])
		if isDashes(l) {
			text.Front, text.lines[1], text.Body = rest[:n], l, more
			break
		}
		if len(more) == 0 {
			return nil, bad(value.Pos{Line: 1, Column: 1}, "no second line --- closes it")
		}
		n += len(l)
	}
	val, problems := text.parse()
	for _, p := range problems {
		if !p.Warning {
			return nil, bad(p.At, "%s", p.Message)
		}
	}
	if val.Kind != value.Map {
		return nil, bad(value.Pos{Line: 2, Column: 1}, "expected fields: name and description")
	}
	if p := hidden(val); p != nil {
		return nil, bad(p.At, "%s", p.Message)
	}
	return text, text.take(val, bad)
}

func (t *Text) parse() (*value.Value, []*value.Problem) {
	front := strings.ReplaceAll(string(t.Front), "\r\n", "\n")
	return parse.YAML([]byte(front), value.Pos{Line: 2, Column: 1})
}

// Fields returns the whole front matter as the types of package jcs. JSON has no form for some numbers of YAML: they
// are an error.
func (t *Text) Fields() (map[string]any, error) {
	val, _ := t.parse() // ParseText has refused problems
	fields, err := val.JSON()
	if err != nil {
		return nil, err
	}
	return fields.(map[string]any), nil
}

// hidden finds an invisible character in the values of front matter. A quoted escape can produce one that the source
// text doesn't show.
func hidden(val *value.Value) *value.Problem {
	look := func(at value.Pos, text string) *value.Problem {
		for _, f := range flags.Text("", text) {
			if f.Critical {
				return &value.Problem{At: at, Message: "it " + f.Why}
			}
		}
		return nil
	}
	if p := look(val.At, val.Text); p != nil {
		return p
	}
	for _, item := range val.Items {
		if p := hidden(item); p != nil {
			return p
		}
	}
	for _, e := range val.Map {
		if p := cmp.Or(look(e.At, e.Key), hidden(e.Value)); p != nil {
			return p
		}
	}
	return nil
}

// line returns the first line of b with its end, and the rest.
func line(b []byte) (first, rest []byte) {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return b[:i+1], b[i+1:]
	}
	return b, nil
}

func isDashes(l []byte) bool { return string(bytes.TrimRight(l, " \t\r\n")) == "---" }

// take reads the fields into t.
func (t *Text) take(val *value.Value, bad func(value.Pos, string, ...any) *fault.Error) error {
	texts := map[string]*string{"name": &t.Name, "description": &t.Description, "license": &t.License,
		"compatibility": &t.Compatibility}
	for i := range val.Map {
		entry := &val.Map[i]
		into, ok := texts[entry.Key]
		switch {
		case ok && entry.Value.Kind != value.Text:
			return bad(entry.At, "%s must be a text, and is of type %s", entry.Key, entry.Value.Kind)
		case ok:
			*into = entry.Value.Text
			if strings.TrimSpace(*into) == "" {
				return bad(entry.At, "%s is empty", entry.Key)
			}
		case entry.Key == "metadata":
			if err := t.takeMetadata(entry, bad); err != nil {
				return err
			}
		case entry.Key == "allowed-tools":
			if err := t.takeTools(entry, bad); err != nil {
				return err
			}
		default:
			if entry.Key == "hooks" {
				t.takeHooks(entry.Value)
			}
			t.Warnings = append(t.Warnings,
				fmt.Sprintf("the field %q is not part of the format: other clients may ignore it", entry.Key))
		}
	}
	at := func(key string) value.Pos {
		for _, e := range val.Map {
			if e.Key == key {
				return e.At
			}
		}
		return value.Pos{Line: 2, Column: 1}
	}
	switch {
	case t.Name == "":
		return bad(at("name"), "name is missing")
	case !IsName(t.Name):
		return bad(at("name"), "the name %q must have 1 to 64 of a-z, 0-9 and -, with no - first, last or doubled",
			fault.Clip(t.Name, 80))
	case t.Description == "":
		return bad(at("description"), "description is missing")
	case utf8.RuneCountInString(t.Description) > 1024:
		return bad(at("description"), "description has more than 1,024 characters")
	case utf8.RuneCountInString(t.Compatibility) > 500:
		return bad(at("compatibility"), "compatibility has more than 500 characters")
	}
	return nil
}

func (t *Text) takeMetadata(e *value.Entry, bad func(value.Pos, string, ...any) *fault.Error) error {
	if e.Value.Kind != value.Map {
		return bad(e.At, "metadata must be a mapping, and is of type %s", e.Value.Kind)
	}
	for _, m := range e.Value.Map {
		switch m.Value.Kind {
		case value.Text:
		case value.Int, value.Float, value.Bool:
			t.Warnings = append(t.Warnings, fmt.Sprintf("metadata.%s is not a text: put it in quotes", m.Key))
		default:
			t.Warnings = append(t.Warnings, fmt.Sprintf("metadata.%s is not a text: other clients may ignore it",
				m.Key))
		}
		if m.Key == "version" {
			t.Version = m.Value.Text
		}
	}
	return nil
}

// takeHooks collects the commands in a value, at any depth.
func (t *Text) takeHooks(v *value.Value) {
	for _, item := range v.Items {
		t.takeHooks(item)
	}
	for _, e := range v.Map {
		if e.Key == "command" && e.Value.Kind == value.Text {
			t.Hooks = append(t.Hooks, fault.Clip(OneLine(e.Value.Text), 200))
		}
		t.takeHooks(e.Value)
	}
}

func (t *Text) takeTools(entry *value.Entry, bad func(value.Pos, string, ...any) *fault.Error) error {
	switch entry.Value.Kind {
	case value.Text:
		t.AllowedTools = splitTools(entry.Value.Text)
	case value.List:
		t.Warnings = append(t.Warnings, "allowed-tools is a list: the format has a text with spaces between the tools")
		for _, item := range entry.Value.Items {
			if item.Kind != value.Text {
				return bad(item.At, "a tool must be a text")
			}
			t.AllowedTools = append(t.AllowedTools, item.Text)
		}
	default:
		return bad(entry.At, "allowed-tools must be a text, and is of type %s", entry.Value.Kind)
	}
	return nil
}

// splitTools splits at spaces and commas, but not within parentheses, as in Bash(git log:*).
func splitTools(s string) (all []string) {
	depth := 0
	return strings.FieldsFunc(s, func(r rune) bool {
		switch r {
		case '(':
			depth++
		case ')':
			depth = max(0, depth-1)
		}
		return depth == 0 && (r == ' ' || r == ',' || r == '\n' || r == '\t')
	})
}

// IsName reports whether a skill can have this name.
func IsName(s string) bool {
	return len(s) >= 1 && len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" &&
		s[0] != '-' && s[len(s)-1] != '-' && !strings.Contains(s, "--")
}

// refused returns the error for a file that a skill must not have.
func refused(reason, file, format string, args ...any) *fault.Error {
	file = fault.Clip(file, 1000)
	return fault.New(fault.Validation, "%q %s", file, fmt.Sprintf(format, args...)).On("reason", reason).On("file",
		file).
		Because("nothing was written").Try("rye docs skills")
}

func tooLarge(file string, size, most int64) *fault.Error {
	return refused("size", file, "has %d bytes, more than the limit of %d", size, most)
}
