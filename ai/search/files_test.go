package search

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/checkedbolt"
	"github.com/rye-build/rye/cas/statcache"
)

// A folder is a catalog of the files below a directory: the first line is the name, the rest the content.
type folder struct{ dir string }

func (f folder) Schema() string { return "folder" }

func (f folder) Files(context.Context) (out []File, err error) {
	err = filepath.WalkDir(f.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		out = append(out, File{Space: "project", Path: path[len(f.dir)+1:], Stat: statOf(fi)})
		return nil
	})
	return out, err
}

func (f folder) Load(_ context.Context, file File) ([]Record, error) {
	b, err := os.ReadFile(filepath.Join(f.dir, file.Path))
	if err != nil {
		return nil, err
	}
	name, content, _ := strings.Cut(string(b), "\n")
	return []Record{{Kind: "tool", ID: file.Path, Space: file.Space, Path: file.Path, Fields: []Field{
		{Name: "name", Text: name}, {Name: "content", Text: content},
	}}}, nil
}

// agree compares an answer with what an index that was never there before gives.
func agree(t *testing.T, x *Index, c Catalog, text string) *Response {
	t.Helper()
	got := find(t, x, c, text)
	fresh := Open(filepath.Join(t.TempDir(), "fresh.db"))
	fresh.now = x.now
	want := find(t, fresh, c, text)
	same := slices.EqualFunc(got.Results, want.Results, func(a, b Result) bool {
		return fmt.Sprint(a) == fmt.Sprint(b)
	})
	if !same || got.Total != want.Total || got.Stats.Records != want.Stats.Records {
		t.Errorf("%s: %q, not %q", text, ids(got), ids(want))
	}
	return got
}

// TestNeverStale changes files in all ways, also those that leave size and mtime as they were, with the clock going
// here and there.
func TestNeverStale(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	clock, dir := &fakeClock{}, t.TempDir()
	clock.set(time.Minute, time.Minute, 0)
	path := filepath.Join(t.TempDir(), "search.db")
	read, kept := 0, 0
	for step := range 150 {
		for range 1 + r.IntN(4) {
			name := filepath.Join(dir, fmt.Sprintf("%c", 'a'+r.IntN(3)), fmt.Sprintf("%c", 'a'+r.IntN(8)))
			text := fmt.Sprintf("name%d\nword%d and word%d", r.IntN(5), r.IntN(5), r.IntN(5))
			switch r.IntN(6) {
			case 0:
				os.RemoveAll(name)
			case 1:
				os.Rename(name, filepath.Join(dir, "a", fmt.Sprintf("%c", 'a'+r.IntN(8))))
			default:
				must(t, os.MkdirAll(filepath.Dir(name), 0o755))
				must(t, os.WriteFile(name, []byte(text), 0o644))
				old := time.Unix(1_500_000_000, 0) // so that only ctime tells
				must(t, os.Chtimes(name, old, old))
			}
		}
		switch {
		case step%20 == 19:
			clock.set(time.Duration(r.IntN(7200))*time.Second, time.Hour, uint64(r.IntN(2)))
		case step%7 == 6:
			clock.set(0, 0, 0) // everything is recent
		case step%7 == 0:
			clock.set(time.Minute, time.Minute, 0)
		}
		x := openAt(path, clock)
		got := agree(t, x, folder{dir}, []string{"word1", "name2 OR word3", "w*", "NOT word4",
			`"word1 and word2"`}[step%5])
		read, kept = read+got.Stats.Read, kept+got.Stats.Kept
	}
	if sure := statOf(must2(os.Stat(path))).Sure; sure && kept < read/4 {
		t.Errorf("%d files were read and %d remembered", read, kept)
	}
}

func must2(fi fs.FileInfo, err error) fs.FileInfo {
	if err != nil {
		panic(err)
	}
	return fi
}

// TestDamagedIndex: whatever happens to the file, the answer is right.
func TestDamagedIndex(t *testing.T) {
	path := filepath.Join(t.TempDir(), "search.db")
	l := small()
	for i := range 30 {
		l.put("user", fmt.Sprint("more/", i), "name=more",
			"content="+strings.Repeat(fmt.Sprintf("shell%d file ", i), 300))
	}
	find(t, Open(path), l, "")
	l.put("project", "one", "name=file")
	find(t, Open(path), l, "")
	whole, err := os.ReadFile(path)
	must(t, err)
	want := ids(find(t, openTest(t), l, "file shell* OR bash"))
	r := rand.New(rand.NewPCG(9, 9))
	rebuilt, rounds := 0, 150
	if testing.Short() {
		rounds = 30
	}
	for range rounds {
		b := bytes.Clone(whole)
		switch page := 4096 * r.IntN(len(b)/4096); r.IntN(5) {
		case 0:
			b = b[:r.IntN(len(b))]
		case 1:
			b[page+r.IntN(64)] ^= 1 << r.IntN(8)
		case 2:
			b[r.IntN(len(b))] ^= 1 << r.IntN(8)
		case 3:
			copy(b[page:page+4096], b[4096*r.IntN(len(b)/4096):])
		case 4:
			clear(b[page:])
		}
		must(t, os.WriteFile(path, b, 0o600))
		got := find(t, Open(path), l, "file shell* OR bash")
		if ids(got) != want {
			t.Fatalf("found %q", ids(got))
		}
		if got.Stats.Rebuilt {
			rebuilt++
		}
		again := find(t, Open(path), l, "file shell* OR bash")
		if ids(again) != want || got.Stats.Rebuilt && again.Stats.Read > 0 {
			t.Fatalf("after that: %+v", again.Stats)
		}
	}
	if rebuilt < rounds/3 {
		t.Errorf("rebuilt %d times", rebuilt)
	}
}

// TestWithoutFile: where the file can't be made, or would be too large, each search reads everything and says so.
func TestWithoutFile(t *testing.T) {
	blocked := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(blocked, nil, 0o644))
	small10 := openTest(t)
	small10.limit = 10
	for x, why := range map[*Index]string{Open(filepath.Join(blocked, "search.db")): "not a directory",
		small10: "bytes, more than 10"} {
		l := small()
		for i := range 3 {
			r := find(t, x, l, "shell OR new")
			want := []string{"acme/deploy rye/bash/bash", "acme/deploy rye/bash/bash",
				"new acme/deploy rye/bash/bash"}[i]
			if r.Stats.Read != []int{5, 5, 6}[i] || ids(r) != want || !strings.Contains(r.Stats.Note, why) {
				t.Errorf("%d: %q, %+v", i, ids(r), r.Stats)
			}
			if i == 1 {
				l.put("project", "new", "name=new")
			}
		}
	}
}

// TestBusyFile: while another process writes, everything is read instead of waiting for ever.
func TestBusyFile(t *testing.T) {
	x, l := openTest(t), small()
	find(t, x, l, "shell")
	release, held := make(chan struct{}), make(chan error)
	go func() {
		held <- hold(t.Context(), x.path, func() { held <- nil; <-release })
	}()
	must(t, <-held)
	y := Open(x.path)
	y.wait = time.Millisecond
	if r := find(t, y, l, "shell"); r.Total != 2 || r.Stats.Read != 5 ||
		r.Stats.Note != "another process holds the search index; everything was read" {
		t.Errorf("%+v", r.Stats)
	}
	close(release)
	must(t, <-held)
	reader, err := openReader(t.Context(), x.path, time.Second)
	must(t, err)
	l.put("project", "new", "name=new")
	if r := find(t, y, l, "new"); r.Total != 1 ||
		r.Stats.Note != "another process holds the search index; everything was read" {
		t.Errorf("%+v", r.Stats)
	}
	reader.Close()
	if r := find(t, y, l, "new"); r.Total != 1 || r.Stats.Read != 1 || r.Stats.Note != "" {
		t.Errorf("%+v", r.Stats)
	}
}

// hold keeps the file locked for writing while f runs.
func hold(ctx context.Context, path string, f func()) error {
	return checkedbolt.Update(ctx, path, format, time.Second, func(*checkedbolt.Batch) error { f(); return nil })
}

// FuzzState: a table that is not what was written is refused, or at least read in bounded time and memory.
func FuzzState(f *testing.F) {
	b := newBuilder(&spill{})
	r := &Record{Kind: "tool", ID: "a", Fields: []Field{{Name: "name", Text: "one two one"}}}
	must(f, b.add(r, appendRecord(nil, r)))
	g, err := b.segment()
	must(f, err)
	s := &state{gen: 1, segs: []*segment{g}, entries: []entry{{space: "project", path: "a", count: 1,
		stat: Stat{Sure: true}}}}
	f.Add(s.encode(statcache.NewClock()()), 3)
	for i := range g.memory {
		f.Add(g.memory[i], i)
	}
	f.Fuzz(func(t *testing.T, b []byte, which int) {
		if s, err := decodeState(b, nil); err == nil {
			if again, err := decodeState(s.encode(s.written), nil); err != nil ||
				len(again.entries) != len(s.entries) {
				t.Fatal(err)
			}
		}
		all := *g.memory
		all[uint(which)%streams] = b
		c := &segment{memory: &all}
		for i := range all {
			c.sizes[i] = len(all[i])
		}
		if c.open() != nil {
			return
		}
		v, err := newView([]*segment{c}, []entry{{count: min(1, len(c.docs))}})
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range []string{"one", "o*", `"one two"`, `"two one"~3`, ""} {
			if _, err := v.search(t.Context(), Request{Query: parse(t, q)}); err != nil &&
				!errors.Is(err, errDamaged) {
				t.Fatal(err)
			}
		}
	})
}
