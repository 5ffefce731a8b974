package portable

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// defaultIgnorable is the property as UAX #44 derives it, from tables that our generator doesn't read.
func defaultIgnorable(r rune) bool {
	switch {
	case unicode.In(r, unicode.White_Space, unicode.Prepended_Concatenation_Mark),
		0xFFF9 <= r && r <= 0xFFFB, 0x13430 <= r && r <= 0x1343F:
		return false
	}
	return unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Cf, unicode.Variation_Selector)
}

// wantClass classifies by Go's own tables.
func wantClass(r rune) class {
	switch {
	case unicode.Is(unicode.Noncharacter_Code_Point, r):
		return noncharacter
	case defaultIgnorable(r):
		return ignorable
	case unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp):
		return control
	case unicode.Is(unicode.Cs, r):
		return surrogate
	case unicode.Is(unicode.Co, r):
		return privateUse
	case norm.NFC.PropertiesString(string(r)).CCC() != 0:
		return mark
	case unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z, unicode.Cf):
		return 0
	}
	return unassigned
}

// TestClassEveryCodePoint compares the generated table with Go's. Under a Go of another Unicode version, what
// was unassigned may have become anything, and nothing else may have changed.
func TestClassEveryCodePoint(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	counts := make(map[class]int)
	for r := rune(0); r <= unicode.MaxRune; r++ {
		got := classify(r)
		counts[got]++
		if want := wantClass(r); got != want && (unicode.Version == Unicode || got != unassigned) {
			t.Errorf("%U is of class %d, expected %d", r, got, want)
		}
	}
	for c := mark; c <= privateUse; c++ {
		if counts[c] == 0 {
			t.Errorf("no code point is of class %d", c)
		}
	}
	if counts[surrogate] != 2048 || counts[noncharacter] != 66 || counts[privateUse] != 6400+2*65534 {
		t.Errorf("surrogates, noncharacters, private use: %d %d %d", counts[surrogate], counts[noncharacter],
			counts[privateUse])
	}
}

// TestEveryCodePointAsName holds CheckName to what the classes and the lists say about one code point.
func TestEveryCodePointAsName(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) || r > 0x32400 && r%0x101 != 0 { // a sample of the planes where nothing is to be found
			continue
		}
		name := "x" + string(r) + "y"
		want := ""
		switch c := classify(r); {
		case c > mark:
			want = c.rule()
		case strings.ContainsRune(`/\:<>"|?*`, r):
			want = ruleCharacter
		case !norm.NFC.IsNormalString(name):
			want = ruleNFC
		}
		got := ""
		if err := CheckName(name); err != nil {
			got = err.(*Error).Rule
		}
		if got != want {
			t.Errorf("%+q: got rule %q, expected %q", name, got, want)
		}
	}
}

// TestFoldAgainstText compares the folding of every assigned code point with golang.org/x/text/cases.
func TestFoldAgainstText(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	caser, folded := cases.Fold(), 0
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if c := classify(r); c == unassigned || c == surrogate {
			continue
		}
		want := caser.String(string(r))
		if 0x13A0 <= r && r <= 0x13F5 {
			// CaseFolding.txt folds small Cherokee letters to capital ones; x/text also the other way round, and so
			// keeps the two apart (golang.org/issue/46101).
			want = string(r)
		}
		if got := foldCodePoints(string(r)); got != want {
			t.Errorf("%U folds to %+q, expected %+q", r, got, want)
		}
		if want != string(r) {
			folded++
		}
		if got := Fold(string(r)); got != norm.NFC.String(want) {
			t.Errorf("Fold(%U) = %+q, expected %+q", r, got, norm.NFC.String(want))
		}
		if got := Fold(Fold(string(r))); got != Fold(string(r)) {
			t.Errorf("Fold(Fold(%U)) = %+q, expected %+q", r, got, Fold(string(r)))
		}
	}
	if folded < 1500 {
		t.Errorf("only %d code points fold", folded)
	}
}

// TestFoldCoversSimpleCase shows that a file system that compares by simple upper or lower case finds no two
// names equal that Fold tells apart, but for the two letters whose case depends on the language.
func TestFoldCoversSimpleCase(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		for _, o := range []rune{unicode.ToUpper(r), unicode.ToLower(r), unicode.ToTitle(r), unicode.SimpleFold(r)} {
			if o == r || classify(r) > mark || classify(o) > mark || r == 'İ' || r == 'ı' {
				continue
			}
			if Fold(string(r)) != Fold(string(o)) {
				t.Errorf("Fold(%U) = %+q, Fold(%U) = %+q", r, Fold(string(r)), o, Fold(string(o)))
			}
		}
	}
}

// TestFoldOrder shows what the rule fold is for: of every two code points that are allowed together, folding
// the composed and the decomposed form gives the same.
func TestFoldOrder(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	var marks, letters []rune
	ofClass := make(map[uint8]int) // enough of each combining class to compose, to follow and to go in front
	for r := rune(0x80); r <= unicode.MaxRune; r++ {
		switch c := classify(r); {
		case c > mark:
			continue
		case c == mark:
			ccc := norm.NFC.PropertiesString(string(r)).CCC()
			if ofClass[ccc]++; ofClass[ccc] <= 16 {
				marks = append(marks, r)
			}
		}
		if foldCodePoints(string(r)) != string(r) {
			letters = append(letters, r)
		}
	}
	refusals := 0
	for _, l := range letters {
		for _, m := range marks {
			name := string(l) + string(m)
			composed, decomposed := foldCodePoints(name), foldCodePoints(norm.NFD.String(name))
			same := norm.NFC.String(composed) == norm.NFC.String(decomposed)
			switch rule := ruleOf(t, CheckName(name)); {
			case rule == "" && !same:
				t.Errorf("%+q is allowed, but folds to %+q or %+q", name, composed, decomposed)
			case rule == ruleFold && same:
				t.Errorf("%+q is refused, but folds to %+q in either order", name, composed)
			case rule == ruleFold:
				refusals++
			}
		}
	}
	if refusals == 0 {
		t.Error("no two code points are refused by the rule fold")
	}
}

// foldCodePoints folds without normalising.
func foldCodePoints(s string) string {
	var b strings.Builder
	for _, r := range s {
		one, several := foldRune(r)
		if several == "" {
			several = string(one)
		}
		b.WriteString(several)
	}
	return b.String()
}

// TestFirstComposing shows why names of lower code points alone need no normaliser.
func TestFirstComposing(t *testing.T) {
	for r := rune(0); r < firstComposing; r++ {
		if p := norm.NFC.PropertiesString(string(r)); p.CCC() != 0 || !p.BoundaryBefore() ||
			!norm.NFC.IsNormalString(string(r)) {
			t.Errorf("%U may be composed with what stands before it, or isn't in normal form", r)
		}
	}
}

func TestTablesInOrder(t *testing.T) {
	for i := range spans {
		if spans[i].lo > spans[i].hi || i > 0 && spans[i-1].hi >= spans[i].lo {
			t.Errorf("spans[%d] is out of order", i)
		}
	}
	for i := range foldRuns {
		if f := foldRuns[i]; f.lo > f.hi || f.stride < 1 || i > 0 && foldRuns[i-1].hi >= f.lo {
			t.Errorf("foldRuns[%d] is out of order", i)
		}
	}
	for i := range foldFull[1:] {
		if foldFull[i].r >= foldFull[i+1].r {
			t.Errorf("foldFull[%d] is out of order", i+1)
		}
	}
}
