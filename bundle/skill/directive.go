package skill

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/rye-build/rye/ai/model"
)

// A Directive is the source of a command or a skill.
type Directive struct {
	Ref         model.Ref
	Version     string
	Description string
	Body        string
	Inputs      []Input
}

// An Input is an input of a directive.
type Input struct {
	Name, Description string
	Required          bool
}

// Slug turns a directive's name into that of a skill or a command. It cuts a name that is too long for a skill.
func Slug(ref model.Ref) string {
	name := LongSlug(ref)
	return strings.TrimRight(name[:min(len(name), 64)], "-")
}

// LongSlug is Slug for any length.
func LongSlug(ref model.Ref) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, ref.Name())
	name = strings.Join(strings.FieldsFunc(name, func(r rune) bool { return r == '-' }), "-")
	return cmp.Or(name, "directive")
}

// fillable matches the placeholder of an input in a prompt.
var fillable = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\{input:([A-Za-z0-9_.-]+)(?:[?:][^{}\n]*)?\}`)
})

// Prompt returns the text with its inputs explained, because no client fills them in. typed is the client's
// placeholder for a command's arguments, or empty.
func (d *Directive) Prompt(typed string) string {
	var text strings.Builder
	if len(d.Inputs) > 0 || typed != "" {
		if typed != "" {
			text.WriteString("What the user asks for: " + typed + "\n\n")
		}
		if len(d.Inputs) > 0 {
			text.WriteString("Inputs, to be taken from what the user asks for:\n\n")
		}
		for _, in := range d.Inputs {
			need := "optional"
			if in.Required {
				need = "required: ask for it if it is missing"
			}
			fmt.Fprintf(&text, "- `%s`: %s (%s)\n", in.Name, cmp.Or(OneLine(in.Description), in.Name), need)
		}
		if len(d.Inputs) > 0 {
			text.WriteString("\n")
		}
	}
	text.WriteString(fillable().ReplaceAllStringFunc(strings.Trim(d.Body, "\n"), func(place string) string {
		name := fillable().FindStringSubmatch(place)[1]
		if slices.ContainsFunc(d.Inputs, func(in Input) bool { return in.Name == name }) {
			return "`" + name + "`"
		}
		return place
	}))
	text.WriteString("\n")
	return text.String()
}

// Skill turns a directive into a skill.
func (d *Directive) Skill() []File {
	return []File{{Path: Main,
		Bytes: []byte(fmt.Sprintf("---\nname: %s\ndescription: %s\nmetadata:\n  rye: %s\n  version: %s\n---\n\n%s",
			Quote(Slug(d.Ref)), Quote(clip(OneLine(d.Description), 1024)), Quote(d.Ref.String()), Quote(d.Version),
			d.Prompt("")))}}
}

func clip(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return strings.TrimSpace(string(r[:most]))
	}
	return s
}
