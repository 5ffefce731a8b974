package search

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestFullSegments: of many records, segments are made that wait in files until they are written. The answers are
// those of one segment in memory, also when most was changed, and nothing is left beside the index.
func TestFullSegments(t *testing.T) {
	const files, full = 600, 4 << 10
	l := newLibrary()
	words := func(r *rand.Rand) string {
		all := make([]string, 12)
		for i := range all {
			all[i] = fmt.Sprint("w", min(r.IntN(90), r.IntN(90)))
		}
		return strings.Join(all, " ")
	}
	r := rand.New(rand.NewPCG(3, 4))
	put := func(i int) {
		l.put("project", fmt.Sprint("f/", i), "name=n"+fmt.Sprint(i), "content="+words(r))
	}
	for i := range files {
		put(i)
	}
	blocked := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(blocked, nil, 0o644))
	x, nowhere := openTest(t), Open(filepath.Join(blocked, "search.db"))
	x.full, nowhere.full = full, full
	for round := range 4 {
		whole := openTest(t)
		for _, q := range []string{"w1", "w2 w3", `"w1 w2"`, "w8* OR w7", "w5~1 NOT w2", "n7", ""} {
			want := ids(find(t, whole, l, q))
			for i, x := range []*Index{x, x, nowhere} {
				if got := ids(find(t, x, l, q)); got != want {
					t.Fatalf("round %d, %d: %q finds %q, not %q", round, i, q, got, want)
				}
			}
		}
		reader, err := openReader(t.Context(), x.path, time.Second)
		must(t, err)
		s, err := reader.state()
		must(t, err)
		reader.Close()
		least, most := 0, 0
		for _, g := range s.segs {
			least, most = least+min(1, g.bytes()/(full/2)), max(most, g.bytes())
		}
		if least < 10 || most > 2*full {
			t.Fatalf("round %d: of %d segments %d are half full, and the largest has %d bytes", round, len(s.segs),
				least, most)
		}
		all, err := os.ReadDir(filepath.Dir(x.path))
		if err != nil || len(all) != 1 {
			t.Fatalf("round %d: %v, %v", round, all, err)
		}
		for range []int{0, 3, files, 9}[round] {
			put(r.IntN(files))
		}
	}
}

// TestSpillFails: what can't be written beside the index is made again in memory.
func TestSpillFails(t *testing.T) {
	l, x := newLibrary(), openTest(t)
	x.full = 1 << 10
	for i := range 50 {
		l.put("project", fmt.Sprint("f/", i), "content="+strings.Repeat("word ", 20))
	}
	must(t, os.Mkdir(filepath.Dir(x.path), 0o700))
	w := newWriter(filepath.Dir(x.path), x.full, 1)
	must(t, w.parts[0].spill.write([]byte("x")))
	w.close()
	files, err := l.Files(t.Context())
	must(t, err)
	s := &state{}
	if _, err := s.load(t.Context(), l, files, s.plan(files, x.now()), w); err == nil ||
		!strings.Contains(err.Error(), errSpill.Error()) {
		t.Errorf("%v", err)
	}
}

// TestMergeKeepsFull: segments that are full aren't merged for being many.
func TestMergeKeepsFull(t *testing.T) {
	l, x := newLibrary(), openTest(t)
	x.full = 2 << 10
	state := func() []uint64 {
		reader, err := openReader(t.Context(), x.path, time.Second)
		must(t, err)
		defer reader.Close()
		s, err := reader.state()
		must(t, err)
		var ids []uint64
		for _, g := range s.segs {
			if g.bytes() >= x.full {
				ids = append(ids, g.id)
			}
		}
		return ids
	}
	for i := range 200 {
		l.put("project", fmt.Sprint("f/", i), "content="+strings.Repeat("word ", 20))
	}
	find(t, x, l, "word")
	before := state()
	for i := range 30 {
		l.put("project", fmt.Sprint("new/", i), "content=new")
		find(t, x, l, "new")
	}
	after := state()
	if len(before) < 2*maxSegments || slices.ContainsFunc(before, func(id uint64) bool {
		return !slices.Contains(after, id)
	}) {
		t.Errorf("%d were full, and now %d", len(before), len(after))
	}
}
