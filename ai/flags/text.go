package flags

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// MaxText is the longest text, in bytes, that isn't flagged.
const MaxText = 4 << 10

// Text returns the findings about one text, at most one of each class.
func Text(where, text string) (all []Flag) {
	add := func(f Flag) {
		for _, g := range all {
			if g.Class == f.Class {
				return
			}
		}
		all = append(all, f)
	}
	characters(where, text, add)
	if len(text) > MaxText {
		add(newFlag(Long, where, "%d bytes", len(text)))
	}
	if strings.Contains(text, "<!--") {
		add(newFlag(Comment, where, "contains an HTML comment"))
	}
	if n := base64Run(text); n >= minBase64 {
		add(newFlag(Base64, where, "contains %d characters of what looks like base64", n))
	}
	if m := orders().FindString(text); m != "" {
		add(newFlag(Instructions, where, "tells the model what to do: %q", m))
	}
	return all
}

// characters adds findings for characters that hide something.
func characters(where, text string, add func(Flag)) {
	runes := []rune(text)
	for i := range runes {
		if class, why := classify(runes, i); class != "" {
			add(newFlag(class, where, why, runes[i]))
		}
	}
}

// classify returns the class of a character that hides something, and a format that says why. Otherwise it returns "".
func classify(runes []rune, i int) (class Class, why string) {
	char := runes[i]
	switch {
	case char == '\n' || char == '\t' || char == '\r' && i+1 < len(runes) && runes[i+1] == '\n':
	case char == 0x1b || char == 0x9b:
		return Control, "contains an escape sequence, %U"
	case char < ' ' || char >= 0x7f && char < 0xa0:
		return Control, "contains the control character %U"
	case char < 0xad: // most text ends here
	case isDirection(char):
		if !isMark(char) || !hasRightToLeft(runes) {
			return Direction, "contains the direction control %U"
		}
	case isTag(char):
		if !inSubdivisionFlag(runes, i) {
			return Hidden, "contains the tag character %U"
		}
	case isSelector(char):
		if !selects(runes, i) {
			return Hidden, "contains the variation selector %U, which selects nothing"
		}
	case char == 0x200c || char == 0x200d:
		if !joins(runes, i) {
			return Hidden, "contains the zero-width character %U, which joins nothing"
		}
	case isInvisible(char):
		return Hidden, "contains the invisible character %U"
	case char == utf8.RuneError || char&0xfffe == 0xfffe || char >= 0xfdd0 && char <= 0xfdef ||
		unicode.Is(unicode.Co, char):
		return Hidden, "contains %U, which is no character"
	}
	return "", ""
}

// Reveal spells the invisible characters of a valid text that Text flags, such as \ufe0f or \U000e0101, so that a
// person sees them. Quoting doesn't suffice: Unicode counts selectors, fillers and the blank of Braille as printable.
func Reveal(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return r >= 0xad }) {
		return text
	}
	var out strings.Builder
	runes := []rune(text)
	for i, char := range runes {
		switch class, _ := classify(runes, i); {
		case class != Hidden || char == utf8.RuneError:
			out.WriteRune(char)
		case char > 0xffff:
			fmt.Fprintf(&out, `\U%08x`, char)
		default:
			fmt.Fprintf(&out, `\u%04x`, char)
		}
	}
	return out.String()
}

// isDirection reports whether a character changes the displayed order of others.
func isDirection(r rune) bool { return unicode.Is(unicode.Bidi_Control, r) }

// isMark reports whether a direction control is a mark that right-to-left scripts require.
func isMark(r rune) bool { return r == 0x200e || r == 0x200f || r == 0x061c }

var rightToLeft = []*unicode.RangeTable{unicode.Hebrew, unicode.Arabic, unicode.Syriac, unicode.Thaana, unicode.Nko}

func hasRightToLeft(runes []rune) bool {
	for _, r := range runes {
		if r >= 0x590 && !isMark(r) && unicode.IsOneOf(rightToLeft, r) {
			return true
		}
	}
	return false
}

func isTag(r rune) bool { return r >= 0xe0000 && r <= 0xe007f }

// flagsOf are the subdivisions whose flags Unicode recommends. Other tag sequences of this form can only hide text.
var flagsOf = []string{"gbeng", "gbsct", "gbwls"}

// inSubdivisionFlag reports whether a tag belongs to a black flag followed by the name of a subdivision.
func inSubdivisionFlag(runes []rune, i int) bool {
	from := i
	for from > 0 && isTag(runes[from-1]) {
		from--
	}
	to := from
	var name []byte
	for to < len(runes) && isTag(runes[to]) && len(name) <= 6 {
		name = append(name, byte(runes[to]-0xe0000))
		to++
	}
	if from == 0 || runes[from-1] != 0x1f3f4 || len(name) == 0 || name[len(name)-1] != 0x7f {
		return false
	}
	for _, subdivision := range flagsOf {
		if subdivision == string(name[:len(name)-1]) {
			return to == len(runes) || !isTag(runes[to])
		}
	}
	return false
}

func isSelector(r rune) bool { return unicode.Is(unicode.Variation_Selector, r) }

// selects reports whether a variation selector follows a character with variants.
func selects(runes []rune, i int) bool {
	if i == 0 {
		return false
	}
	char, base := runes[i], runes[i-1]
	switch {
	case isSelector(base):
		return false
	case char >= 0xe0100: // of ideographs
		return unicode.Is(unicode.Unified_Ideograph, base) || base >= 0xf900 && base <= 0xfaff
	case char >= 0x180b && char <= 0x180f:
		return unicode.Is(unicode.Mongolian, base)
	case char == 0xfe0e || char == 0xfe0f:
		return isPictograph(base) || base == '#' || base == '*' || base >= '0' && base <= '9'
	}
	return base > 0x7f && (unicode.IsLetter(base) || unicode.IsSymbol(base) || unicode.IsPunct(base) ||
		unicode.IsMark(base)) ||
		base == '0' && char == 0xfe00
}

// pictographs are the ranges of emoji.
var pictographs = [][2]rune{{0xa9, 0xa9}, {0xae, 0xae}, {0x203c, 0x203c}, {0x2049, 0x2049}, {0x2122, 0x2122},
	{0x2139, 0x2139}, {0x2190, 0x21ff},
	{0x2300, 0x23ff}, {0x24c2, 0x24c2}, {0x25a0, 0x27bf}, {0x2900, 0x297f}, {0x2b00, 0x2bff}, {0x3030, 0x3030},
	{0x303d, 0x303d},
	{0x3297, 0x3297}, {0x3299, 0x3299}, {0x1f000, 0x1faff}}

func isPictograph(r rune) bool {
	for _, p := range pictographs {
		if r >= p[0] && r <= p[1] {
			return true
		}
	}
	return false
}

// joining are scripts in which joiners and non-joiners are part of the spelling.
var joining = []*unicode.RangeTable{unicode.Arabic, unicode.Syriac, unicode.Nko, unicode.Mongolian, unicode.Devanagari,
	unicode.Bengali, unicode.Gurmukhi,
	unicode.Gujarati, unicode.Oriya, unicode.Tamil, unicode.Telugu, unicode.Kannada, unicode.Malayalam,
	unicode.Sinhala, unicode.Khmer, unicode.Myanmar}

// joins reports whether a zero-width joiner or non-joiner is between two characters that it can join or separate.
func joins(runes []rune, i int) bool {
	if i == 0 {
		return false
	}
	before, last := i-1, i+1 == len(runes)
	if !last && unicode.IsOneOf(joining, runes[before]) {
		return !isInvisible(runes[i+1]) && !isTag(runes[i+1]) && runes[i+1] != 0x200c && runes[i+1] != 0x200d
	}
	if runes[i] != 0x200d || last {
		return false
	}
	if runes[before] == 0xfe0f && before > 0 {
		before--
	}
	return isPictograph(runes[before]) && isPictograph(runes[i+1])
}

// isInvisible reports whether a character is invisible, except those that other functions cover.
func isInvisible(r rune) bool {
	switch {
	case r == 0xad, r == 0x34f, r == 0x115f, r == 0x1160, r == 0x17b4, r == 0x17b5, r == 0x180e, r == 0x2800,
		r == 0x3164,
		r == 0xfeff, r == 0xffa0,
		r >= 0x200b && r <= 0x200d, r >= 0x2060 && r <= 0x206f, r >= 0xfff0 && r <= 0xfffb, r >= 0x1bca0 &&
			r <= 0x1bca3,
		r >= 0x1d173 && r <= 0x1d17a, r >= 0xe0000 && r <= 0xe0fff:
		return true
	}
	return false
}

// minBase64 exceeds the length of a digest or a key.
const minBase64 = 160

// base64Run returns the length of the longest run of base64 characters that has lower case, upper case and digits.
func base64Run(text string) (most int) {
	n, lower, upper, digit := 0, false, false, false
	for i := 0; i <= len(text); i++ {
		var char byte
		if i < len(text) {
			char = text[i]
		}
		switch {
		case char >= 'a' && char <= 'z':
			lower = true
		case char >= 'A' && char <= 'Z':
			upper = true
		case char >= '0' && char <= '9':
			digit = true
		case char == '+' || char == '/' || char == '=' || char == '-' || char == '_':
		case (char == '\n' || char == '\r') && n > 0: // base64 is often broken into lines
			continue
		default:
			if n > most && lower && upper && digit {
				most = n
			}
			n, lower, upper, digit = 0, false, false, false
			continue
		}
		n++
	}
	return most
}

// orders matches phrases that address a model instead of describing a tool. It is compiled on first use, because
// that takes half a millisecond.
var orders = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`(?i)\b(?:(?:ignore|disregard|forget|override)\s+(?:all\s+|any\s+|the\s+|your\s+)*(?:previous|prior|above|earlier|other|system)\b` +
			`|(?:do\s+not|don't|never)\s+(?:tell|mention|inform|reveal|notify|show|ask)\b` +
			`|without\s+(?:telling|informing|asking|notifying)\b` +
			`|system\s+prompt\b` +
			`|you\s+(?:must|have\s+to)\s+(?:always|first|also|never|read|call|send|use|include|pass)\b` +
			`|before\s+(?:using|calling|you\s+use|you\s+call)\s+(?:this|any|the|other)\b` +
			`|(?:read|send|upload|include|pass)\s+(?:the\s+)?(?:contents?\s+of\s+)?(?:the\s+)?(?:file\s+)?[~/.]*/?\.(?:ssh|aws|env|netrc|npmrc|gnupg|cursor)\b)` +
			`|<\s*/?\s*(?:important|system|secret|instructions?)\s*>`)
})
