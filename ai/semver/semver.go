// Package semver answers: which versions does this requirement allow?
//
// A version is one of Semantic Versioning 2.0.0, checked and ordered by package manifest. A requirement is the
// text of a range:
//
//	^1.2  ~1.2.3  >=1.0 <2  1.x  =1.2.3  1.2.3 - 2.0  ^1.4 || ^2.1  *
//
//	range       = alternative *( "||" alternative )
//	alternative = "*" | hyphen | comparator *( ( " " | "," ) comparator )    ; all of them hold
//	comparator  = ( "^" | "~" | ">=" | ">" | "<=" | "<" | "=" ) partial | wild
//	hyphen      = ( partial | wild ) " - " ( partial | wild )
//	partial     = number [ "." number [ "." number [ "-" pre-release ] ] ]
//	wild        = number [ "." number ] "." ( "x" | "X" | "*" )              ; and as many more of these as fit
//
// There may be spaces around every sign. What it means is what npm and cargo agree about:
//
//	text              allows              text              allows
//	^1.2.3            >=1.2.3 <2.0.0      >1.2              >=1.3.0
//	^0.2.3            >=0.2.3 <0.3.0      >=1.2             >=1.2.0
//	^0.0.3            >=0.0.3 <0.0.4      <1.2              <1.2.0
//	^0.0              >=0.0.0 <0.1.0      <=1.2             <1.3.0
//	~1.2.3, ~1.2      >=1.2.x <1.3.0      =1.2, 1.2.x       >=1.2.0 <1.3.0
//	~1                >=1.0.0 <2.0.0      1.2 - 2.3         >=1.2.0 <2.4.0
//
// A version without operator, "1.2.3", is refused: for npm it is that version alone, for cargo what ^1.2.3 allows.
// So are build metadata, which don't order versions, a leading "v", an operator before a wildcard, empty alternatives and
// numbers above 2^53-1.
//
// # Pre-releases
//
// A pre-release is allowed only where a comparator of the same alternative names a pre-release of the same
// major.minor.patch, and then if it stands within the bounds: ^1.2.3-beta.2 allows 1.2.3-beta.4 and 1.4.0, but not 1.4.0-beta.4.
// The upper bounds that ^, ~, <= and wildcards imply are below every pre-release of that version.
//
// # Canonical form
//
// A Range is the set of versions that it allows, and String gives the one text for that set: intervals in order, each
// as few of ">=", "<" and "=" with full versions as say it, joined by " || "; "*" for all releases and "<0.0.0-0" for none.
// ">1.2.3" becomes ">=1.2.4", and ">1.2.3-rc" ">=1.2.3-rc.0", because nothing stands between them.
package semver

import (
	"slices"
	"strings"

	"github.com/rye-build/rye/manifest"
)

// MaxText is how many bytes the text of a range, and its canonical form, may have.
const MaxText = 1000

// A span is the versions from lo on and below hi. Both are versions without build metadata; "" as hi is no bound.
type span struct{ lo, hi string }

// A Range is a set of versions. The zero Range allows none. A Range is not changed after it was made.
type Range struct {
	// The two lists are sorted, and their spans are apart: neither overlap nor touch.
	releases []span // both ends are releases, and only releases are meant
	previews []span // pre-releases of one major.minor.patch: hi is that version or one of its pre-releases
}

// Contains reports whether r allows version. What is no version is in no range.
func (r Range) Contains(version string) bool {
	if manifest.CheckVersion(version) != nil {
		return false
	}
	version, _, _ = strings.Cut(version, "+")
	spans := r.releases
	if isPreview(version) {
		spans = r.previews
	}
	i, found := slices.BinarySearchFunc(spans, version, func(s span, v string) int { return manifest.CompareVersions(s.lo, v) })
	return found || i > 0 && below(version, spans[i-1].hi)
}

// Empty reports whether r allows no version at all.
func (r Range) Empty() bool { return len(r.releases) == 0 && len(r.previews) == 0 }

// Lower returns the least version that r allows; there is none in an empty range.
func (r Range) Lower() (version string, ok bool) {
	switch {
	case r.Empty():
		return "", false
	case len(r.previews) == 0 || len(r.releases) > 0 && manifest.CompareVersions(r.releases[0].lo, r.previews[0].lo) < 0:
		return r.releases[0].lo, true
	}
	return r.previews[0].lo, true
}

// join sorts the spans of a list and makes one of those that overlap or touch.
func join(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return manifest.CompareVersions(a.lo, b.lo) })
	out := spans[:0]
	for _, s := range spans {
		if last := len(out) - 1; last < 0 || out[last].hi != "" && manifest.CompareVersions(out[last].hi, s.lo) < 0 {
			out = append(out, s)
		} else if out[last].hi != "" && (s.hi == "" || below(out[last].hi, s.hi)) {
			out[last].hi = s.hi
		}
	}
	return out
}

// String returns the canonical form of r, which parses to r again.
func (r Range) String() string {
	if r.Empty() {
		return "<0.0.0-0"
	}
	// Pre-releases that end where releases begin, or begin where releases end, are said in one alternative with them.
	apart := slices.Clone(r.previews)
	take := func(fits func(span) bool) (span, bool) {
		i := slices.IndexFunc(apart, fits)
		if i < 0 {
			return span{}, false
		}
		s := apart[i]
		apart = slices.Delete(apart, i, i+1)
		return s, true
	}
	all := make([]span, 0, len(r.releases)+len(r.previews))
	for _, s := range r.releases {
		lo, hi := s.lo, s.hi
		if p, ok := take(func(p span) bool { return p.hi == lo }); ok {
			s.lo = p.lo
		}
		// "<2.0.0" alone wouldn't name a pre-release of 2.0.0, so that all of them stand apart.
		if p, ok := take(func(p span) bool { return hi != "" && p.lo == hi+"-0" && isPreview(p.hi) }); ok {
			s.hi = p.hi
		}
		all = append(all, s)
	}
	all = append(all, apart...)
	slices.SortFunc(all, func(a, b span) int { return manifest.CompareVersions(a.lo, b.lo) })
	var text strings.Builder
	for i, s := range all {
		if i > 0 {
			text.WriteString(" || ")
		}
		text.WriteString(s.String())
	}
	return text.String()
}

func (s span) String() string {
	next := s.lo + ".0"
	if !isPreview(s.lo) {
		next, _ = after(s.lo, patch)
	}
	switch {
	case s.lo == "0.0.0" && s.hi == "":
		return "*"
	case s.hi == "":
		return ">=" + s.lo
	case s.hi == next:
		return "=" + s.lo
	case s.lo == "0.0.0":
		return "<" + s.hi
	}
	return ">=" + s.lo + " <" + s.hi
}

func isPreview(v string) bool { return strings.IndexByte(v, '-') >= 0 }

// release returns v without its pre-release.
func release(v string) string {
	v, _, _ = strings.Cut(v, "-")
	return v
}

// below reports whether v stands before the bound hi.
func below(v, hi string) bool { return hi == "" || manifest.CompareVersions(v, hi) < 0 }

func later(a, b string) string {
	if manifest.CompareVersions(a, b) < 0 {
		return b
	}
	return a
}
