package capability

import (
	"fmt"
	"slices"
	"strings"
)

// MaxSet bounds the members of a set: an intersection may have as many as the product of both sizes.
const MaxSet = 256

// A Set is a sorted set of capabilities. It is immutable. The zero Set is empty and covers nothing.
type Set struct{ list []Capability }

// ParseSet parses the members of a set. It returns an error at the first invalid text and for more than MaxSet
// members.
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

// NewSet returns a set without zero capabilities. More than MaxSet members are an error.
func NewSet(list []Capability) (Set, error) {
	list = slices.DeleteFunc(slices.Clone(list), func(c Capability) bool { return c == Capability{} })
	slices.SortFunc(list, func(a, b Capability) int { return strings.Compare(a.String(), b.String()) })
	list = slices.Compact(list)
	if len(list) > MaxSet {
		return Set{}, invalid(list[MaxSet].String(), fmt.Sprintf("more than %d capabilities", MaxSet))
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

// Covers reports whether a member of s covers c.
func (s Set) Covers(c Capability) bool {
	return slices.ContainsFunc(s.list, func(member Capability) bool { return member.Covers(c) })
}

// Intersect returns the set that covers what both s and o cover. No member covers another. More than MaxSet
// members, which only patterns made for that reach, are an error, and the result allows nothing.
func (s Set) Intersect(o Set) (Set, error) {
	seen := map[Capability]bool{}
	var list []Capability
	for _, a := range s.list {
		for _, b := range o.list {
			capability, ok := a.Intersect(b)
			if !ok || seen[capability] {
				continue
			}
			seen[capability] = true
			if (Set{list}).Covers(capability) {
				continue
			}
			list = append(slices.DeleteFunc(list, capability.Covers), capability)
			if len(list) > MaxSet {
				return Set{},
					invalid(capability.String(), fmt.Sprintf("more than %d capabilities in the intersection", MaxSet))
			}
		}
	}
	return NewSet(list)
}
