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
	"testing"

	"github.com/rye-build/rye/ai/semver"
	"github.com/rye-build/rye/manifest"
)

// The definition of the package comment once more, written down as it stands there: with texts instead of numbers,
// sets instead of queues, and everything computed anew each time.

type need struct {
	from, id string // from is "" for the project
	rng      semver.Range
}

func (w world) ascending(id string) []string {
	var out []string
	for _, c := range w[id] {
		out = append(out, c.Version)
	}
	slices.SortFunc(out, manifest.CompareVersions)
	return out
}

func (w world) floor(n need) string {
	for _, v := range w.ascending(n.id) {
		if n.rng.Contains(v) {
			return v
		}
	}
	return ""
}

func (w world) requires(id, version string) map[string]semver.Range {
	i := slices.IndexFunc(w[id], func(c Candidate) bool { return c.Version == version })
	return w[id][i].Requires
}

// inForce returns the requirements of the project and of what it reaches.
func (w world) inForce(roots map[string]semver.Range, sel map[string]string) (out []need) {
	reached := map[string]bool{"": true}
	for before := 0; before != len(reached); {
		before, out = len(reached), nil
		for from := range maps.Clone(reached) {
			requires := roots
			if from != "" {
				if sel[from] == "" {
					continue
				}
				requires = w.requires(from, sel[from])
			}
			for id, rng := range requires {
				reached[id] = true
				out = append(out, need{from, id, rng})
			}
		}
	}
	return out
}

func (w world) demandOf(roots map[string]semver.Range, sel map[string]string) map[string]string {
	next := map[string]string{}
	for _, n := range w.inForce(roots, sel) {
		if v := w.floor(n); v != "" && (next[n.id] == "" || manifest.CompareVersions(next[n.id], v) < 0) {
			next[n.id] = v
		}
	}
	return next
}

func (w world) define(roots map[string]semver.Range) (sel map[string]string, chase bool) {
	// A state that comes again comes always.
	for seen := map[string]bool{}; len(seen) < maxRounds; {
		next := w.demandOf(roots, sel)
		if maps.Equal(next, sel) {
			return next, false
		}
		if seen[pairs(next)] {
			break
		}
		seen[pairs(next)] = true
		sel = next
	}
	sel = nil
	for {
		next := w.demandOf(roots, sel)
		for id, v := range sel {
			if next[id] == "" || manifest.CompareVersions(next[id], v) < 0 {
				next[id] = v
			}
		}
		if maps.Equal(next, sel) {
			break
		}
		sel = next
	}
	reached := map[string]bool{}
	for _, n := range w.inForce(roots, sel) {
		reached[n.id] = true
	}
	maps.DeleteFunc(sel, func(id, _ string) bool { return !reached[id] })
	return sel, true
}

// verdict says what is wrong with a selection.
func (w world) verdict(roots map[string]semver.Range, sel map[string]string) string {
	force := w.inForce(roots, sel)
	conflict := false
	for _, n := range force {
		if w.floor(n) == "" {
			return "none"
		}
		conflict = conflict || !n.rng.Contains(sel[n.id])
	}
	if conflict {
		return "conflict"
	}
	// What needs nothing that is left is taken away, until nothing is left or all that is left are circles.
	for before := -1; before != len(force); {
		before = len(force)
		open := map[string]bool{}
		for _, n := range force {
			open[n.from] = true
		}
		force = slices.DeleteFunc(force, func(n need) bool { return !open[n.id] })
	}
	if len(force) > 0 {
		return "circle"
	}
	return ""
}

func verdictOf(err error) string {
	var none *NoVersionError
	var conflict *ConflictError
	var circle *CycleError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &none):
		return "none"
	case errors.As(err, &conflict):
		return "conflict"
	case errors.As(err, &circle):
		return "circle"
	}
	return err.Error()
}

// checkPath wants each step to be a requirement in force.
func checkPath(t *testing.T, w world, roots map[string]semver.Range, sel map[string]string, p Path) {
	t.Helper()
	requires := roots
	for _, step := range p {
		if rng, ok := requires[step.ID]; !ok || rng.String() != step.Range || sel[step.ID] != step.Version {
			t.Fatalf("%+v is not so: %s", step, p)
		}
		if step.Version != "" {
			requires = w.requires(step.ID, step.Version)
		}
	}
}

func checkEvidence(t *testing.T, w world, roots map[string]semver.Range, sel map[string]string, err error) {
	t.Helper()
	all := []error{err}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		all = many.Unwrap()
	}
	for _, err := range all {
		switch e := err.(type) {
		case *NoVersionError:
			checkPath(t, w, roots, sel, e.Path)
			if (e.Err != nil) != errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		case *ConflictError:
			checkPath(t, w, roots, sel, e.Against)
			checkPath(t, w, roots, sel, e.Holds)
			if last := e.Against[len(e.Against)-1]; last.ID != e.ID || mustRange(t, last.Range).Contains(e.Version) {
				t.Fatalf("%s isn't against %s", e.Against, e.Version)
			}
			if len(e.Holds) > 0 {
				if last := e.Holds[len(e.Holds)-1]; last.ID != e.ID || !mustRange(t, last.Range).Contains(e.Version) {
					t.Fatalf("%s isn't for %s", e.Holds, e.Version)
				}
			}
		case *CycleError:
			if n := len(e.Path); n < 2 || e.Path[0] != e.Path[n-1] {
				t.Fatal(err)
			}
			checkPath(t, w, w.requires(e.Path[0].ID, e.Path[0].Version), sel, e.Path[1:])
		default:
			t.Fatalf("%T: %v", err, err)
		}
	}
}

// What is resolved is what the definition says, problems and their evidence included.
func TestDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	seen := map[string]int{}
	for i := range 1500 {
		n, m := 2+r.IntN(7), 1+r.IntN(6)
		if i%300 == 1 {
			n, m = 200, 20
		}
		w, roots := random(r, n, m, i%3 == 0)
		delete(w, "b1")
		got, err := Resolve(t.Context(), w, Request{Requires: roots})
		want, chase := w.define(roots)
		verdict := w.verdict(roots, want)
		if verdictOf(err) != verdict || err == nil && !maps.Equal(chosen(got), want) {
			t.Fatalf("%v\n%v\ngot %v, %v\nwant %v %q", w, roots, got, err, want, verdict)
		}
		if err != nil {
			checkEvidence(t, w, roots, want, err)
		}
		seen[verdict]++
		if chase {
			seen["chase"]++
		}
	}
	for _, kind := range []string{"", "none", "conflict", "circle", "chase"} {
		if seen[kind] == 0 {
			t.Errorf("never seen: %q (%v)", kind, seen)
		}
	}
}

// answers calls f with every selection that meets all requirements and in which nothing is needless.
func (w world) answers(roots map[string]semver.Range, ids []string, f func(sel map[string]string)) {
	sel := map[string]string{}
	var try func(i int)
	try = func(i int) {
		if i < len(ids) {
			try(i + 1)
			for _, c := range w[ids[i]] {
				sel[ids[i]] = c.Version
				try(i + 1)
			}
			delete(sel, ids[i])
			return
		}
		reached := map[string]bool{}
		for _, n := range w.inForce(roots, sel) {
			if !n.rng.Contains(sel[n.id]) {
				return
			}
			reached[n.id] = true
		}
		if len(reached) == len(sel) {
			f(maps.Clone(sel))
		}
	}
	try(0)
}

// Whatever is resolved is an answer; where there is none nothing is resolved; and where newer versions don't ask for
// less, what is resolved is the least answer of all in every bundle.
func TestExhaustive(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	resolved, refused, missed := 0, 0, 0
	for i := range 600 {
		rising := i%2 == 0
		w, roots := random(r, 4, 3, false)
		if rising {
			w, roots = risingWorld(r, 4, 3)
		}
		ids := slices.Sorted(maps.Keys(w))
		got, err := Resolve(t.Context(), w, Request{Requires: roots})
		var sel map[string]string
		if err == nil {
			sel = chosen(got)
		}
		count, found := 0, false
		w.answers(roots, ids, func(answer map[string]string) {
			count++
			found = found || err == nil && maps.Equal(answer, sel)
			for id, v := range sel {
				if rising && (answer[id] == "" || manifest.CompareVersions(answer[id], v) < 0) {
					t.Fatalf("%v is an answer and has less than %v", answer, sel)
				}
			}
		})
		switch {
		case err == nil && !found:
			t.Fatalf("%v is no answer for %v in %v", sel, roots, w)
		case err == nil:
			resolved++
		case count == 0:
			refused++
		case rising:
			t.Fatalf("%v, but there are %d answers", err, count)
		default:
			missed++ // the highest floor is excluded, and something higher isn't
		}
	}
	if resolved < 100 || refused < 20 || missed > resolved/4 {
		t.Fatalf("%d resolved, %d refused, %d missed", resolved, refused, missed)
	}
}

// risingWorld makes a world in which each version asks for all that the one before asked for, and for no less.
func risingWorld(r *rand.Rand, n, m int) (world, map[string]semver.Range) {
	least := func(v int) semver.Range {
		rng, err := semver.Parse(fmt.Sprintf(">=%d.0.0", v))
		if err != nil {
			panic(err)
		}
		return rng
	}
	w := world{}
	for i := range n {
		id := fmt.Sprint("b", i)
		asked := map[int]int{}
		for v := range m {
			for j := i + 1; j < n; j++ {
				if have, ok := asked[j]; ok && have < m {
					asked[j] = have + r.IntN(2)
				} else if !ok && r.IntN(3) == 0 {
					asked[j] = r.IntN(m)
				}
			}
			c := Candidate{Version: fmt.Sprintf("%d.0.0", v), Requires: map[string]semver.Range{}}
			for j, v := range asked {
				c.Requires[fmt.Sprint("b", j)] = least(v)
			}
			w[id] = append(w[id], c)
		}
	}
	return w, map[string]semver.Range{"b0": least(r.IntN(m)), fmt.Sprint("b", r.IntN(n)): least(r.IntN(m))}
}

// Keeping and updating never lose an answer, and keep to what they promise.
func TestKeepDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	moved, kept := 0, 0
	for range 1500 {
		w, roots := random(r, 5, 4, false)
		fresh, err := Resolve(t.Context(), w, Request{Requires: roots})
		if err != nil {
			continue
		}
		keep := map[string]string{}
		for id, c := range w {
			keep[id] = c[r.IntN(len(c))].Version
		}
		got, err := Resolve(t.Context(), w, Request{Requires: roots, Keep: keep})
		if err != nil || w.verdict(roots, chosen(got)) != "" {
			t.Fatalf("there is an answer without %v: %v", keep, err)
		}
		// If everything that is kept is an answer, it is the answer.
		sel := maps.Clone(keep)
		reached := map[string]bool{}
		for _, n := range w.inForce(roots, sel) {
			reached[n.id] = true
		}
		maps.DeleteFunc(sel, func(id, _ string) bool { return !reached[id] })
		if w.verdict(roots, sel) == "" {
			kept++
			if !maps.Equal(chosen(got), sel) {
				t.Fatalf("%v could stay and became %v", sel, chosen(got))
			}
		}
		up, err := Resolve(t.Context(), w, Request{Requires: roots, UpdateAll: true})
		if err != nil || w.verdict(roots, chosen(up)) != "" {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(up.Bundles, fresh.Bundles) {
			moved++
		}
		for _, b := range fresh.Bundles {
			one, err := Resolve(t.Context(), w, Request{Requires: roots, Update: []string{b.ID}})
			if err != nil || w.verdict(roots, chosen(one)) != "" {
				t.Fatal(err)
			}
			if v := chosen(one)[b.ID]; v == "" || manifest.CompareVersions(v, b.Version) < 0 {
				t.Fatalf("an update of %s goes from %s to %s", b.ID, b.Version, v)
			}
		}
	}
	if moved < 50 || kept < 50 {
		t.Fatal(moved, kept)
	}
}

func FuzzResolve(f *testing.F) {
	f.Add(uint64(1), uint64(2), true, true)
	f.Fuzz(func(t *testing.T, a, b uint64, circles, update bool) {
		r := rand.New(rand.NewPCG(a, b))
		w, roots := random(r, 1+r.IntN(12), 1+r.IntN(8), circles)
		got, err := Resolve(context.Background(), w, Request{Requires: roots, UpdateAll: update})
		if update && err == nil {
			if v := w.verdict(roots, chosen(got)); v != "" {
				t.Fatal(v)
			}
			return
		}
		want, _ := w.define(roots)
		if verdictOf(err) != w.verdict(roots, want) || err == nil && !maps.Equal(chosen(got), want) {
			t.Fatalf("%v %v: %v, %v, want %v", w, roots, got, err, want)
		}
	})
}
