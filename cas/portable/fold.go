package portable

import (
	"sort"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Fold returns name under full Unicode case folding (statuses C and F, never the Turkic T), in Normalization
// Form C: two names that CheckName accepts are the same to some case-insensitive file system only if their
// folds are equal. It returns name itself, without allocation, when that is ASCII without upper case.
//
// A path may be folded as a whole. Fold leaves bytes that are not UTF-8 unchanged.
func Fold(name string) string {
	i := unfolded(name)
	if i == len(name) {
		return name
	}
	var buf [MaxSegment + 1]byte
	b := append(buf[:0], name[:i]...)
	for ; i < len(name) && name[i] < utf8.RuneSelf; i++ {
		b = append(b, lower(name[i]))
	}
	if i < len(name) {
		return foldUnicode(b, name[i:])
	}
	return string(b)
}

// foldUnicode completes Fold: done is folded already, and rest begins with a character that isn't ASCII.
func foldUnicode(done []byte, rest string) string {
	var text strings.Builder
	text.Grow(len(done) + len(rest) + 8)
	text.Write(done)
	for i := 0; i < len(rest); {
		r, size := utf8.DecodeRuneInString(rest[i:])
		if r == utf8.RuneError {
			text.WriteString(rest[i : i+size])
		} else if one, several := foldRune(r); several != "" {
			text.WriteString(several)
		} else {
			text.WriteRune(one)
		}
		i += size
	}
	if s := text.String(); !norm.NFC.IsNormalString(s) {
		return norm.NFC.String(s)
	}
	return text.String()
}

// foldASCII appends the fold of name to data and reports whether it is ASCII. It stops at the first character whose
// fold isn't, which soon ends the comparison with a reserved name.
func foldASCII(data []byte, name string) ([]byte, bool) {
	for _, r := range name {
		one, several := foldRune(r)
		switch {
		case several == "" && one < utf8.RuneSelf:
			data = append(data, byte(one))
		case several != "" && isASCII(several):
			data = append(data, several...)
		default:
			return data, false
		}
	}
	return data, true
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// unfolded returns the length of the part of name that is ASCII without upper case.
func unfolded(name string) int {
	for i := 0; i < len(name); i++ {
		if c := name[i]; c >= utf8.RuneSelf || 'A' <= c && c <= 'Z' {
			return i
		}
	}
	return len(name)
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// A foldRun is the code points lo, lo+stride, … hi, each folding to the one delta away.
type foldRun struct {
	lo, hi, stride, delta rune
}

// A foldOne is a code point that folds to several.
type foldOne struct {
	r  rune
	to string
}

// foldRune returns the fold of char: several code points, or if several is empty, one, which may be char itself.
func foldRune(char rune) (one rune, several string) {
	i := sort.Search(len(foldRuns), func(i int) bool { return foldRuns[i].hi >= char })
	if i < len(foldRuns) {
		if f := &foldRuns[i]; f.lo <= char && (char-f.lo)%f.stride == 0 {
			return char + f.delta, ""
		}
	}
	i = sort.Search(len(foldFull), func(i int) bool { return foldFull[i].r >= char })
	if i < len(foldFull) && foldFull[i].r == char {
		return char, foldFull[i].to
	}
	return char, ""
}
