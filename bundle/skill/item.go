package skill

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"path"
	"regexp"
	"strings"
	"sync"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/parse"
	"github.com/rye-build/rye/ai/tree"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas"
)

// Dir is the directory of the skill's files next to its tool, LicenceDir that of the licences from above its folder,
// and Tool is the tool's name.
const (
	Dir        = "_files"
	LicenceDir = "_licence"
	Tool       = "skill"
)

// An Origin is the source of a skill.
type Origin struct {
	From    string // an address, or the name of a file or directory
	Archive string // the digest of the archive; empty for a directory
	Path    string // of the skill's folder in the source
	Files   string // the digest of the listing of its files (package tree)
}

// A Place is the categories of the items of a skill.
type Place struct{ Tools, Directives string }

// In is the place with one category for both.
func In(category string) Place { return Place{category, category} }

// Refs returns the refs of the items of a skill.
func (p Place) Refs(name string) (tool, directive model.Ref) {
	return model.Ref{Kind: "tool", ID: path.Join(p.Tools, name, Tool)},
		model.Ref{Kind: "directive", ID: path.Join(p.Directives, word(name))}
}

// Items are all that a skill becomes. Paths are those in a space.
type Items struct {
	Tool, Directive         model.Ref
	ToolText, DirectiveText []byte
	Dir                     string // of the files of the skill
	LicenceDir              string
	Files                   []File // below these directories
}

// Items returns the items of the skill and their files. It sets Origin.Files.
func (s *Skill) Items(place Place, origin Origin) (*Items, error) {
	made := &Items{}
	made.Tool, made.Directive = place.Refs(s.Name)
	dir := path.Join("tools", path.Dir(made.Tool.ID))
	made.Dir, made.LicenceDir = path.Join(dir, Dir), path.Join(dir, LicenceDir)
	for _, f := range s.Licences {
		made.Files = append(made.Files, File{Path: path.Join(made.LicenceDir, f.Path), Bytes: f.Bytes})
	}
	var listed []tree.File
	for _, f := range s.Files {
		d := cas.Sum(f.Bytes)
		listed = append(listed, tree.File{Path: f.Path, Mode: f.Mode(), Raw: d, Stripped: d})
		made.Files = append(made.Files, File{Path: path.Join(made.Dir, f.Path), Exec: f.Exec, Bytes: f.Bytes})
	}
	t, err := tree.New(listed)
	if err != nil {
		return nil, err
	}
	origin.Files = t.Digest.String()
	made.ToolText, made.DirectiveText = s.ToolText(place, origin), s.DirectiveText(place)
	return made, nil
}

// word turns a skill's name into a directive's, which has "_" and begins with a letter.
func word(name string) string {
	w := strings.ReplaceAll(name, "-", "_")
	if w != "" && w[0] <= '9' {
		w = "skill_" + w
	}
	return w
}

// NameOf returns the name of the skill that an item belongs to.
func NameOf(ref model.Ref) (string, bool) {
	if ref.Kind != "tool" || path.Base(ref.ID) != Tool || path.Dir(ref.ID) == "." {
		return "", false
	}
	return path.Base(path.Dir(ref.ID)), true
}

var version = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:0|[1-9]\d{0,8})\.(?:0|[1-9]\d{0,8})\.(?:0|[1-9]\d{0,8})$`)
})

func (s *Skill) version() string {
	if version().MatchString(s.Version) {
		return s.Version
	}
	return "1.0.0"
}

// unquotable matches characters that JSON leaves unescaped and that YAML or TOML refuses.
var unquotable = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`[\x{7f}-\x{9f}\x{feff}\x{fffe}\x{ffff}]`)
})

// Quote writes a text in double quotes for YAML and TOML: both understand the escapes of JSON.
func Quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s)
	return unquotable().ReplaceAllStringFunc(strings.TrimSuffix(b.String(), "\n"), func(c string) string {
		return fmt.Sprintf(`\u%04x`, []rune(c)[0])
	})
}

// OneLine joins the words of a text into one line.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// ToolText returns the file of the skill's tool.
func (s *Skill) ToolText(place Place, origin Origin) []byte {
	var out strings.Builder
	field := func(indent, name, text string) {
		if text != "" {
			fmt.Fprintf(&out, "%s%s: %s\n", indent, name, Quote(text))
		}
	}
	out.WriteString(
		"# A skill: its files are in _files, as they were. This tool gives their text and runs none of them.\n")
	field("", "version", s.version())
	field("", "tool_type", "skill")
	field("", "executor_id", "rye/core/primitives/subprocess")
	field("", "category", path.Join(place.Tools, s.Name))
	field("", "description", "Gives the text of a file of the skill "+s.Name+": "+OneLine(s.Description))
	field("", "risk", "read")
	out.WriteString("origin:\n")
	field("  ", "from", origin.From)
	field("  ", "archive", origin.Archive)
	field("  ", "path", origin.Path)
	field("  ", "files", origin.Files)
	field("  ", "license", s.License)
	field("", "compatibility", OneLine(s.Compatibility))
	out.WriteString(
		"input_schema:\n  type: object\n  additionalProperties: false\n  properties:\n    path:\n      type: string\n" +
			"      description: Path of the file in the skill\n      default: " + Main + "\n      enum:\n")
	for i := range s.Files {
		if f := &s.Files[i]; isText(f.Bytes) {
			fmt.Fprintf(&out, "        - %s\n", Quote(f.Path))
		}
	}
	out.WriteString("config:\n  command: cat\n  args: [\"{anchor_path}/" + Dir +
		"/{path}\"]\n  timeout: 30\nanchor:\n  enabled: true\n" +
		"  mode: always\n  root: tool_dir\n")
	return []byte(out.String())
}

// ReadOrigin returns the source of the skill of a tool; false if ToolText didn't write the tool.
func ReadOrigin(tool []byte) (from string, ok bool) {
	v, _ := parse.YAML(tool, value.Pos{Line: 1, Column: 1})
	if kind := v.Get("tool_type"); kind == nil || kind.Text != "skill" || v.Get("origin") == nil {
		return "", false
	}
	if at := v.Get("origin").Get("from"); at != nil {
		from = at.Text
	}
	return from, true
}

// DirectiveText returns the file of the directive that runs a skill.
func (s *Skill) DirectiveText(place Place) []byte {
	tool, directive := place.Refs(s.Name)
	var text strings.Builder
	fmt.Fprintf(&text,
		"# %s\n\n```xml\n<directive name=\"%s\" version=\"%s\">\n  <metadata>\n    <description>%s</description>\n    <category>%s</category>\n",
		s.Name, directive.Name(), s.version(), escape(OneLine(s.Description)), escape(place.Directives))
	fmt.Fprintf(&text,
		"    <permissions>\n      <execute><tool>%s</tool></execute>\n    </permissions>\n    <tools><tool>%s</tool></tools>\n  </metadata>\n",
		tool.ID, tool.ID)
	text.WriteString(
		"  <inputs>\n    <input name=\"task\" type=\"string\" required=\"true\">What to do</input>\n  </inputs>\n</directive>\n```\n\n" +
			"Do this: {input:task}\n\nThe instructions below say how. Where they name another file of the skill, read it with the tool `" +
			tool.ID + "`, whose\n" +
			"parameter is its path. Its scripts can't be run.\n\n")
	text.Write(bytes.TrimLeft(bytes.ReplaceAll(s.Body, []byte("\r\n"), []byte("\n")), "\n"))
	return []byte(strings.TrimRight(text.String(), "\n") + "\n")
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s))
	return b.String()
}

// AgentsText returns the knowledge item of a file AGENTS.md: metadata and then the file.
func AgentsText(ref model.Ref, title string, text []byte) []byte {
	category := ""
	if c := ref.Category(); c != "" {
		category = "category: " + Quote(c) + "\n"
	}
	return append(
		[]byte(fmt.Sprintf(
			"---\nid: %s\ntitle: %s\nversion: \"1.0.0\"\nentry_type: reference\n%stags: [agents]\n---\n",
			Quote(ref.Name()), Quote(title), category)), text...)
}

// CheckAgents refuses a file that can't be a project's instructions.
func CheckAgents(file string, text []byte) error {
	switch {
	case len(text) > MaxText:
		return tooLarge(file, int64(len(text)), MaxText)
	case !isText(text):
		return refused("utf8", file, "is not a text in UTF-8")
	case len(bytes.TrimSpace(text)) == 0:
		return refused("empty", file, "is empty")
	}
	return checkText(file, &File{Path: Main, Bytes: text})
}
