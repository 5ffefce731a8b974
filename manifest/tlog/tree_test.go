package tlog_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	merkle "golang.org/x/mod/sumdb/tlog"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/tlog"
)

const origin = "registry.example/log"

// files is a log in memory.
type files struct {
	mu   sync.Mutex
	read []string
	all  map[string][]byte
}

func (f *files) ReadFile(ctx context.Context, name string, limit int64) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read = append(f.read, name)
	b, ok := f.all[name]
	if !ok {
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%s has %d bytes, more than %d", name, len(b), limit)
	}
	return b, nil
}

// without returns a copy whose files pass through change; nil removes one.
func (f *files) with(change func(name string, b []byte) []byte) *files {
	copied := &files{all: map[string][]byte{}}
	for name, b := range f.all {
		if b := change(name, bytes.Clone(b)); b != nil {
			copied.all[name] = b
		}
	}
	return copied
}

// A history is a log with a checkpoint at each of some sizes.
type history struct {
	files
	tail        tlog.Tail
	log         tlog.Key
	private     key.Private
	checkpoints map[int64]*tlog.Checkpoint
}

func newHistory(t testing.TB, seed byte) *history {
	t.Helper()
	private := keytest.Seeded(seed)
	log, err := tlog.NewKey(origin, private.Public())
	if err != nil {
		t.Fatal(err)
	}
	return &history{files: files{all: map[string][]byte{}}, log: log, private: private,
		checkpoints: map[int64]*tlog.Checkpoint{}}
}

// entry is what the log of a history has at an index.
func entry(i int64) []byte { return fmt.Appendf(nil, "entry %d\n", i) }

// grow adds entries up to a size, and signs it.
func (h *history) grow(t testing.TB, size int64) *tlog.Checkpoint {
	t.Helper()
	return h.growWith(t, size, entry)
}

func (h *history) growWith(t testing.TB, size int64, entry func(int64) []byte) *tlog.Checkpoint {
	t.Helper()
	put := func(files []tlog.File) {
		for _, f := range files {
			h.all[f.Name] = bytes.Clone(f.Data)
		}
	}
	for h.tail.Size() < size {
		full, err := h.tail.Add(entry(h.tail.Size()))
		if err != nil {
			t.Fatal(err)
		}
		put(full)
	}
	put(h.tail.Partial())
	text, err := tlog.Sign(h.log, h.private, size, h.tail.Root())
	if err != nil {
		t.Fatal(err)
	}
	c, err := tlog.Open(text, h.log)
	if err != nil {
		t.Fatal(err)
	}
	h.checkpoints[size] = c
	return c
}

// TestTail compares tiles and roots with those of x/mod, which computes them in another way.
func TestTail(t *testing.T) {
	h := newHistory(t, 1)
	var stored []merkle.Hash
	reader := merkle.HashReaderFunc(func(indexes []int64) ([]merkle.Hash, error) {
		out := make([]merkle.Hash, len(indexes))
		for i, x := range indexes {
			out[i] = stored[x]
		}
		return out, nil
	})
	const most = 66_000 // the tile 1/000 is full at 65,536
	sizes := map[int64]bool{0: true, 1: true, 2: true, 3: true, 255: true, 256: true, 257: true, 511: true, 512: true,
		65_535: true, 65_536: true, 65_537: true, most: true}
	var last int64
	for n := int64(0); n <= most; n++ {
		if sizes[n] {
			c := h.grow(t, n)
			root, err := merkle.TreeHash(n, reader)
			if err != nil {
				t.Fatal(err)
			}
			if c.Root != root {
				t.Fatalf("the root at %d is %s and not %s", n, c.Root, root)
			}
			for _, tile := range merkle.NewTiles(8, last, n) {
				want, err := merkle.ReadTileData(tile, reader)
				if err != nil {
					t.Fatal(err)
				}
				name := strings.Replace(tile.Path(), "tile/8/", "tile/", 1)
				if !bytes.Equal(h.all[name], want) {
					t.Fatalf("%s at %d is not what x/mod has", name, n)
				}
			}
			last = n
		}
		hashes, err := merkle.StoredHashes(n, entry(n), reader)
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, hashes...)
	}
	ctx := t.Context()
	for size, c := range h.checkpoints {
		again, err := tlog.OpenTail(ctx, c, &h.files)
		if err != nil {
			t.Fatalf("%d: %v", size, err)
		}
		if again.Size() != size || again.Root() != c.Root {
			t.Errorf("the tail of %d is another one", size)
		}
		next := newHistory(t, 1)
		next.tail, next.all = *again, maps.Clone(h.all)
		if size < most {
			if got := next.grow(t, size+1); got.Root != treeHash(t, size+1, reader) {
				t.Errorf("the root after a tail of %d is wrong", size)
			}
		}
	}
	for older := range h.checkpoints {
		for newer, c := range h.checkpoints {
			err := tlog.NewTree(c, &h.files).Extends(ctx, h.checkpoints[older])
			if (err == nil) != (older <= newer) {
				t.Errorf("%d after %d: %v", newer, older, err)
			}
		}
	}
	tree := tlog.NewTree(h.checkpoints[most], &h.files)
	h.read = nil
	for _, i := range []int64{0, 1, 255, 256, 65_535, 65_536, most - 1} {
		proof, err := tree.Prove(ctx, i, entry(i))
		if err != nil {
			t.Fatal(err)
		}
		if again, err := tlog.ParseProof(proof.Append(nil)); err != nil || again.Index != i {
			t.Errorf("%d: %v", i, err)
		}
		got, err := tree.Entry(ctx, i)
		if err != nil || !bytes.Equal(got, entry(i)) {
			t.Errorf("%d: %q, %v", i, got, err)
		}
	}
	if len(h.read) > 7*12 {
		t.Errorf("7 proofs and 7 entries read %d files", len(h.read))
	}
	count := int64(65_530)
	if err := tree.Entries(ctx, count, func(i int64, b []byte) error {
		if i != count || !bytes.Equal(b, entry(i)) {
			t.Fatalf("%d: %q", i, b)
		}
		count++
		return nil
	}); err != nil || count != most {
		t.Errorf("%d, %v", count, err)
	}
}

func treeHash(t *testing.T, n int64, r merkle.HashReader) merkle.Hash {
	t.Helper()
	// The reader has the hashes of all entries by now.
	h, err := merkle.TreeHash(n, r)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestForged gives a client files that don't belong to the checkpoint: nothing of them is believed.
func TestForged(t *testing.T) {
	h := newHistory(t, 1)
	h.grow(t, 300)
	c := h.grow(t, 70_000)
	ctx := t.Context()
	use := func(f *files) error {
		tree := tlog.NewTree(c, f)
		for _, i := range []int64{5, 69_999} {
			if _, err := tree.Prove(ctx, i, entry(i)); err != nil {
				return err
			}
			if got, err := tree.Entry(ctx, i); err != nil {
				return err
			} else if !bytes.Equal(got, entry(i)) {
				t.Errorf("the forged entry %q was believed", got)
			}
		}
		return tree.Extends(ctx, h.checkpoints[300])
	}
	if err := use(&h.files); err != nil {
		t.Fatal(err)
	}
	needed := map[string]bool{}
	h.read = nil
	if err := use(&h.files); err != nil {
		t.Fatal(err)
	}
	for _, name := range h.read {
		needed[name] = true
	}
	if len(needed) < 6 {
		t.Fatal(needed)
	}
	for name := range needed {
		for what, change := range map[string]func(b []byte) []byte{
			"a changed bit":     func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
			"a cut end":         func(b []byte) []byte { return b[:len(b)-1] },
			"a byte too many":   func(b []byte) []byte { return append(b, 0) },
			"a missing hash":    func(b []byte) []byte { return b[:max(0, len(b)-32)] },
			"nothing":           func([]byte) []byte { return []byte{} },
			"a missing file":    func([]byte) []byte { return nil },
			"a far too big one": func(b []byte) []byte { return append(b, make([]byte, 20<<20)...) },
		} {
			forged := h.with(func(n string, b []byte) []byte {
				if n != name {
					return b
				}
				return change(b)
			})
			err := use(forged)
			entries := strings.Contains(name, "entries")
			if err == nil && !(entries && what == "a byte too many") {
				t.Errorf("%s of %s went unnoticed", what, name)
			}
			// A changed bit of an entry that isn't asked for changes nothing of what is asked for, but the file
			// is compared whole.
			if err != nil && what == "a changed bit" && fault.CodeOf(err) != fault.Integrity {
				t.Errorf("%s of %s: %v", what, name, err)
			}
		}
	}
	// A full tile may take the place of a deleted partial one, and a wrong one may not.
	late := newHistory(t, 1)
	late.grow(t, 70_000)
	late.grow(t, 131_072)
	full := late.with(func(name string, b []byte) []byte {
		if strings.Contains(name, ".p/") {
			return nil
		}
		return b
	})
	if err := use(full); err == nil {
		t.Error("a level without its tile was believed")
	}
	full.all["tile/2/000.p/1"] = h.all["tile/2/000.p/1"]
	if _, err := tlog.NewTree(c, full).Prove(ctx, 69_999, entry(69_999)); err != nil {
		t.Errorf("a full tile doesn't take the place of a partial one: %v", err)
	}
	// An answer that has another entry's hash, of the same tree.
	if _, err := tlog.NewTree(c, &h.files).Prove(ctx, 6, entry(5)); fault.CodeOf(err) != fault.Integrity {
		t.Errorf("an entry was proven at the index of another: %v", err)
	}
	if _, err := tlog.NewTree(c, &h.files).Prove(ctx, 70_000, entry(70_000)); fault.CodeOf(err) != fault.Integrity {
		t.Errorf("an entry behind the end: %v", err)
	}
}

// TestHistories shows two clients different logs of the same key.
func TestHistories(t *testing.T) {
	honest, split := newHistory(t, 1), newHistory(t, 1)
	ctx := t.Context()
	for _, size := range []int64{1, 10, 256, 300, 600} {
		honest.grow(t, size)
		split.growWith(t, size, func(i int64) []byte {
			if i == 0 {
				return []byte("another first entry")
			}
			return entry(i)
		})
	}
	for older, seen := range honest.checkpoints {
		for size, shown := range split.checkpoints {
			err := tlog.NewTree(shown, &split.files).Extends(ctx, seen)
			if fault.CodeOf(err) != fault.Rollback {
				t.Errorf("%d of the other log after %d: %v", size, older, err)
			}
		}
	}
	err := tlog.NewTree(honest.checkpoints[10], &honest.files).Extends(ctx, honest.checkpoints[300])
	if fault.CodeOf(err) != fault.Rollback || !strings.Contains(err.Error(), "stale") {
		t.Errorf("a stale checkpoint: %v", err)
	}
}

// TestConsistency gives a witness what it needs for every pair of sizes.
func TestConsistency(t *testing.T) {
	h := newHistory(t, 1)
	for range 30 {
		h.grow(t, h.tail.Size()+1+rand.Int64N(40))
	}
	for old, before := range h.checkpoints {
		for size, c := range h.checkpoints {
			if size < old {
				continue
			}
			hashes, err := tlog.NewTree(c, &h.files).Consistency(t.Context(), old)
			if err != nil {
				t.Fatal(err)
			}
			if size == old {
				if hashes != nil {
					t.Error("equal sizes need hashes")
				}
				continue
			}
			if err := merkle.CheckTree(hashes, size, c.Root, old, before.Root); err != nil {
				t.Errorf("%d after %d: %v", size, old, err)
			}
		}
	}
}

// TestDamagedTail refuses to go on from files that a checkpoint doesn't vouch for.
func TestDamagedTail(t *testing.T) {
	h := newHistory(t, 1)
	c := h.grow(t, 700)
	for _, file := range h.tail.Partial() {
		for what, change := range map[string]func(b []byte) []byte{
			"changed": func(b []byte) []byte { b[3] ^= 1; return b },
			"cut":     func(b []byte) []byte { return b[:len(b)-1] },
			"missing": func([]byte) []byte { return nil },
		} {
			forged := h.with(func(n string, b []byte) []byte {
				if n != file.Name {
					return b
				}
				return change(b)
			})
			if _, err := tlog.OpenTail(t.Context(), c, forged); err == nil {
				t.Errorf("%s is %s, and the log goes on", file.Name, what)
			}
		}
	}
	if _, err := (&tlog.Tail{}).Add(nil); err == nil {
		t.Error("an empty entry was added")
	}
	if _, err := (&tlog.Tail{}).Add(make([]byte, tlog.MaxEntry+1)); err == nil {
		t.Error("a large entry was added")
	}
}
