package resolve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rye-build/rye/ai/semver"
	"github.com/rye-build/rye/cas/fault"
)

// A world is what there is: id → versions.
type world map[string][]Candidate

func (w world) Versions(_ context.Context, id string) ([]Candidate, error) {
	if c, ok := w[id]; ok {
		return c, nil
	}
	return nil, fs.ErrNotExist
}

func mustRange(t testing.TB, text string) semver.Range {
	t.Helper()
	r, err := semver.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// needs reads "a ^1, b >=2 <3".
func needs(t testing.TB, text string) map[string]semver.Range {
	t.Helper()
	m := map[string]semver.Range{}
	for need := range strings.SplitSeq(text, ",") {
		if id, r, ok := strings.Cut(strings.TrimSpace(need), " "); ok {
			m[id] = mustRange(t, r)
		}
	}
	return m
}

// makeWorld reads lines "id version: needs".
func makeWorld(t testing.TB, text string) world {
	t.Helper()
	w := world{}
	for line := range strings.Lines(text) {
		head, rest, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			continue
		}
		id, version, _ := strings.Cut(head, " ")
		w[id] = append(w[id], Candidate{Version: version, Requires: needs(t, rest)})
	}
	return w
}

func pairs(m map[string]string) string {
	var out []string
	for id, v := range m {
		out = append(out, id+" "+v)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func chosen(r *Resolution) map[string]string {
	m := map[string]string{}
	for _, b := range r.Bundles {
		m[b.ID] = b.Version
	}
	return m
}

const small = `
web 1.2.0: log ^1.4
web 1.3.0: log ^1.4
web 2.0.0: log ^2
log 1.0.0:
log 1.4.0:
log 1.5.0:
log 1.6.0-rc.1:
log 2.0.0:
log 3.0.0-rc.1:
tool 1.0.0: web ^1.3
tool 1.1.0: web *
old 1.0.0: gone ^1
old 1.1.0:
twins 1.0.0+b:
twins 1.0.0+a:
a 1.0.0: c *
a 2.0.0:
c 1.0.0:
c 2.0.0:
`

func TestResolve(t *testing.T) {
	w := makeWorld(t, small)
	for _, c := range []struct {
		name, requires, keep, update string // update "*" is all
		want                         string
	}{
		{"nothing", "", "", "", ""},
		{"the example", "web ^1.2, log ^1.0", "", "", "log 1.4.0, web 1.2.0"},
		{"highest floor", "web ^1, tool ^1", "", "", "log 1.4.0, tool 1.0.0, web 1.3.0"},
		{"pre-releases only when named", "log >=1.6.0-rc.1 <2", "", "", "log 1.6.0-rc.1"},
		{"build metadata", "twins ^1", "", "", "twins 1.0.0+a"},
		{"hole", "log ^1.7 || ^2", "", "", "log 2.0.0"},
		{"kept", "web ^1.2", "web 1.3.0, log 1.5.0", "", "log 1.5.0, web 1.3.0"},
		{"kept, but excluded", "web ~1.2, log ^1.0", "web 1.3.0, log 1.5.0", "", "log 1.5.0, web 1.2.0"},
		{"kept, but excluded by another", "web ^1.2, log <1.5", "web 1.3.0, log 1.5.0", "", "log 1.4.0, web 1.3.0"},
		{"kept, but gone", "web ^1.2", "web 1.2.9, log 1.4.9, other 1.0.0", "", "log 1.4.0, web 1.2.0"},
		{"kept, but it leads to a conflict", "web *, log ^1", "web 2.0.0", "", "log 1.4.0, web 1.2.0"},
		{"update", "web ^1.2", "", "web", "log 1.4.0, web 1.3.0"},
		{"update below", "web ^1.2", "web 1.2.0, log 1.4.0", "log", "log 1.5.0, web 1.2.0"},
		{"update all", "web ^1.2", "", "*", "log 1.5.0, web 1.3.0"},
		{"update as far as there is an answer", "web *, log ^1.0", "", "web", "log 1.4.0, web 1.3.0"},
		{"update within what others allow", "web *, tool *", "", "web", "log 1.4.0, tool 1.0.0, web 1.3.0"},
		{"update makes room", "web *, tool *", "", "tool", "log 1.4.0, tool 1.1.0, web 1.3.0"},
		{"update all makes room", "web *, tool *", "", "*", "log 2.0.0, tool 1.1.0, web 2.0.0"},
		{"update leaves one needless", "a *", "", "a c", "a 2.0.0"},
		{"updates twice named", "web ^1.2", "", "web web", "log 1.4.0, web 1.3.0"},
		{"the newest already", "log =1.5.0", "", "log", "log 1.5.0"},
	} {
		req := Request{Requires: needs(t, c.requires), Keep: map[string]string{}}
		for kept := range strings.SplitSeq(c.keep, ", ") {
			if id, v, ok := strings.Cut(kept, " "); ok {
				req.Keep[id] = v
			}
		}
		if c.update == "*" {
			req.UpdateAll = true
		} else {
			req.Update = strings.Fields(c.update)
		}
		r, err := Resolve(t.Context(), w, req)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := pairs(chosen(r)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// A version that is no longer chosen demands nothing, even if what it needs isn't there or excludes what is chosen.
func TestSuperseded(t *testing.T) {
	w := makeWorld(t, small+`
user 1.0.0: old ^1.1
d 1.0.0: c ^2
d 1.5.0: c ^1
e 1.0.0: d ^1.5
`)
	for requires, want := range map[string]string{
		"old ^1, user ^1": "old 1.1.0, user 1.0.0",
		"d ^1, e ^1":      "c 1.0.0, d 1.5.0, e 1.0.0",
	} {
		r, err := Resolve(t.Context(), w, Request{Requires: needs(t, requires)})
		if err != nil || pairs(chosen(r)) != want {
			t.Errorf("%s: %+v, %v", requires, r, err)
		}
	}
}

// Versions that chase each other: b 1 needs a 2, which needs b 2, which needs no a.
func TestChase(t *testing.T) {
	w := makeWorld(t, "a 1.0.0:\na 2.0.0: b >=2\nb 1.0.0: a >=2\nb 2.0.0:\n")
	r, err := Resolve(t.Context(), w, Request{Requires: needs(t, "a *, b *")})
	if err != nil || pairs(chosen(r)) != "a 2.0.0, b 2.0.0" {
		t.Error(r, err)
	}
	// A version that came from the chase isn't needed in the end.
	_, err = Resolve(t.Context(), w, Request{Requires: needs(t, "a <2, b *")})
	var conflict *ConflictError
	if !errors.As(err, &conflict) ||
		err.Error() != `conflicting requirements for "a" 2.0.0: the project requires "a" <2` {
		t.Error(err)
	}
}

func TestWhy(t *testing.T) {
	w := makeWorld(t, small)
	r, err := Resolve(t.Context(), w, Request{Requires: needs(t, "web ^1, tool ^1")})
	if err != nil {
		t.Fatal(err)
	}
	if want := []Bundle{{"log", "1.4.0"}, {"tool", "1.0.0"}, {"web", "1.3.0"}}; !slices.Equal(r.Bundles, want) {
		t.Errorf("%+v", r.Bundles)
	}
	// Whatever was asked about before, and how.
	if r, err = Resolve(t.Context(), w, Request{Requires: needs(t, "web *"),
		Keep: map[string]string{"old": "1.0.0"}}); err != nil || slices.ContainsFunc(r.Bundles, func(b Bundle) bool {
		return b.ID == "old"
	}) {
		t.Error(err)
	}
}

func TestOutdated(t *testing.T) {
	r, err := Resolve(t.Context(), makeWorld(t, small),
		Request{Requires: needs(t, "web ^1.2, twins *, log <1.6.0-rc.2")})
	if err != nil {
		t.Fatal(err)
	}
	want := []Newer{{"log", "1.4.0", "1.5.0", "2.0.0"}, {"twins", "1.0.0+a", "1.0.0+b", "1.0.0+a"},
		{"web", "1.2.0", "1.3.0", "2.0.0"}}
	if got := r.Outdated(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	r, err = Resolve(t.Context(), makeWorld(t, small), Request{Requires: needs(t, "log =1.6.0-rc.1")})
	if want := []Newer{{"log", "1.6.0-rc.1", "1.6.0-rc.1", "3.0.0-rc.1"}}; err != nil ||
		!reflect.DeepEqual(r.Outdated(), want) {
		t.Errorf("%+v, %v", r.Outdated(), err)
	}
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() { r.Outdated() })
	}
	wait.Wait()
}

func TestProblems(t *testing.T) {
	w := makeWorld(t, small+`
x 1.0.0: y *
y 1.0.0: z *
z 1.0.0: y *
self 1.0.0: self *
p 1.0.0: q ^1
q 1.0.0: log ^1
deep 1.0.0: p *
`)
	for _, c := range []struct{ requires, want string }{
		{"web ^1, log ^2",
			`conflicting requirements for "log" 2.0.0: the project requires "log" ^2; the project requires "web" ^1 (1.2.0), which requires "log" ^1.4`},
		{"web ^2, deep *",
			`conflicting requirements for "log" 2.0.0: the project requires "web" ^2 (2.0.0), which requires "log" ^2; ` +
				`the project requires "deep" * (1.0.0), which requires "p" * (1.0.0), which requires "q" ^1 (1.0.0), which requires "log" ^1`},
		{"web ^3", `no version of "web" matches ^3 (newest: 2.0.0, 1.3.0, 1.2.0): the project requires "web" ^3`},
		{"web ^3, tool *",
			`no version of "web" matches ^3 (newest: 2.0.0, 1.3.0, 1.2.0): the project requires "web" ^3; ` +
				`the project requires "tool" * (1.0.0), which requires "web" ^1.3`},
		{"old =1.0.0",
			`bundle "gone" not found: the project requires "old" =1.0.0 (1.0.0), which requires "gone" ^1: file does not exist`},
		{"empty *", `bundle "empty" has no versions: the project requires "empty" *`},
		{"x *", `bundles require each other in a cycle: "y" 1.0.0 → "z" 1.0.0 → "y" 1.0.0`},
		{"self *", `bundles require each other in a cycle: "self" 1.0.0 → "self" 1.0.0`},
		{"web ^3, old =1.0.0, log =1.0.0, tool *",
			"no version of \"web\" matches ^3 (newest: 2.0.0, 1.3.0, 1.2.0): the project requires \"web\" ^3" +
				"; the project requires \"tool\" * (1.0.0), which requires \"web\" ^1.3\n" +
				`bundle "gone" not found: the project requires "old" =1.0.0 (1.0.0), which requires "gone" ^1: file does not exist`},
		{"a//b *", `path "a//b" has an empty segment`},
	} {
		w["empty"] = nil
		_, err := Resolve(t.Context(), w, Request{Requires: needs(t, c.requires),
			Keep: map[string]string{"web": "1.2.0", "q": "1.0.0"}})
		if err == nil || err.Error() != c.want {
			t.Errorf("%s:\n got %v\nwant %s", c.requires, err, c.want)
		}
	}
}

func TestEvidence(t *testing.T) {
	w := makeWorld(t, small)
	_, err := Resolve(t.Context(), w, Request{Requires: needs(t, "web ^1, log ^2")})
	var e *ConflictError
	if !errors.As(err, &e) || e.ID != "log" || e.Version != "2.0.0" ||
		!reflect.DeepEqual(e.Holds, Path{{"log", "2.0.0", "^2"}}) ||
		!reflect.DeepEqual(e.Against, Path{{"web", "1.2.0", "^1"}, {"log", "2.0.0", "^1.4"}}) {
		t.Errorf("%+v", e)
	}
	_, err = Resolve(t.Context(), w, Request{Requires: needs(t, "web ^1"), Update: []string{"old", "web"}})
	if err == nil || fault.Of(err).Details["bundle"] != "old" || err.Error() != `nothing requires the bundle "old"` {
		t.Error(err)
	}
}

// An index that can't be trusted.
type faulty struct {
	world
	err error
}

func (f faulty) Versions(ctx context.Context, id string) ([]Candidate, error) {
	if id == "broken" {
		return nil, f.err
	}
	return f.world.Versions(ctx, id)
}

func TestSources(t *testing.T) {
	w := makeWorld(t, "a 1.0:\nb 1.0.0:\nb 1.0.0:\nc 1.0.0: broken *\n")
	many := make([]Candidate, maxVersions+1)
	w["many"] = many
	w["wide"] = []Candidate{{Version: "1.0.0", Requires: map[string]semver.Range{}}}
	for i := range maxRequires + 1 {
		w["wide"][0].Requires[fmt.Sprint("x", i)] = semver.Range{}
	}
	w["odd"] = []Candidate{{Version: "1.0.0", Requires: map[string]semver.Range{"../x": {}}}}
	gone := errors.New("connection reset")
	for id, want := range map[string]string{
		"a":      `versions of "a": "1.0" is not a version by semver 2.0, such as 1.4.0 or 2.0.0-rc.1`,
		"b":      `"b" 1.0.0: the source lists the version twice`,
		"c":      `versions of "broken": connection reset`,
		"broken": `versions of "broken": connection reset`,
		"many":   `versions of "many": more than 10000 versions of one bundle`,
		"wide":   `"wide" 1.0.0: more than 4096 requirements of one bundle`,
		"odd":    `"odd" 1.0.0: path "../x" is not an id: expected segments of A-Z a-z 0-9 . _ - that begin with a letter or digit, joined by "/"`,
	} {
		_, err := Resolve(t.Context(), faulty{w, gone}, Request{Requires: needs(t, id+" *")})
		if err == nil || err.Error() != want || (id == "c") != (errors.Is(err, gone) && id != "broken") {
			t.Errorf("%s: %v", id, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Resolve(ctx, w, Request{Requires: needs(t, "a *")}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := Resolve(ctx, w, Request{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// chain is one bundle after the other.
type chain struct{ length, wide int }

func (c chain) Versions(_ context.Context, id string) ([]Candidate, error) {
	var n int
	if _, err := fmt.Sscanf(id, "c%d", &n); err != nil {
		return nil, err
	}
	all, _ := semver.Parse("*")
	need := map[string]semver.Range{}
	for i := range c.wide {
		if n*c.wide+i+1 < c.length {
			need[fmt.Sprint("c", n*c.wide+i+1)] = all
		}
	}
	return []Candidate{{Version: "1.0.0", Requires: need}}, nil
}

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		chain
		want string
	}{
		{chain{100, 1}, ""},
		{chain{101, 1}, `more than 100 levels of requirements, down to "c99"`},
		{chain{10_000, 1}, `more than 100 levels of requirements, down to "c99"`},
		{chain{10_000, 4000}, ""},
		{chain{10_001, 4000}, "more than 10000 bundles"},
	} {
		r, err := Resolve(t.Context(), c.chain, Request{Requires: needs(t, "c0 *")})
		if c.want == "" && (err != nil || len(r.Bundles) != c.length) || c.want != "" &&
			(fault.CodeOf(err) != fault.Limit || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%+v: %v", c.chain, err)
		}
	}
	if _, err := Resolve(t.Context(), world{}, Request{Requires: map[string]semver.Range{"a": {}}}); err == nil {
		t.Error("an empty range is met")
	}
	wide := map[string]semver.Range{}
	for i := range maxRequires + 1 {
		wide[fmt.Sprint("x", i)] = semver.Range{}
	}
	if _, err := Resolve(t.Context(), world{}, Request{Requires: wide}); err == nil ||
		err.Error() != "more than 4096 requirements of one bundle" {
		t.Error(err)
	}
}

// However early the steps are used up, that is an error and nothing else.
func TestSteps(t *testing.T) {
	w := makeWorld(t, small+"x 1.0.0: y *\ny 1.0.0: x *\n")
	for _, requires := range []string{"web ^1.2, log ^1.0", "web ^1, log ^2, tool *", "x *, log *", "web ^3, log *",
		"web *, tool *"} {
		limited := 0
		for left := range 300 {
			s := &solver{ctx: t.Context(), src: w, ids: map[string]int{}, steps: maxSteps - left}
			req := Request{Requires: needs(t, requires), Keep: map[string]string{"web": "2.0.0", "log": "1.5.0"},
				UpdateAll: true}
			r, err := s.resolve(req)
			if err != nil && fault.CodeOf(err) == fault.Limit {
				limited++
				continue
			}
			if err == nil {
				r.Outdated()
			}
		}
		if limited < 5 || limited == 300 {
			t.Errorf("%s: %d of 300 are too few", requires, limited)
		}
	}
}

// random makes a world of n bundles with m versions each: without circles, unless they are wanted.
func random(r *rand.Rand, n, m int, circles bool) (world, map[string]semver.Range) {
	ops := []string{"^", "~", ">=", ">=", "^"}
	pick := func() semver.Range {
		text := ops[r.IntN(len(ops))] + fmt.Sprintf("%d.%d.0", r.IntN(3), r.IntN(max(1, m/3)))
		if r.IntN(8) == 0 {
			text = fmt.Sprintf("<%d.%d.0", 1+r.IntN(3), r.IntN(max(1, m/3)))
		}
		if r.IntN(10) == 0 {
			text += fmt.Sprintf(" || ^%d.0.0", r.IntN(4))
		}
		rng, err := semver.Parse(text)
		if err != nil {
			panic(err)
		}
		return rng
	}
	w := world{}
	for i := range n {
		id := fmt.Sprint("b", i)
		for v := range m {
			need := map[string]semver.Range{}
			for range r.IntN(4) {
				j := r.IntN(n)
				if !circles && j <= i {
					continue
				}
				need[fmt.Sprint("b", j)] = pick()
			}
			w[id] = append(w[id], Candidate{Version: fmt.Sprintf("%d.%d.0", v%3, v/3), Requires: need})
		}
	}
	roots := map[string]semver.Range{}
	for range 1 + r.IntN(3) {
		roots[fmt.Sprint("b", r.IntN(n))] = pick()
	}
	return w, roots
}

// shuffled is the same world in another order.
func shuffled(r *rand.Rand, w world) world {
	out := world{}
	for id, versions := range w {
		v := slices.Clone(versions)
		r.Shuffle(len(v), func(i, j int) { v[i], v[j] = v[j], v[i] })
		out[id] = v
	}
	return out
}

func TestOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	answers := 0
	for range 30 {
		w, roots := random(r, 200, 20, false)
		req := Request{Requires: roots, UpdateAll: r.IntN(4) == 0}
		first, err := Resolve(t.Context(), w, req)
		for range 2 {
			again, err2 := Resolve(t.Context(), shuffled(r, w),
				Request{Requires: maps.Clone(roots), UpdateAll: req.UpdateAll})
			if fmt.Sprint(err) != fmt.Sprint(err2) || err == nil && !reflect.DeepEqual(first.Bundles, again.Bundles) {
				t.Fatalf("another order, another answer:\n%v, %v\n%v, %v", first, err, again, err2)
			}
		}
		if err != nil {
			continue
		}
		answers++
		// What was chosen is kept, and a version that isn't required changes nothing.
		for id := range w {
			w[id] = append(w[id], Candidate{Version: "9.0.0"})
		}
		kept, err := Resolve(t.Context(), w, Request{Requires: roots, Keep: chosen(first)})
		if err != nil || !reflect.DeepEqual(kept.Bundles, first.Bundles) {
			t.Fatalf("kept is other: %v", err)
		}
		if fresh, err := Resolve(t.Context(), w, Request{Requires: roots}); !req.UpdateAll &&
			(err != nil || !reflect.DeepEqual(fresh.Bundles, first.Bundles)) {
			t.Fatalf("a new version changes the answer: %v", err)
		}
	}
	if answers < 5 {
		t.Fatalf("only %d answers", answers)
	}
}

func BenchmarkResolve(b *testing.B) {
	r := rand.New(rand.NewPCG(3, 4))
	w, roots := random(r, 200, 20, false)
	for i := range 200 {
		// Everything is used, and fits.
		roots[fmt.Sprint("b", i)] = mustRange(b, "*")
		for v := range w[fmt.Sprint("b", i)] {
			for id := range w[fmt.Sprint("b", i)][v].Requires {
				w[fmt.Sprint("b", i)][v].Requires[id] = mustRange(b, fmt.Sprintf(">=%d.%d.0", r.IntN(3), r.IntN(6)))
			}
		}
	}
	for name, req := range map[string]Request{"fresh": {Requires: roots},
		"update": {Requires: roots, UpdateAll: true}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if got, err := Resolve(b.Context(), w, req); err != nil || len(got.Bundles) != 200 {
					b.Fatal(err)
				}
			}
		})
	}
}
