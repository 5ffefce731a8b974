// Package semver parses version requirements: which versions does this requirement allow?
//
// A version is one of Semantic Versioning 2.0.0; package manifest checks and orders versions. A requirement is the
// text of a range:
//
//	^1.2  ~1.2.3  >=1.0 <2  1.x  =1.2.3  1.2.3 - 2.0  ^1.4 || ^2.1  *
//
//	range       = alternative *( "||" alternative )
//	alternative = "*" | hyphen | comparator *( ( " " | "," ) comparator )    ; all must allow the version
//	comparator  = ( "^" | "~" | ">=" | ">" | "<=" | "<" | "=" ) partial | wild
//	hyphen      = ( partial | wild ) " - " ( partial | wild )
//	partial     = number [ "." number [ "." number [ "-" pre-release ] ] ]
//	wild        = number [ "." number ] "." ( "x" | "X" | "*" )              ; further wildcards may follow
//
// Spaces may surround every operator. The meaning is the one that npm and cargo share:
//
//	text              allows              text              allows
//	^1.2.3            >=1.2.3 <2.0.0      >1.2              >=1.3.0
//	^0.2.3            >=0.2.3 <0.3.0      >=1.2             >=1.2.0
//	^0.0.3            >=0.0.3 <0.0.4      <1.2              <1.2.0
//	^0.0              >=0.0.0 <0.1.0      <=1.2             <1.3.0
//	~1.2.3, ~1.2      >=1.2.x <1.3.0      =1.2, 1.2.x       >=1.2.0 <1.3.0
//	~1                >=1.0.0 <2.0.0      1.2 - 2.3         >=1.2.0 <2.4.0
//
// A version without an operator, such as "1.2.3", is refused: npm allows that version alone, cargo everything that
// ^1.2.3 allows. Also refused are build metadata, which don't order versions, a leading "v", an operator before a
// wildcard, empty alternatives, and numbers above 2^53-1.
//
// # Pre-releases
//
// A pre-release is allowed only if a comparator of the same alternative names a pre-release of the same
// major.minor.patch, and only within the bounds: ^1.2.3-beta.2 allows 1.2.3-beta.4 and 1.4.0, but not 1.4.0-beta.4.
// The upper bounds that ^, ~, <= and wildcards imply are below every pre-release of that version.
//
// # How a range goes through here
//
// Parse reads one alternative after the other; each is a "*", two versions with a hyphen (hyphen), or comparators.
// comparator parses a version (bound), turns it into a span by its operator (bound.span), and narrows the bounds
// (take). releases and previews become the spans of the Range, which Contains searches.
package semver

import (
	"slices"
	"strings"

	"github.com/rye-build/rye/manifest"
)

// MaxText bounds the text of a range, in bytes.
const MaxText = 1000

// A span has the versions from lo up to, but not including, hi. Both are without build metadata; an empty hi is no
// bound.
type span struct{ lo, hi string }

// A Range is a set of versions. The zero Range is empty. A Range is immutable.
type Range struct {
	text     string
	releases []span // of releases, with releases as both ends
	previews []span // pre-releases of one major.minor.patch: hi is that version or one of its pre-releases
}

// String returns the original text of r.
func (r Range) String() string { return r.text }

// Contains reports whether r allows version. It returns false for an invalid version.
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

// Lower returns the least version that r allows. ok is false if r is empty.
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
