package portable

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

var seeds = []string{
	"", "a", "a/b", "README.md", "a/../b", "/x", "a//b", "CON .x", "com¹", "git~1", ".GIT", "._x", "Straße", "ẞ/ǅ",
	"ᾳ̣", "a\u0308",
	"\u212a", "x\u200dy", "\xff", "İ/ı", "ΐ", ".nfs00000000ff", "a~1/b", "日本", "q\u0323\u0307", "\u0344", "각\u11a8",
	strings.Repeat("\u0301", 40),
}

// FuzzCheck holds Check to what it promises about parts, wholes and folds of what it accepts.
func FuzzCheck(f *testing.F) {
	for i, s := range seeds {
		f.Add(s, seeds[(i+7)%len(seeds)])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		errA, errB := Check(a), Check(b)
		if errA == nil {
			accepted(t, a)
		}
		if got, want := segmentwise(a), errA == nil; got != want {
			t.Errorf("%+q: by segments %v, as a path %v", a, got, want)
		}
		if joined := a + "/" + b; len(joined) <= MaxPath {
			if got, want := Check(joined) == nil, errA == nil && errB == nil; got != want {
				t.Errorf("%+q: accepted %v, its parts %v", joined, got, want)
			}
		}
	})
}

func segmentwise(path string) bool {
	for s := range strings.SplitSeq(path, "/") {
		if CheckName(s) != nil {
			return false
		}
	}
	return len(path) <= MaxPath
}

func accepted(t *testing.T, path string) {
	if !utf8.ValidString(path) || !norm.NFC.IsNormalString(path) ||
		strings.ContainsAny(path, "\x00\\:<>\"|?*\n\r\x1b\x7f") {
		t.Errorf("%+q is accepted", path)
	}
	folded := Fold(path)
	if again := Fold(folded); again != folded {
		t.Errorf("Fold(%+q) = %+q, and once more %+q", path, folded, again)
	}
	if decomposed := norm.NFC.String(foldCodePoints(norm.NFD.String(path))); decomposed != folded {
		t.Errorf("Fold(%+q) = %+q, and decomposed first %+q", path, folded, decomposed)
	}
	for s := range strings.SplitSeq(path, "/") {
		if Droppings(s) || Droppings(Fold(s)) {
			t.Errorf("%+q is accepted and has the dropping %+q", path, s)
		}
		// A fold may be longer than its name, and is no name then; else it is as portable.
		if f := Fold(s); len(f) <= MaxSegment {
			if err := CheckName(f); err != nil {
				t.Errorf("%+q is accepted, its fold isn't: %v", s, err)
			}
		}
	}
}

// FuzzFold gives Fold what CheckName would refuse.
func FuzzFold(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		folded := Fold(s)
		if unfolded(s) == len(s) && folded != s {
			t.Errorf("Fold(%+q) = %+q", s, folded)
		}
		if utf8.ValidString(s) && !norm.NFC.IsNormalString(folded) {
			t.Errorf("Fold(%+q) = %+q is not NFC", s, folded)
		}
		if upper := strings.Map(asciiUpper, s); utf8.ValidString(s) && Fold(upper) != folded {
			t.Errorf("Fold(%+q) = %+q, Fold(%+q) = %+q", s, folded, upper, Fold(upper))
		}
		if Droppings(s) && CheckName(s) == nil {
			t.Errorf("%+q is a dropping and accepted", s)
		}
	})
}

func asciiUpper(r rune) rune {
	if 'a' <= r && r <= 'z' {
		return r - 'a' + 'A'
	}
	return r
}

// FuzzCheckSet compares CheckSet with the rules said plainly, over every pair of prefixes.
func FuzzCheckSet(f *testing.F) {
	for _, s := range []string{
		"a\na-b\na/b", "A/x\na/y", "README\nReadMe", "a/B/x\na/C\na/b/y", "STRASSE\nstraße", "a\nb/c\nb/d/e\nc",
		"x/A\nx/a!/b\nx/a",
		"A\nAB/c\nB/a\nb\nba", "ΐ\nΪ́", "a/b/c\na/b-/d\na/b.\na/b",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		paths := strings.Split(s, "\n")
		if len(paths) > 50 {
			return
		}
		unsorted := CheckSet(slices.Values(paths))
		if !slices.IsSorted(paths) {
			if unsorted == nil {
				t.Errorf("%+q is accepted and not sorted", paths)
			}
			slices.Sort(paths)
		}
		if got, want := CheckSet(slices.Values(paths)), plainSet(paths); (got == nil) != want {
			t.Errorf("%+q: got %v, expected accepted = %v", paths, got, want)
		}
	})
}

func plainSet(paths []string) bool {
	type place struct {
		name string
		file bool
	}
	places := make(map[string]place)
	for _, p := range paths {
		if Check(p) != nil {
			return false
		}
		for i := 1; i <= len(p); i++ {
			if i < len(p) && p[i] != '/' {
				continue
			}
			here := place{p[:i], i == len(p)}
			there, known := places[Fold(p[:i])]
			if known && (there != here || here.file) {
				return false
			}
			places[Fold(p[:i])] = here
		}
	}
	return true
}
