package manifest

import (
	"cmp"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
)

// CheckVersion returns nil if version is a version by Semantic Versioning 2.0.0, at most 100 bytes long.
func CheckVersion(version string) error {
	core, pre, build := splitVersion(version)
	ok := len(version) <= 100 && strings.Count(core, ".") == 2
	for number := range strings.SplitSeq(core, ".") {
		ok = ok && isNumber(number)
	}
	if pre != "" {
		for id := range strings.SplitSeq(pre[1:], ".") {
			ok = ok && isIdentifier(id) && (isNumber(id) || !isDigits(id))
		}
	}
	if build != "" {
		for id := range strings.SplitSeq(build[1:], ".") {
			ok = ok && isIdentifier(id)
		}
	}
	if !ok {
		return fault.New(fault.Validation, "%+q is not a version by semver 2.0, such as 1.4.0 or 2.0.0-rc.1", version)
	}
	return nil
}

// splitVersion cuts v before "-" and before "+".
func splitVersion(v string) (core, pre, build string) {
	if i := strings.IndexByte(v, '+'); i >= 0 {
		v, build = v[:i], v[i:]
	}
	if i := strings.IndexByte(v, '-'); i >= 0 {
		v, pre = v[:i], v[i:]
	}
	return v, pre, build
}

func isDigits(s string) bool { return portable.Spelled(s, portable.Digits, "", len(s)) }

func isNumber(s string) bool { return isDigits(s) && (len(s) == 1 || s[0] != '0') }

func isIdentifier(s string) bool {
	return portable.Spelled(s, portable.Letters+portable.Digits+"-", "", len(s))
}

// IsPrerelease reports whether a version is a prerelease.
func IsPrerelease(v string) bool {
	_, pre, _ := splitVersion(v)
	return pre != ""
}

// NewestVersion returns the newest version that isn't a prerelease; if all are prereleases, the newest of them.
// Without versions it returns "".
func NewestVersion(all []string) (newest string) {
	for _, v := range all {
		early, was := IsPrerelease(v), IsPrerelease(newest)
		if newest == "" || was && !early || early == was && CompareVersions(v, newest) > 0 {
			newest = v
		}
	}
	return newest
}

// CompareVersions orders two versions by precedence (semver 2.0, §11); the part after "+" doesn't count. Both must
// have passed CheckVersion.
func CompareVersions(a, b string) int {
	coreA, preA, _ := splitVersion(a)
	coreB, preB, _ := splitVersion(b)
	if c := compareDotted(coreA, coreB); c != 0 {
		return c
	}
	// A release comes after its prereleases.
	if preA == "" || preB == "" {
		return cmp.Compare(len(preB), len(preA))
	}
	return compareDotted(preA[1:], preB[1:])
}

func compareDotted(a, b string) int {
	for {
		x, restA, moreA := strings.Cut(a, ".")
		y, restB, moreB := strings.Cut(b, ".")
		if c := compareIdentifiers(x, y); c != 0 {
			return c
		}
		if !moreA || !moreB {
			return cmp.Compare(len(restA), len(restB))
		}
		a, b = restA, restB
	}
}

// compareIdentifiers orders numbers by value, and before all other identifiers, which are ordered by bytes.
func compareIdentifiers(left, right string) int {
	switch a, b := isDigits(left), isDigits(right); {
	case a && b:
		if len(left) != len(right) {
			return cmp.Compare(len(left), len(right))
		}
	case a:
		return -1
	case b:
		return 1
	}
	return strings.Compare(left, right)
}
