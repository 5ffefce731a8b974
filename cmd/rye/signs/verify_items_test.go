package signs

import "testing"

func TestReaches(t *testing.T) {
	for _, c := range []struct {
		glob, id string
		want     bool
	}{
		{"**", "acme/base", true},
		{"acme/**", "acme/base", true},
		{"acme/*", "acme/base", true},
		{"acme/b*", "acme/base", true},
		{"acme/base/*", "acme/base", true},
		{"*/base/x", "acme/base", true},
		{"acm*", "acme/base", false},
		{"ac*/x", "acme/base", false},
		{"acme/ba", "acme/base", false},
		{"acme/base2/*", "acme/base", false},
		{"acme*", "acme", true},
		{"other/**", "acme/base", false},
	} {
		if got := reaches(c.glob, c.id); got != c.want {
			t.Errorf("%s, %s: %t", c.glob, c.id, got)
		}
	}
}
