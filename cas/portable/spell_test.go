package portable

import "testing"

func TestSpelled(t *testing.T) {
	for s, want := range map[string]bool{"": false, "a": true, "a-1": true, "1a": false, "-": false, "aB": false,
		"aä": false, "abcd": true, "abcde": false, "a\xff": false} {
		if got := Spelled(s, Lower, Digits+"-", 4); got != want {
			t.Errorf("%q: %v", s, got)
		}
	}
}
