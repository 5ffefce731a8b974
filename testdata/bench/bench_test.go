package main

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestMain is the bench where a test has started it as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{"-make", "-part", "-ed25519", stageArg}, os.Args[1]) {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestQuick measures some rows of each kind on small corpora: what they run works, and the rods that are here are
// measured.
func TestQuick(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "numbers.json")
	only := "^(startup|oci: pu(sh|ll)|oci: push of S after A, bytes|session: shell, a call, audit required)$"
	if err := run(t.Context(), []string{"-quick", "-data", dir, "-only", only, "-json", file}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	var got record
	if err := errors.Join(err, json.Unmarshal(text, &got)); err != nil {
		t.Fatal(err)
	}
	measured := map[string]map[string]float64{}
	for _, r := range got.Rows {
		measured[r.Name] = r.Tools
	}
	want := map[string]string{"startup": "rye hello", "session: shell, a call, audit required": "rye bash"}
	if _, err := exec.LookPath("docker-registry"); err == nil {
		want["oci: push"], want["oci: pull"], want["oci: push of S after A, bytes"] = "rye crane oras",
			"rye crane oras cp", "rye changed"
	}
	for row, tools := range want {
		for _, name := range strings.Fields(tools) {
			if measured[row][name] <= 0 {
				t.Errorf("%s: %s is not measured: %v", row, name, measured[row])
			}
		}
	}
}

// treeSum is the digest of the names, modes, times and bytes of a tree.
func treeSum(t *testing.T, root string) string {
	t.Helper()
	h := sha256.New()
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		fmt.Fprintln(h, filepath.ToSlash(rel), fi.ModTime().UTC())
		if d.IsDir() {
			return nil // its mode is the umask's
		}
		fmt.Fprintln(h, fi.Mode())
		b, err := os.ReadFile(p)
		fmt.Fprintf(h, "%d\n%s", len(b), b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// The corpora are the same bytes on every machine, else ratios of two machines can't be compared.
func TestCorpora(t *testing.T) {
	want := map[string]string{
		"A": "8e90c37ee37ff27a", "S": "3c01da63796d9e2c", "B": "6e1bc097486c268a", "D": "e57c20280b629daf",
		"C": "4706df6d8b071aa9", "I": "0e822118acdaee5b",
	}
	dir := t.TempDir()
	for letter, sum := range want {
		if err := makeCorpus(dir, letter, true); err != nil {
			t.Fatal(err)
		}
		if got := treeSum(t, filepath.Join(dir, letter)); got != sum {
			t.Errorf("corpus %s is %s, want %s", letter, got, sum)
		}
	}
	if err := makeCorpus(dir, "X", true); err == nil {
		t.Error("there is a corpus X")
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "*-*")); len(names) > 0 {
		t.Errorf("left behind: %q", names)
	}
}

// S and D are A and B but for about a hundredth.
func TestEdits(t *testing.T) {
	dir := t.TempDir()
	for _, letter := range []string{"A", "S", "B", "D"} {
		if err := makeCorpus(dir, letter, true); err != nil {
			t.Fatal(err)
		}
	}
	files, err := someFiles(filepath.Join(dir, "A"), 1000)
	if err != nil {
		t.Fatal(err)
	}
	changed := 0
	for _, f := range files {
		rel, _ := filepath.Rel(filepath.Join(dir, "A"), f)
		a, errA := os.ReadFile(f)
		s, errS := os.ReadFile(filepath.Join(dir, "S", rel))
		if errA != nil || errS != nil {
			t.Fatal(errA, errS)
		}
		if string(a) != string(s) {
			changed++
		}
	}
	if len(files) != 500 || changed != 5 {
		t.Errorf("%d of %d files were edited, want 5 of 500", changed, len(files))
	}
	sizeB, filesB := usage(filepath.Join(dir, "B"))
	sizeD, filesD := usage(filepath.Join(dir, "D"))
	if filesB != 24 || filesD != 24 || sizeB != 2*4*mib || sizeD <= sizeB || sizeD > sizeB+8*1050 {
		t.Errorf("B has %d bytes in %d files, D %d in %d", sizeB, filesB, sizeD, filesD)
	}
}

func TestJudge(t *testing.T) {
	r := row{name: "x", goals: []goal{{factor: 1.2, rod: "floor"}, {factor: 0.4, rod: "ostree"}}}
	for _, c := range []struct {
		ratios map[string]float64
		met    string
	}{
		{map[string]float64{"floor": 1.2, "ostree": 0.4}, "yes"},
		{map[string]float64{"floor": 1.3, "ostree": 0.3}, "no"},
		{map[string]float64{"floor": 1.1, "ostree": 0.5}, "no"},
		{map[string]float64{"ostree": 0.3}, "?"},
		{map[string]float64{"ostree": 0.5}, "no"},
	} {
		v := r.judge(1, func(g goal) (float64, bool) { x, ok := c.ratios[g.rod]; return x, ok })
		if v.met != c.met {
			t.Errorf("%v: %q (%s), want %q", c.ratios, v.met, v.text, c.met)
		}
	}
	limit := row{unit: peakBytes, goals: []goal{{limit: 24 << 20}}}
	for mem, want := range map[float64]string{24 << 20: "yes", 25 << 20: "no"} {
		if v := limit.judge(mem, nil); v.met != want {
			t.Errorf("%v bytes: %q, want %q", mem, v.met, want)
		}
	}
}

// A ratio is taken within each round: both columns below are noisy, their ratio isn't.
func TestRatio(t *testing.T) {
	r := row{name: "x", op: "import", on: "A", tools: "git"}
	b := &bench{results: map[string][]*result{"import.A": {
		{Tool: "rye", Samples: []sample{{Wall: 1}, {Wall: 10}, {Wall: 3}}},
		{Tool: "git", Samples: []sample{{Wall: 2}, {Wall: 20}, {Wall: 6}, {Wall: 1}}},
	}}}
	if x, ok := b.ratio(r, seconds, "git"); x != 0.5 || !ok {
		t.Error(x, ok)
	}
	if x, ok := b.ratio(r, seconds, "ostree"); ok {
		t.Error(x)
	}
	// What both have in common may be left out of it.
	r = row{name: "y", op: "exec", on: "sandbox", goals: []goal{{factor: 0.5, rod: "bwrap", over: "bare"}}}
	b.results["exec.sandbox"] = []*result{
		{Tool: "rye", Samples: []sample{{Wall: 3}, {Wall: 5}}},
		{Tool: "bwrap", Samples: []sample{{Wall: 9}, {Wall: 15}}},
		{Tool: "bare", Samples: []sample{{Wall: 1}, {Wall: 2}}},
	}
	if x, ok := b.reached(r, r.goals[0]); !ok || x < 0.24 || x > 0.241 {
		t.Error(x, ok)
	}
	if v := b.verdict(r); v.met != "yes" || v.text != "≤ 0.5 × bwrap, over bare: 0.24" {
		t.Errorf("%+v", v)
	}
	if x, ok := b.reached(r, goal{factor: 1, rod: "bwrap", over: "nothing"}); ok {
		t.Error(x)
	}
	// And how much more it is.
	r.goals = []goal{{limit: 1.5, rod: "bare"}}
	if v := b.verdict(r); v.met != "no" || v.text != "≤ bare + 1.50 s: 2.50 s" {
		t.Errorf("%+v", v)
	}
}

func TestSpan(t *testing.T) {
	r := &result{Samples: []sample{{Wall: 3}, {Wall: 1}, {Wall: 2}, {Wall: 10}}}
	if least, median, most := r.span(seconds); least != 1 || median != 2.5 || most != 10 {
		t.Errorf("%v %v %v", least, median, most)
	}
}

func TestCountCalls(t *testing.T) {
	const table = `% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 90.00    0.000300         100         3           fsync
 10.00    0.000100          50         2         1 fdatasync
------ ----------- ----------- --------- --------- ----------------
100.00    0.000400          80         5         1 total
`
	counts := map[string]int{"fsync": 1}
	countCalls(table, counts)
	if counts["fsync"] != 4 || counts["fdatasync"] != 2 || len(counts) != 2 {
		t.Error(counts)
	}
}

// TestShown: what the documentation shows are ratios of rows.
func TestShown(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "ai", "std", ".ai", "knowledge", "rye", "speed.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 4 || !strings.HasPrefix(cells[1], "`") {
			continue
		}
		shown++
		name := strings.Trim(cells[1], "`")
		if !slices.ContainsFunc(rows, func(r row) bool { return r.name == name }) {
			t.Errorf("there is no row %q", name)
		}
	}
	if shown != 3 {
		t.Errorf("%d rows are shown", shown)
	}
}

// Every row has a tool to be compared with, and every rod of a goal is one.
func TestRows(t *testing.T) {
	known := map[string]bool{"one-batch": true, "grep": true, "ed25519": true, "store-put": true, "tar-zstd": true,
		"git-status": true, "find": true, "store-checkout": true, "pnpm": true,
		"true": true, "bwrap": true, "allowed": true, "bare": true, "landlock": true, "program": true, "python3": true,
		"make":   true,
		"tenths": true, "one": true, "syncs": true, "exec": true, "run": true, "together": true, "crane": true,
		"oras": true, "cp": true, "changed": true, "bash": true, "tenth": true, "curl": true, "few": true}
	for _, x := range tools("rye", "floor", "hello") {
		known[x.name] = true
	}
	names := map[string]bool{}
	for _, r := range rows {
		if names[r.name] {
			t.Errorf("two rows are called %q", r.name)
		}
		names[r.name] = true
		for _, name := range strings.Fields(r.tools) {
			if !known[name] {
				t.Errorf("%s: the tool %q isn't known", r.name, name)
			}
		}
		for _, g := range r.goals {
			if g.rod != "" && (!known[g.rod] || !r.takesPart(g.rod)) {
				t.Errorf("%s: the rod %q isn't measured", r.name, g.rod)
			}
		}
	}
}
