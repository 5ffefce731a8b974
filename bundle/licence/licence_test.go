package licence

import (
	"reflect"
	"strings"
	"testing"
)

func TestNormal(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"MIT":                            "MIT",
		"mit":                            "MIT",
		" ( MIT ) ":                      "MIT",
		"(MIT OR Apache-2.0)":            "MIT OR Apache-2.0",
		"MIT AND (ISC AND Zlib)":         "MIT AND ISC AND Zlib",
		"MIT OR ISC AND Zlib":            "MIT OR ISC AND Zlib",
		"(MIT OR ISC) AND Zlib":          "(MIT OR ISC) AND Zlib",
		"MIT OR (ISC OR (Zlib OR 0BSD))": "MIT OR ISC OR Zlib OR 0BSD",
		"gpl-2.0-or-later WITH Classpath-exception-2.0": "GPL-2.0-or-later WITH Classpath-exception-2.0",
		"GPL-2.0+":         "GPL-2.0+",
		"GPL-2.0+ AND MIT": "GPL-2.0+ AND MIT",
		strings.Repeat("(", 20) + "MIT" + strings.Repeat(")", 20): "MIT",
	} {
		if got, ok := Normal(text); !ok || got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
	for _, text := range []string{"", "()", "MIT ISC", "MIT or ISC", "MIT AND", "OR MIT", "(MIT", "MIT)",
		"SEE LICENSE IN x", "UNLICENSED", "Acme-1.0", "LicenseRef-x",
		"MIT WITH", "MIT WITH MIT", "MIT WITH nonsense", "+", "MIT++", "(MIT)+", NoAssertion, "NONE", "MIT\x00",
		strings.Repeat("(", 21) + "MIT" + strings.Repeat(")", 21), "MIT" + strings.Repeat(" ", maxLength)} {
		if got, ok := Normal(text); ok || got != NoAssertion {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestExact(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"MIT": true, " ((MIT)OR ISC)": true, "mit": false, "MIT OR": false,
		"": false, "GPL-2.0+": true, "isc AND MIT": false} {
		if Exact(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

func TestDenied(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"MIT": false, "GPL-3.0-only": true, "MIT OR GPL-3.0-only": false, "MIT AND GPL-3.0-only": true,
		"GPL-2.0-only OR GPL-3.0-only":  true,
		"(MIT OR GPL-2.0-only) AND ISC": false, "(MIT AND GPL-2.0-only) OR GPL-3.0-only": true,
		"GPL-2.0-only WITH Classpath-exception-2.0": true,
	} {
		if got := Parse(text).Denied(func(name string) bool { return strings.HasPrefix(name, "GPL-") }); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	e := Parse("GPL-2.0-only WITH Classpath-exception-2.0")
	if !e.Denied(func(name string) bool {
		return strings.HasSuffix(name, "2.0-only WITH Classpath-exception-2.0")
	}) || e.Denied(func(name string) bool { return name == "MIT" }) {
		t.Error("an exception")
	}
}

// FuzzParse: what is read is written so that it is read as the same again, and in the same words.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "MIT", "(MIT OR Apache-2.0) AND ISC", "GPL-2.0+ WITH Classpath-exception-2.0",
		"MIT AND ISC OR Zlib AND (0BSD OR MIT)", "((MIT))", "MIT OR", "LicenseRef-a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e := Parse(text)
		if e == nil {
			return
		}
		again := Parse(e.String())
		if !reflect.DeepEqual(e, again) || again.String() != e.String() {
			t.Fatalf("%q: %q: %q", text, e, again)
		}
		if !e.Denied(func(string) bool { return true }) || e.Denied(func(string) bool { return false }) {
			t.Fatalf("%q: denied", text)
		}
	})
}

// TestAlias: both names of a licence of GNU lead to each other, and no other has two.
func TestAlias(t *testing.T) {
	t.Parallel()
	for a, b := range map[string]string{"GPL-3.0": "GPL-3.0-only", "LGPL-2.1+": "LGPL-2.1-or-later",
		"AGPL-3.0": "AGPL-3.0-only", "MIT": "MIT", "Apache-2.0+": "Apache-2.0+"} {
		if Alias(a) != b || Alias(b) != a {
			t.Errorf("%s: %s, %s: %s", a, Alias(a), b, Alias(b))
		}
	}
}
