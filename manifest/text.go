package manifest

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rye-build/rye/cas/portable"
)

// timeForm is the one form of a moment in documents, whole seconds in UTC.
const timeForm = "2006-01-02T15:04:05Z"

// parseTime reads a moment in its one form.
func parseTime(b []byte) (time.Time, bool) {
	t, err := time.Parse(timeForm, string(b))
	return t, err == nil && t.Format(timeForm) == string(b)
}

// printable reports whether s is 1 to most characters of ASCII, none of them a control or a space.
func printable(s string, most int) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return s != "" && len(s) <= most
}

// plain reports whether s is one line of visible text: no control characters, no line ends, no characters that
// change the direction of writing or are invisible.
func plain(s string) bool {
	for _, r := range s {
		switch {
		case unicode.IsControl(r), r == '\u2028', r == '\u2029', r == '\ufeff', r == '\u061c',
			'\u200e' <= r && r <= '\u200f', '\u202a' <= r && r <= '\u202e', '\u2066' <= r && r <= '\u2069',
			'\U000e0000' <= r && r <= '\U000e007f':
			return false
		}
	}
	return utf8.ValidString(s) && strings.TrimSpace(s) == s
}

// isRef reports whether s is a kind, ":" and an id.
func isRef(s string) bool {
	kind, id, ok := strings.Cut(s, ":")
	return ok && portable.Spelled(kind, portable.Lower, portable.Digits+"-", 64) && portable.CheckID(id) == nil
}
