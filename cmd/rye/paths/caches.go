package paths

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/rye-build/rye/cas/statcache"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/build"
)

// BuildCachePath returns the file of the build cache.
func BuildCachePath(a *cli.App) (string, error) {
	s := a.Dir(cli.CachePlace)
	return filepath.Join(s.Value, "build.db"), s.Err
}

// BuildCacheSize returns the size of the build cache: entries, and bytes of its file.
func BuildCacheSize(ctx context.Context, path string) (entries, bytes int64) {
	fi, err := os.Stat(path)
	if err != nil {
		return 0, 0
	}
	c := build.OpenCache(path, nil)
	defer c.Close(ctx)
	return c.Stats(ctx).Entries, fi.Size()
}

// BundleMemories returns the directory of cached verification results.
func BundleMemories(a *cli.App) (string, error) {
	s := a.Dir(cli.CachePlace)
	return filepath.Join(s.Value, "bundles"), s.Err
}

// A StatCache is the stat cache of this user. Without a cache directory it caches nothing and warns.
type StatCache struct {
	*statcache.Cache               // nil caches nothing
	Files, Read      *atomic.Int64 // counted for --verbose
}

// OpenStatCache opens the stat cache, unless off.
func OpenStatCache(a *cli.App, off bool) *StatCache {
	statCache := &StatCache{Files: a.Count("files"), Read: a.Count("files read")}
	if off {
		return statCache
	}
	path, err := StatCachePath(a)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err != nil {
		a.Term.Warn("no stat cache, every file is read: %v", err)
		return statCache
	}
	statCache.Cache = statcache.Open(path, statcache.Options{})
	return statCache
}

// StatCachePath returns the file of the stat cache.
func StatCachePath(a *cli.App) (string, error) {
	s := a.Dir(cli.CachePlace)
	return filepath.Join(s.Value, "stat.db"), s.Err
}

// Finish writes new entries, and adds its counters for --verbose.
func (c *StatCache) Finish(ctx context.Context, a *cli.App) {
	if c.Cache == nil {
		return
	}
	c.Cache.Close(ctx)
	if a.Term.Verbose {
		n := c.Cache.Stats(ctx)
		a.Count("stat cache hits").Store(n.Hits)
		a.Count("stat cache misses").Store(n.Misses)
		a.Count("stat cache busy").Store(n.Busy)
		a.Count("stat cache rebuilt").Store(n.Rebuilt)
	}
}
