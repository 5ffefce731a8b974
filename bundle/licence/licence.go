// Package licence reads licence expressions of SPDX 2.3 (appendix D):
//
//	expression = all *(" OR " all)
//	all        = term *(" AND " term)
//	term       = "(" expression ")" / name ["+"] [" WITH " exception]
//
// AND binds more tightly than OR. Names are the identifiers of SPDX's lists that this package knows. They are read
// in any case and written as in the lists; operators are in capitals. Any other text, such as "SEE LICENSE IN x" or
// "LicenseRef-x", is no expression: SPDX calls it NOASSERTION.
//
// String writes an expression without needless parentheses, and Parse reads the same expression from it.
package licence

import (
	"slices"
	"strings"
)

// NoAssertion is SPDX's value for an unknown licence.
const NoAssertion = "NOASSERTION"

const (
	maxNesting = 20 // parentheses
	maxLength  = 4096
)

// An Expression is a licence, or a list of alternatives or of licences that all hold.
type Expression struct {
	Name      string // of a licence, with "+" if later versions are allowed; "" with Parts
	Exception string // to the licence; may be empty
	Any       bool   // any one of Parts applies, by choice; otherwise all of them do
	Parts     []*Expression
}

// Parse parses an expression. It returns nil for any other text.
func Parse(text string) *Expression {
	if len(text) > maxLength {
		return nil
	}
	r := reader{words: words(text, " ( ", " ) ")}
	e := r.list("OR", 0)
	if e == nil || len(r.words) > 0 {
		return nil
	}
	return e
}

// Normal returns the text as a normalized expression, or NoAssertion and false if it is no expression.
func Normal(text string) (string, bool) {
	if e := Parse(text); e != nil {
		return e.String(), true
	}
	return NoAssertion, false
}

// words splits a text after replacing its parentheses.
func words(text, open, closed string) []string {
	return strings.Fields(strings.NewReplacer("(", open, ")", closed).Replace(text))
}

// Exact reports whether the text is an expression with names in SPDX's own case, so that it fits into a document
// unchanged.
func Exact(text string) bool {
	e := Parse(text)
	return e != nil && slices.Equal(words(text, " ", " "), words(e.String(), " ", " "))
}

// String writes the expression.
func (e *Expression) String() string {
	if e.Name != "" {
		if e.Exception != "" {
			return e.Name + " WITH " + e.Exception
		}
		return e.Name
	}
	var texts []string
	for _, p := range e.Parts {
		text := p.String()
		if p.Any && !e.Any {
			text = "(" + text + ")"
		}
		texts = append(texts, text)
	}
	if e.Any {
		return strings.Join(texts, " OR ")
	}
	return strings.Join(texts, " AND ")
}

// Denied reports whether the expression can't be met without a licence that deny names: with a choice, if all parts
// are denied; otherwise if any is. Denied calls deny with a licence's name, and also with name and exception if the
// licence has one.
func (e *Expression) Denied(deny func(name string) bool) bool {
	if e.Name != "" {
		return deny(e.Name) || e.Exception != "" && deny(e.String())
	}
	for _, p := range e.Parts {
		if p.Denied(deny) != e.Any {
			return !e.Any
		}
	}
	return e.Any
}

// Alias returns the other SPDX identifier of a GNU licence: GPL-3.0 is GPL-3.0-only, GPL-3.0+ is GPL-3.0-or-later.
// Other names are returned unchanged.
func Alias(name string) string {
	if gnu := strings.Contains(name, "GPL-") || strings.HasPrefix(name, "GFDL-"); !gnu {
		return name
	}
	for _, end := range [][2]string{{"-only", ""}, {"-or-later", "+"}, {"+", "-or-later"}, {"", "-only"}} {
		if base, ok := strings.CutSuffix(name, end[0]); ok {
			return base + end[1]
		}
	}
	return name
}

type reader struct{ words []string }

func (r *reader) take() (word string) {
	if len(r.words) > 0 {
		word, r.words = r.words[0], r.words[1:]
	}
	return word
}

func (r *reader) next(word string) bool {
	if len(r.words) == 0 || r.words[0] != word {
		return false
	}
	r.take()
	return true
}

// list reads terms with an operator between them. It merges a nested list of the same operator.
func (r *reader) list(operator string, depth int) *Expression {
	expression := &Expression{Any: operator == "OR"}
	for {
		var parsed *Expression
		if expression.Any {
			parsed = r.list("AND", depth)
		} else {
			parsed = r.term(depth)
		}
		switch {
		case parsed == nil:
			return nil
		case parsed.Name == "" && parsed.Any == expression.Any:
			expression.Parts = append(expression.Parts, parsed.Parts...)
		default:
			expression.Parts = append(expression.Parts, parsed)
		}
		if !r.next(operator) {
			break
		}
	}
	if len(expression.Parts) == 1 {
		return expression.Parts[0]
	}
	return expression
}

func (r *reader) term(depth int) *Expression {
	if r.next("(") {
		if depth == maxNesting {
			return nil
		}
		if e := r.list("OR", depth+1); e != nil && r.next(")") {
			return e
		}
		return nil
	}
	word := strings.ToLower(r.take())
	name, later := known()[word], ""
	if name == "" {
		if word, plus := strings.CutSuffix(word, "+"); plus {
			name, later = known()[word], "+"
		}
	}
	if name == "" {
		return nil
	}
	e := &Expression{Name: name + later}
	if r.next("WITH") {
		if e.Exception = exceptions()[strings.ToLower(r.take())]; e.Exception == "" {
			return nil
		}
	}
	return e
}
