package materialise

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/osfile"
)

// Limits bound a cache.
type Limits struct {
	Bytes int64         // of all copies
	Age   time.Duration // since the last use of a copy
}

// A Report is the result of Clean.
type Report struct {
	Removed, Kept, InUse int   // copies and scratch directories
	Freed, Left          int64 // bytes of files
}

// A kept is everything in the cache with one key.
type kept struct {
	key   string
	dirs  []string // relative to the cache
	used  time.Time
	bytes int64
	alive bool // it includes a reusable copy
}

// Clean removes unused entries: leftovers of dead processes, copies above the age limit, and, above the size limit,
// the least recently used ones.
func (c *Cache) Clean(ctx context.Context, now time.Time, limits Limits) (*Report, error) {
	all, err := c.list()
	if err != nil {
		return nil, err
	}
	report := &Report{}
	for _, k := range all {
		report.Left += k.bytes
	}
	var victims []string
	for _, k := range all {
		if ctx.Err() != nil {
			return report, context.Cause(ctx)
		}
		if k.alive && now.Sub(k.used) <= limits.Age && report.Left <= limits.Bytes {
			report.Kept++
			continue
		}
		moved, err := c.claim(ctx, k)
		if err != nil {
			return report, err
		}
		if moved == nil {
			report.InUse++
			continue
		}
		victims = append(victims, moved...)
		report.Removed++
		report.Freed += k.bytes
		report.Left -= k.bytes
	}
	for _, dir := range victims {
		err = errors.Join(err, removeAll(dir))
	}
	return report, err
}

// list returns the content of the cache, the least recently used first. Leftovers of dead processes have no time.
func (c *Cache) list() ([]*kept, error) {
	known := map[string]*kept{}
	get := func(key string) *kept {
		k := known[key]
		if k == nil {
			k = &kept{key: key}
			known[key] = k
		}
		return k
	}
	for _, sub := range []string{leases, copies, making, scratch} {
		entries, err := os.ReadDir(c.at(sub))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			key, _, _ := strings.Cut(e.Name(), ".")
			if !isKey(key) {
				continue
			}
			k := get(key)
			if sub != leases {
				k.dirs = append(k.dirs, filepath.Join(sub, e.Name()))
				k.bytes += osfile.BytesIn(c.at(sub, e.Name()))
			}
			k.alive = k.alive || sub == copies
		}
	}
	all := make([]*kept, 0, len(known))
	for _, k := range known {
		if info, err := os.Lstat(c.at(leases, k.key)); err == nil && k.alive {
			k.used = info.ModTime()
		}
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b *kept) int { return cmp.Or(a.used.Compare(b.used), strings.Compare(a.key, b.key)) })
	return all, nil
}

// claim renames the directories of a key and returns their new paths; nil if a process uses them.
func (c *Cache) claim(ctx context.Context, k *kept) ([]string, error) {
	root, err := c.locked(ctx, c.at("lock"), osfile.Exclusive)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	lease, err := os.OpenFile(c.at(leases, k.key), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer lease.Close()
	if ok, err := osfile.TryLock(lease, osfile.Exclusive); err != nil || !ok {
		return nil, err
	}
	moved := []string{}
	for _, dir := range k.dirs {
		to := c.at(making, k.key+"."+newKey())
		switch err := os.Rename(c.at(dir), to); {
		case err == nil:
			moved = append(moved, to)
		case !errors.Is(err, fs.ErrNotExist):
			return moved, err
		}
	}
	if err := os.Remove(lease.Name()); !errors.Is(err, fs.ErrNotExist) { // a run that ends removes its own lease
		return moved, err
	}
	return moved, nil
}
