// Package capability parses and compares permissions: does this permission cover that call?
//
// A capability is a verb, a kind of item and an id. Each may be a pattern:
//
//	execute:tool:rye/file-system/read     one tool
//	execute:tool:rye/file-system/*        rye/file-system and everything below it
//	load:knowledge:acme/*/glossary        acme/a/glossary, acme/b/glossary, …
//	execute:*:*                           everything that can be executed
//	search:tool                           searching tools as a whole, without an id
//	*:*:*                                 everything
//
//	capability = verb ":" kind [ ":" id ]
//	verb       = "search" | "sign" | "load" | "execute" | "*"
//	kind       = a lower-case letter, then letters, digits, "_" and "-", at most 64 in all | "*"
//	id         = an id (package cas/portable); any segment may be "*" instead
//
// This is the canonical form, the only one that String writes. A "*" as the last segment of an id matches any
// number of segments, even none, so that "X/*" covers X; an id "*" also covers the capability without an id. Any
// other "*" matches one segment. Within a segment "*" is an error. Case is significant. A kind "*" requires an id.
//
// # RYE's form
//
// Parse also reads the strings of RYE in directives and policies:
//
//	rye.execute.tool.rye.file-system.*    is    execute:tool:rye/file-system/*
//	rye.execute.tool.rye/file-system/*          execute:tool:rye/file-system/*
//	rye.search.directive.*                      search:directive:*
//	rye.execute.*                               execute:*:*
//	rye.*                                       *:*:*
//
// After the kind, dots are read as slashes unless the text has a slash. So an id of one segment with a dot requires
// the canonical form. No verb implies another.
//
// # How a capability goes through here
//
// Parse reads a permission with build, or parseDotted for RYE's form; For makes the capability that a call needs.
// ParseSet and NewSet make a Set. Set.Covers asks Capability.Covers of each member, and Set.Intersect bounds the
// permissions of a child with Capability.Intersect.
//
// # Sets
//
// A Set has the capabilities of one holder, and covers everything that any of its members covers. A child holds the
// intersection of its declared capabilities and its parent's set: what both cover, never more. An unknown form is
// an error, and the zero Capability covers nothing.
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

// A Capability is a permission, or the requirement of a call. Two Capabilities that are equal are == .
type Capability struct {
	verb, kind string // or "*"
	id         string // segments joined by "/", without the last "*"; may be ""
	below      bool   // the last "*": covers everything below id, too
}

// Parse parses the canonical form and RYE's.
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
		return Capability{}, invalid(text, "the kind is missing")
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

// For returns the capability that a call needs, without patterns. id is "" for a call about the kind as a whole.
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
		return Capability{}, invalid(text, `a kind "*" requires an id: write "*:*" at the end for all`)
	}
	capability := Capability{verb: verb, kind: kind, id: id}
	if id == wild {
		capability.id, capability.below = "", true
		return capability, nil
	}
	capability.id, capability.below = strings.CutSuffix(id, "/*")
	if capability.id == "" {
		if capability.below {
			return Capability{}, invalid(text, "the id begins with a slash")
		}
		return capability, nil
	}
	if err := checkPattern(capability.id); err != nil {
		return Capability{}, invalid(text, err.Error())
	}
	return capability, nil
}

// checkPattern checks that id is an id if each "*" segment is replaced by a name.
func checkPattern(id string) error {
	named := id
	if strings.Contains(id, wild) {
		segments := strings.Split(id, "/")
		for i, s := range segments {
			if s == wild {
				segments[i] = "x"
			} else if strings.Contains(s, wild) {
				return fmt.Errorf(`"*" must be a whole segment, found %+q`, clip(s))
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

// Allows reports whether the capability is about calls with the verb.
func (c Capability) Allows(verb string) bool { return c.verb == verb || c.verb == wild }

// String returns the canonical form, or "" for the zero Capability.
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

// Covers reports whether c allows everything that capability allows.
func (c Capability) Covers(capability Capability) bool {
	if c.verb == "" || !covers(c.verb, capability.verb) || !covers(c.kind, capability.kind) {
		return false
	}
	rest, other := c.id, capability.id
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
	return c.below || other == "" && !capability.below
}

// covers is Covers for one segment.
func covers(a, b string) bool { return b != "" && (a == wild || a == b) }

// Intersect returns the capability that allows what both c and capability allow; ok is false if both allow nothing in
// common.
func (c Capability) Intersect(capability Capability) (both Capability, ok bool) {
	if both.verb, ok = meet(c.verb, capability.verb); !ok {
		return Capability{}, false
	}
	if both.kind, ok = meet(c.kind, capability.kind); !ok {
		return Capability{}, false
	}
	// One id must be a prefix of the other, or both have as many segments.
	left, right := c.id, capability.id
	id := make([]byte, 0, len(left)+len(right))
	for left != "" && right != "" {
		var x, y string
		x, left, _ = strings.Cut(left, "/")
		y, right, _ = strings.Cut(right, "/")
		segment, ok := meet(x, y)
		if !ok {
			return Capability{}, false
		}
		id = append(append(id, segment...), '/')
	}
	switch {
	case left == "" && right == "":
		both.below = c.below && capability.below
	case left == "":
		if !c.below {
			return Capability{}, false
		}
		id, both.below = append(append(id, right...), '/'), capability.below
	default:
		if !capability.below {
			return Capability{}, false
		}
		id, both.below = append(append(id, left...), '/'), c.below
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
