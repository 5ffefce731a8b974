package glob

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

func mustGlob(t testing.TB, text string) Glob {
	t.Helper()
	g, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		glob    string
		yes, no string
	}{
		{"**", "tool:a tool:a/b/c bundle:x@1.0 knowledge:a newkind:a index:a/b",
			"audit:a build:a policy:a revocations:a rotation:a token:a transcript:a"},
		{"*", "tool:a bundle:a", "tool:a/b audit:a"},
		{"rye/**", "tool:rye/a tool:rye/a/b bundle:rye/std@1",
			"tool:rye tool:rye-x/a tool:ryea tool:x/rye/a tool:Rye/a"},
		{"a/**/b", "tool:a/b tool:a/x/b tool:a/x/y/b tool:a/b/b", "tool:ab tool:a/xb tool:a/b/c tool:x/a/b"},
		{"**/b", "tool:b tool:x/b tool:x/y/b", "tool:xb tool:b/x"},
		{"a/*", "tool:a/b", "tool:a tool:a/b/c"},
		{"a/*/*", "tool:a/b/c", "tool:a/b tool:a/b/c/d"},
		{"a/x*y/z", "tool:a/xy/z tool:a/xaay/z tool:a/xyy/z", "tool:a/x/y/z tool:a/xyz/z"},
		{"index:a", "index:a", "bundle:a@1.0.0 index:a/b"},
		{"tool:a", "tool:a", "knowledge:a tool:a/b tool:aa"},
		{"build:**", "build:linux/amd64", "tool:linux/amd64"},
		{"a/**/b/**", "tool:a/b/c tool:a/x/b/c/d tool:a/b/b", "tool:a/b tool:a/x/b"},
		{"a/**/*", "tool:a/b tool:a/b/c", "tool:a"},
		{"*a*b*", "tool:ab tool:xaxbx tool:aab", "tool:ba tool:a/b"},
	} {
		g := mustGlob(t, c.glob)
		for want, names := range map[bool]string{true: c.yes, false: c.no} {
			for _, text := range strings.Fields(names) {
				n, err := ParseName(text)
				if err != nil {
					t.Fatal(err)
				}
				if g.Match(n) != want {
					t.Errorf("%s matches %s: want %v", c.glob, text, want)
				}
			}
		}
	}
}

// expression is a glob said in another way.
func expression(text string) *regexp.Regexp {
	text = regexp.QuoteMeta(text)
	star := regexp.QuoteMeta("*")
	text = strings.ReplaceAll(text, "/"+star+star+"/", "/(.*/)?")
	if text == star+star {
		text = ".+"
	}
	if rest, ok := strings.CutPrefix(text, star+star+"/"); ok {
		text = "(.*/)?" + rest
	}
	if rest, ok := strings.CutSuffix(text, "/"+star+star); ok {
		text = rest + "/.+"
	}
	return regexp.MustCompile("^" + strings.ReplaceAll(text, star, "[^/]*") + "$")
}

// Globs match what the same regular expressions match, in time that is bounded; the text before the first star
// begins every name they match; and two of one rank that match one name collide.
func TestGlobProperties(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	segment := func(parts ...string) string {
		s := ""
		for range 1 + rnd.IntN(3) {
			s += parts[rnd.IntN(len(parts))]
		}
		return s
	}
	join := func(make func() string) string {
		segs := []string{make()}
		for range rnd.IntN(4) {
			if s := make(); s != "**" || segs[len(segs)-1] != "**" {
				segs = append(segs, s)
			}
		}
		return strings.Join(segs, "/")
	}
	var matches, ties int
	var globs []Glob
	var said []*regexp.Regexp
	for range 60 {
		text := join(func() string {
			if rnd.IntN(3) == 0 {
				return "**"
			}
			return strings.ReplaceAll(segment("a", "b", "*"), "**", "*")
		})
		if strings.Contains(text, "***") || regexp.MustCompile(`[^/]\*\*|\*\*[^/]`).MatchString(text) {
			continue
		}
		g := mustGlob(t, text)
		globs = append(globs, g)
		said = append(said, expression(text))
	}
	for range 5000 {
		n := Name{"tool", join(func() string { return segment("a", "b") })}
		var matched []Glob
		for i, g := range globs {
			got := g.Match(n)
			if want := said[i].MatchString(n.ID); got != want {
				t.Fatalf("%s matches %s: %v, want %v", g.text, n.ID, got, want)
			}
			if got {
				matches++
				if !strings.HasPrefix(n.ID, g.prefix) {
					t.Fatalf("%s matches %s, which doesn't begin with %s", g.text, n.ID, g.prefix)
				}
				matched = append(matched, g)
			}
		}
		for i := range matched {
			for j := range i {
				a, b := matched[i], matched[j]
				if a.text != b.text && a.rank == b.rank {
					ties++
					if !Collide(&a, &b) {
						t.Fatalf("%s and %s match %s and don't collide", a.text, b.text, n.ID)
					}
				}
			}
		}
	}
	if matches < 1000 || ties < 1000 {
		t.Errorf("%d matches, %d ties", matches, ties)
	}
}

func BenchmarkGlobWorst(b *testing.B) {
	g := mustGlob(b, strings.Repeat("**/a*a*a*a/", 16)+"b")
	n := Name{"tool", strings.Repeat("aaaaaaaaa/", 19) + "c"}
	for b.Loop() {
		g.Match(n)
	}
}
