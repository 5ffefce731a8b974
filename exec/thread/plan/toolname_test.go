package plan_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/exec/thread/plan"
)

var taken = []string{"rye_execute", "rye_load"}

// TestGolden holds the names to a table: sets of tools that are offered together, separated by blank lines.
func TestGolden(t *testing.T) {
	const file = "testdata/names.txt"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for set := range strings.SplitSeq(strings.TrimSuffix(string(b), "\n"), "\n\n") {
		var lines, ids []string
		for line := range strings.SplitSeq(set, "\n") {
			if id, _, _ := strings.Cut(line, " "); id != "#" {
				ids = append(ids, id)
			}
		}
		names, err := plan.ToolNames(ids, taken)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(set, "\n") {
			if id, _, _ := strings.Cut(line, " "); id != "#" {
				line = fmt.Sprintf("%s %s", id, names[id])
			}
			lines = append(lines, line)
		}
		out = append(out, strings.Join(lines, "\n"))
	}
	goldentest.File(t, file, []byte(strings.Join(out, "\n\n")+"\n"))
}

// check holds names to what every model takes: and that no two tools share one, nor one with the door.
func check(t *testing.T, ids []string, names map[string]string) {
	t.Helper()
	seen := slices.Clone(taken)
	for _, id := range ids {
		name := names[id]
		if name == "" || len(name) > 64 || strings.Trim(name,
			"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" || name[0] >= '0' &&
			name[0] <= '9' {
			t.Errorf("%q is called %q", id, name)
		}
		if slices.Contains(seen, name) {
			t.Errorf("%q is not the only one called %q", id, name)
		}
		seen = append(seen, name)
	}
}

// TestOrder: the names of a set don't depend on its order, and an id may stand in it twice.
func TestOrder(t *testing.T) {
	ids := []string{"a/b", "a_b", "a.b", "rye/execute", "c", strings.Repeat("long/", 30) + "x"}
	// A tool whose plain name is the longer one of another.
	ids = append(ids, "a_b_"+cas.Sum([]byte("a/b")).Short())
	want, err := plan.ToolNames(ids, taken)
	if err != nil {
		t.Fatal(err)
	}
	check(t, ids, want)
	for range 100 {
		rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		got, err := plan.ToolNames(append(ids, ids[0]), taken)
		if err != nil {
			t.Fatal(err)
		}
		for id, name := range want {
			if got[id] != name {
				t.Errorf("%q is called %q, and %q in another order", id, name, got[id])
			}
		}
	}
}

// TestRefused: a door that has the longer name as well leaves none.
func TestRefused(t *testing.T) {
	names, err := plan.ToolNames([]string{"rye/load", "x"},
		append(taken, "rye_load_"+cas.Sum([]byte("rye/load")).Short()))
	if fault.CodeOf(err) != fault.Ambiguous {
		t.Errorf("%v, %v", names, err)
	}
}

// FuzzNames: any ids get names that models take, or an error.
func FuzzNames(f *testing.F) {
	f.Add("a/b", "a_b", "0")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		ids := slices.DeleteFunc([]string{a, b, c}, func(id string) bool { return id == "" })
		names, err := plan.ToolNames(ids, taken)
		slices.Sort(ids)
		if err == nil {
			check(t, slices.Compact(ids), names)
		}
	})
}
