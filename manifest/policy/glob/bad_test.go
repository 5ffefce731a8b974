package glob

import (
	"errors"
	"strings"
	"testing"
)

func TestBadGlobs(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "has an empty segment",
		"a//b":                            "has an empty segment",
		"/a":                              "has an empty segment",
		"a/":                              "has an empty segment",
		"Tool:a":                          `"Tool" is not a kind`,
		":a":                              `"" is not a kind`,
		"a b":                             "only letters, digits",
		"a/[bc]":                          "only letters, digits",
		"a/?":                             "only letters, digits",
		"a/\u00e9":                        "only letters, digits",
		"**/**":                           `"**/**" means the same as`,
		"a**":                             `"**" matches whole segments`,
		"a/.b*":                           "no segment of an id begins with \".\"",
		"tool:a@1":                        "only letters, digits",
		"aux/" + strings.Repeat("x", 197): "is longer than 200 bytes",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	// A glob with a wildcard isn't an id, whose own bound would refuse it.
	if _, err := Parse(strings.Repeat("x", maxGlob-2) + "/*"); err != nil {
		t.Errorf("the longest glob: %v", err)
	}
	if _, err := Parse(strings.Repeat("x", maxGlob-1) + "/*"); err == nil {
		t.Error("a glob of 201 bytes")
	}
	if _, err := Parse("a." + strings.Repeat("x", 190)); err != nil {
		t.Errorf("a long id: %v", err)
	}
	if _, err := Parse("a./b"); err == nil {
		t.Error("an id that can't be one is a glob")
	}
}

func TestBadNames(t *testing.T) {
	for name, want := range map[string]string{
		"":                       "expected kind:id",
		"a":                      "expected kind:id",
		"A:b":                    "expected kind:id",
		"tool:":                  "",
		"tool:../x":              "",
		"tool:a@1.0.0":           "", // only bundles have versions
		"bundle:a@":              `"" is not a version`,
		"bundle:a@1/2":           `"1/2" is not a version`,
		strings.Repeat("x", 200): "...",
	} {
		if _, err := ParseName(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
}

// TestCollide: two rules are allowed in one policy if one is more specific than the other, or if no name matches both.
func TestCollide(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"acme/a*", "acme/a*b", true},
		{"acme/a*", "acme/a*", true},
		{"acme/*a", "acme/*b", false},     // they end otherwise
		{"acme/a", "acme/a*", false},      // of one prefix, and one has more literals
		{"acme/*", "ajax/*", false},       // other prefixes of one length
		{"tool:acme/*", "acme/*", false},  // one names the kind
		{"tool:a/*", "config:a/*", false}, // other kinds
	} {
		a, b := mustGlob(t, c.a), mustGlob(t, c.b)
		if Collide(&a, &b) != c.want || Collide(&b, &a) != c.want {
			t.Errorf("%s and %s: want %v", c.a, c.b, c.want)
		}
	}
}

// Two globs that collide were to be refused where they stand; met all the same, neither decides.
func TestTie(t *testing.T) {
	n, err := ParseName("tool:acme/ab")
	if err != nil {
		t.Fatal(err)
	}
	pick := func(texts ...string) (int, error) {
		var globs []Glob
		for _, text := range texts {
			globs = append(globs, mustGlob(t, text))
		}
		return Most(globs, func(g *Glob) *Glob { return g }, n)
	}
	if _, err := pick("acme/a*", "acme/a*b"); !errors.Is(err, errTie) {
		t.Errorf("a tie: %v", err)
	}
	for _, c := range []struct {
		globs []string
		want  int
	}{
		{nil, -1}, {[]string{"other/**"}, -1}, {[]string{"**", "acme/**"}, 1}, {[]string{"acme/**", "**"}, 0},
		{[]string{"acme/**", "tool:acme/**"}, 1}, {[]string{"acme/ab", "acme/ab*"}, 0},
		{[]string{"acme/ab", "tool:acme/ab*"}, 0},
	} {
		if at, err := pick(c.globs...); err != nil || at != c.want {
			t.Errorf("%q: %d, %v; want %d", c.globs, at, err, c.want)
		}
	}
}
