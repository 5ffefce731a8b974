package edit

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/parse"
	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
)

// templates is the directory of the library's templates for new items.
const templates = "tools/rye/core/templates"

// A Text is the content of a new item.
type Text struct {
	Bytes []byte
	From  string // the file, or the template's path in the library
	Ext   string
	Mode  fs.FileMode
}

// TextOf reads a file as the text of a new item. It drops signature lines, which are about another name.
func TextOf(file string, k *model.Kind, ref model.Ref) (text Text, err error) {
	fi, err := os.Stat(file)
	if err != nil {
		return text, err
	}
	text = Text{From: file, Ext: path.Ext(filepath.ToSlash(file)), Mode: Mode(fi.Mode().Perm()&0o100 != 0)}
	if !slices.Contains(k.Extensions, text.Ext) {
		return text, fault.New(fault.Validation, "%q can't be a %s: its extension is %q", file, k.Name, text.Ext).
			Because("expected one of "+strings.Join(k.Extensions, " ")).On("file", file)
	}
	b, err := osfile.ReadSmall(file, parse.MaxFile)
	if err != nil {
		return text, err
	}
	return text, text.take(b, k, ref)
}

// TextFrom is TextOf for bytes; from names their source.
func TextFrom(from, ext string, b []byte, k *model.Kind, ref model.Ref) (Text, error) {
	t := Text{From: from, Ext: ext, Mode: Mode(false)}
	if !slices.Contains(k.Extensions, ext) {
		return t, fault.New(fault.Validation, "a %s has no file with the extension %q", k.Name, ext).
			Because("expected one of "+strings.Join(k.Extensions, " ")).On("ref", ref.String())
	}
	if len(b) > parse.MaxFile {
		return t, fault.New(fault.Validation, "the file of %q would have %d bytes, more than the limit of %d", ref,
			len(b), parse.MaxFile)
	}
	return t, t.take(b, k, ref)
}

// take sets the bytes of a file, without its signature lines.
func (t *Text) take(b []byte, k *model.Kind, ref model.Ref) (err error) {
	t.Bytes, err = unsigned(k, k.Dir+"/"+ref.ID+t.Ext, b)
	return err
}

// Templates returns the extensions for which the library has a template of a kind.
func Templates(k *model.Kind) (all []string) {
	for _, ext := range k.Extensions {
		if _, err := fs.Stat(std.FS(), templates+"/_"+k.Name+ext); err == nil {
			all = append(all, ext)
		}
	}
	return all
}

// Template fills in the library's template for a kind. The description defaults to the name.
func Template(k *model.Kind, ref model.Ref, ext, description string) (text Text, err error) {
	description = cmp.Or(description, titleOf(ref.Name()))
	if err := checkDescription(description); err != nil {
		return text, err
	}
	text = Text{From: templates + "/_" + k.Name + ext, Ext: ext, Mode: Mode(false)}
	b, err := fs.ReadFile(std.FS(), text.From)
	if err != nil {
		return text, err
	}
	fill := strings.NewReplacer("{{id}}", ref.ID, "{{name}}", ref.Name(), "{{category}}", ref.Category(),
		"{{description}}", description)
	text.Bytes = []byte(fill.Replace(string(b)))
	return text, nil
}

// titleOf turns a name into words.
func titleOf(name string) string {
	words := strings.Join(strings.FieldsFunc(name, func(r rune) bool { return r == '-' || r == '_' || r == '.' }), " ")
	return strings.ToUpper(words[:1]) + words[1:]
}

// checkDescription refuses a description that a template in any of its languages would misread.
func checkDescription(text string) error {
	why := ""
	switch i := strings.IndexAny(text, "\"\\<>&"); {
	case strings.TrimSpace(text) != text || text == "":
		why = "is empty, or has space around it"
	case i >= 0:
		why = fmt.Sprintf("contains %q, which has a meaning in some templates", text[i:i+1])
	case strings.Contains(text, "{{"):
		why = `contains "{{"`
	case strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }):
		why = "is not one line of visible text"
	}
	if why == "" {
		return nil
	}
	return fault.New(fault.Validation, "the description %s",
		why).Because("change it in the file afterwards").On("description", text)
}
