package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/near"
	"github.com/rye-build/rye/cas/statcache"
	"github.com/rye-build/rye/exec/build"
	"github.com/rye-build/rye/exec/materialise"
	"github.com/rye-build/rye/exec/primitive/wasm"
)

// A statCache is the stat cache of this user. Without a cache directory nothing is remembered, and said.
type statCache struct {
	*statcache.Cache               // nil remembers nothing
	files, read      *atomic.Int64 // counted for --verbose
}

// statCache opens the stat cache, unless off.
func (a *app) statCache(off bool) *statCache {
	c := &statCache{files: a.count("files"), read: a.count("files read")}
	if off {
		return c
	}
	path, err := a.statCachePath()
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err != nil {
		a.term.warn("no stat cache, every file is read: %v", err)
		return c
	}
	c.Cache = statcache.Open(path, statcache.Options{})
	return c
}

func (a *app) statCachePath() (string, error) {
	s := a.dir(cachePlace)
	return filepath.Join(s.value, "stat.db"), s.err
}

// close writes what is new, and tells --verbose how it went.
func (c *statCache) close(ctx context.Context, a *app) {
	if c.Cache == nil {
		return
	}
	c.Cache.Close(ctx)
	if a.term.verbose {
		n := c.Cache.Stats(ctx)
		a.count("stat cache hits").Store(n.Hits)
		a.count("stat cache misses").Store(n.Misses)
		a.count("stat cache busy").Store(n.Busy)
		a.count("stat cache rebuilt").Store(n.Rebuilt)
	}
}

// A rebuildable is a cache under the cache root.
type rebuildable struct {
	name, help string
	path       func(*app) (string, error)
	size       func(ctx context.Context, path string) (entries, bytes int64)
	clear      func(ctx context.Context, path string) error
}

// rebuildables lists what "rye cache" knows: everything rye can make again by itself.
func rebuildables() []rebuildable {
	return []rebuildable{
		{"stat", "which files have not changed since they were hashed", func(a *app) (string, error) { return a.statCachePath() }, statCacheSize, func(_ context.Context, path string) error {
			return statcache.Open(path, statcache.Options{}).Clear()
		}},
		{"search", "which words are in which items; an entry for each place that was searched from", func(a *app) (string, error) { return a.indexes() },
			func(_ context.Context, dir string) (entries, bytes int64) {
				for _, path := range indexFiles(dir) {
					if fi, err := os.Stat(path); err == nil {
						entries, bytes = entries+1, bytes+fi.Size()
					}
				}
				return entries, bytes
			},
			removeAll},
		{"bundles", "which bundles were checked when they were made, and what of", func(a *app) (string, error) { return a.bundleMemories() }, memorySize, removeAll},
		{"build", "what steps of builds have made of what", func(a *app) (string, error) { return a.buildCachePath() }, buildCacheSize, func(_ context.Context, path string) error {
			return build.OpenCache(path, nil).Clear()
		}},
		{"exec", "the files that tools run from, verified before each run", func(a *app) (string, error) { return a.copies() }, copiesSize, clearCopies},
		{"wasm", "what modules were compiled to", func(a *app) (string, error) {
			s := a.dir(cachePlace)
			return filepath.Join(s.value, "wasm"), s.err
		}, modulesSize, removeAll},
	}
}

// removeAll removes a directory. What others put there meanwhile is removed, too.
func removeAll(_ context.Context, path string) (err error) {
	for range 100 {
		if err = os.RemoveAll(path); !errors.Is(err, syscall.ENOTEMPTY) {
			break
		}
	}
	return err
}

// copiesSize counts the copies that tools run from.
func copiesSize(_ context.Context, dir string) (entries, bytes int64) {
	dir = filepath.Join(dir, "copies")
	all, _ := os.ReadDir(dir)
	filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if fi, err := d.Info(); err == nil {
				bytes += fi.Size()
			}
		}
		return nil // what vanishes while it is counted doesn't count
	})
	return int64(len(all)), bytes
}

// modulesSize counts the modules that are kept compiled.
func modulesSize(_ context.Context, dir string) (entries, bytes int64) {
	all, _ := os.ReadDir(dir)
	return int64(len(all)), wasm.Kept(dir)
}

// clearCopies removes all copies but those that something runs from.
func clearCopies(ctx context.Context, dir string) error {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	c, err := materialise.Open(dir)
	if err == nil {
		_, err = c.Clean(ctx, time.Now(), materialise.Limits{Bytes: -1})
	}
	return err
}

// What is kept of copies, and how often somebody looks.
const (
	maxCopies  = 4 << 30
	maxCopyAge = 30 * 24 * time.Hour
	cleanEvery = 24 * time.Hour
)

// cleanCopies removes copies that were not used for long, about once a day. A run doesn't fail for what is left behind.
func (a *app) cleanCopies(ctx context.Context, c *materialise.Cache) {
	dir, err := a.copies()
	if err != nil {
		return
	}
	stamp := dir + ".cleaned"
	if fi, err := os.Lstat(stamp); err == nil && a.now().Sub(fi.ModTime()).Abs() < cleanEvery {
		return
	}
	// Of many that end at once, the first cleans.
	if os.WriteFile(stamp, nil, 0o600) != nil || os.Chtimes(stamp, a.now(), a.now()) != nil {
		return
	}
	r, err := c.Clean(ctx, a.now(), materialise.Limits{Bytes: maxCopies, Age: maxCopyAge})
	if err != nil {
		a.term.detail("the copies that tools run from can't be cleaned: %v", err)
	} else if r.Removed > 0 {
		a.term.detail("removed %s that no tool has run from for long", fault.Count(int64(r.Removed), "copy"))
	}
}

func memorySize(_ context.Context, dir string) (entries, bytes int64) {
	all, _ := os.ReadDir(dir)
	for _, e := range all {
		if fi, err := e.Info(); err == nil {
			entries, bytes = entries+1, bytes+fi.Size()
		}
	}
	return entries, bytes
}

func statCacheSize(ctx context.Context, path string) (entries, bytes int64) {
	fi, err := os.Stat(path)
	if err != nil {
		return 0, 0
	}
	c := statcache.Open(path, statcache.Options{})
	defer c.Close(ctx)
	return c.Stats(ctx).Entries, fi.Size()
}

func cacheGroup() command {
	return command{path: "cache", group: "store", help: "Look at what rye can make again by itself.",
		more: "Every cache has a limit of its own and forgets what was not used for longest. Clearing one costs time, never data."}
}

func cacheLsCommand() command {
	return command{
		path: "cache ls", group: "store", help: "List the caches.", aka: []string{"cache list"},
		more: "Examples:\n\n    rye cache ls\n    rye -v store put DIR    (hits and misses of one run)",
		new:  func() runner { return new(cacheLsRun) }, schema: "cache-ls/1", output: cacheLsAnswer{},
	}
}

type cacheLsRun struct{}

type cacheLine struct {
	Name    string `json:"name"`
	Help    string `json:"help"`
	Path    string `json:"path"`
	Entries int64  `json:"entries"`
	Bytes   int64  `json:"bytes"`
}

type cacheLsAnswer struct {
	Caches []cacheLine `json:"caches"`
}

func (c cacheLsAnswer) text(t *terminal) {
	rows := make([][]string, len(c.Caches))
	for i, l := range c.Caches {
		rows[i] = []string{l.Name, byteSize(float64(l.Bytes)), fault.Count(l.Entries, "entry"), l.Path, l.Help}
	}
	t.rows(rows)
}

func (*cacheLsRun) run(ctx context.Context, a *app) (answer, error) {
	ans := cacheLsAnswer{Caches: []cacheLine{}}
	for _, r := range rebuildables() {
		path, err := r.path(a)
		if err != nil {
			return nil, err
		}
		l := cacheLine{Name: r.name, Help: r.help, Path: path}
		l.Entries, l.Bytes = r.size(ctx, path)
		ans.Caches = append(ans.Caches, l)
	}
	return ans, nil
}

func cacheClearCommand() command {
	return command{
		path: "cache clear", group: "store", help: "Empty the caches, or one of them.", aka: []string{"cache rm", "cache clean", "cache prune"},
		more: "Examples:\n\n    rye cache clear\n    rye cache clear search",
		new:  func() runner { return new(cacheClearRun) }, schema: "cache-clear/1", output: cacheClearAnswer{},
	}
}

type cacheClearRun struct {
	Name string `arg:"" optional:"" help:"Which; all when left out."`
}

type cacheClearAnswer struct {
	Cleared []string `json:"cleared"`
	Bytes   int64    `json:"bytes"`
}

func (c cacheClearAnswer) text(t *terminal) { t.note("freed %s", byteSize(float64(c.Bytes))) }

func (c *cacheClearRun) complete(context.Context, *app, string, string) (out []candidate) {
	for _, r := range rebuildables() {
		out = append(out, candidate{r.name, r.help})
	}
	return out
}

func (c *cacheClearRun) run(ctx context.Context, a *app) (answer, error) {
	ans := cacheClearAnswer{Cleared: []string{}}
	for _, r := range rebuildables() {
		if c.Name != "" && c.Name != r.name {
			continue
		}
		path, err := r.path(a)
		if err != nil {
			return nil, err
		}
		_, bytes := r.size(ctx, path)
		if err := r.clear(ctx, path); err != nil {
			return nil, err
		}
		ans.Bytes += bytes
		ans.Cleared = append(ans.Cleared, r.name)
	}
	if c.Name != "" && len(ans.Cleared) == 0 {
		var names []string
		for _, r := range rebuildables() {
			names = append(names, r.name)
		}
		f := &fault.Error{Code: fault.NotFound, Text: "there is no cache \"" + c.Name + "\"", Hint: []string{"rye cache ls"}}
		if meant := near.Names(c.Name, names); len(meant) > 0 {
			f.Why = []string{"did you mean " + meant[0] + "?"}
		}
		return nil, f
	}
	return ans, nil
}
