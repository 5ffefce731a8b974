package capability_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/cas/fault"
)

func parse(t testing.TB, text string) capability.Capability {
	t.Helper()
	c, err := capability.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestAllows: a permission is about the calls of its verb, or of every verb: one for loading must not count as one for
// signing, and one for everything must.
func TestAllows(t *testing.T) {
	for text, verbs := range map[string][]string{
		"load:knowledge:acme/*": {capability.Load}, "sign:tool:*": {capability.Sign},
		"execute:tool:acme/x": {capability.Execute},
		"rye.*":               {capability.Execute, capability.Load, capability.Search, capability.Sign},
	} {
		for _, verb := range []string{capability.Execute, capability.Load, capability.Search, capability.Sign} {
			if parse(t, text).Allows(verb) != slices.Contains(verbs, verb) {
				t.Errorf("%s: %s", text, verb)
			}
		}
	}
}

func TestForms(t *testing.T) {
	for _, row := range []struct{ text, canonical string }{
		{"execute:tool:rye/file-system/read", ""},
		{"execute:tool:rye/file-system/*", ""},
		{"execute:tool:rye/*/read", ""},
		{"execute:tool:*/*", ""},
		{"execute:tool:*/read", ""},
		{"execute:tool:v1.2", ""},
		{"execute:tool:*", ""},
		{"execute:*:*", ""},
		{"execute:*:acme/*", ""},
		{"*:tool:acme", ""},
		{"*:*:*", ""},
		{"*:tool", ""},
		{"search:tool", ""},
		{"sign:my-kind_2:a", ""},
		{"load:knowledge:A/b", ""},
		{"rye.*", "*:*:*"},
		{"rye.*.*", "*:*:*"},
		{"rye.*.*.*", "*:*:*"},
		{"rye.execute.*", "execute:*:*"},
		{"rye.execute.*.*", "execute:*:*"},
		{"rye.execute.tool", "execute:tool"},
		{"rye.execute.tool.*", "execute:tool:*"},
		{"rye.*.tool.a.b", "*:tool:a/b"},
		{"rye.execute.tool.rye.file-system.*", "execute:tool:rye/file-system/*"},
		{"rye.execute.tool.rye.file-system.read", "execute:tool:rye/file-system/read"},
		{"rye.execute.tool.rye/file-system/*", "execute:tool:rye/file-system/*"},
		{"rye.execute.tool.rye/file-system/v1.2", "execute:tool:rye/file-system/v1.2"},
		{"rye.execute.tool.rye.*.read", "execute:tool:rye/*/read"},
		{"rye.execute.tool.single", "execute:tool:single"},
		{"rye.search.directive.*", "search:directive:*"},
		{"rye.search.directive.analysis/*", "search:directive:analysis/*"},
		{"rye.sign.knowledge.a.b.c", "sign:knowledge:a/b/c"},
	} {
		want := row.canonical
		if want == "" {
			want = row.text
		}
		if got := parse(t, row.text).String(); got != want {
			t.Errorf("%s: %s, want %s", row.text, got, want)
		}
		if parse(t, want) != parse(t, row.text) {
			t.Errorf("%s and %s are not equal", row.text, want)
		}
	}
}

func TestErrors(t *testing.T) {
	shape := `expected "verb:kind:id", as in execute:tool:acme/fetch, or "rye.verb.kind.id"`
	notID := ` is not an id: expected segments of A-Z a-z 0-9 . _ - that begin with a letter or digit, joined by "/"`
	for _, row := range []struct{ text, want string }{
		{"", shape},
		{"*", shape},
		{"rye", shape},
		{"execute", shape},
		{"Rye.execute.tool.a", shape},
		{"rye/execute/tool", shape},
		{"execute.tool.a", shape},
		{"rye.", "the kind is missing"},
		{"rye.execute", "the kind is missing"},
		{"rye.execute.", `"" is not a kind`},
		{"rye.execute.tool.", "the id is empty"},
		{"rye.execute.tool.a.", `the id "a/" has an empty segment`},
		{"rye.execute.tool.a..b", `the id "a//b" has an empty segment`},
		{"rye.execute.tool..b", `the id "/b" is absolute, expected a relative path`},
		{"rye..tool.b", `"" is not a verb: expected search, sign, load or execute`},
		{"rye.run.tool.a", `"run" is not a verb: expected search, sign, load or execute`},
		{"run:tool:a", `"run" is not a verb: expected search, sign, load or execute`},
		{"EXECUTE:tool:a", `"EXECUTE" is not a verb: expected search, sign, load or execute`},
		{" execute:tool:a", `" execute" is not a verb: expected search, sign, load or execute`},
		{"execute:Tool:a", `"Tool" is not a kind`},
		{"execute::a", `"" is not a kind`},
		{"execute:t*:a", `"t*" is not a kind`},
		{"execute:2:a", `"2" is not a kind`},
		{"execute:" + strings.Repeat("k", 65), fmt.Sprintf("%q is not a kind", strings.Repeat("k", 65))},
		{"execute:*", `a kind "*" requires an id: write "*:*" at the end for all`},
		{"execute:tool:", `the id is empty: leave out its ":", or write "*" for all`},
		{"execute:tool:/*", "the id begins with a slash"},
		{"execute:tool:/a", `the id "/a" is absolute, expected a relative path`},
		{"execute:tool:a:b", `the id "a:b"` + notID},
		{"execute:tool:a b", `the id "a b"` + notID},
		{"execute:tool:a/**", `"*" must be a whole segment, found "**"`},
		{"execute:tool:a/b*", `"*" must be a whole segment, found "b*"`},
		{"execute:tool:*b/c", `"*" must be a whole segment, found "*b"`},
		{"execute:tool:a/?", `the id "a/?"` + notID},
		{"execute:tool:[ab]", `the id "[ab]"` + notID},
		{"execute:tool:a/../b", `the id "a/../b"` + notID},
		{"execute:tool:a//*", `the id "a/" has an empty segment`},
		{"execute:tool:*//a", `the id "*//a" has an empty segment`},
		{"execute:tool:con", `the id "con" is a device on Windows`},
		{"execute:tool:\xff", `the id "\xff"` + notID},
		{"execute:tool:é", `the id "\u00e9"` + notID},
		{"rye.execute.tool.acme/web.*", `"*" must be a whole segment, found "web.*"`},
		{"execute:tool:" + strings.Repeat("a", 201), `the id "` + strings.Repeat("a",
			100) + `" is longer than 200 bytes, too long for an id`},
		{"execute:tool:" + strings.Repeat("a", 1<<20), "is too long"},
	} {
		c, err := capability.Parse(row.text)
		if fault.CodeOf(err) != fault.Validation || c != (capability.Capability{}) {
			t.Errorf("%.300q: %v, %v", row.text, c, err)
			continue
		}
		want := fmt.Sprintf("capability %+q: %s", row.text[:min(len(row.text), 100)], row.want)
		if got := err.Error(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestFor(t *testing.T) {
	c, err := capability.For(capability.Execute, "tool", "rye/bash/v1.2")
	if err != nil || c.String() != "execute:tool:rye/bash/v1.2" {
		t.Error(c, err)
	}
	c, err = capability.For(capability.Search, "tool", "")
	if err != nil || c.String() != "search:tool" {
		t.Error(c, err)
	}
	for _, bad := range [][3]string{{"*", "tool", "a"}, {"execute", "*", "a"}, {"execute", "tool", "*"},
		{"execute", "tool", "a/*"},
		{"execute", "tool", "a*"}, {"", "tool", "a"}, {"execute", "", "a"}, {"execute", "tool", "../a"},
		{"execute", "tool:a", ""}} {
		if c, err := capability.For(bad[0], bad[1], bad[2]); err == nil || c != (capability.Capability{}) {
			t.Errorf("%q: %v", bad, c)
		}
	}
}

func TestCovers(t *testing.T) {
	for _, row := range []struct{ a, yes, no string }{
		{"execute:tool:a/b", "execute:tool:a/b",
			"execute:tool:a execute:tool:a/b/c execute:tool:a/* execute:tool:A/b load:tool:a/b execute:directive:a/b execute:tool *:tool:a/b execute:*:a/b"},
		{"execute:tool:a/*",
			"execute:tool:a execute:tool:a/b execute:tool:a/b/c execute:tool:a/* execute:tool:a/b/* execute:tool:a/*/c execute:tool:a/*/*",
			"execute:tool execute:tool:ab execute:tool:b execute:tool:* execute:tool:*/a load:tool:a"},
		{"execute:tool:a/*/c", "execute:tool:a/b/c execute:tool:a/*/c",
			"execute:tool:a/c execute:tool:a/b/b/c execute:tool:a/b/c/d execute:tool:a/*/c/* execute:tool:a/*"},
		{"execute:tool:*/*", "execute:tool:a execute:tool:a/b execute:tool:*/*", "execute:tool execute:tool:*"},
		{"execute:tool:*", "execute:tool execute:tool:a execute:tool:a/b/c execute:tool:* execute:tool:*/*",
			"execute:directive:a execute:*:* search:tool"},
		{"execute:tool", "execute:tool", "execute:tool:a execute:tool:*"},
		{"execute:*:*", "execute:tool execute:tool:a execute:my-kind:* execute:*:* execute:*:a", "load:tool:a *:*:*"},
		{"*:tool:a", "execute:tool:a load:tool:a *:tool:a", "execute:tool:b *:*:a"},
		{"*:*:*", "execute:tool:a load:knowledge search:tool sign:x:* *:*:* *:tool", ""},
		// What the dots of RYE's form cover, and what only the other form does.
		{"rye.execute.tool.a.b", "execute:tool:a/b", "execute:tool:a.b"},
		{"rye.execute.tool.a.*", "execute:tool:a execute:tool:a/b.c", "execute:tool:a.b"},
		{"execute:tool:a.b", "execute:tool:a.b", "execute:tool:a/b"},
		// No verb implies another one.
		{"rye.execute.*", "execute:tool:a", "search:tool:a load:tool:a"},
	} {
		a := parse(t, row.a)
		for _, b := range strings.Fields(row.yes) {
			if !a.Covers(parse(t, b)) {
				t.Errorf("%s doesn't cover %s", a, b)
			}
		}
		for _, b := range strings.Fields(row.no) {
			if a.Covers(parse(t, b)) {
				t.Errorf("%s covers %s", a, b)
			}
		}
	}
	var zero capability.Capability
	if zero.Covers(zero) || zero.Covers(parse(t, "search:tool")) || parse(t, "*:*:*").Covers(zero) ||
		zero.String() != "" {
		t.Error("the zero capability covers something, or is covered")
	}
	if _, ok := zero.Intersect(parse(t, "*:*:*")); ok {
		t.Error("the zero capability has something in common with another")
	}
	if _, ok := parse(t, "*:*:*").Intersect(zero); ok {
		t.Error("the zero capability has something in common with another")
	}
}

func random(t testing.TB, rnd *rand.Rand, stars bool) capability.Capability {
	pick := func(words ...string) string { return words[rnd.IntN(len(words))] }
	star := func(words ...string) string {
		if stars && rnd.IntN(3) == 0 {
			return "*"
		}
		return pick(words...)
	}
	verb, kind := star("execute", "load"), star("tool", "knowledge")
	var segments []string
	for range rnd.IntN(4) {
		segments = append(segments, star("a", "b"))
	}
	if stars && rnd.IntN(3) == 0 || kind == "*" && len(segments) == 0 {
		segments = append(segments, "*")
	}
	text := verb + ":" + kind
	if len(segments) > 0 {
		text += ":" + strings.Join(segments, "/")
	}
	return parse(t, text)
}

// An intersection covers exactly what both cover, be it a call or a pattern, and it can be written and read.
func TestIntersect(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	met, covered := 0, 0
	for range 5000 {
		a, b := random(t, rnd, true), random(t, rnd, true)
		both, ok := a.Intersect(b)
		if other, ok2 := b.Intersect(a); other != both || ok != ok2 {
			t.Fatalf("%s and %s: %s, but %s", a, b, both, other)
		}
		if ok {
			met++
			if parse(t, both.String()) != both {
				t.Fatalf("%s and %s: %s", a, b, both)
			}
		} else if both != (capability.Capability{}) {
			t.Fatal(both)
		}
		for i := range 10 {
			x := random(t, rnd, i > 6)
			want := a.Covers(x) && b.Covers(x)
			if both.Covers(x) != want {
				t.Fatalf("%s and %s: %s covers %s: %v", a, b, both, x, !want)
			}
			if want {
				covered++
			}
			// A pattern that covers a pattern covers what that covers.
			if y := random(t, rnd, false); a.Covers(b) && b.Covers(y) && !a.Covers(y) {
				t.Fatalf("%s covers %s, but not %s", a, b, y)
			}
		}
		if !a.Covers(a) || a.Covers(b) && both != b {
			t.Fatalf("%s and %s: %s", a, b, both)
		}
	}
	if met < 250 || covered < 250 {
		t.Errorf("%d met, %d were covered: the test tests little", met, covered)
	}
	long := strings.Repeat("a", 120)
	if c, ok := parse(t, "load:x:*/"+long).Intersect(parse(t, "load:x:"+long+"/*")); ok {
		t.Errorf("%s is longer than an id", c)
	}
}

func TestSet(t *testing.T) {
	s, err := capability.ParseSet([]string{"rye.search.tool", "execute:tool:b/*", "rye.execute.tool.b.*",
		"execute:tool:a", "search:tool"})
	if err != nil || !slices.Equal(s.Strings(), []string{"execute:tool:a", "execute:tool:b/*", "search:tool"}) {
		t.Fatal(s.Strings(), err)
	}
	list := s.List()
	list[0] = parse(t, "*:*:*")
	if s.Covers(parse(t, "load:tool:a")) || !s.Covers(parse(t, "execute:tool:b/c")) ||
		!s.Covers(parse(t, "execute:tool:a")) || s.Covers(capability.Capability{}) {
		t.Error("a set covers the wrong things")
	}
	var none capability.Set
	if none.Covers(parse(t, "execute:tool:a")) || len(none.Strings()) != 0 {
		t.Error("the empty set covers something")
	}
	if got, err := s.Intersect(none); err != nil || len(got.List()) != 0 {
		t.Error(got, err)
	}
	if s, err := capability.NewSet([]capability.Capability{{}}); err != nil || len(s.List()) != 0 {
		t.Error(s, err)
	}
	if _, err := capability.ParseSet([]string{"rye.*", "nonsense"}); err == nil {
		t.Error("a set with nonsense is read")
	}
	// The example of the brief of RYE's threads: parent, child, grandchild.
	root, _ := capability.ParseSet([]string{"rye.execute.tool.rye.file-system.*", "rye.execute.tool.rye.web.*",
		"rye.search.tool"})
	child, _ := capability.ParseSet([]string{"rye.execute.tool.rye.file-system.read", "rye.search.tool", "rye.sign.*"})
	got, err := child.Intersect(root)
	if want := "[execute:tool:rye/file-system/read search:tool]"; err != nil || fmt.Sprint(got.Strings()) != want {
		t.Error(got.Strings(), err)
	}
}

func TestSetTooLarge(t *testing.T) {
	var left, right []string
	for i := range capability.MaxSet {
		left = append(left, fmt.Sprintf("execute:tool:*/x%d", i))
		right = append(right, fmt.Sprintf("execute:tool:y%d/*", i))
	}
	a, err := capability.ParseSet(left)
	if err != nil {
		t.Fatal(err)
	}
	b, err := capability.ParseSet(right)
	if err != nil {
		t.Fatal(err)
	}
	both, err := a.Intersect(b)
	if err == nil || !strings.HasSuffix(err.Error(), ": more than 256 capabilities in the intersection") ||
		len(both.List()) != 0 {
		t.Error(both, err)
	}
	if both, err = a.Intersect(a); err != nil || !slices.Equal(both.Strings(), a.Strings()) {
		t.Error(err)
	}
	both, err = capability.ParseSet(append(left, "search:tool"))
	if err == nil || !strings.HasSuffix(err.Error(), ": more than 256 capabilities") ||
		len(both.List()) != 0 {
		t.Error(both, err)
	}
}

// The intersection of sets covers what both cover, and none of its members is covered by another.
func TestSetIntersect(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 1000 {
		set := func() capability.Set {
			var list []capability.Capability
			for range rnd.IntN(6) {
				list = append(list, random(t, rnd, true))
			}
			s, err := capability.NewSet(list)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		a, b := set(), set()
		both, err := a.Intersect(b)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if x := random(t, rnd, false); both.Covers(x) != (a.Covers(x) && b.Covers(x)) {
				t.Fatalf("%s and %s: %s, %s", a.Strings(), b.Strings(), both.Strings(), x)
			}
		}
		for i, x := range both.List() {
			for j, y := range both.List() {
				if i != j && x.Covers(y) {
					t.Fatalf("%s covers %s", x, y)
				}
			}
			if !a.Covers(x) || !b.Covers(x) {
				t.Fatalf("%s and %s: %s", a.Strings(), b.Strings(), x)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"execute:tool:rye/file-system/*", "rye.execute.tool.rye.file-system.*", "rye.*",
		"*:*:*", "rye.search.directive.a/*", "search:tool",
		"load:x:*/*", "execute:tool:a.b", "rye.execute.tool.a/b.c", "", "::", "rye...", "execute:tool:a/**"} {
		f.Add(s, "execute:tool:rye/*/x")
	}
	f.Fuzz(func(t *testing.T, text, other string) {
		c, err := capability.Parse(text)
		if err != nil {
			if fault.CodeOf(err) != fault.Validation || c != (capability.Capability{}) {
				t.Fatalf("%q: %v, %v", text, c, err)
			}
			return
		}
		again, err := capability.Parse(c.String())
		if err != nil || again != c || !c.Covers(c) || !strings.HasPrefix(text, "rye.") && c.String() != text {
			t.Fatalf("%q: %s, then %s, %v", text, c, again, err)
		}
		o, err := capability.Parse(other)
		if err != nil {
			return
		}
		both, ok := c.Intersect(o)
		if !ok {
			return
		}
		if again, err := capability.Parse(both.String()); err != nil || again != both || !c.Covers(both) ||
			!o.Covers(both) {
			t.Fatalf("%s and %s: %s, %v", c, o, both, err)
		}
	})
}

func BenchmarkCovers(b *testing.B) {
	s, err := capability.ParseSet([]string{"execute:tool:acme/*", "execute:tool:rye/file-system/*", "search:*:*"})
	if err != nil {
		b.Fatal(err)
	}
	c := parse(b, "execute:tool:rye/file-system/read")
	b.ReportAllocs()
	for b.Loop() {
		if !s.Covers(c) {
			b.Fatal()
		}
	}
}
