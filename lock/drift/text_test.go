package drift

import "testing"

// TestLineEnds: two texts are the same apart from line ends only if each CR LF of one is an LF of the other. A user
// who reads "only the line endings differ" doesn't look at what else has changed.
func TestLineEnds(t *testing.T) {
	digest := func(text string, cut int) string {
		u := newUnix()
		for _, part := range []string{text[:cut], text[cut:]} {
			if n, err := u.Write([]byte(part)); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		return u.digest().String()
	}
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"a\r\nb\r\n", "a\nb\n", true}, {"a\r\nb\n", "a\nb\r\n", true},
		{"\r\r\n", "\r\n", false}, {"\r\r\n", "\n", false},
		{"a\rb", "a\nb", false}, {"a\rb", "ab", false}, {"a\r", "a", false}, {"a\r", "a\n", false},
		{"a\r\n", "a", false},
		{"", "\r", false}, {"a\r\rb", "a\rb", false},
	} {
		for i := range len(c.a) + 1 {
			for j := range len(c.b) + 1 {
				if same := digest(c.a, i) == digest(c.b, j); same != c.same {
					t.Errorf("%q and %q, cut at %d and %d: %t", c.a, c.b, i, j, same)
				}
			}
		}
	}
}
