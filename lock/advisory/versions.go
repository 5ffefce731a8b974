package advisory

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest"
)

// ParseVersions reads which versions an advisory covers, as in ">=1.2.0 <1.4.2 || =1.0.3": alternatives, each a single
// version, a lower bound, an upper bound, both, or * for all.
func ParseVersions(text string) (spans []Span, versions []string, err error) {
	for part := range strings.SplitSeq(text, "||") {
		span, version, err := parseAlternative(strings.Fields(part))
		if err != nil {
			return nil, nil, fault.New(fault.Validation, "versions %+q: %v", fault.Clip(text, 200), err).From(err).
				Because(`expected as in "<1.4.2", ">=1.2.0 <=1.4.1", "=1.0.3", "*", or several with "||" between them`)
		}
		if version != "" {
			versions = append(versions, version)
		} else {
			spans = append(spans, span)
		}
	}
	slices.Sort(versions)
	slices.SortFunc(spans, func(a, b Span) int {
		zero := cmp.Compare(len(b.Introduced), len(a.Introduced)) // "0" is shorter than any version
		if a.Introduced == "0" || b.Introduced == "0" {
			return -zero
		}
		return manifest.CompareVersions(a.Introduced, b.Introduced)
	})
	return spans, slices.Compact(versions), nil
}

func parseAlternative(words []string) (span Span, version string, err error) {
	span.Introduced = "0"
	if len(words) == 1 && words[0] == "*" {
		return span, "", nil
	}
	if len(words) == 0 || len(words) > 2 {
		return span, "", fmt.Errorf("an alternative has one or two bounds")
	}
	lower, upper := false, false
	for _, word := range words {
		op := word[:len(word)-len(strings.TrimLeft(word, "<>="))]
		bound := word[len(op):]
		if err := manifest.CheckVersion(bound); err != nil {
			return span, "", err
		}
		switch {
		case op == "=" && len(words) == 1:
			return span, bound, nil
		case op == ">=" && !lower && !upper:
			span.Introduced, lower = bound, true
		case op == "<" && !upper:
			span.Fixed, upper = bound, true
		case op == "<=" && !upper:
			span.LastAffected, upper = bound, true
		default:
			return span, "", fmt.Errorf("%+q is not a bound here", word)
		}
	}
	return span, "", nil
}
