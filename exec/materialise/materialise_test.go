//go:build unix

package materialise

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
)

// TestMain is also the program that other processes are made of: it holds a copy until it is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("MATERIALISE_TEST_HOLD"); dir != "" {
		hold(dir)
		return
	}
	os.Exit(m.Run())
}

func hold(dir string) {
	c, err := Open(dir)
	if err != nil {
		panic(err)
	}
	src := &store{}
	cp, err := c.Copy(context.Background(), src, sample(src))
	if err != nil {
		panic(err)
	}
	s, err := c.Scratch(context.Background())
	if err != nil {
		panic(err)
	}
	fmt.Println(cp.Dir)
	fmt.Println(s.Dir)
	io.Copy(io.Discard, os.Stdin)
	runtime.KeepAlive(cp) // otherwise the garbage collector closes it, with its lock
	runtime.KeepAlive(s)
}

// A store is a cas.Memory that counts and can lie.
type store struct {
	cas.Memory
	mu   sync.Mutex
	gets int
	lie  func(id cas.ID, b []byte) []byte
}

func (s *store) Get(ctx context.Context, id cas.ID) (cas.Object, error) {
	o, err := s.Memory.Get(ctx, id)
	if err != nil {
		return o, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gets++; s.lie == nil || id.Kind != cas.Blob {
		return o, nil
	}
	b, err := io.ReadAll(o)
	if err != nil {
		return o, err
	}
	return cas.Object{Info: o.Info, ReadCloser: io.NopCloser(bytes.NewReader(s.lie(id, b)))}, nil
}

// plainStore hides that a store has a way of its own.
type plainStore struct{ cas.Getter }

func put(src cas.Putter, content string) cas.Digest {
	i, err := src.Put(context.Background(), cas.Blob, strings.NewReader(content))
	if err != nil {
		panic(err)
	}
	return i.Digest
}

func file(src cas.Putter, path, content string, m cas.Mode) Part {
	return Part{Path: path, ID: cas.ID{Kind: cas.Blob, Digest: put(src, content)}, Mode: m, Size: int64(len(content))}
}

func tree(src cas.Putter, entries ...cas.Entry) cas.ID {
	b, err := cas.AppendTree(nil, entries)
	if err != nil {
		panic(err)
	}
	i, err := src.Put(context.Background(), cas.TreeKind, bytes.NewReader(b))
	if err != nil {
		panic(err)
	}
	return i.ID
}

var long = strings.Repeat("0123456789abcdef", inMemory/16+1)

// sample is a tree, a file beside it, and the same bytes several times.
func sample(src cas.Putter) []Part {
	lib := tree(src, cas.Entry{Name: "__init__.py", Mode: cas.File, Digest: put(src, ""), Size: 0},
		cas.Entry{Name: "long.bin", Mode: cas.File, Digest: put(src, long), Size: int64(len(long))})
	root := tree(src, cas.Entry{Name: "lib", Mode: cas.Dir, Digest: lib.Digest},
		cas.Entry{Name: "run.sh", Mode: cas.Exec, Digest: put(src, "#!/bin/sh\n"), Size: 10})
	return []Part{{Path: "project", ID: root}, file(src, "project/lib/__init__.py", "", cas.File),
		file(src, "std/launch.py", "launch", cas.File),
		file(src, "std/long.bin", long, cas.Exec)}
}

const sampleTree = `drwx------ .
-r-------- package.json 3
dr-x------ tree
dr-x------ tree/project
dr-x------ tree/project/lib
-r-------- tree/project/lib/__init__.py 0
-r-------- tree/project/lib/long.bin 262160
-r-x------ tree/project/run.sh 10
dr-x------ tree/std
-r-------- tree/std/launch.py 6
-r-x------ tree/std/long.bin 262160
`

// sampleKey is the key by the words of the package comment.
func sampleKey() string {
	text := "materialise/1\n"
	for _, line := range [][2]string{{"project/lib/__init__.py file", ""}, {"project/lib/long.bin file", long},
		{"project/run.sh exec", "#!/bin/sh\n"},
		{"std/launch.py file", "launch"}, {"std/long.bin exec", long}} {
		text += line[0] + " " + cas.Sum([]byte(line[1])).String() + "\n"
	}
	return strings.TrimPrefix(cas.Sum([]byte(text)).String(), "blake3:")
}

func listing(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		fmt.Fprint(&b, info.Mode(), " ", rel)
		if info.Mode().IsRegular() {
			fmt.Fprint(&b, " ", info.Size())
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func open(t testing.TB) *Cache {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	c, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := removeAll(dir); err != nil {
			t.Error(err)
		}
	})
	return c
}

func get(t testing.TB, c *Cache, src cas.Getter, parts []Part) *Copy {
	t.Helper()
	cp, err := c.Copy(context.Background(), src, parts)
	if err != nil {
		t.Fatal(err)
	}
	return cp
}

func closed(t testing.TB, cs ...io.Closer) {
	t.Helper()
	for _, c := range cs {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func names(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestCopy(t *testing.T) {
	for name, wrap := range map[string]func(*store) cas.Getter{
		"visited": func(s *store) cas.Getter { return s }, "got": func(s *store) cas.Getter { return plainStore{s} },
	} {
		t.Run(name, func(t *testing.T) {
			c, src := open(t), &store{}
			parts := sample(src)
			cp := get(t, c, wrap(src), parts)
			if got := listing(t, cp.Root); got != sampleTree {
				t.Errorf("got\n%s", got)
			}
			if cp.Key != sampleKey() || !strings.HasPrefix(cp.Key, "49356e7fb4b76d0b") || cp.Reused ||
				cp.Damage != nil || cp.Files != 5 || cp.Bytes != 2*int64(len(long))+16 ||
				cp.Dir != filepath.Join(cp.Root, "tree") {
				t.Errorf("%+v", cp)
			}
			for path, want := range map[string]string{"project/run.sh": "#!/bin/sh\n", "project/lib/long.bin": long,
				"std/long.bin": long, "std/launch.py": "launch"} {
				if b, err := os.ReadFile(filepath.Join(cp.Dir, path)); err != nil || string(b) != want {
					t.Errorf("%s has %d bytes, %v", path, len(b), err)
				}
			}
			slices.Reverse(parts)
			again := get(t, c, wrap(src), parts)
			if !again.Reused || again.Root != cp.Root {
				t.Errorf("%+v", again)
			}
			closed(t, cp, again)
			if n := names(t, c.at(making)); len(n) != 0 {
				t.Error(n)
			}
		})
	}
}

// A copy is used again whatever its names are: the files of "a-b" come before those of "a", and its name after it.
func TestReuseOfAnyNames(t *testing.T) {
	cache, src := open(t), &store{}
	var parts []Part
	for _, name := range []string{"ajv", "ajv-formats", "ajv.js/x", "ajv0", "ajv-/y"} {
		parts = append(parts, file(src, "std/"+name+"/index.js", name, cas.File))
	}
	closed(t, get(t, cache, src, parts))
	cp := get(t, cache, src, parts)
	defer closed(t, cp)
	if !cp.Reused || cp.Damage != nil {
		t.Errorf("reused %v, %v", cp.Reused, cp.Damage)
	}
}

// Whatever was done to a copy, nothing runs from it.
func TestDamage(t *testing.T) {
	swap := func(path string, b string) func(string) error {
		return func(dir string) error {
			path := filepath.Join(dir, path)
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			os.Chmod(path, 0o600)
			if err := os.WriteFile(path, []byte(b), 0o600); err != nil {
				return err
			}
			return os.Chmod(path, info.Mode().Perm())
		}
	}
	in := func(path string, do func(string) error) func(string) error {
		return func(dir string) error {
			parent := filepath.Join(dir, filepath.Dir(path))
			info, err := os.Stat(parent)
			if err != nil {
				return err
			}
			os.Chmod(parent, 0o700)
			if err := do(filepath.Join(dir, path)); err != nil {
				return err
			}
			return os.Chmod(parent, info.Mode().Perm())
		}
	}
	for name, c := range map[string]struct {
		do   func(dir string) error
		want string
	}{
		"bytes": {swap("tree/project/run.sh", "#!/bin/zz\n"), `"tree/project/run.sh" has different content: `},
		"length": {swap("tree/project/run.sh", "#!/bin/sh\n\n"),
			`"tree/project/run.sh" is now -r-x------ with 11 bytes`},
		"empty": {swap("tree/project/lib/__init__.py", "x"),
			`"tree/project/lib/__init__.py" is now -r-------- with 1 bytes`},
		"scope": {swap("package.json", "{1}"), `"package.json" has different content: `},
		"mode": {func(d string) error {
			return os.Chmod(d+"/tree/std/launch.py", 0o600)
		}, `"tree/std/launch.py" is now -rw------- with 6 bytes`},
		"setuid": {func(d string) error {
			return os.Chmod(d+"/tree/std/long.bin", 0o500|fs.ModeSetuid)
		}, `"tree/std/long.bin" is now ur-x------ with 262160 bytes`},
		"directory": {func(d string) error { return os.Chmod(d+"/tree/std", 0o700) }, `"tree/std" is now drwx------`},
		"root":      {func(d string) error { return os.Chmod(d, 0o755) }, `"." is now drwxr-xr-x`},
		"added": {in("tree/std/__pycache__", func(p string) error {
			return os.Mkdir(p, 0o500)
		}), `"tree/std" has missing or additional entries`},
		"added last": {in("tree/std/zz.py", func(p string) error {
			return os.WriteFile(p, nil, 0o400)
		}), `"tree/std" has missing or additional entries`},
		"top": {in("node_modules", func(p string) error {
			return os.Mkdir(p, 0o500)
		}), `"." has missing or additional entries`},
		"removed": {in("tree/std/launch.py", os.Remove), `"tree/std" has missing or additional entries`},
		"link": {in("tree/std/launch.py", func(p string) error {
			os.Remove(p)
			return os.Symlink("/etc/passwd", p)
		}), `"tree/std/launch.py" is now Lrwxrwxrwx with 11 bytes`},
		"linked dir": {in("tree/project/lib", func(p string) error {
			os.Rename(p, p+"2")
			return os.Symlink("lib2", p)
		}), `has `},
		"fifo": {in("tree/std/launch.py", func(p string) error {
			os.Remove(p)
			return syscall.Mkfifo(p, 0o400)
		}), `"tree/std/launch.py" is now pr-------- with 0 bytes`},
		"file": {in("tree", func(p string) error {
			removeAll(p)
			return os.WriteFile(p, nil, 0o400)
		}), `"tree" is now -r--------`},
		"nothing": {in("tree", removeAll), `"." has missing or additional entries`},
	} {
		t.Run(name, func(t *testing.T) {
			cache, src := open(t), &store{}
			parts := sample(src)
			first := get(t, cache, src, parts)
			closed(t, first)
			if err := c.do(first.Root); err != nil {
				t.Fatal(err)
			}
			cp := get(t, cache, src, parts)
			damage, ok := errors.AsType[*damageError](cp.Damage)
			if !ok || !strings.Contains(damage.Error(), c.want) {
				t.Errorf("got %v, want %s", cp.Damage, c.want)
			}
			if got := listing(t, cp.Root); got != sampleTree || cp.Reused || cp.Root != first.Root {
				t.Errorf("%+v\n%s", cp, got)
			}
			next := get(t, cache, src, parts)
			if !next.Reused || next.Damage != nil {
				t.Errorf("%+v", next)
			}
			closed(t, cp, next)
		})
	}
}

// While others run from a damaged copy it is left to them.
func TestDamageInUse(t *testing.T) {
	c, src := open(t), &store{}
	parts := sample(src)
	user := get(t, c, src, parts)
	os.Chmod(user.Dir+"/std", 0o700)
	cp := get(t, c, src, parts)
	if cp.Damage == nil || cp.Root == user.Root || listing(t, cp.Root) != sampleTree {
		t.Errorf("%+v", cp)
	}
	// Nor is this one taken away.
	if r, err := c.Clean(context.Background(), time.Now().Add(time.Hour), Limits{}); err != nil || r.InUse != 1 ||
		r.Removed != 0 {
		t.Errorf("%+v %v", r, err)
	}
	closed(t, user, cp)
	if !isAbsent(cp.Root) {
		t.Error("the copy for one run is left")
	}
	next := get(t, c, src, parts)
	if next.Damage == nil || next.Root != user.Root || listing(t, next.Root) != sampleTree {
		t.Errorf("%+v", next)
	}
	closed(t, next)
}

// A store that lies gets nothing onto the disk.
func TestLies(t *testing.T) {
	for name, c := range map[string]struct {
		lie  func(id cas.ID, b []byte) []byte
		want string
	}{
		"other bytes": {func(_ cas.ID, b []byte) []byte { b = bytes.Clone(b); b[0] ^= 1; return b }, "other bytes"},
		"short":       {func(_ cas.ID, b []byte) []byte { return b[:len(b)-1] }, io.ErrUnexpectedEOF.Error()},
		"longer":      {func(_ cas.ID, b []byte) []byte { return append(b, 'x') }, cas.ErrTooLong.Error()},
	} {
		for _, size := range []int{10, inMemory + 1} {
			cache, src := open(t), &store{lie: c.lie}
			content := strings.Repeat("x", size)
			parts := []Part{file(src, "a", content, cas.File), file(src, "b", content, cas.File)}
			_, err := cache.Copy(context.Background(), plainStore{src}, parts)
			damaged, ok := errors.AsType[*cas.DamagedError](err)
			if !ok {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if damaged.Err != nil && damaged.Err.Error() != c.want {
				t.Errorf("%s: %v", name, err)
			}
			if part, ok := errors.AsType[*PartError](err); !ok || part.Path != "a" {
				t.Errorf("%s: %v", name, err)
			}
			if a, b := names(t, cache.at(copies)), names(t, cache.at(making)); len(a)+len(b) > 0 {
				t.Errorf("%s: %q %q are left", name, a, b)
			}
			src.lie = nil
			closed(t, get(t, cache, plainStore{src}, parts))
		}
	}
}

// TestLongOnce: a store is asked once for what is in several places, and where it was written isn't believed either.
func TestLongOnce(t *testing.T) {
	cache, src := open(t), &store{}
	parts := []Part{file(src, "a", long, cas.File), file(src, "b", long, cas.Exec), file(src, "c", long, cas.File)}
	cp := get(t, cache, plainStore{src}, parts)
	defer closed(t, cp)
	if src.gets != 1 {
		t.Errorf("got %d times", src.gets)
	}
	for name, want := range map[string]os.FileMode{"a": 0o400, "b": 0o500, "c": 0o400} {
		path := filepath.Join(cp.Dir, name)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != want || string(b) != long {
			t.Errorf("%s has %d bytes, %v, %v", name, len(b), info.Mode(), err)
		}
	}
	dir := t.TempDir()
	w := &writer{ctx: t.Context(), tree: dir, plan: &plan{files: map[string]cas.Entry{}}}
	id, size := parts[0].ID, int64(len(long))
	if err := w.again("a", "b", id, size); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what isn't there was written: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte(long[1:]+"x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok := errors.AsType[*cas.DamagedError](w.again("a", "b", id, size)); !ok {
		t.Error("other bytes were written again")
	}
}

func TestRefused(t *testing.T) {
	src := &store{}
	ok := file(src, "a", "x", cas.File)
	change := func(do func(*Part)) []Part {
		p := ok
		do(&p)
		return []Part{p}
	}
	cached := tree(src, cas.Entry{Name: "x", Mode: cas.File, Digest: put(src, "x"), Size: 1})
	missing := cas.ID{Kind: cas.TreeKind, Digest: cas.Sum([]byte("none"))}
	for name, c := range map[string]struct {
		parts []Part
		want  string
	}{
		"nothing":  {nil, "no files to copy"},
		"empty":    {[]Part{{ID: cas.ID{Kind: cas.TreeKind, Digest: cas.EmptyTree}}}, ""},
		"no path":  {change(func(p *Part) { p.Path = "" }), `"": is not a file with a path, a mode and a size`},
		"no mode":  {change(func(p *Part) { p.Mode = 0 }), `"a": is not a file with a path, a mode and a size`},
		"a dir":    {change(func(p *Part) { p.Mode = cas.Dir }), `"a": is not a file with a path, a mode and a size`},
		"negative": {change(func(p *Part) { p.Size = -1 }), `"a": is not a file with a path, a mode and a size`},
		"document": {change(func(p *Part) { p.ID.Kind = cas.Document }), `"a": document`},
		"up":       {change(func(p *Part) { p.Path = "../a" }), `"../a": `},
		"absolute": {change(func(p *Part) { p.Path = "/a" }), `"/a": `},
		"git":      {change(func(p *Part) { p.Path = ".git/a" }), `".git/a": `},
		"pycache":  {change(func(p *Part) { p.Path = "x/__pycache__/a" }), `is never part of a tree`},
		"modules": {[]Part{{Path: "node_modules", ID: cached}},
			`"node_modules": path "node_modules" is never part of a tree`},
		"below":   {[]Part{ok, file(src, "a/b", "", cas.File)}, `"a/b"`},
		"case":    {[]Part{ok, file(src, "A", "", cas.File)}, `"A"`},
		"twice":   {[]Part{ok, file(src, "a", "y", cas.File)}, `"a": two different files have this path`},
		"modes":   {[]Part{ok, file(src, "a", "x", cas.Exec)}, `"a": two different files have this path`},
		"size":    {change(func(p *Part) { p.Size = 2 }), `"a": `},
		"sizes":   {[]Part{ok, {"b", ok.ID, cas.File, 2}}, `"b": `},
		"missing": {[]Part{{Path: "t", ID: missing}}, `"t": `},
		"no blob": {change(func(p *Part) { p.ID.Digest = missing.Digest }), ""},
		"bytes":   {[]Part{{"a", ok.ID, cas.File, MaxBytes}, ok}, `"a": two different files have this path`},
		"too much": {[]Part{{"a", ok.ID, cas.File, MaxBytes}, {"b", ok.ID, cas.File, MaxBytes}},
			`the files to copy exceed 8589934592 bytes`},
	} {
		cache := open(t)
		cp, err := cache.Copy(context.Background(), src, c.parts)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v", name, cp, err)
		}
		if n := names(t, cache.at(making)); len(n) != 0 {
			t.Errorf("%s: %q is left", name, n)
		}
	}
	many := make([]cas.Entry, 1<<10)
	for i := range many {
		many[i] = cas.Entry{Name: fmt.Sprintf("f%04d", i), Mode: cas.File, Digest: ok.ID.Digest, Size: 1}
	}
	dir := tree(src, many...)
	for i := range many {
		many[i] = cas.Entry{Name: fmt.Sprintf("d%04d", i), Mode: cas.Dir, Digest: dir.Digest}
	}
	if _, err := open(t).Copy(context.Background(), src, []Part{{ID: tree(src, many...)}}); err == nil ||
		err.Error() != `"": the files to copy exceed 262144 files` {
		t.Error(err)
	}
	// An object that went away meanwhile.
	gone := &store{}
	part := file(gone, "a", "gone", cas.File)
	if _, err := open(t).Copy(context.Background(), plainStore{src}, []Part{part}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	} else if p, ok := errors.AsType[*PartError](err); !ok || p.Path != "a" {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("stopped"))
	for _, parts := range [][]Part{{ok}, sample(src)} {
		if _, err := open(t).Copy(ctx, plainStore{src}, parts); err == nil || err.Error() != "stopped" {
			t.Error(err)
		}
	}
}

// A context that ends in the midst of writing leaves nothing.
func TestCancelled(t *testing.T) {
	c, src := open(t), &store{}
	parts := sample(src)
	for at := range 6 {
		ctx, cancel := context.WithCancel(context.Background())
		seen := 0
		src.lie = func(_ cas.ID, b []byte) []byte {
			if seen++; seen > at {
				cancel()
			}
			return b
		}
		cp, err := c.Copy(ctx, plainStore{src}, parts)
		if err == nil {
			closed(t, cp)
			break
		}
		if !errors.Is(err, context.Canceled) || len(names(t, c.at(making)))+len(names(t, c.at(copies))) > 0 {
			t.Errorf("%d: %v", at, err)
		}
		cancel()
	}
}

// TestPackages: what Node looks for is in a copy of packages, with the rules that hold elsewhere.
func TestPackages(t *testing.T) {
	src, cache := new(cas.Memory), open(t)
	parts := []Part{file(src, "node_modules/a/index.js", "a", cas.File),
		file(src, "node_modules/a/node_modules/b/run", "b", cas.Exec)}
	for _, reused := range []bool{false, true} {
		cp, err := cache.Packages(t.Context(), src, parts)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(cp.Dir, "node_modules", "a", "node_modules", "b", "run"))
		if err != nil || string(b) != "b" || cp.Reused != reused {
			t.Errorf("%q, reused %v: %v", b, cp.Reused, err)
		}
		if err := cp.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, path := range []string{"node_modules", "Node_Modules/x", "node_modules/.git/x", "node_modules/../x",
		"node_modules/__pycache__/x"} {
		_, err := cache.Packages(t.Context(), src, []Part{file(src, path, "x", cas.File)})
		if path == "node_modules" {
			if err != nil {
				t.Errorf("a file of that name alone: %v", err)
			}
			continue
		}
		if err == nil {
			t.Errorf("%q is taken", path)
		}
	}
	// Two that are one where case doesn't count, below it and beside it.
	for _, other := range []string{"node_modules/A/index.js", "node_modules/a/INDEX.js"} {
		if _, err := cache.Packages(t.Context(), src, append(parts, file(src, other, "x", cas.File))); err == nil {
			t.Errorf("%q is taken beside %q", other, parts[0].Path)
		}
	}
}
