package query

import (
	"fmt"
	"strings"

	"github.com/rye-build/rye/cas/fault"
)

// A Scope limits a search to one kind, one id and the ids below it, or both. The zero Scope is everything.
type Scope struct {
	Kind string // "" means all
	ID   string // this id and those below it, by whole segments; "" means all
}

// ParseScope reads a scope:
//
//	tool              all tools
//	tool:rye/core     tool:rye/core and what is below it
//	tool:rye/core/**  the same, as are tool:rye/core/* and tool:rye/core/
//	*:rye/core        of all kinds
//	tool.rye.core.*   as RYE writes it; so is rye.search.tool.rye.core.*
//
// "", "*" and "rye.search.*" are everything.
func ParseScope(text string) (Scope, error) {
	bad := func(msg string) (Scope, error) {
		return Scope{}, fault.New(fault.Validation, "scope %q: %s", text, msg)
	}
	kind, id, ok := strings.Cut(text, ":")
	if !ok && strings.Contains(text, "/") {
		return bad(`a kind stands before an id, as in "tool:rye/core/**"`)
	}
	if !ok {
		kind, id = dotted(text)
	}
	for _, end := range []string{"**", "*"} {
		if rest, ok := strings.CutSuffix(id, end); ok && (rest == "" || strings.HasSuffix(rest, "/")) {
			id = rest
			break
		}
	}
	id = strings.TrimSuffix(id, "/")
	switch {
	case kind == "*" || kind == "**" || kind == "" && !ok:
		kind = ""
	case !isSegment(kind) || strings.Contains(kind, "."):
		return bad(`no kind; write one as in "tool:rye/core/**"`)
	}
	if id == "" {
		return Scope{Kind: kind}, nil
	}
	for segment := range strings.SplitSeq(id, "/") {
		if !isSegment(segment) {
			return bad(fmt.Sprintf("%q is no segment of an id; wildcards stand at the end alone", segment))
		}
	}
	return Scope{kind, id}, nil
}

// dotted splits a scope in RYE's form.
func dotted(text string) (kind, id string) {
	for _, verb := range []string{"search", "load", "execute", "sign"} {
		if rest, ok := strings.CutPrefix(text, "rye."+verb+"."); ok {
			text = rest
			break
		}
	}
	kind, id, _ = strings.Cut(text, ".")
	return kind, strings.ReplaceAll(id, ".", "/")
}

// isSegment reports whether s is letters, digits and, after the first of them, ".", "_" and "-" (decision 1).
func isSegment(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c < 0x80 && asciiClass[c] == classWord:
		case i > 0 && (c == '.' || c == '_' || c == '-'):
		default:
			return false
		}
	}
	return s != ""
}

// String returns the form that ParseScope reads.
func (s Scope) String() string {
	switch {
	case s == Scope{}:
		return "*"
	case s.ID == "":
		return s.Kind
	case s.Kind == "":
		return "*:" + s.ID + "/**"
	}
	return s.Kind + ":" + s.ID + "/**"
}

// Covers reports whether an item lies in the scope.
func (s Scope) Covers(kind, id string) bool {
	return (s.Kind == "" || s.Kind == kind) && (s.ID == "" || below(id, s.ID))
}

// below reports whether an id is prefix or below it.
func below(id, prefix string) bool {
	return strings.HasPrefix(id, prefix) && (len(id) == len(prefix) || id[len(prefix)] == '/')
}
