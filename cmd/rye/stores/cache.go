package stores

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/rye-build/rye/ai/find"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci/spool"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cas/statcache"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/exec/build"
	"github.com/rye-build/rye/exec/materialise"
)

// This file has rye cache list and rye cache clear.

// A rebuildable is a cache below the cache root: data that rye can rebuild.
type rebuildable struct {
	name, help string
	file       string // below the cache root
	size       func(ctx context.Context, path string) (entries, bytes int64)
	clear      func(ctx context.Context, path string) error
}

func (r rebuildable) path(a *cli.App) (string, error) {
	s := a.Dir(cli.CachePlace)
	return filepath.Join(s.Value, r.file), s.Err
}

// rebuildables lists the caches of "rye cache".
func rebuildables() []rebuildable {
	return []rebuildable{
		{"stat", "which files have not changed since they were hashed", "stat.db", statCacheSize,
			func(_ context.Context, path string) error {
				return statcache.Open(path, statcache.Options{}).Clear()
			}},
		{"search", "the words of items, one index for each place searched from", "search", indexesSize,
			RemoveAll},
		{"bundles", "which bundles and items were verified, as long as their files look the same", "bundles",
			filesSize, RemoveAll},
		{"oci", "downloads of interrupted pulls", "oci", spool.Size, spool.Clear},
		{"build", "the results of build steps", "build.db", paths.BuildCacheSize,
			func(_ context.Context, path string) error {
				return build.OpenCache(path, nil).Clear()
			}},
		{"exec", "the files that tools run from, verified before each run", "exec", CopiesSize, clearCopies},
		{"wasm", "compiled modules", "wasm", filesSize, RemoveAll},
	}
}

// RemoveAll removes a directory, including files that other processes create meanwhile.
func RemoveAll(_ context.Context, path string) (err error) {
	for range 100 {
		if err = os.RemoveAll(path); !errors.Is(err, syscall.ENOTEMPTY) {
			break
		}
	}
	return err
}

// filesSize returns the number of entries of a directory, and the bytes of all files below it.
func filesSize(_ context.Context, dir string) (entries, bytes int64) {
	all, _ := os.ReadDir(dir)
	return int64(len(all)), osfile.BytesIn(dir)
}

// CopiesSize returns the number and the bytes of the copies that tools run from.
func CopiesSize(ctx context.Context, dir string) (entries, bytes int64) {
	return filesSize(ctx, filepath.Join(dir, "copies"))
}

// indexesSize returns the number and the bytes of the search indexes.
func indexesSize(ctx context.Context, dir string) (entries, bytes int64) {
	_, bytes = filesSize(ctx, dir)
	return int64(len(find.Indexes(dir))), bytes
}

// clearCopies removes the copies that no process runs from.
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

func statCacheSize(ctx context.Context, path string) (entries, bytes int64) {
	fi, err := os.Stat(path)
	if err != nil {
		return 0, 0
	}
	c := statcache.Open(path, statcache.Options{})
	defer c.Close(ctx)
	return c.Stats(ctx).Entries, fi.Size()
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

func (c cacheLsAnswer) Text(t *cli.Terminal) {
	rows := make([][]string, len(c.Caches))
	for i, l := range c.Caches {
		rows[i] = []string{l.Name, cli.ByteSize(float64(l.Bytes)), fault.Count(l.Entries, "entry"), l.Path, l.Help}
	}
	t.Rows(rows)
}

func (*cacheLsRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
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

type cacheClearRun struct {
	Name string `arg:"" optional:"" complete:"cache" help:"Cache to clear; default: all."`
}

type cacheClearAnswer struct {
	Cleared []string `json:"cleared"`
	Bytes   int64    `json:"bytes"`
}

func (c cacheClearAnswer) Text(t *cli.Terminal) { t.Note("freed %s", cli.ByteSize(float64(c.Bytes))) }

// CompleteCaches offers the names of caches.
func CompleteCaches() []cli.Candidate {
	return cli.Offer(rebuildables(), func(r rebuildable) (string, string) { return r.name, r.help })
}

func (c *cacheClearRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	ans := cacheClearAnswer{Cleared: []string{}}
	for _, rebuildable := range rebuildables() {
		if c.Name != "" && c.Name != rebuildable.name {
			continue
		}
		path, err := rebuildable.path(a)
		if err != nil {
			return nil, err
		}
		_, bytes := rebuildable.size(ctx, path)
		if err := rebuildable.clear(ctx, path); err != nil {
			return nil, err
		}
		ans.Bytes += bytes
		ans.Cleared = append(ans.Cleared, rebuildable.name)
	}
	if len(ans.Cleared) == 0 {
		var names []string
		for _, r := range rebuildables() {
			names = append(names, r.name)
		}
		return nil, fault.New(fault.NotFound, "no cache %q", c.Name).Near(c.Name, names).Try("rye cache list")
	}
	return ans, nil
}
