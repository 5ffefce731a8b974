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
// A version without operator, "1.2.3", is refused: for npm it is that version alone, for cargo what ^1.2.3 allows. So
// are build metadata, which don't order versions, a leading "v", an operator before a wildcard, empty alternatives and
// numbers above 2^53-1.
//
// # Pre-releases
//
// A pre-release is allowed only where a comparator of the same alternative names a pre-release of the same
// major.minor.patch, and then if it stands within the bounds: ^1.2.3-beta.2 allows 1.2.3-beta.4 and 1.4.0, but not
// 1.4.0-beta.4. The upper bounds that ^, ~, <= and wildcards imply are below every pre-release of that version.
package semver

import (
	"slices"
	"strings"

	"github.com/rye-build/rye/manifest"
)

// MaxText is how many bytes the text of a range may have.
const MaxText = 1000

// A span is the versions from lo on and below hi. Both are versions without build metadata; "" as hi is no bound.
type span struct{ lo, hi string }

// A Range is a set of versions. The zero Range allows none. A Range is not changed after it was made.
type Range struct {
	text     string
	releases []span // both ends are releases, and only releases are meant
	previews []span // pre-releases of one major.minor.patch: hi is that version or one of its pre-releases
}

// String returns the text of r as it was written.
func (r Range) String() string { return r.text }

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
	return slices.ContainsFunc(spans, func(s span) bool {
		return !below(version, s.lo) && (s.hi == "" || below(version, s.hi))
	})
}

// Empty reports whether r allows no version at all.
func (r Range) Empty() bool { return len(r.releases) == 0 && len(r.previews) == 0 }

// Lower returns the least version that r allows; there is none in an empty range.
func (r Range) Lower() (version string, ok bool) {
	for _, s := range slices.Concat(r.releases, r.previews) {
		if version == "" || below(s.lo, version) {
			version = s.lo
		}
	}
	return version, version != ""
}

func isPreview(v string) bool { return strings.IndexByte(v, '-') >= 0 }

// release returns v without its pre-release.
func release(v string) string {
	v, _, _ = strings.Cut(v, "-")
	return v
}

// below reports whether v is a lower version than w.
func below(v, w string) bool { return manifest.CompareVersions(v, w) < 0 }

func later(a, b string) string {
	if below(a, b) {
		return b
	}
	return a
}
