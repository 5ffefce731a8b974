package fault

import "testing"

// TestClip: a text is cut at a character, and only one that is too long.
func TestClip(t *testing.T) {
	for s, want := range map[string]string{"": "", "abcd": "abcd", "abcde": "abcd…", "abcä": "abc…",
		"ab\xffde": "abd…"} {
		if got := Clip(s, 4); got != want {
			t.Errorf("%q: %q", s, got)
		}
	}
}
