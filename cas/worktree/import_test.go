package worktree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/cas/statcache"
)

// ways are the options that choose between the two implementations of everything.
var ways = []struct {
	name     string
	portable bool
}{{"fast", false}, {"portable", true}}

func bothWays(t *testing.T, f func(t *testing.T, portable bool)) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) { f(t, w.portable) })
	}
}

// put writes a file, and the directories it is in. A name that ends in "/" is a directory; one that ends in "*"
// may be executed.
func put(t testing.TB, dir, name, content string) {
	t.Helper()
	path, perm := filepath.Join(dir, filepath.FromSlash(strings.TrimSuffix(name, "*"))), fs.FileMode(0o644)
	if strings.HasSuffix(name, "*") {
		perm = 0o755
	}
	if strings.HasSuffix(name, "/") {
		must(t, os.MkdirAll(path, 0o755))
		return
	}
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(content), perm))
	must(t, os.Chmod(path, perm))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// files is a directory of every kind of thing that may stand in a tree.
var files = map[string]string{
	"README.md":             "read me\n",
	"run.sh*":               "#!/bin/sh\n",
	"empty":                 "",
	"lib/a.py":              "a = 1\n",
	"lib/b.py":              "a = 1\n",
	"lib/deep/er/and/er/x*": "x",
	"lib.d/x":               "sorted between lib and lib/",
	"Ünïcødé/日本語.txt":       "name",
	"with space/ and more":  "name",
	"big":                   strings.Repeat("0123456789abcdef", 40_000),
	"copy/of/big*":          strings.Repeat("0123456789abcdef", 40_000),
	"exactly":               strings.Repeat("e", readWhole),
	"exactly+1":             strings.Repeat("e", readWhole+1),
}

func putFiles(t testing.TB, dir string) {
	for name, content := range files {
		put(t, dir, name, content)
	}
}

// importInto imports and commits.
func importInto(t testing.TB, s *cas.Memory, path string, o Options) Result {
	t.Helper()
	r, err := tryImport(t.Context(), s, path, o)
	must(t, err)
	return r
}

func tryImport(ctx context.Context, s cas.Batcher, path string, o Options) (Result, error) {
	b, err := s.Batch(ctx)
	if err != nil {
		return Result{}, err
	}
	defer b.Close()
	r, err := Import(ctx, b, path, o)
	if err != nil {
		return Result{}, err
	}
	return r, b.Commit(ctx)
}

// contents returns the files of a tree as put takes them.
func contents(t testing.TB, src cas.Getter, root cas.ID, at string, into map[string]string) map[string]string {
	t.Helper()
	for _, e := range entriesOf(t, src, root) {
		name := join(at, e.Name)
		switch e.Mode {
		case cas.Dir:
			contents(t, src, e.ID(), name, into)
			continue
		case cas.Exec:
			name += "*"
		}
		into[name] = string(object(t, src, e.ID()))
		if int64(len(into[name])) != e.Size {
			t.Errorf("%s: its tree gives the size %d, it has %d bytes", name, e.Size, len(into[name]))
		}
	}
	return into
}

func object(t testing.TB, src cas.Getter, id cas.ID) []byte {
	t.Helper()
	o, err := src.Get(t.Context(), id)
	must(t, err)
	defer o.Close()
	b, err := io.ReadAll(o)
	must(t, err)
	return b
}

func entriesOf(t testing.TB, src cas.Getter, root cas.ID) []cas.Entry {
	t.Helper()
	entries, err := cas.ParseTree(nil, object(t, src, root))
	must(t, err)
	return entries
}

func same(t testing.TB, got, want map[string]string) {
	t.Helper()
	for name, content := range want {
		if got[name] != content {
			t.Errorf("%s: got %.40q, want %.40q", name, got[name], content)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: not expected", name)
		}
	}
}

func TestImport(t *testing.T) {
	bothWays(t, func(t *testing.T, portable bool) {
		dir := t.TempDir()
		putFiles(t, dir)
		for _, name := range []string{"nothing/at/all/", "lib/nothing/", "only/.git/HEAD", "lib/node_modules/x/y.js",
			".DS_Store", "lib/__pycache__/a.pyc"} {
			put(t, dir, name, "left out")
		}
		var s cas.Memory
		r := importInto(t, &s, dir, Options{portable: portable})
		same(t, contents(t, &s, r.ID, "", map[string]string{}), files)
		var size int64
		for _, content := range files {
			size += int64(len(content))
		}
		want := Result{ID: r.ID, Files: int64(len(files)), Dirs: 11, Bytes: size, Read: int64(len(files)),
			EmptyDirs: 5, Droppings: 4}
		if r != want {
			t.Errorf("got %+v, want %+v", r, want)
		}
		for _, workers := range []int{1, 7} {
			if again := importInto(t, &s, dir, Options{portable: !portable, Workers: workers}); again != r {
				t.Errorf("with %d workers: got %+v, want %+v", workers, again, r)
			}
		}
	})
}

func TestImportManyFilesInOneDirectory(t *testing.T) {
	bothWays(t, func(t *testing.T, portable bool) {
		dir, want := t.TempDir(), map[string]string{}
		for i := range 3*share + 1 {
			want[fmt.Sprintf("f%d", i)] = fmt.Sprint(i)
		}
		for name, content := range want {
			put(t, dir, name, content)
		}
		var s cas.Memory
		r := importInto(t, &s, dir, Options{Workers: 4, portable: portable})
		same(t, contents(t, &s, r.ID, "", map[string]string{}), want)
	})
}

func TestImportEmptyDirectory(t *testing.T) {
	bothWays(t, func(t *testing.T, portable bool) {
		var s cas.Memory
		r := importInto(t, &s, t.TempDir(), Options{portable: portable})
		if r.ID != (cas.ID{Kind: cas.TreeKind, Digest: cas.EmptyTree}) || r.Dirs != 1 {
			t.Errorf("got %+v", r)
		}
		if n := len(entriesOf(t, &s, r.ID)); n != 0 {
			t.Errorf("%d entries", n)
		}
	})
}

func TestImportFile(t *testing.T) {
	dir := t.TempDir()
	putFiles(t, dir)
	for _, name := range []string{"README.md", "empty", "big", "exactly", "exactly+1"} {
		var s cas.Memory
		r := importInto(t, &s, filepath.Join(dir, name), Options{})
		want := Result{ID: cas.ID{Kind: cas.Blob, Digest: cas.Sum([]byte(files[name]))}, Files: 1,
			Bytes: int64(len(files[name])), Read: 1}
		if r != want {
			t.Errorf("%s: got %+v, want %+v", name, r, want)
		}
		if string(object(t, &s, r.ID)) != files[name] {
			t.Errorf("%s: other bytes were stored", name)
		}
	}
}

func TestImportAbsent(t *testing.T) {
	var s cas.Memory
	if _, err := tryImport(t.Context(), &s, filepath.Join(t.TempDir(), "no"), Options{}); !errors.Is(err,
		fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestImportSkip(t *testing.T) {
	bothWays(t, func(t *testing.T, portable bool) {
		dir := t.TempDir()
		for _, name := range []string{"a", "b/c", "b/d", "e/f"} {
			put(t, dir, name, name)
		}
		var s cas.Memory
		skip := func(path string, dir bool) bool { return path == "b/c" && !dir || path == "e" && dir }
		r := importInto(t, &s, dir, Options{Skip: skip, portable: portable})
		same(t, contents(t, &s, r.ID, "", map[string]string{}), map[string]string{"a": "a", "b/d": "b/d"})
		if r.Skipped != 2 {
			t.Errorf("%d skipped", r.Skipped)
		}
	})
}

func TestImportProgress(t *testing.T) {
	dir := t.TempDir()
	putFiles(t, dir)
	var s cas.Memory
	var files, bytes int64
	r := importInto(t, &s, dir, Options{Workers: 1, Progress: func(f, b int64) {
		if f < files || b < bytes {
			t.Errorf("from %d, %d back to %d, %d", files, bytes, f, b)
		}
		files, bytes = f, b
	}})
	if files != r.Files || bytes != r.Bytes {
		t.Errorf("progress ended at %d files, %d bytes; the result has %d, %d", files, bytes, r.Files, r.Bytes)
	}
}

func TestImportCancelled(t *testing.T) {
	bothWays(t, func(t *testing.T, portable bool) {
		dir := t.TempDir()
		putFiles(t, dir)
		for stop := range 12 {
			ctx, cancel := context.WithCancelCause(t.Context())
			var s cas.Memory
			reason, n := errors.New("stop"), 0
			_, err := tryImport(ctx, &s, dir, Options{Workers: 1, portable: portable, Progress: func(_, _ int64) {
				if n++; n > stop {
					cancel(reason)
				}
			}})
			if !errors.Is(err, reason) {
				t.Errorf("after %d: got %v", stop, err)
			}
		}
	})
}

// brokenBatch fails after some calls.
type brokenBatch struct {
	cas.Batch
	left int
}

var errBroken = errors.New("broken")

func (b *brokenBatch) Put(ctx context.Context, k cas.Kind, r io.Reader) (cas.Info, error) {
	if b.left--; b.left < 0 {
		return cas.Info{}, errBroken
	}
	return b.Batch.Put(ctx, k, r)
}

func (b *brokenBatch) PutBytes(ctx context.Context, k cas.Kind, p []byte) (cas.Digest, error) {
	if b.left--; b.left < 0 {
		return cas.Digest{}, errBroken
	}
	return b.Batch.PutBytes(ctx, k, p)
}

func TestImportReturnsTheBatchsError(t *testing.T) {
	dir := t.TempDir()
	putFiles(t, dir)
	for n := range len(files) + 11 {
		var s cas.Memory
		b, err := s.Batch(t.Context())
		must(t, err)
		if _, err := Import(t.Context(), &brokenBatch{b, n}, dir, Options{Workers: 1}); !errors.Is(err, errBroken) {
			t.Errorf("call %d: got %v", n, err)
		}
	}
}

func TestImportRefusesAllAtOnce(t *testing.T) {
	bothWays(t, func(t *testing.T, way bool) {
		dir := t.TempDir()
		put(t, dir, "fine", "")
		put(t, dir, "sub/also fine", "")
		bad := []string{"sub/a:b", "sub/deep/CON.txt", "trailing.", "x~1", "sub/deep/tab\there"}
		for _, name := range bad {
			put(t, dir, name, "")
		}
		must(t, os.Symlink("fine", filepath.Join(dir, "sub", "link")))
		must(t, os.Symlink(dir, filepath.Join(dir, "loop")))
		put(t, dir, "case/ReadMe", "")
		put(t, dir, "case/README", "")
		var s cas.Memory
		_, err := tryImport(t.Context(), &s, dir, Options{portable: way})
		refused, ok := errors.AsType[*RefusedError](err)
		if !ok {
			t.Fatalf("got %v", err)
		}
		got := map[string]bool{}
		for _, p := range refused.Problems {
			got[p.Path] = true
			if !strings.Contains(err.Error(), fmt.Sprintf("%q: ", p.Path)) {
				t.Errorf("the message lacks %q:\n%v", p.Path, err)
			}
		}
		for _, name := range append(bad, "sub/link", "loop") {
			if !got[name] {
				t.Errorf("%q is not among the problems:\n%v", name, err)
			}
		}
		if _, ok := errors.AsType[*portable.Error](err); !ok {
			t.Errorf("no *portable.Error in %v", err)
		}
		if k, ok := errors.AsType[*KindError](err); !ok || k.Kind != "symbolic link" {
			t.Errorf("no symbolic link in %v", err)
		}
	})
}

func TestImportRefusesNamesThatFoldToOne(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "sub/straße", "")
	put(t, dir, "sub/STRASSE", "")
	var s cas.Memory
	_, err := tryImport(t.Context(), &s, dir, Options{})
	refused, ok := errors.AsType[*RefusedError](err)
	if !ok || len(refused.Problems) != 1 || !strings.HasPrefix(refused.Problems[0].Path, "sub/") {
		t.Errorf("got %v", err)
	}
}

func TestImportBoundsProblems(t *testing.T) {
	dir := t.TempDir()
	for i := range 2*maxProblems + 1 {
		must(t, os.Symlink("x", filepath.Join(dir, fmt.Sprint(i))))
	}
	var s cas.Memory
	_, err := tryImport(t.Context(), &s, dir, Options{})
	refused, ok := errors.AsType[*RefusedError](err)
	if !ok || len(refused.Problems) != maxProblems || !refused.More || !strings.HasSuffix(err.Error(), "and more") {
		t.Errorf("got %v", err)
	}
}

func TestImportRefusesLongPaths(t *testing.T) {
	bothWays(t, func(t *testing.T, way bool) {
		dir := t.TempDir()
		part := strings.Repeat("d", 100)
		deep := filepath.Join(part, part, part, part, part, part, part, part, part)
		put(t, dir, filepath.ToSlash(filepath.Join(deep, strings.Repeat("f", 91))), "fits: 1000 bytes")
		var s cas.Memory
		importInto(t, &s, dir, Options{portable: way})
		put(t, dir, filepath.ToSlash(filepath.Join(deep, strings.Repeat("f", 92))), "doesn't")
		_, err := tryImport(t.Context(), &s, dir, Options{portable: way})
		if e, ok := errors.AsType[*portable.Error](err); !ok || e.Rule != "path-length" {
			t.Errorf("got %v", err)
		}
	})
}

// scripted returns its elements, one for each call.
type scripted []string

func (s *scripted) Read(p []byte) (int, error) {
	if len(*s) == 0 {
		return 0, io.EOF
	}
	n := copy(p, (*s)[0])
	*s = (*s)[1:]
	return n, nil
}

func TestReadSomeReadsWhatIsThere(t *testing.T) {
	for _, c := range []struct {
		parts scripted
		size  int64
		want  string
		left  int // parts that need not be read
	}{
		{scripted{"abc"}, 3, "abc", 0},
		{scripted{"abc", "never asked for"}, 3, "abc", 1},
		{scripted{"ab", "c"}, 3, "abc", 0},
		{scripted{"ab"}, 3, "ab", 0},
		{scripted{"abcd"}, 3, "abcd", 0},
		{scripted{"a", "bcd"}, 3, "abcd", 0},
		{scripted{}, 3, "", 0},
		{scripted{"abcdefgh", "ij"}, 3, "abcdefgh", 1},
	} {
		buf := make([]byte, 8)
		parts := append(scripted{}, c.parts...)
		n, err := readSome(&parts, buf, c.size)
		if err != nil || string(buf[:n]) != c.want || len(parts) != c.left {
			t.Errorf("%q of size %d: got %q, %v, %d parts left", c.parts, c.size, buf[:n], err, len(parts))
		}
	}
}

// endless is a file that keeps growing.
type endless struct{ read int64 }

func (e *endless) Read(p []byte) (int, error) { e.read += int64(len(p)); return len(p), nil }

func TestStreamEndsWhereAFileKeepsGrowing(t *testing.T) {
	var s cas.Memory
	b, err := s.Batch(t.Context())
	must(t, err)
	m := &importer{ctx: t.Context(), batch: discard{b}}
	var e endless
	err = m.stream(&dir{}, &file{name: "log"}, &e, 1<<20)
	if fault.CodeOf(err) != fault.Conflict || !strings.HasPrefix(err.Error(), `"log" changed`) ||
		!errors.Is(err, errGrowing) {
		t.Errorf("got %v", err)
	}
	if limit := growth(1<<20) + 1<<20; e.read > limit {
		t.Errorf("%d bytes were read", e.read)
	}
}

// discard is a batch that keeps nothing of what it reads.
type discard struct{ cas.Batch }

func (discard) Put(_ context.Context, k cas.Kind, r io.Reader) (cas.Info, error) {
	n, err := io.Copy(io.Discard, r)
	return cas.Info{ID: cas.ID{Kind: k}, Size: n}, err
}

// TestImportWhileFilesChange: whatever is stored under a digest has that digest, and each file is one of the
// states that it was in or a prefix or mixture of them, never bytes of another file.
func TestImportWhileFilesChange(t *testing.T) {
	bothWays(t, func(t *testing.T, way bool) {
		dir := t.TempDir()
		for i := range 8 {
			put(t, dir, fmt.Sprintf("%d", i), strings.Repeat("a", 1000*i))
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r := rand.New(rand.NewPCG(1, 2))
			for ctx.Err() == nil {
				path := filepath.Join(dir, fmt.Sprint(r.IntN(8)))
				os.WriteFile(path, bytes.Repeat([]byte("b"), r.IntN(600<<10)), 0o644)
			}
		}()
		cache := statcache.Open(filepath.Join(t.TempDir(), "c"), statcache.Options{})
		rounds := 40
		if testing.Short() {
			rounds = 12
		}
		for range rounds {
			var s cas.Memory
			r := importInto(t, &s, dir, Options{portable: way, Cache: cache})
			for name, content := range contents(t, &s, r.ID, "", map[string]string{}) {
				if strings.Trim(content, "ab") != "" {
					t.Errorf("%s has other bytes", name)
				}
			}
		}
		stop()
		<-ended
	})
}

// The files of each directory are told, sorted; and each file that is read is looked at as it is stored.
func TestImportTells(t *testing.T) {
	bothWays(t, func(t *testing.T, portable bool) {
		dir, want := t.TempDir(), map[string]string{}
		for _, name := range []string{"a", "a-b/x", "a.b", "ab/y", "b!", "b/c", "b/c.d", "b/c-/z", "b/d/e/f", "b0",
			"b1", "c/only", "z/deep/er", "z.txt"} {
			want[name] = "the bytes of " + name
		}
		for i := range 3 * share {
			want[fmt.Sprintf("many/%04d", i)] = fmt.Sprint(i)
		}
		want["long"] = strings.Repeat("0123456789", readWhole/4)
		for name, text := range want {
			put(t, dir, name, text)
		}
		var mu sync.Mutex
		var files []File
		seen := map[string]string{}
		var s cas.Memory
		r := importInto(t, &s, dir, Options{portable: portable, Files: func(of []File) {
			mu.Lock()
			defer mu.Unlock()
			files = append(files, of...)
			if !slices.IsSortedFunc(of, func(a, b File) int { return strings.Compare(a.Path, b.Path) }) {
				t.Errorf("not sorted: %v", of)
			}
			for _, f := range of {
				if path.Dir(f.Path) != path.Dir(of[0].Path) {
					t.Errorf("%s comes with %s", f.Path, of[0].Path)
				}
			}
		}, Look: func(path string, r io.Reader) error {
			b, err := io.ReadAll(r)
			mu.Lock()
			defer mu.Unlock()
			seen[path] = string(b)
			return err
		}})
		same(t, seen, want)
		for _, f := range files {
			if !f.Read || f.Digest != cas.Sum([]byte(want[f.Path])) || f.Name != filepath.Base(f.Path) {
				t.Errorf("%+v", f)
			}
		}
		if len(files) != len(want) || r.Files != int64(len(want)) {
			t.Errorf("%d files, want %d", len(files), len(want))
		}
	})
}
