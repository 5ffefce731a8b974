package glob

import (
	"strings"
	"testing"
)

// The text before the first star begins every name that a glob covers, a glob collides with itself, and nothing
// panics.
func FuzzGlob(f *testing.F) {
	f.Add("tool:acme/x", "acme/**")
	f.Add("bundle:a/b@1", "bundle:**/b")
	f.Add("audit:1", "a*/**/*b")
	f.Fuzz(func(t *testing.T, name, text string) {
		g, err := Parse(text)
		if err != nil {
			return
		}
		if g.Text() != text || !Collide(&g, &g) {
			t.Fatalf("%q is %q, and doesn't collide with itself", text, g.Text())
		}
		n, err := ParseName(name)
		if err != nil {
			return
		}
		if g.Match(n) && !strings.HasPrefix(n.ID, g.prefix) {
			t.Fatalf("%q covers %q", text, name)
		}
		at, err := Most([]Glob{g}, func(g *Glob) *Glob { return g }, n)
		if err != nil || (at == 0) != g.Match(n) || MatchAny([]Glob{g}, n) != g.Match(n) {
			t.Fatalf("%q of one decides %d about %q: %v", text, at, name, err)
		}
	})
}
