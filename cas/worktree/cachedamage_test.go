package worktree

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/checkedbolt"
	bolt "go.etcd.io/bbolt"
)

// cacheFileOf returns the bytes of a cache file of several pages of every kind.
func cacheFileOf(t *testing.T) (*cached, []byte) {
	c := newCached(t)
	for d := range 20 {
		for f := range 5 {
			put(t, c.dir, fmt.Sprintf("a long name of a directory %d/%s%d", d,
				strings.Repeat("a long name of a file ", 10), f), fmt.Sprint(d, f))
		}
	}
	c.run()
	put(t, c.dir, "more", "") // a second transaction, so that there are free pages
	c.run()
	b, err := os.ReadFile(c.db)
	must(t, err)
	return c, b
}

func TestCacheSurvivesDamage(t *testing.T) {
	c, good := cacheFileOf(t)
	r := rand.New(rand.NewPCG(5, 6))
	try := func(name string, b []byte) {
		t.Helper()
		must(t, os.WriteFile(c.db, b, 0o600))
		c.run() // which compares with an import without the cache
		c.run() // damage that only writing finds takes with it what was not written anew
		if got := c.reads(0, name); got.Files != 101 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	step := pageSize
	if testing.Short() {
		step = 5 * pageSize
	}
	for at := 0; at < len(good); at += step {
		page := func(fill func(p []byte)) []byte {
			b := append([]byte(nil), good...)
			fill(b[at : at+pageSize])
			return b
		}
		try(fmt.Sprintf("zeros at %d", at), page(func(p []byte) { clear(p) }))
		try(fmt.Sprintf("noise at %d", at), page(func(p []byte) {
			for i := range p {
				p[i] = byte(r.Uint32())
			}
		}))
		try(fmt.Sprintf("noise in the head of %d", at), page(func(p []byte) { p[r.IntN(16)] ^= 1 << r.IntN(8) }))
		try(fmt.Sprintf("noise in the elements of %d", at), page(func(p []byte) {
			p[16+r.IntN(64)] ^= 1 << r.IntN(8)
		}))
		other := pageSize * r.IntN(len(good)/pageSize)
		try(fmt.Sprintf("page %d at %d", other, at), page(func(p []byte) { copy(p, good[other:other+pageSize]) }))
		try(fmt.Sprintf("cut at %d", at), good[:at])
		try(fmt.Sprintf("cut after %d", at), good[:at+1+r.IntN(pageSize-1)])
	}
	try("text", []byte("not a database\n"))
	try("long text", []byte(strings.Repeat("not a database\n", 10_000)))
}

// TestCacheSurvivesCircles: a branch that names itself, with its right id, makes bbolt descend for ever.
func TestCacheSurvivesCircles(t *testing.T) {
	c, good := cacheFileOf(t)
	circles := 0
	for at := 2 * pageSize; at < len(good); at += pageSize {
		b := append([]byte(nil), good...)
		p := b[at : at+pageSize]
		if binary.NativeEndian.Uint16(p[8:]) != branchPage || binary.NativeEndian.Uint64(p) != uint64(at/pageSize) {
			continue
		}
		circles++
		for i := range int(binary.NativeEndian.Uint16(p[10:])) {
			binary.NativeEndian.PutUint64(p[pageHead+i*elementSize+8:], uint64(at/pageSize))
		}
		must(t, os.WriteFile(c.db, b, 0o600))
		c.run()
		c.reads(0, "rebuilt")
	}
	if circles == 0 {
		t.Error("the file has no branch")
	}
}

func TestCacheOfAnotherVersion(t *testing.T) {
	for name, other := range map[string]func(path string) error{
		"the one before": writeVersion1,
		"the next one": func(path string) error {
			return checkedbolt.Update(t.Context(), path, "rye stat cache 4", time.Second,
				func(b *checkedbolt.Batch) error { return b.Put([]byte("k"), nil) })
		},
		"both": func(path string) error { // the bucket of another one beside ours
			db, err := bolt.Open(path, 0o600, nil)
			must(t, err)
			defer db.Close()
			return db.Update(func(tx *bolt.Tx) error {
				_, err := tx.CreateBucket([]byte("dirs"))
				return err
			})
		},
	} {
		c := newCached(t)
		putFiles(t, c.dir)
		c.run()
		if name != "both" {
			must(t, os.Remove(c.db))
		}
		must(t, other(c.db))
		r, s := c.run()
		if s.Rebuilt != 1 || r.Read != r.Files {
			t.Errorf("%s: %+v, %+v", name, r, s)
		}
		c.reads(0, name)
	}
}

// writeVersion1 writes what older programs have.
func writeVersion1(path string) error {
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		return err
	}
	defer db.Close()
	return db.Update(func(tx *bolt.Tx) error {
		format, err := tx.CreateBucket([]byte("format"))
		if err == nil {
			err = format.Put([]byte("version"), []byte("rye stat cache 1"))
		}
		if err == nil {
			_, err = tx.CreateBucket([]byte("dirs"))
		}
		return err
	})
}

func TestCacheBelievesNoValueOfAnotherKey(t *testing.T) {
	c := newCached(t)
	put(t, c.dir, "a/f", "one")
	put(t, c.dir, "b/f", "two")
	c.run()
	db, err := bolt.Open(c.db, 0o600, nil)
	must(t, err)
	must(t, db.Update(func(tx *bolt.Tx) error {
		dirs := tx.Bucket([]byte(bucket))
		values := map[string][]byte{}
		must(t, dirs.ForEach(func(k, v []byte) error {
			values[filepath.Base(string(k))] = append([]byte(nil), v...)
			return nil
		}))
		return dirs.ForEach(func(k, _ []byte) error {
			switch filepath.Base(string(k)) {
			case "a":
				return dirs.Put(append([]byte(nil), k...), values["b"])
			case "b":
				return dirs.Put(append([]byte(nil), k...), values["a"])
			}
			return nil
		})
	}))
	must(t, db.Close())
	c.reads(2, "values swapped")
}
