package worktree

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
	"sync/atomic"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/statcache"
)

// onDisk returns the files of a directory as put takes them, and checks that nothing else is beside it.
func onDisk(t testing.TB, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		fi, err := e.Info()
		must(t, err)
		rel, err := filepath.Rel(dir, path)
		must(t, err)
		name := filepath.ToSlash(rel)
		if fi.Mode()&0o100 != 0 {
			name += "*"
		}
		b, err := os.ReadFile(path)
		must(t, err)
		got[name] = string(b)
		return nil
	}))
	clean(t, filepath.Dir(dir))
	return got
}

// clean wants no directory of an unfinished checkout in dir.
func clean(t testing.TB, dir string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(dir, tmpPrefix+"*"))
	must(t, err)
	if len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// storeOf returns a store that holds the tree of files.
func storeOf(t testing.TB, files map[string]string) (*cas.Memory, cas.ID) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		put(t, dir, name, content)
	}
	s := new(cas.Memory)
	return s, importInto(t, s, dir, Options{}).ID
}

// getter hides what else a store can do.
type getter struct{ cas.Getter }

func TestCheckout(t *testing.T) {
	bothWays(t, func(t *testing.T, way bool) {
		s, root := storeOf(t, files)
		var size int64
		for _, content := range files {
			size += int64(len(content))
		}
		for i, src := range []cas.Getter{s, getter{s}} {
			dst := filepath.Join(t.TempDir(), "out")
			var f, b atomic.Int64
			r, err := Checkout(t.Context(), src, root, dst,
				CheckoutOptions{portable: way, Progress: func(files, bytes int64) {
					f.Store(max(files, f.Load()))
					b.Store(max(bytes, b.Load()))
				}})
			must(t, err)
			if want := (CheckoutResult{Files: int64(len(files)), Dirs: 11, Bytes: size}); r != want {
				t.Errorf("source %d: got %+v, want %+v", i, r, want)
			}
			same(t, onDisk(t, dst), files)
			if again := importInto(t, s, dst, Options{}); again.ID != root {
				t.Errorf("source %d: imported again it is %v", i, again.ID)
			}
		}
	})
}

func TestCheckoutEmptyTree(t *testing.T) {
	var s cas.Memory
	root := importInto(t, &s, t.TempDir(), Options{}).ID
	dst := filepath.Join(t.TempDir(), "out")
	_, err := Checkout(t.Context(), &s, root, dst, CheckoutOptions{})
	must(t, err)
	if names, err := os.ReadDir(dst); err != nil || len(names) > 0 {
		t.Errorf("%v, %v", names, err)
	}
}

// TestCheckoutManyWindows has more files and directories than are worked on at once.
func TestCheckoutManyWindows(t *testing.T) {
	var s cas.Memory
	b, err := s.Batch(t.Context())
	must(t, err)
	putBytes := func(k cas.Kind, data []byte) cas.Digest {
		d, err := b.PutBytes(t.Context(), k, data)
		must(t, err)
		return d
	}
	tree := func(entries ...cas.Entry) cas.Digest {
		data, err := cas.AppendTree(nil, entries)
		must(t, err)
		return putBytes(cas.TreeKind, data)
	}
	var root []cas.Entry
	for i := range 60 {
		x := putBytes(cas.Blob, []byte(fmt.Sprint(i)))
		var in []cas.Entry
		for j := range 12 {
			in = append(in, cas.Entry{Name: fmt.Sprintf("%02d", j), Mode: cas.File, Digest: x,
				Size: int64(len(fmt.Sprint(i)))})
		}
		sub := tree(in...)
		root = append(root, cas.Entry{Name: fmt.Sprintf("%03d", i), Mode: cas.Dir,
			Digest: tree(cas.Entry{Name: "in", Mode: cas.Dir, Digest: sub})})
	}
	id := cas.ID{Kind: cas.TreeKind, Digest: tree(root...)}
	must(t, b.Commit(t.Context()))
	bothWays(t, func(t *testing.T, way bool) {
		dst := filepath.Join(t.TempDir(), "out")
		r, err := Checkout(t.Context(), &s, id, dst, CheckoutOptions{portable: way, windowFiles: 50, windowDirs: 9})
		must(t, err)
		if r.Files != 12*60 || r.Dirs != 2*60+1 {
			t.Errorf("%+v", r)
		}
		if again := importInto(t, &s, dst, Options{}); again.ID != id {
			t.Errorf("imported again it is %v", again.ID)
		}
	})
}

func TestCheckoutDestinations(t *testing.T) {
	s, root := storeOf(t, map[string]string{"a": "new", "d/b": "new"})
	for _, c := range []struct {
		name  string
		made  func(dst string)
		force bool
		ok    bool
		hint  bool // DestinationError.Force
	}{
		{"absent", func(string) {}, false, true, false},
		{"absent, forced", func(string) {}, true, true, false},
		{"empty", func(dst string) { put(t, dst, "./", "") }, false, true, false},
		{"not empty", func(dst string) { put(t, dst, "old/x", "old") }, false, false, true},
		{"not empty, forced", func(dst string) {
			put(t, dst, "old/x", "old")
			put(t, dst, "a", "old")
		}, true, true, false},
		{"file", func(dst string) { must(t, os.WriteFile(dst, []byte("old"), 0o644)) }, false, false, false},
		{"file, forced", func(dst string) { must(t, os.WriteFile(dst, []byte("old"), 0o644)) }, true, false, false},
		{"link", func(dst string) { must(t, os.Symlink(t.TempDir(), dst)) }, false, false, false},
		{"link, forced", func(dst string) { must(t, os.Symlink(t.TempDir(), dst)) }, true, false, false},
		{"dangling link", func(dst string) { must(t, os.Symlink("nowhere", dst)) }, true, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, way bool) {
				dst := filepath.Join(t.TempDir(), "out")
				c.made(dst)
				before, _ := os.Lstat(dst)
				_, err := Checkout(t.Context(), s, root, dst, CheckoutOptions{Force: c.force, portable: way})
				clean(t, filepath.Dir(dst))
				if c.ok {
					must(t, err)
					same(t, onDisk(t, dst), map[string]string{"a": "new", "d/b": "new"})
					return
				}
				if d, ok := errors.AsType[*DestinationError](err); !ok || d.Force != c.hint || d.Path != dst {
					t.Errorf("got %v", err)
				}
				if after, _ := os.Lstat(dst); !os.SameFile(before, after) {
					t.Error("it was replaced")
				}
			})
		})
	}
}

func TestCheckoutSweeps(t *testing.T) {
	s, root := storeOf(t, files)
	dir := t.TempDir()
	other, err := openSite(filepath.Join(dir, "other"), CheckoutOptions{})
	must(t, err)
	put(t, dir, other.tmp+"/tree/lib/half", "x")
	put(t, dir, tmpPrefix+"0123456789abcdef/tree/half", "x") // its lock was removed first, or not yet made
	put(t, dir, tmpPrefix+"0123456789abcde0/lock", "")
	put(t, dir, tmpPrefix+"0123456789abcde1/./", "")
	put(t, dir, tmpPrefix+"0123456789abcde2/lock/./", "") // where files can't be locked
	put(t, dir, tmpPrefix+"build-0123456789/file", "another's")
	left := func(dst string) (names []string) {
		_, err := Checkout(t.Context(), s, root, filepath.Join(dir, dst), CheckoutOptions{})
		must(t, err)
		names, err = filepath.Glob(filepath.Join(dir, tmpPrefix+"*"))
		must(t, err)
		for i := range names {
			names[i] = strings.TrimPrefix(filepath.Base(names[i]), tmpPrefix)
		}
		return names
	}
	stay := []string{"0123456789abcde2", "build-0123456789"}
	want := append([]string{strings.TrimPrefix(other.tmp, tmpPrefix)}, stay...)
	slices.Sort(want)
	if names := left("one"); !slices.Equal(names, want) {
		t.Errorf("beside one that goes on there is %q, not %q", names, want)
	}
	// As the system does it for a process that is killed.
	must(t, errors.Join(other.lock.Close(), other.target.close(), other.parent.Close()))
	if names := left("two"); !slices.Equal(names, stay) {
		t.Errorf("after one that was killed there is %q, not %q", names, stay)
	}
}

// TestCheckoutKilledWhileItCleansUp stops removing at each of its steps.
func TestCheckoutKilledWhileItCleansUp(t *testing.T) {
	s, root := storeOf(t, files)
	for _, gone := range []string{"tree/a", "tree", "lock", ""} {
		dir := t.TempDir()
		killed, err := openSite(filepath.Join(dir, "killed"), CheckoutOptions{})
		must(t, err)
		put(t, dir, killed.tmp+"/tree/a", "x")
		put(t, dir, killed.tmp+"/tree/b", "x")
		must(t, os.RemoveAll(filepath.Join(dir, killed.tmp, "tree/a")))
		for _, name := range []string{"tree", "lock", ""} {
			if gone == "tree/a" {
				break
			}
			must(t, os.RemoveAll(filepath.Join(dir, killed.tmp, name)))
			if name == gone {
				break
			}
		}
		must(t, errors.Join(killed.lock.Close(), killed.target.close(), killed.parent.Close()))
		_, err = Checkout(t.Context(), s, root, filepath.Join(dir, "out"), CheckoutOptions{})
		must(t, err)
		clean(t, dir)
	}
}

// TestCheckoutsBesideEachOther has checkouts sweep while others begin.
func TestCheckoutsBesideEachOther(t *testing.T) {
	s, root := storeOf(t, map[string]string{"a": "new", "d/b": "new"})
	dir := t.TempDir()
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 10 {
				if _, err := Checkout(t.Context(), s, root, filepath.Join(dir, fmt.Sprint(i, "-", j)),
					CheckoutOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	clean(t, dir)
	for i := range 16 {
		for j := range 10 {
			same(t, onDisk(t, filepath.Join(dir, fmt.Sprint(i, "-", j))), map[string]string{"a": "new", "d/b": "new"})
		}
	}
}

func TestCheckoutForbidden(t *testing.T) {
	s, root := storeOf(t, map[string]string{"a": "new"})
	home := filepath.Join(t.TempDir(), "home", "user")
	put(t, home, "precious", "old")
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(filepath.Dir(home), link))
	slash := filepath.VolumeName(home) + string(filepath.Separator)
	for _, dst := range []string{slash, home, filepath.Dir(home), filepath.Join(link, "user"),
		filepath.Join(home, "..", "user")} {
		for _, name := range []string{home, filepath.Join(link, "user")} {
			_, err := Checkout(t.Context(), s, root, dst, CheckoutOptions{Force: true, Forbidden: []string{"", name}})
			if _, ok := errors.AsType[*DestinationError](err); !ok {
				t.Errorf("%q: got %v", dst, err)
			}
		}
	}
	_, err := Checkout(t.Context(), s, root, filepath.Join(home, "below"), CheckoutOptions{Forbidden: []string{home}})
	must(t, err)
	same(t, onDisk(t, home), map[string]string{"precious": "old", "below/a": "new"})
}

func TestCheckoutClosed(t *testing.T) {
	s, root := storeOf(t, map[string]string{"a": "new"})
	dir := t.TempDir()
	shut := filepath.Join(dir, "data", "store")
	put(t, shut, "packs/one/deep/file", "old")
	link := filepath.Join(dir, "link")
	must(t, os.Symlink(filepath.Join(shut, "packs"), link))
	other := filepath.Join(dir, "other")
	must(t, os.Symlink(shut, other))
	for _, dst := range []string{shut, filepath.Dir(shut), filepath.Join(shut, "packs"),
		filepath.Join(shut, "packs", "one", "deep"),
		filepath.Join(shut, "absent"), filepath.Join(link, "one"), filepath.Join(link, "absent")} {
		for _, name := range []string{shut, other} {
			for _, force := range []bool{false, true} {
				_, err := Checkout(t.Context(), s, root, dst,
					CheckoutOptions{Force: force, Closed: []string{"", filepath.Join(dir, "no"), name}})
				if d, ok := errors.AsType[*DestinationError](err); !ok || d.Force {
					t.Errorf("%q, closed is %q: got %v", dst, name, err)
				}
			}
		}
	}
	same(t, onDisk(t, shut), map[string]string{"packs/one/deep/file": "old"})
	beside := filepath.Join(dir, "data", "store2")
	_, err := Checkout(t.Context(), s, root, beside, CheckoutOptions{Closed: []string{shut}})
	must(t, err)
	same(t, onDisk(t, beside), map[string]string{"a": "new"})
}

func TestCheckoutWantsAParent(t *testing.T) {
	s, root := storeOf(t, map[string]string{"a": ""})
	if _, err := Checkout(t.Context(), s, root, filepath.Join(t.TempDir(), "no", "out"),
		CheckoutOptions{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if _, err := Checkout(t.Context(), s, cas.ID{Kind: cas.Blob, Digest: root.Digest},
		filepath.Join(t.TempDir(), "out"), CheckoutOptions{}); err == nil {
		t.Error("a blob was checked out")
	}
}

// badSource spoils one object.
type badSource struct {
	cas.Getter
	id    cas.ID
	spoil func(b []byte) ([]byte, error) // an error comes in place of the end
}

func (s badSource) Get(ctx context.Context, id cas.ID) (cas.Object, error) {
	o, err := s.Getter.Get(ctx, id)
	if err != nil || id != s.id {
		return o, err
	}
	b, err := io.ReadAll(o)
	if err != nil {
		return cas.Object{}, err
	}
	o.Close()
	if b, err = s.spoil(b); err != nil {
		return cas.Object{Info: o.Info, ReadCloser: io.NopCloser(io.MultiReader(bytes.NewReader(b), failing{err}))},
			nil
	}
	return cas.Verify(o.Info, io.NopCloser(bytes.NewReader(b))), nil
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestCheckoutOfABadSourceLeavesNothing(t *testing.T) {
	s, root := storeOf(t, files)
	flip := func(b []byte) ([]byte, error) { c := bytes.Clone(b); c[len(c)-1] ^= 1; return c, nil }
	for _, c := range []struct {
		name  string
		spoil func(b []byte) ([]byte, error)
	}{
		{"flipped", flip},
		{"short", func(b []byte) ([]byte, error) { return b[:len(b)-1], nil }},
		{"long", func(b []byte) ([]byte, error) { return append(bytes.Clone(b), 0), nil }},
		{"error at the end", func(b []byte) ([]byte, error) { return b, errBroken }},
		{"error in the middle", func(b []byte) ([]byte, error) { return b[:len(b)/2], errBroken }},
	} {
		for id := range reachable(t, s, root) {
			if id.Digest == cas.Sum(nil) {
				continue
			}
			for _, dst := range []string{"absent", "empty", "full"} {
				path := filepath.Join(t.TempDir(), dst)
				switch dst {
				case "empty":
					put(t, path, "./", "")
				case "full":
					put(t, path, "old", "old")
				}
				_, err := Checkout(t.Context(), badSource{s, id, c.spoil}, root, path, CheckoutOptions{Force: true})
				if _, damaged := errors.AsType[*cas.DamagedError](err); !damaged && !errors.Is(err, errBroken) {
					t.Errorf("%s, %s: got %v", c.name, dst, err)
				}
				clean(t, filepath.Dir(path))
				names, _ := os.ReadDir(path)
				if dst == "full" != (len(names) == 1) {
					t.Errorf("%s, %s: now holds %v", c.name, dst, names)
				}
				if _, err := os.Lstat(path); dst == "absent" && err == nil {
					t.Errorf("%s: the destination is there", c.name)
				}
			}
		}
	}
}

func TestCheckoutOfAMissingObject(t *testing.T) {
	s, root := storeOf(t, files)
	for id := range reachable(t, s, root) {
		b := object(t, s, id)
		must(t, s.Delete(t.Context(), id))
		for _, src := range []cas.Getter{s, getter{s}} {
			dst := filepath.Join(t.TempDir(), "out")
			if _, err := Checkout(t.Context(), src, root, dst, CheckoutOptions{}); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%v: got %v", id, err)
			}
			clean(t, filepath.Dir(dst))
			if _, err := os.Lstat(dst); err == nil {
				t.Error("the destination is there")
			}
		}
		_, err := s.Put(t.Context(), id.Kind, bytes.NewReader(b))
		must(t, err)
	}
}

func TestCheckoutCancelled(t *testing.T) {
	bothWays(t, func(t *testing.T, way bool) {
		s, root := storeOf(t, files)
		for stop := range len(files) {
			ctx, cancel := context.WithCancelCause(t.Context())
			reason := errors.New("stop")
			var n atomic.Int64
			dst := filepath.Join(t.TempDir(), "out")
			_, err := Checkout(ctx, s, root, dst, CheckoutOptions{portable: way, Progress: func(_, _ int64) {
				if n.Add(1) > int64(stop) {
					cancel(reason)
				}
			}})
			if !errors.Is(err, reason) {
				t.Errorf("after %d: got %v", stop, err)
			}
			clean(t, filepath.Dir(dst))
			if _, err := os.Lstat(dst); err == nil {
				t.Errorf("after %d: the destination is there", stop)
			}
			cancel(nil)
		}
	})
}

// craft puts a tree that AppendTree made, of any entries.
func craft(t testing.TB, s *cas.Memory, entries ...cas.Entry) cas.Digest {
	t.Helper()
	data, err := cas.AppendTree(nil, entries)
	must(t, err)
	info, err := s.Put(t.Context(), cas.TreeKind, bytes.NewReader(data))
	must(t, err)
	return info.Digest
}

func TestCheckoutIsBounded(t *testing.T) {
	var s cas.Memory
	x, err := s.Put(t.Context(), cas.Blob, strings.NewReader("x"))
	must(t, err)
	leaf := cas.Entry{Name: "x", Mode: cas.File, Digest: x.Digest, Size: 1}

	bomb := craft(t, &s, leaf)
	for range 60 {
		bomb = craft(t, &s, cas.Entry{Name: "a", Mode: cas.Dir, Digest: bomb},
			cas.Entry{Name: "b", Mode: cas.Dir, Digest: bomb})
	}
	deep := craft(t, &s, leaf)
	for range 501 {
		deep = craft(t, &s, cas.Entry{Name: "d", Mode: cas.Dir, Digest: deep})
	}
	huge := leaf
	huge.Size = 1 << 50
	for _, c := range []struct {
		name string
		root cas.Digest
		o    CheckoutOptions
		want string
	}{
		{"2^60 files", bomb, CheckoutOptions{MaxFiles: 5000}, "more than 5000 files"},
		{"many bytes", craft(t, &s, huge), CheckoutOptions{MaxBytes: 1 << 40}, "bytes"},
		{"another size", craft(t, &s, huge), CheckoutOptions{}, "its tree lists"},
		{"deep", deep, CheckoutOptions{}, "1000"},
	} {
		dst := filepath.Join(t.TempDir(), "out")
		_, err := Checkout(t.Context(), &s, cas.ID{Kind: cas.TreeKind, Digest: c.root}, dst, c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", c.name, err)
		}
		clean(t, filepath.Dir(dst))
	}
}

// TestCheckoutOnlyOfTrees: bytes that look like a tree and hold a path out of it are refused.
func TestCheckoutOnlyOfTrees(t *testing.T) {
	var s cas.Memory
	x := cas.Sum(nil).String()
	for _, name := range []string{"..", ".", "a/b", "/etc", `a\\b`, ".git", "CON", ""} {
		doc := fmt.Sprintf("rye: \"tree/2\"\nfiles:\n  \"%s\": {digest: \"%s\", size: 0, mode: \"file\"}\n", name, x)
		root, err := s.Put(t.Context(), cas.TreeKind, strings.NewReader(doc))
		must(t, err)
		dst := filepath.Join(t.TempDir(), "out")
		if _, err := Checkout(t.Context(), &s, root.ID, dst, CheckoutOptions{}); err == nil {
			t.Errorf("%q was checked out", name)
		}
		clean(t, filepath.Dir(dst))
	}
}

func TestUnique(t *testing.T) {
	id := func(c byte) cas.ID { return cas.ID{Kind: cas.Blob, Digest: cas.Digest{c}} }
	u := unique([]cas.ID{id('a'), id('b'), id('a'), id('c'), id('a'), id('b')})
	var got []string
	for i, id := range u.ids {
		s := string(id.Digest[0])
		for at := u.first[i]; at >= 0; at = u.next[at] {
			s += fmt.Sprint(at)
		}
		got = append(got, s)
	}
	if want := []string{"a024", "b15", "c3"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// corpus makes 10,000 files in 110 directories.
func corpus(b *testing.B) string {
	dir := b.TempDir()
	text := strings.Repeat("some text that is like other text, ", 90)
	for d := range 100 {
		sub := filepath.Join(dir, fmt.Sprint(d/10), fmt.Sprint(d))
		must(b, os.MkdirAll(sub, 0o755))
		for f := range 100 {
			content := fmt.Sprint(d, f, text[:1500+13*f])
			must(b, os.WriteFile(filepath.Join(sub, fmt.Sprint(f)), []byte(content), 0o644))
		}
	}
	return dir
}

// hashing is a batch that keeps digests alone, so that a benchmark measures what is here.
type hashing struct{ cas.Batch }

func (hashing) PutBytes(_ context.Context, _ cas.Kind, b []byte) (cas.Digest, error) {
	return cas.Sum(b), nil
}

func (hashing) Missing(context.Context, []cas.ID) ([]cas.ID, error) { return nil, nil }

func BenchmarkImport(b *testing.B) {
	dir := corpus(b)
	b.Run("new", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := Import(b.Context(), hashing{}, dir, Options{})
			must(b, err)
		}
	})
	b.Run("unchanged", func(b *testing.B) {
		if runtime.GOOS != "linux" {
			b.Log("nothing is remembered here")
		}
		db := filepath.Join(b.TempDir(), "db")
		clock := statcache.NewClock()
		later := func() statcache.Moment { m := clock(); m.Wall += 10 * margin; return m }
		b.ReportAllocs()
		for b.Loop() {
			c := statcache.Open(db, statcache.Options{Now: later})
			_, err := Import(b.Context(), hashing{}, dir, Options{Cache: c})
			must(b, err)
			c.Close(b.Context())
		}
	})
}

func BenchmarkCheckout(b *testing.B) {
	var s cas.Memory
	root := importInto(b, &s, corpus(b), Options{}).ID
	out, n := b.TempDir(), 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		_, err := Checkout(b.Context(), &s, root, filepath.Join(out, fmt.Sprint(n)), CheckoutOptions{})
		must(b, err)
	}
}
