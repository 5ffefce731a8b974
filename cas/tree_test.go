package cas

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/canon"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/cas/portable"
)

func sortEntries(entries []Entry) {
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
}

// aFile, anExec and aDir make entries whose digest is made of their name.
func aFile(name string) Entry  { return Entry{name, File, Sum([]byte(name)), int64(len(name))} }
func anExec(name string) Entry { return Entry{name, Exec, Sum([]byte(name)), int64(len(name))} }
func aDir(name string) Entry   { return Entry{name, Dir, Sum([]byte(name)), 0} }

func TestEmptyTree(t *testing.T) {
	b, err := AppendTree(nil, nil)
	if err != nil || string(b) != "rye: \"tree/2\"\n" || Sum(b) != EmptyTree {
		t.Errorf("the empty tree is %q, %v, with the digest %v", b, err, Sum(b))
	}
	if got, err := ParseTree(nil, b); err != nil || len(got) != 0 {
		t.Errorf("ParseTree of the empty tree = %v, %v", got, err)
	}
}

// goodTrees are in testdata/vectors/tree/good, each as the file NAME.yaml.
var goodTrees = map[string][]Entry{
	"empty":     {},
	"file":      {aFile("README.md")},
	"directory": {aDir("lib")},
	"doc": {{"README.md", File, Sum([]byte("readme")), 812}, {"lib", Dir, Sum([]byte("lib")), 0},
		{"run.sh", Exec, Sum([]byte("run")), 90}},
	"interleave": {aDir("a"), aFile("a.b"), aDir("a0"), aFile("b"), anExec("b-"), aDir("b.c"), aFile("b0"), aDir("c")},
	"sizes":      {{"huge", File, Sum(nil), canon.MaxInt}, {"nought", File, Sum(nil), 0}, {"ten", File, Sum(nil), 10}},
	"unicode": {aFile("-dash"), aFile(" lead"), aFile("a b"), aFile("naïve.txt"), aDir("Ærø"), aFile("日本語"),
		aFile("🙂.md"), aFile("ﬀ")},
	"longest": {aFile(strings.Repeat("n", portable.MaxSegment))},
	"cases":   {aFile("A"), aFile("B.TXT"), aFile("b"), aFile("strasse"), aFile("Ä")},
	"same":    {{"a", File, Sum(nil), 0}, {"b", Exec, Sum(nil), 0}, {"c", Dir, Sum(nil), 0}},
}

// vectors is where the golden trees are; index.json there gives the digest of each good one, and for each bad
// one on which line it isn't a canonical document, or a canonical document and no tree.
const vectors = "../testdata/vectors/tree"

type treeIndex struct {
	Good map[string]string `json:"good"`
	Bad  map[string]string `json:"bad"`
}

func TestTreeVectors(t *testing.T) {
	got := treeIndex{map[string]string{}, map[string]string{}}
	for name, entries := range goodTrees {
		sortEntries(entries)
		path := filepath.Join(vectors, "good", name+".yaml")
		b, err := AppendTree(nil, entries)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := goldentest.File(t, path, b)
		back, err := ParseTree(nil, want)
		if err != nil || !slices.Equal(back, entries) {
			t.Errorf("%s is read as %v, %v; want %v", name, back, err, entries)
		}
		got.Good[name] = Sum(b).String()
	}
	files, err := filepath.Glob(filepath.Join(vectors, "bad", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no bad trees: %v", err)
	}
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		dst := []Entry{aFile("mine")}
		out, err := ParseTree(dst, b)
		if err == nil {
			t.Errorf("%s is read as %v", name, out)
			continue
		}
		if len(out) != 1 || out[0] != dst[0] {
			t.Errorf("%s: something was appended: %v", name, out)
		}
		got.Bad[name] = kindOf(err)
	}
	goldentest.JSON(t, filepath.Join(vectors, "index.json"), got)
}

// kindOf returns what is in the index for an error: no words, which may become better.
func kindOf(err error) string {
	if e, ok := errors.AsType[*TreeError](err); ok {
		return fmt.Sprintf("line %d: entry", e.Line)
	}
	if e, ok := errors.AsType[*canon.SyntaxError](err); ok {
		return fmt.Sprintf("line %d: syntax", e.Line)
	}
	if _, ok := errors.AsType[*canon.VersionError](err); ok {
		return "version"
	}
	return fmt.Sprintf("%T", err)
}

func TestAppendTreeRefuses(t *testing.T) {
	with := func(e Entry, change func(*Entry)) Entry {
		change(&e)
		return e
	}
	for _, test := range []struct {
		name    string
		entries []Entry
		err     string
	}{
		{"unsorted", []Entry{aFile("b"), aFile("a")},
			`tree: entry "a": out of order: entries are sorted by name, each once`},
		{"sorted by folds", []Entry{aFile("a"), aFile("B")},
			`tree: entry "B": out of order: entries are sorted by name, each once`},
		{"twice", []Entry{aFile("a"), anExec("a")},
			`tree: entry "a": out of order: entries are sorted by name, each once`},
		{"file and directory", []Entry{aFile("a"), aDir("a")}, `tree: entry "a": both a file and a directory`},
		{"case", []Entry{aFile("README"), aFile("ReadMe")},
			`tree: entry "ReadMe": same name as "README" on file systems that ignore case`},
		{"case of its fold", []Entry{aDir("Lib"), aFile("lib")},
			`tree: entry "Lib": same name as "lib" on file systems that ignore case`},
		{"full folding", []Entry{aFile("straße"), aFile("STRASSE")}, ``},
		{"sharp s", []Entry{aFile("strasse"), aFile("straße")},
			`tree: entry "straße": same name as "strasse" on file systems that ignore case`},
		{"no mode", []Entry{with(aFile("a"), func(e *Entry) { e.Mode = 0 })}, `tree: entry "a": invalid mode`},
		{"mode", []Entry{with(aFile("a"), func(e *Entry) { e.Mode = 4 })}, `tree: entry "a": invalid mode`},
		{"no digest", []Entry{with(aFile("a"), func(e *Entry) { e.Digest = Digest{} })}, `tree: entry "a": no digest`},
		{"negative", []Entry{with(aFile("a"), func(e *Entry) { e.Size = -1 })}, `tree: entry "a": invalid size`},
		{"too large", []Entry{with(aFile("a"), func(e *Entry) { e.Size = 1 << 53 })}, `tree: entry "a": invalid size`},
		{"size of a directory", []Entry{with(aDir("a"), func(e *Entry) {
			e.Size = 1
		})}, `tree: entry "a": invalid size`},
		{"empty directory", []Entry{with(aDir("a"), func(e *Entry) {
			e.Digest = EmptyTree
		})}, `tree: entry "a": empty directory: trees list only directories that hold files`},
		{"no name", []Entry{aFile("")}, `tree: path "" is empty`},
		{"dot", []Entry{aFile("..")}, `tree: name ".." is not a name`},
		{"slash", []Entry{aFile("a/b")}, ``},
		{"git", []Entry{aFile(".GIT")}, ``},
		{"dropping", []Entry{aDir("node_modules")}, ``},
		{"escape", []Entry{aFile("a\"b")}, ``},
		{"newline", []Entry{aFile("a\nb")}, ``},
	} {
		sorted := slices.IsSortedFunc(test.entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
		if test.err == "" && !sorted {
			sortEntries(test.entries)
		}
		got, err := AppendTree([]byte("before"), test.entries)
		bad, ok := errors.AsType[*TreeError](err)
		if !ok {
			t.Errorf("%s: error %v, want a *TreeError", test.name, err)
			continue
		}
		if string(got) != "before" {
			t.Errorf("%s: something was appended: %q", test.name, got)
		}
		if test.err != "" && err.Error() != test.err {
			t.Errorf("%s: error\n%v, want\n%s", test.name, err, test.err)
		}
		if !slices.ContainsFunc(test.entries, func(e Entry) bool { return e.Name == bad.Name }) || bad.Line != 0 {
			t.Errorf("%s: the error is about %q on line %d", test.name, bad.Name, bad.Line)
		}
	}
}

// TestTreeLimits: what is too large is refused the same way when it is written and when it is read.
func TestTreeLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	entries := make([]Entry, MaxTreeEntries+1)
	for i := range entries {
		entries[i] = Entry{fmt.Sprintf("%07d", i), Dir, Digest{1}, 0}
	}
	b, err := AppendTree(nil, entries[:MaxTreeEntries])
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ParseTree(nil, b); err != nil || !slices.Equal(got, entries[:MaxTreeEntries]) {
		t.Fatalf("%d entries are read as %d, %v", MaxTreeEntries, len(got), err)
	}
	if _, err := AppendTree(nil, entries); err != errTooLarge {
		t.Errorf("%d entries: error %v", len(entries), err)
	}
	more := fmt.Appendf(b, "  \"9999999\": {digest: \"%s\"}\n", Digest{1})
	if _, err := ParseTree(nil, more); err == nil {
		t.Errorf("%d entries were read", len(entries))
	}
	long := entries[:MaxTreeBytes/300]
	for i := range long {
		long[i].Name = fmt.Sprintf("%0255d", i)
	}
	if _, err := AppendTree(nil, long); err != errTooLarge {
		t.Errorf("%d long entries: error %v", len(long), err)
	}
}

// randomTree returns entries that may stand in a tree, or nearly may.
func randomTree(r *rand.Rand) []Entry {
	names := []string{"a", "A", "b", "a.txt", "é", "É", "ß", "ss", "Σ", "ς", "lib", "LIB", "x y", "日本", "z"}
	var entries []Entry
	for _, i := range r.Perm(len(names))[:r.IntN(len(names))] {
		e := Entry{names[i], Mode(1 + r.IntN(3)), Digest{byte(r.IntN(4)), 1}, 0}
		if e.Mode != Dir {
			e.Size = r.Int64N(1 << r.IntN(54))
		}
		entries = append(entries, e)
	}
	sortEntries(entries)
	return entries
}

// TestTreeIsCanonical: what AppendTree writes by itself is what a canon.Encoder writes, and it takes what a
// portable.CheckSet takes.
func TestTreeIsCanonical(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	made := 0
	for range 5000 {
		entries := randomTree(r)
		got, err := AppendTree(nil, entries)
		set := portable.CheckSet(func(yield func(string) bool) {
			for _, e := range entries {
				if !yield(e.Name) {
					return
				}
			}
		})
		if (err == nil) != (set == nil) {
			t.Fatalf("AppendTree of %v: error %v, portable.CheckSet: %v", entries, err, set)
		}
		if err != nil {
			continue
		}
		made++
		enc := canon.NewEncoderBytes(nil, &treeSpec)
		for _, dirs := range []bool{false, true} {
			for _, e := range entries {
				switch {
				case (e.Mode == Dir) != dirs:
				case dirs:
					enc.Begin(inDirs, e.Name)
					enc.Str(atDigest, e.Digest.String())
					enc.End()
				default:
					enc.Begin(inFiles, e.Name)
					enc.Str(atDigest, e.Digest.String())
					enc.Int(atSize, e.Size)
					enc.Str(atMode, e.Mode.String())
					enc.End()
				}
			}
		}
		if err := enc.Close(); err != nil || !bytes.Equal(enc.Bytes(), got) {
			t.Fatalf("AppendTree gives\n%s\ncanon gives, %v\n%s", got, err, enc.Bytes())
		}
		if back, err := ParseTree(nil, got); err != nil || !slices.Equal(back, entries) {
			t.Fatalf("%v is read as %v, %v", entries, back, err)
		}
	}
	if made < 100 {
		t.Errorf("only %d trees were made", made)
	}
}

func TestDecodeTree(t *testing.T) {
	entries := goodTrees["interleave"]
	sortEntries(entries)
	b, err := AppendTree([]byte("xx"), entries)
	if err != nil {
		t.Fatal(err)
	}
	var got []Entry
	if err := DecodeTree(b[2:], func(e Entry) error {
		got = append(got, e)
		return nil
	}); err != nil || !slices.Equal(got, entries) {
		t.Errorf("got %v, %v", got, err)
	}
	enough, n := errors.New("enough"), 0
	if err := DecodeTree(b[2:], func(Entry) error { n++; return enough }); err != enough || n != 1 {
		t.Errorf("error %v after %d visits", err, n)
	}
	// Nothing is shown of what turns out to be no tree at its end.
	if err := DecodeTree(append(b[2:], '\n'), func(Entry) error { n++; return nil }); err == nil || n != 1 {
		t.Errorf("error %v after %d visits", err, n)
	}
}

func FuzzParseTree(f *testing.F) {
	for _, entries := range goodTrees {
		b, err := AppendTree(nil, entries)
		if err == nil {
			f.Add(b)
		}
	}
	files, _ := filepath.Glob(filepath.Join(vectors, "bad", "*.yaml"))
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c := coders.Get().(*treeCoder)
		quick, ok := c.quick(nil, b)
		slow, slowErr := c.slow(nil, b)
		c.release()
		if ok != (slowErr == nil) || ok && !slices.Equal(quick, slow) {
			t.Fatalf("read quickly it is %v, %t; slowly %v, %v", quick, ok, slow, slowErr)
		}
		entries, err := ParseTree(nil, b)
		if err != nil {
			return
		}
		again, err := AppendTree(nil, entries)
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("accepted\n%q\nbut it is written as\n%q, %v", b, again, err)
		}
	})
}
