package worktree

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/statcache"
	bolt "go.etcd.io/bbolt"
)

// A fakeClock is the real one, moved. Files made by a test are settled for a clock that is a minute ahead.
type fakeClock struct {
	mu         sync.Mutex
	wall, up   time.Duration
	otherBoots uint64
}

// What package statcache has for itself: how old stamps must be, and what a clock may lose.
const (
	margin = int64(2 * time.Second)
	slack  = int64(time.Second)
)

// The cache's file is one of bbolt, with one bucket.
const (
	bucket      = "rye stat cache 3"
	pageSize    = 4096
	pageHead    = 16
	elementSize = 16
	branchPage  = 1
)

var startOfTests = time.Now()

func (c *fakeClock) now() statcache.Moment {
	c.mu.Lock()
	defer c.mu.Unlock()
	return statcache.Moment{
		Wall: time.Now().Add(c.wall).UnixNano(),
		Up:   int64(time.Since(startOfTests) + c.up),
		Boot: 1 + c.otherBoots,
	}
}

func (c *fakeClock) set(wall, up time.Duration, boots uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall, c.up, c.otherBoots = wall, up, boots
}

// A cached is a directory, a store and a cache, and a clock that is a minute ahead of what stamps files.
type cached struct {
	t     testing.TB
	dir   string
	db    string
	store cas.Memory
	clock fakeClock
	limit int64
	way   bool
}

func newCached(t testing.TB) *cached {
	if runtime.GOOS != "linux" {
		t.Logf("nothing is remembered on %s", runtime.GOOS)
	}
	c := &cached{t: t, dir: t.TempDir(), db: filepath.Join(t.TempDir(), "sub", "stat.db")}
	c.clock.set(time.Minute, time.Minute, 0)
	return c
}

// run imports through the cache, as a process of its own would, and compares with an import without it.
func (c *cached) run() (Result, statcache.Stats) {
	c.t.Helper()
	cache := statcache.Open(c.db, statcache.Options{Now: c.clock.now, Limit: c.limit})
	var mu sync.Mutex
	told := map[string]cas.Entry{}
	r := importInto(c.t, &c.store, c.dir, Options{Cache: cache, portable: c.way, Files: func(of []File) {
		mu.Lock()
		defer mu.Unlock()
		for _, f := range of {
			if _, twice := told[f.Path]; twice {
				c.t.Errorf("%s is reported twice", f.Path)
			}
			told[f.Path] = f.Entry
		}
	}})
	cache.Close(c.t.Context())
	s := cache.Stats(c.t.Context())
	var plain cas.Memory
	if want := importInto(c.t, &plain, c.dir, Options{}); r.ID != want.ID || r.Files != want.Files ||
		r.Bytes != want.Bytes || r.Dirs != want.Dirs {
		c.t.Errorf("got %+v, without the cache %+v", r, want)
	}
	if s.Hits+s.Misses != r.Files || s.Misses != r.Read {
		c.t.Errorf("%+v does not fit %+v", s, r)
	}
	err := cas.Walk(c.t.Context(), &c.store, r.ID, func(path string, e cas.Entry) error {
		if e.Mode != cas.Dir && told[path] != e {
			c.t.Errorf("%s is %+v, and was told to be %+v", path, e, told[path])
		}
		delete(told, path)
		return nil
	})
	if err != nil || len(told) > 0 {
		c.t.Errorf("told, and not in the tree: %v, %v", told, err)
	}
	missing := 0
	for id := range reachable(c.t, &c.store, r.ID) {
		if gone, _ := c.store.Missing(c.t.Context(), []cas.ID{id}); len(gone) > 0 {
			missing++
		}
	}
	if missing > 0 {
		c.t.Errorf("%d objects are not in the store", missing)
	}
	return r, s
}

func reachable(t testing.TB, src cas.Getter, root cas.ID) map[cas.ID]bool {
	out := map[cas.ID]bool{root: true}
	for _, e := range entriesOf(t, src, root) {
		out[e.ID()] = true
		if e.Mode == cas.Dir {
			for id := range reachable(t, src, e.ID()) {
				out[id] = true
			}
		}
	}
	return out
}

// reads runs and wants a number of files to be read.
func (c *cached) reads(want int64, why string) Result {
	c.t.Helper()
	r, _ := c.run()
	if runtime.GOOS != "linux" {
		want = r.Files
	}
	if r.Read != want {
		c.t.Errorf("%s: %d files were read, not %d", why, r.Read, want)
	}
	return r
}

func TestCacheReadsNothingTwice(t *testing.T) {
	bothWays(t, func(t *testing.T, way bool) {
		c := newCached(t)
		c.way = way
		putFiles(t, c.dir)
		put(t, c.dir, "nothing/here/", "")
		first := c.reads(int64(len(files)), "first")
		for range 3 {
			if r := c.reads(0, "again"); r.ID != first.ID {
				t.Errorf("another tree: %v", r.ID)
			}
		}
	})
}

func TestCacheSeesEveryChange(t *testing.T) {
	c := newCached(t)
	putFiles(t, c.dir)
	c.run()
	at := func(name string) string { return filepath.Join(c.dir, filepath.FromSlash(name)) }
	for _, step := range []struct {
		name string
		do   func() error
		read int64
	}{
		{"new bytes of the same length", func() error {
			return os.WriteFile(at("lib/a.py"), []byte("b = 1\n"), 0)
		}, 1},
		{"more bytes", func() error { return os.WriteFile(at("lib/a.py"), []byte("longer"), 0) }, 1},
		{"touched", func() error { now := time.Now(); return os.Chtimes(at("lib/a.py"), now, now) }, 1},
		{"executable", func() error { return os.Chmod(at("lib/a.py"), 0o755) }, 1},
		{"not any more", func() error { return os.Chmod(at("lib/a.py"), 0o644) }, 1},
		{"deleted", func() error { return os.Remove(at("lib/a.py")) }, 0},
		{"made", func() error { return os.WriteFile(at("lib/a.py"), []byte("b = 1\n"), 0o644) }, 1},
		{"renamed", func() error { return os.Rename(at("lib/a.py"), at("lib/aa.py")) }, 1},
		{"first", func() error { return os.WriteFile(at("lib/0"), nil, 0o644) }, 1},
		{"last", func() error { return os.WriteFile(at("lib/zz"), nil, 0o644) }, 1},
		{"a directory", func() error { return os.MkdirAll(at("lib/new/er"), 0o755) }, 0},
		{"in a directory", func() error { return os.WriteFile(at("lib/new/er/f"), []byte("f"), 0o644) }, 1},
		{"a directory renamed", func() error { return os.Rename(at("lib/new"), at("lib/newer")) }, 1},
		{"a directory deleted", func() error { return os.RemoveAll(at("lib/newer")) }, 0},
		{"a file for a directory", func() error {
			return firstErr(os.RemoveAll(at("lib/deep")), os.WriteFile(at("lib/deep"), []byte("x"), 0o644))
		}, 1},
		{"another file over it", func() error {
			return firstErr(os.WriteFile(at("tmp"), []byte("a = 2\n"), 0o644), os.Rename(at("tmp"), at("lib/b.py")))
		}, 1},
		{"two swapped", func() error {
			return firstErr(os.Rename(at("lib/aa.py"), at("tmp")), os.Rename(at("lib/b.py"), at("lib/aa.py")),
				os.Rename(at("tmp"), at("lib/b.py")))
		}, 2},
		{"nothing", func() error { return nil }, 0},
	} {
		must(t, step.do())
		c.reads(step.read, step.name)
	}
}

func firstErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestCacheAgreesUnderRandomChanges relies on run, which compares with an import without the cache. A file that was
// too young to be recorded, and then is gone or left out, is missed: run compares with an import without the cache.
func TestCacheMissesYoungFiles(t *testing.T) {
	c := newCached(t)
	c.clock.set(0, 0, 0) // what is written now isn't settled
	write := func(name string) {
		t.Helper()
		path := filepath.Join(c.dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a", "b", "sub/x", "sub/deep/y"} {
		write(name)
	}
	c.run()
	for _, name := range []string{"sub/x", "b", "sub/deep/y"} {
		if err := os.Remove(filepath.Join(c.dir, filepath.FromSlash(name))); err != nil {
			t.Fatal(err)
		}
		c.run()
	}
}

func TestCacheAgreesUnderRandomChanges(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	c := newCached(t)
	for range 60 {
		for range 1 + r.IntN(5) {
			name := fmt.Sprintf("%c/%c/%c", 'a'+r.IntN(3), 'a'+r.IntN(3), 'a'+r.IntN(4))[2*r.IntN(3):]
			path := filepath.Join(c.dir, filepath.FromSlash(name))
			switch r.IntN(6) {
			case 0:
				os.RemoveAll(path)
			case 1:
				os.Chmod(path, []os.FileMode{0o755, 0o744, 0o644}[r.IntN(3)]|0o600)
				if fi, err := os.Lstat(path); err == nil && fi.IsDir() {
					must(t, os.Chmod(path, 0o755))
				}
			case 2:
				os.Rename(path, filepath.Join(c.dir, string(rune('a'+r.IntN(3)))))
			default:
				os.MkdirAll(filepath.Dir(path), 0o755)
				old := time.Unix(1_500_000_000, int64(r.IntN(2)))
				if os.WriteFile(path, []byte(fmt.Sprint(r.IntN(10))), 0o644) == nil {
					must(t, os.Chtimes(path, old, old)) // so that only ctime tells
				}
			}
		}
		c.run()
	}
}

// TestCacheRacilyClean: what was written shortly before an import may be written to again in the same tick.
func TestCacheRacilyClean(t *testing.T) {
	c := newCached(t)
	put(t, c.dir, "f", "one")
	c.clock.set(0, 0, 0)
	c.reads(1, "just written")
	c.reads(1, "nor was it recorded then")
	c.clock.set(time.Duration(margin)-time.Second, time.Minute, 0)
	c.reads(1, "not long enough ago")
	c.clock.set(time.Minute, time.Minute, 0)
	c.reads(1, "recorded now")
	c.reads(0, "and remembered")

	// The trick that defeats caches that look at mtime alone: same length, mtime put back.
	fi, err := os.Stat(filepath.Join(c.dir, "f"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(c.dir, "f"), []byte("two"), 0))
	must(t, os.Chtimes(filepath.Join(c.dir, "f"), fi.ModTime(), fi.ModTime()))
	c.reads(1, "mtime put back")

	// Stamps in the future can be hit again.
	future := time.Now().Add(time.Hour)
	must(t, os.Chtimes(filepath.Join(c.dir, "f"), future, future))
	c.reads(1, "in the future")
	c.reads(1, "still in the future")
	c.clock.set(2*time.Hour, 2*time.Hour, 0)
	c.reads(1, "not any more")
	c.reads(0, "remembered")
}

func TestCacheAfterTheClockWasSet(t *testing.T) {
	hour := time.Hour
	for _, step := range []struct {
		name     string
		wall, up time.Duration
		boots    uint64
		read     int64
	}{
		{"time went by", 2 * hour, 2 * hour, 0, 0},
		{"set forward", 9 * hour, 2 * hour, 0, 0},
		{"another boot", 2 * hour, 0, 1, 0},
		{"set back, behind the recording", hour / 2, hour, 0, 1},
		{"set back, behind the recording, another boot", hour / 2, 0, 1, 1},
		{"set back, and time went by", 2 * hour, 4 * hour, 0, 1},
		{"set back by little more than slack", hour, hour + time.Duration(slack) + time.Second, 0, 1},
		{"adjusted by little", hour, hour + time.Duration(slack)/2, 0, 0},
	} {
		t.Run(step.name, func(t *testing.T) {
			c := newCached(t)
			put(t, c.dir, "f", "one")
			c.clock.set(hour, hour, 0)
			c.reads(1, "first")
			c.clock.set(step.wall, step.up, step.boots)
			c.reads(step.read, "after it")
			c.reads(0, "and again")
		})
	}
}

func TestCacheRecordsNothingWhileTheClockIsSetBack(t *testing.T) {
	c := newCached(t)
	put(t, c.dir, "f", "one")
	cache := statcache.Open(c.db, statcache.Options{Now: c.clock.now})
	importInto(t, &c.store, c.dir, Options{Cache: cache, Progress: func(_, _ int64) {
		c.clock.set(time.Minute-2*time.Duration(slack), time.Minute, 0)
	}})
	cache.Close(t.Context())
	c.clock.set(time.Hour, time.Hour, 0)
	c.reads(1, "the import during which it was set")
	c.reads(0, "the one after it")
}

func TestCacheAsksTheStore(t *testing.T) {
	c := newCached(t)
	putFiles(t, c.dir)
	r := c.reads(int64(len(files)), "first")

	blob := cas.ID{Kind: cas.Blob, Digest: cas.Sum([]byte(files["README.md"]))}
	must(t, c.store.Delete(t.Context(), blob))
	c.reads(1, "a blob is gone")
	twice := cas.ID{Kind: cas.Blob, Digest: cas.Sum([]byte(files["lib/a.py"]))}
	must(t, c.store.Delete(t.Context(), twice))
	c.reads(2, "a blob of two files is gone")
	for id := range reachable(t, &c.store, r.ID) {
		if id.Kind == cas.TreeKind {
			must(t, c.store.Delete(t.Context(), id))
		}
	}
	c.reads(0, "all trees are gone")
	for id := range reachable(t, &c.store, r.ID) {
		must(t, c.store.Delete(t.Context(), id))
	}
	if r, _ := c.run(); runtime.GOOS == "linux" && r.Read < int64(len(files))-2 { // two files are as others
		t.Errorf("everything is gone: %d files were read", r.Read)
	}
}

func TestCacheOfAMovedDirectory(t *testing.T) {
	c := newCached(t)
	putFiles(t, c.dir)
	c.run()
	moved := filepath.Join(t.TempDir(), "moved")
	must(t, os.Rename(c.dir, moved))
	c.dir = moved
	c.reads(int64(len(files)), "its key is its path")
	c.reads(0, "then remembered")
}

// TestCacheThatCannotBe: no import fails for want of a cache.
func TestCacheThatCannotBe(t *testing.T) {
	c := newCached(t)
	putFiles(t, c.dir)
	must(t, os.MkdirAll(c.db, 0o700))
	c.run()
	c.run()
	must(t, os.RemoveAll(filepath.Dir(c.db)))
	must(t, os.WriteFile(filepath.Dir(c.db), nil, 0o600))
	c.run()
	c.run()
}

func TestCacheIsBusy(t *testing.T) {
	c := newCached(t)
	putFiles(t, c.dir)
	c.run()
	db, err := bolt.Open(c.db, 0o600, nil)
	must(t, err)
	cache := statcache.Open(c.db, statcache.Options{Now: c.clock.now, Wait: time.Millisecond})
	put(t, c.dir, "new", "")
	r := importInto(t, &c.store, c.dir, Options{Cache: cache})
	cache.Close(t.Context())
	if s := cache.Stats(t.Context()); s.Busy < 2 || r.Read != r.Files {
		t.Errorf("%+v, %+v", r, s)
	}
	must(t, db.Close())
	c.reads(1, "what was not written")
	c.reads(0, "written now")
}

func TestCacheClear(t *testing.T) {
	c := newCached(t)
	putFiles(t, c.dir)
	_, s := c.run()
	if runtime.GOOS == "linux" && (s.Entries != 11 || s.Bytes < pageSize) {
		t.Errorf("%+v", s)
	}
	cache := statcache.Open(c.db, statcache.Options{})
	must(t, cache.Clear())
	if s := cache.Stats(t.Context()); s != (statcache.Stats{}) {
		t.Errorf("after Clear: %+v", s)
	}
	must(t, cache.Clear())
	c.reads(int64(len(files)), "cleared")
}

func TestCacheStaysBelowItsLimit(t *testing.T) {
	c := newCached(t)
	c.limit = 384 << 10
	fill := func(name string) {
		for d := range 10 {
			for f := range 20 {
				put(t, c.dir, fmt.Sprintf("%s/%d/%0200d", name, d, f), name)
			}
		}
	}
	fill("kept")
	base := c.dir
	c.dir = filepath.Join(base, "kept")
	c.run()
	for day := range 12 {
		ahead := time.Duration(day+1) * 24 * time.Hour
		c.clock.set(ahead, ahead, 0)
		c.dir = base
		name := fmt.Sprint("other", day)
		fill(name)
		c.dir = filepath.Join(base, name)
		_, s := c.run()
		if s.Bytes > c.limit {
			t.Errorf("day %d: %+v", day, s)
		}
		c.dir = filepath.Join(base, "kept")
		c.reads(0, "used every day")
	}
	c.dir = filepath.Join(base, "other0")
	if r, _ := c.run(); r.Read == 0 {
		t.Error("nothing was forgotten")
	}
}

// TestCacheMayBeSharedByManyImports also starts processes of this test.
func TestCacheMayBeSharedByManyImports(t *testing.T) {
	c := newCached(t)
	putFiles(t, c.dir)
	var wg sync.WaitGroup
	exe, err := os.Executable()
	must(t, err)
	for range 3 {
		wg.Go(func() {
			cmd := exec.Command(exe, "-test.run=^TestCacheChild$", "-test.v")
			cmd.Env = append(os.Environ(), childDir+"="+c.dir, childDB+"="+c.db)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("child: %v\n%s", err, out)
			}
		})
	}
	var s cas.Memory
	want := importInto(t, &s, c.dir, Options{}).ID
	shared := statcache.Open(c.db, statcache.Options{Now: c.clock.now})
	for i := range 50 {
		wg.Go(func() {
			cache := shared
			if i%2 == 0 {
				cache = statcache.Open(c.db, statcache.Options{Now: c.clock.now})
				defer cache.Close(t.Context())
			}
			if r := importInto(t, &s, c.dir, Options{Cache: cache}); r.ID != want {
				t.Errorf("another tree: %v", r.ID)
			}
		})
	}
	wg.Wait()
	shared.Close(t.Context())
	c.run()
	c.reads(0, "afterwards")
}

const (
	childDir = "WORKTREE_TEST_DIR"
	childDB  = "WORKTREE_TEST_DB"
)

// TestCacheChild is what TestCacheMayBeSharedByManyImports starts.
func TestCacheChild(t *testing.T) {
	dir, db := os.Getenv(childDir), os.Getenv(childDB)
	if dir == "" {
		return
	}
	var clock fakeClock
	clock.set(time.Minute, time.Minute, 0)
	for i := range 20 {
		cache := statcache.Open(db, statcache.Options{Now: clock.now})
		var s cas.Memory
		importInto(t, &s, dir, Options{Cache: cache})
		if i%5 == 0 {
			must(t, cache.Clear())
		}
		cache.Close(t.Context())
	}
}
