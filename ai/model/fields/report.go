package fields

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/suggest"
	"github.com/rye-build/rye/manifest/policy/yamltree"
)

// MaxProblems bounds the problems reported about one file.
const MaxProblems = 200

// A Report collects the problems of one file.
type Report struct {
	At       value.Pos // of problems without their own place
	Problems []*value.Problem
}

// Add adds a problem at a value, or at the file if the value is nil.
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

// Full reports whether further problems would be dropped, so that checks can stop.
func (r *Report) Full() bool { return len(r.Problems) > MaxProblems }

// Bad adds an error about a value, or about the file if the value is nil.
func (r *Report) Bad(v *value.Value, field, format string, args ...any) {
	r.Add(place(v), false, field, format, args...)
}

// Warn adds a warning, which doesn't make the item invalid.
func (r *Report) Warn(v *value.Value, field, format string, args ...any) {
	r.Add(place(v), true, field, format, args...)
}

// Once is Bad unless the field has a problem already.
func (r *Report) Once(v *value.Value, field, format string, args ...any) {
	if !r.Has(field) {
		r.Bad(v, field, format, args...)
	}
}

// Has reports whether a field has an error.
func (r *Report) Has(field string) bool {
	return slices.ContainsFunc(r.Problems, func(p *value.Problem) bool { return p.Field == field && !p.Warning })
}

// Sorted returns the problems by place; at one place in the order of their discovery.
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

// TypeName returns the type of a value as validation messages name it.
func TypeName(v *value.Value) string {
	if v == nil {
		return "NoneType"
	}
	return [...]string{"NoneType", "bool", "int", "float", "str", "list", "dict"}[v.Kind]
}

// Show formats a value for a message.
func Show(val *value.Value) string {
	switch {
	case val == nil || val.Kind == value.Null:
		return "None"
	case val.Kind == value.List || val.Kind == value.Map:
		return "a " + TypeName(val)
	case val.Kind == value.Text:
		return Single(val.Text)
	case val.Kind == value.Bool:
		return strings.ToUpper(val.Text[:1]) + val.Text[1:]
	}
	return Clip(val.Text)
}

// Single quotes a text in single quotes, and escapes characters outside ASCII.
func Single(s string) string {
	tail := ""
	if len(s) > maxQuote {
		s, tail = s[:maxQuote], fmt.Sprintf("… (%d bytes)", len(s))
	}
	q := strconv.QuoteToASCII(s)
	q = strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
	return "'" + q + "'" + tail
}

// maxQuote bounds quotes of a hostile text, in bytes.
const maxQuote = 200

// Clip shortens a text and makes it ASCII, so that it can't control a terminal or mislead a reader.
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

// Near returns the known name that a mistyped one meant, or "". It is stricter than Suggest, because the answer makes
// an item invalid: one letter of a short name may differ, two of a longer one.
func Near(word string, known []string) string {
	limit := 1
	if len(word) >= 8 {
		limit = 2
	}
	if len(word) > maxWord {
		return ""
	}
	best, least := "", limit
	for _, name := range known {
		if d := suggest.Distance([]byte(strings.ToLower(word)), []byte(name), limit); d <= least {
			best, least = name, d-1
		}
	}
	return best
}

// maxWord bounds the words that Suggest examines.
const maxWord = 40

// Suggest returns a similar known word, as the end of a message.
func Suggest(word string, known []string) string {
	if len(word) > maxWord {
		return ""
	}
	return yamltree.Suggest(word, known)
}
