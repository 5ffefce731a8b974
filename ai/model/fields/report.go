package fields

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/manifest/policy/yamltree"
)

// MaxProblems bounds the problems reported about one file.
const MaxProblems = 200

// A Report collects what is wrong with one file.
type Report struct {
	At       value.Pos // of what has no place of its own
	Problems []*value.Problem
}

// Add notes a problem at a value, or at the file if the value isn't there.
func (r *Report) Add(at value.Pos, warning bool, field, format string, args ...any) {
	if r.Full() {
		return
	}
	if at.Line == 0 {
		at = r.At
	}
	r.Problems = append(r.Problems, &value.Problem{At: at, Field: field, Message: fmt.Sprintf(format, args...),
		Warning: warning})
}

// Full reports whether further problems would be dropped, so that looking for them is pointless.
func (r *Report) Full() bool { return len(r.Problems) > MaxProblems }

// Bad notes something wrong with a value, or with the file if the value isn't there.
func (r *Report) Bad(v *value.Value, field, format string, args ...any) {
	r.Add(place(v), false, field, format, args...)
}

// Warn notes what doesn't keep an item from being used.
func (r *Report) Warn(v *value.Value, field, format string, args ...any) {
	r.Add(place(v), true, field, format, args...)
}

// Once is Bad for what a schema may have said already about the same field.
func (r *Report) Once(v *value.Value, field, format string, args ...any) {
	if !r.Has(field) {
		r.Bad(v, field, format, args...)
	}
}

// Has reports whether something is wrong with a field.
func (r *Report) Has(field string) bool {
	return slices.ContainsFunc(r.Problems, func(p *value.Problem) bool { return p.Field == field && !p.Warning })
}

// Sorted returns the problems by place; at one place in the order in which they were found.
func (r *Report) Sorted() []*value.Problem {
	slices.SortStableFunc(r.Problems, func(a, b *value.Problem) int { return a.At.Compare(b.At) })
	if len(r.Problems) > MaxProblems {
		r.Problems = r.Problems[:MaxProblems]
		r.Problems[MaxProblems-1] = &value.Problem{At: r.Problems[MaxProblems-1].At,
			Message: "there are more problems than are told"}
	}
	return r.Problems
}

func place(v *value.Value) value.Pos {
	if v == nil {
		return value.Pos{}
	}
	return v.At
}

// TypeName is the type of a value by the name that messages of validation have for it on the wire.
func TypeName(v *value.Value) string {
	if v == nil {
		return "NoneType"
	}
	return [...]string{"NoneType", "bool", "int", "float", "str", "list", "dict"}[v.Kind]
}

// Show writes a value into a message.
func Show(v *value.Value) string {
	switch {
	case v == nil || v.Kind == value.Null:
		return "None"
	case v.Kind == value.List || v.Kind == value.Map:
		return "a " + TypeName(v)
	case v.Kind == value.Text:
		return Single(v.Text)
	case v.Kind == value.Bool:
		return strings.ToUpper(v.Text[:1]) + v.Text[1:]
	}
	return Clip(v.Text)
}

// Single quotes a text as the wire has it, in single quotes, and keeps what is not ASCII from the terminal.
func Single(s string) string {
	tail := ""
	if len(s) > maxQuote {
		s, tail = s[:maxQuote], fmt.Sprintf("… (%d bytes)", len(s))
	}
	q := strconv.QuoteToASCII(s)
	q = strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
	return "'" + q + "'" + tail
}

// maxQuote bounds what a message repeats of a hostile text, in bytes.
const maxQuote = 200

// Clip shortens a text and makes it ASCII, so that nothing in it reaches a terminal or hides from a reader.
func Clip(s string) string {
	plain := len(s) <= maxQuote
	for i := 0; plain && i < len(s); i++ {
		plain = ' ' <= s[i] && s[i] < 0x7f && s[i] != '"' && s[i] != '\\'
	}
	if plain {
		return s
	}
	q := Quote(s)
	return strings.TrimSuffix(q[1:], `"`)
}

// Quote is Clip in double quotes.
func Quote(s string) string {
	if len(s) > maxQuote {
		return fmt.Sprintf("%s… (%d bytes)", strconv.QuoteToASCII(s[:maxQuote]), len(s))
	}
	return strconv.QuoteToASCII(s)
}

// maxWord bounds what is looked at for a suggestion.
const maxWord = 40

// Suggest returns what was perhaps meant by a word, as the end of a message.
func Suggest(word string, known []string) string {
	if len(word) > maxWord {
		return ""
	}
	return yamltree.Suggest(word, known)
}
