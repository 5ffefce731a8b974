package capability

import (
	"fmt"
	"slices"
	"strings"
)

// MaxSet is how many members a set may have: what two of them can have in common grows with their product.
const MaxSet = 256

// A Set is capabilities, sorted by their canonical form, each once. The zero Set is empty and covers nothing. A Set is
// not changed after it was made.
type Set struct{ list []Capability }

// ParseSet returns the set of the capabilities that the texts stand for. The first text that is none, and more than
// MaxSet of them, are an error.
func ParseSet(texts []string) (Set, error) {
	list := make([]Capability, 0, min(len(texts), MaxSet))
	for _, text := range texts {
		c, err := Parse(text)
		if err != nil {
			return Set{}, err
		}
		list = append(list, c)
	}
	return NewSet(list)
}

// NewSet returns the set of the capabilities. It leaves out zero ones; more than MaxSet are an error.
func NewSet(list []Capability) (Set, error) {
	list = slices.DeleteFunc(slices.Clone(list), func(c Capability) bool { return c == Capability{} })
	slices.SortFunc(list, func(a, b Capability) int { return strings.Compare(a.String(), b.String()) })
	list = slices.Compact(list)
	if len(list) > MaxSet {
		return Set{}, invalid(list[MaxSet].String(), fmt.Sprintf("there are more than %d capabilities", MaxSet))
	}
	return Set{list}, nil
}

// List returns the members in order.
func (s Set) List() []Capability { return slices.Clone(s.list) }

// Strings returns the canonical forms of the members, sorted.
func (s Set) Strings() []string {
	texts := make([]string, len(s.list))
	for i, c := range s.list {
		texts[i] = c.String()
	}
	return texts
}

// Covers reports whether one member of s covers c.
func (s Set) Covers(c Capability) bool {
	return slices.ContainsFunc(s.list, func(member Capability) bool { return member.Covers(c) })
}

// Intersect returns the set of what both s and o cover. None of its members covers another one. If it would have more
// than MaxSet members, which takes patterns made for it, that is an error and nothing is allowed.
func (s Set) Intersect(o Set) (Set, error) {
	seen := map[Capability]bool{}
	var list []Capability
	for _, a := range s.list {
		for _, b := range o.list {
			c, ok := a.Intersect(b)
			if !ok || seen[c] {
				continue
			}
			seen[c] = true
			if (Set{list}).Covers(c) {
				continue
			}
			list = append(slices.DeleteFunc(list, c.Covers), c)
			if len(list) > MaxSet {
				return Set{},
					invalid(c.String(), fmt.Sprintf("there are more than %d capabilities in the intersection", MaxSet))
			}
		}
	}
	return NewSet(list)
}
