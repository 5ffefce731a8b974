package policy

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

func mustGlob(t testing.TB, text string) glob {
	t.Helper()
	g, err := parseGlob(text)
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
		{"**", "tool:a tool:a/b/c bundle:x@1.0 knowledge:a newkind:a", "audit:a build:a policy:a revocations:a rotation:a token:a transcript:a"},
		{"*", "tool:a bundle:a", "tool:a/b audit:a"},
		{"rye/**", "tool:rye/a tool:rye/a/b bundle:rye/std@1", "tool:rye tool:rye-x/a tool:ryea tool:x/rye/a tool:Rye/a"},
		{"a/**/b", "tool:a/b tool:a/x/b tool:a/x/y/b tool:a/b/b", "tool:ab tool:a/xb tool:a/b/c tool:x/a/b"},
		{"**/b", "tool:b tool:x/b tool:x/y/b", "tool:xb tool:b/x"},
		{"a/*", "tool:a/b", "tool:a tool:a/b/c"},
		{"a/*/*", "tool:a/b/c", "tool:a/b tool:a/b/c/d"},
		{"a/x*y/z", "tool:a/xy/z tool:a/xaay/z tool:a/xyy/z", "tool:a/x/y/z tool:a/xyz/z"},
		{"tool:a", "tool:a", "knowledge:a tool:a/b tool:aa"},
		{"build:**", "build:linux/amd64", "tool:linux/amd64"},
		{"a/**/b/**", "tool:a/b/c tool:a/x/b/c/d tool:a/b/b", "tool:a/b tool:a/x/b"},
		{"a/**/*", "tool:a/b tool:a/b/c", "tool:a"},
		{"*a*b*", "tool:ab tool:xaxbx tool:aab", "tool:ba tool:a/b"},
	} {
		g := mustGlob(t, c.glob)
		for want, names := range map[bool]string{true: c.yes, false: c.no} {
			for _, text := range strings.Fields(names) {
				n, err := parseName(text)
				if err != nil {
					t.Fatal(err)
				}
				if g.match(n) != want {
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
	var globs []glob
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
		n := name{"tool", join(func() string { return segment("a", "b") })}
		var matched []glob
		for i, g := range globs {
			got := g.match(n)
			if want := said[i].MatchString(n.id); got != want {
				t.Fatalf("%s matches %s: %v, want %v", g.text, n.id, got, want)
			}
			if got {
				matches++
				if !strings.HasPrefix(n.id, g.prefix) {
					t.Fatalf("%s matches %s, which doesn't begin with %s", g.text, n.id, g.prefix)
				}
				matched = append(matched, g)
			}
		}
		for i := range matched {
			for j := range i {
				a, b := matched[i], matched[j]
				if a.text != b.text && a.rank == b.rank {
					ties++
					if !collide(&a, &b) {
						t.Fatalf("%s and %s match %s and don't collide", a.text, b.text, n.id)
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
	n := name{"tool", strings.Repeat("aaaaaaaaa/", 19) + "c"}
	for b.Loop() {
		g.match(n)
	}
}

func TestNarrow(t *testing.T) {
	parse := func(text string) Exec { return mustParse(t, "exec: "+text+"\n").Sections().Exec }
	for _, c := range []struct{ root, project, want string }{
		{"{}", "{}", "{}"},
		{"{floor: limits}", "{floor: none}", "{floor: limits}"},
		{"{floor: limits}", "{floor: namespace}", "{floor: namespace}"},
		{"{}", "{strangers: none}", "{strangers: landlock}"},
		{"{strangers: none}", "{}", "{strangers: none}"},
		{"{strangers: none}", "{strangers: limits}", "{strangers: limits}"},
		{"{}", "{network: none}", "{network: none}"},
		{"{network: none}", "{network: all}", "{network: none}"},
		{"{network: [a.x, b.x]}", "{network: [b.x, c.x]}", "{network: [b.x]}"},
		{"{network: [a.x]}", "{network: [c.x]}", "{network: none}"},
		{`{network: ["*.x"]}`, `{network: [a.x, x, ax, "b.x:443"]}`, `{network: [a.x, "b.x:443"]}`},
		{`{network: ["a.x:443"]}`, `{network: ["*.x"]}`, `{network: ["a.x:443"]}`},
		{`{network: ["*.x:443"]}`, `{network: [a.x]}`, `{network: ["a.x:443"]}`},
		{`{network: ["*.x:443"]}`, `{network: ["a.x:80"]}`, `{network: none}`},
		{"{toolchain: enforce}", "{toolchain: record}", "{toolchain: enforce}"},
		{"{toolchain: record}", "{toolchain: enforce}", "{toolchain: enforce}"},
		{"{audit: required}", "{audit: on}", "{audit: required}"},
		{"{}", "{audit: required}", "{audit: required}"},
	} {
		got := &Policy{sections: Sections{Exec: parse(c.root).Narrow(parse(c.project))}}
		if d := Diff(mustParse(t, "exec: "+c.want+"\n"), got); len(d) > 0 {
			t.Errorf("%s and %s: %v", c.root, c.project, d)
		}
	}
}

func TestMayHave(t *testing.T) {
	root := mustParse(t, "exec: {secrets: {token: [acme/**], other: [x]}}\n")
	for _, c := range []struct {
		project, item string
		want          bool
	}{
		{"", "tool:acme/a", true}, {"", "tool:b", false}, {"", "acme", false},
		{"{}", "tool:acme/a", true},
		{"exec: {secrets: {}}", "tool:acme/a", false},
		{"exec: {secrets: {token: [acme/b]}}", "tool:acme/a", false},
		{"exec: {secrets: {token: [acme/b]}}", "tool:acme/b", true},
		{"exec: {secrets: {token: [b]}}", "tool:b", false},
	} {
		var project *Policy
		if c.project != "" {
			project = mustParse(t, c.project)
		}
		if MayHave("token", c.item, root, project) != c.want {
			t.Errorf("%q, %s: want %v", c.project, c.item, c.want)
		}
	}
}

func TestGrantsAndOverride(t *testing.T) {
	p := mustParse(t, "grants:\n  \"**\": [none]\n  acme/**: [a, b]\n  tool:acme/x: []\noverride: [\"tool:rye/web/*\"]\n")
	for item, want := range map[string]string{"tool:acme/y": "a b", "tool:acme/x": "", "tool:z": "none", "knowledge:acme/x": "a b", "audit:x": "-", "z": "-"} {
		got, ok := p.Grants(item)
		if s := strings.Join(got, " "); ok != (want != "-") || ok && s != want {
			t.Errorf("%s: %q %v", item, s, ok)
		}
	}
	for item, want := range map[string]bool{"tool:rye/web/a": true, "tool:rye/bash": false, "knowledge:rye/web/a": false, "rye/web/a": false} {
		if p.MayOverride(item) != want {
			t.Errorf("%s: want %v", item, want)
		}
	}
}
