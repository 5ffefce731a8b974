// Package capability answers: does this permission cover that call?
//
// A capability is a verb, a kind of item and an id. Each may be a pattern:
//
//	execute:tool:rye/file-system/read     one tool
//	execute:tool:rye/file-system/*        rye/file-system and everything below it
//	load:knowledge:acme/*/glossary        acme/a/glossary, acme/b/glossary, …
//	execute:*:*                           whatever can be executed
//	search:tool                           searching tools as a whole, without an id
//	*:*:*                                 everything
//
//	capability = verb ":" kind [ ":" id ]
//	verb       = "search" | "sign" | "load" | "execute" | "*"
//	kind       = a lower-case letter, then letters, digits, "_" and "-", at most 64 in all | "*"
//	id         = an id (package cas/portable); any segment may be "*" instead
//
// This is the canonical form, the only one that String writes. A "*" that is the last segment of an id stands for any
// number of segments, none too, so that "X/*" covers X, and an id "*" also covers the capability without an id; every
// other "*" stands for one segment. Within a segment "*" is no wildcard but an error. Letters are compared as they
// are. A kind "*" goes with an id.
//
// # RYE's form
//
// The strings of RYE, as they stand in directives and policies, are read too:
//
//	rye.execute.tool.rye.file-system.*    is    execute:tool:rye/file-system/*
//	rye.execute.tool.rye/file-system/*          execute:tool:rye/file-system/*
//	rye.search.directive.*                      search:directive:*
//	rye.execute.*                               execute:*:*
//	rye.*                                       *:*:*
//
// Behind the kind dots are read as slashes, unless there is a slash: then dots are dots. So an id of one segment with
// a dot in it can only be written in the canonical form. No verb implies another.
//
// # Sets
//
// A Set is the capabilities of one holder. It covers what one of its members covers. A child holds the
// intersection of what it declares and what its parent holds: that covers what both cover, and never more.
// Whatever is not understood is an error, and the zero Capability covers nothing.
package capability

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
)

// The verbs.
const (
	Search  = "search"
	Sign    = "sign"
	Load    = "load"
	Execute = "execute"
)

const (
	maxText = portable.MaxID + maxKind + 20
	maxKind = 64
	wild    = "*"
)

func invalid(text, reason string) error {
	return fault.New(fault.Validation, "capability %+q: %s", clip(text), reason).On("capability", clip(text))
}

func clip(s string) string { return s[:min(len(s), 100)] }

// A Capability is one permission, or what one call needs. Capabilities are equal by == if they are equal.
type Capability struct {
	verb, kind string // or "*"
	id         string // segments joined by "/", without the last "*"; "" if there is none
	below      bool   // that last "*": what is below id is meant too
}

// Parse reads the canonical form and RYE's. Anything else is an error.
func Parse(text string) (Capability, error) {
	if len(text) > maxText {
		return Capability{}, invalid(text, "is too long")
	}
	if rest, ok := strings.CutPrefix(text, "rye."); ok {
		return parseDotted(text, rest)
	}
	verb, rest, ok := strings.Cut(text, ":")
	if !ok {
		return Capability{},
			invalid(text, `expected "verb:kind:id", as in execute:tool:acme/fetch, or "rye.verb.kind.id"`)
	}
	kind, id, hasID := strings.Cut(rest, ":")
	if hasID && id == "" {
		return Capability{}, invalid(text, `the id is empty: leave out its ":", or write "*" for all`)
	}
	return build(text, verb, kind, id)
}

func parseDotted(text, rest string) (Capability, error) {
	verb, rest, more := strings.Cut(rest, ".")
	if !more {
		if verb == wild {
			return build(text, wild, wild, wild)
		}
		return Capability{}, invalid(text, "names no kind")
	}
	kind, id, hasID := strings.Cut(rest, ".")
	switch {
	case hasID && id == "":
		return Capability{}, invalid(text, "the id is empty")
	case !hasID && kind == wild:
		id = wild
	case !strings.Contains(id, "/"):
		id = strings.ReplaceAll(id, ".", "/")
	}
	return build(text, verb, kind, id)
}

// For returns the capability that a call needs. There are no patterns in it; id is "" for what concerns the kind
// as a whole.
func For(verb, kind, id string) (Capability, error) {
	text := verb + ":" + kind + ":" + id
	if strings.Contains(text, wild) {
		return Capability{}, invalid(text, `a call's capability has no "*"`)
	}
	return build(text, verb, kind, id)
}

func build(text, verb, kind, id string) (Capability, error) {
	switch verb {
	case Search, Sign, Load, Execute, wild:
	default:
		return Capability{}, invalid(text, fmt.Sprintf("%+q is not a verb: expected search, sign, load or execute",
			clip(verb)))
	}
	if kind != wild && !isKind(kind) {
		return Capability{}, invalid(text, fmt.Sprintf("%+q is not a kind", clip(kind)))
	}
	if kind == wild && id == "" {
		return Capability{}, invalid(text, `a kind "*" goes with an id: write "*:*" at the end for all`)
	}
	c := Capability{verb: verb, kind: kind, id: id}
	if id == wild {
		c.id, c.below = "", true
		return c, nil
	}
	c.id, c.below = strings.CutSuffix(id, "/*")
	if c.id == "" {
		if c.below {
			return Capability{}, invalid(text, "the id begins with a slash")
		}
		return c, nil
	}
	if err := checkPattern(c.id); err != nil {
		return Capability{}, invalid(text, err.Error())
	}
	return c, nil
}

// checkPattern returns nil if id is an id as soon as each "*" that is a whole segment is a name.
func checkPattern(id string) error {
	named := id
	if strings.Contains(id, wild) {
		segments := strings.Split(id, "/")
		for i, s := range segments {
			if s == wild {
				segments[i] = "x"
			} else if strings.Contains(s, wild) {
				return fmt.Errorf(`in the segment %+q "*" doesn't stand alone`, clip(s))
			}
		}
		named = strings.Join(segments, "/")
	}
	err := portable.CheckID(named)
	if e, ok := errors.AsType[*portable.Error](err); ok {
		return fmt.Errorf("the id %+q %s", clip(id), e.Detail)
	}
	return err
}

func isKind(s string) bool { return portable.Spelled(s, portable.Lower, portable.Digits+"_-", maxKind) }

// Allows reports whether it is about calls with the verb.
func (c Capability) Allows(verb string) bool { return c.verb == verb || c.verb == wild }

// String returns the canonical form; that of the zero Capability is "".
func (c Capability) String() string {
	switch {
	case c.verb == "":
		return ""
	case c.id == "" && c.below:
		return c.verb + ":" + c.kind + ":*"
	case c.id == "":
		return c.verb + ":" + c.kind
	case c.below:
		return c.verb + ":" + c.kind + ":" + c.id + "/*"
	}
	return c.verb + ":" + c.kind + ":" + c.id
}

// Covers reports whether c allows everything that o allows.
func (c Capability) Covers(o Capability) bool {
	if c.verb == "" || !covers(c.verb, o.verb) || !covers(c.kind, o.kind) {
		return false
	}
	rest, other := c.id, o.id
	for rest != "" {
		if other == "" {
			return false
		}
		var x, y string
		x, rest, _ = strings.Cut(rest, "/")
		y, other, _ = strings.Cut(other, "/")
		if !covers(x, y) {
			return false
		}
	}
	return c.below || other == "" && !o.below
}

// covers says of one segment what Covers says of all.
func covers(a, b string) bool { return b != "" && (a == wild || a == b) }

// Intersect returns the capability that allows what both c and o allow; ok is false if that is nothing.
func (c Capability) Intersect(o Capability) (both Capability, ok bool) {
	if both.verb, ok = meet(c.verb, o.verb); !ok {
		return Capability{}, false
	}
	if both.kind, ok = meet(c.kind, o.kind); !ok {
		return Capability{}, false
	}
	// One id is the other's beginning, or they have as many segments.
	a, b := c.id, o.id
	id := make([]byte, 0, len(a)+len(b))
	for a != "" && b != "" {
		var x, y string
		x, a, _ = strings.Cut(a, "/")
		y, b, _ = strings.Cut(b, "/")
		segment, ok := meet(x, y)
		if !ok {
			return Capability{}, false
		}
		id = append(append(id, segment...), '/')
	}
	switch {
	case a == "" && b == "":
		both.below = c.below && o.below
	case a == "":
		if !c.below {
			return Capability{}, false
		}
		id, both.below = append(append(id, b...), '/'), o.below
	default:
		if !o.below {
			return Capability{}, false
		}
		id, both.below = append(append(id, a...), '/'), c.below
	}
	both.id = strings.TrimSuffix(string(id), "/")
	if len(both.id) > portable.MaxID {
		return Capability{}, false // no id is that long
	}
	return both, true
}

func meet(a, b string) (string, bool) {
	switch {
	case a == "" || b == "":
		return "", false
	case a == wild || a == b:
		return b, true
	}
	return a, b == wild
}
