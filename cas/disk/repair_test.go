package disk

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas"
)

// hurtRecord damages the record of an object or part, wherever it is.
func hurtRecord(t *testing.T, dir string, kind cas.Kind, d cas.Digest) {
	t.Helper()
	hurt := false
	eachPack(t, dir, func(p *pack) {
		e, ok, err := p.lookup(kind, &d)
		must(t, err)
		if ok {
			l, err := p.loc(e.block)
			must(t, err)
			at := l.off // where a compressed block says that it is one
			if l.codec == codecRaw {
				at = l.off + int64(e.off)
			}
			flip(t, p.path, at)
			hurt = true
		}
	})
	if !hurt {
		t.Fatalf("no pack has %s", d)
	}
}

// TestRepair damages files, a tree, a chunk, a header and an index, and brings all back from another store.
func TestRepair(t *testing.T) {
	ctx := t.Context()
	blobs := [][]byte{noise(1, 100), noise(2, 400<<10), text(3, 5000), text(4, 50)}
	good := &run{Store: tinyStore(t, Options{}), w: newWorld()}
	must(t, good.put("main", blobs...))
	r := &run{Store: tinyStore(t, Options{}), w: newWorld()}
	must(t, r.put("", text(5, 77), noise(6, 270<<10)))
	must(t, r.put("main", blobs...))
	tree, err := r.Ref("main")
	must(t, err)
	chunk := cas.Digest{}
	eachPack(t, r.dir, func(p *pack) {
		for e, err := range p.all() {
			must(t, err)
			if e.kind == chunkRecord {
				chunk = e.digest
			}
		}
	})
	hurtRecord(t, r.dir, cas.Blob, cas.Sum(blobs[0]))
	hurtRecord(t, r.dir, chunkRecord, chunk)
	paths, err := listPacks(r.dir)
	must(t, err)
	flip(t, paths[0], headerSize+5)
	eachPack(t, r.dir, func(p *pack) {
		if p.path == paths[1] {
			flip(t, p.path, int64(p.foot.index)+100)
		}
	})

	s, err := open(r.dir, Options{})
	must(t, err)
	if _, err := s.Reindex(ctx); err != nil {
		t.Fatal(err)
	}
	report, err := s.Fsck(ctx, nil)
	must(t, err)
	lost := make(map[cas.ID]Problem)
	for _, p := range report.Problems {
		if p.Lost {
			lost[p.ID] = p
		}
	}
	first := cas.ID{Kind: cas.Blob, Digest: cas.Sum(blobs[0])}
	if p, ok := lost[first]; !ok || !slices.Equal(p.From, []string{"main/f0000"}) {
		t.Errorf("the lost file is reported as %+v", p)
	}
	if _, err := s.Get(ctx, first); err == nil {
		t.Error("a damaged file was served")
	} else if d, ok := errors.AsType[*cas.DamagedError](err); (!ok || d.ID != first) &&
		!errors.Is(err, fs.ErrNotExist) {
		// Which pack lost its index depends on their names. Made again from the blocks, an index doesn't know what
		// a damaged record was.
		t.Errorf("a damaged file: %v", err)
	}
	got, err := s.Repair(ctx, report, nil) // with nothing to heal from
	must(t, err)
	if len(got.Healed) > 0 || len(got.Lost) != len(lost) {
		t.Errorf("%+v of %d", got, len(lost))
	}
	if _, err := s.Get(ctx, first); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that was lost: %v", err)
	}
	report, err = s.Fsck(ctx, nil)
	must(t, err)
	for _, p := range report.Problems {
		if p.File != "" {
			t.Errorf("after repair: %+v", p)
		}
	}
	got, err = s.Repair(ctx, report, good.Store)
	must(t, err)
	if len(got.Lost) > 0 || len(got.Healed) == 0 {
		t.Errorf("%+v", got)
	}
	must(t, clean(s))
	must(t, good.w.check(s))
	must(t, cas.Walk(ctx, s, tree, func(string, cas.Entry) error { return nil }))
}

// TestReindex takes indexes away, whole or in part, and blocks with them. TestRepairUnderADamagedIndex damages a file
// and what leads to it in its pack, the page with its name or only the one with its block: neither keeps the other
// from being found.
func TestRepairUnderADamagedIndex(t *testing.T) {
	for whole, from := range map[string]int{"all pages": 0, "the last page": -1} {
		t.Run(whole, func(t *testing.T) {
			blobs := [][]byte{noise(1, 100), noise(2, 400<<10), text(3, 5000)}
			good, r := &run{Store: tinyStore(t, Options{}), w: newWorld()},
				&run{Store: tinyStore(t, Options{}), w: newWorld()}
			must(t, errors.Join(good.put("main", blobs...), r.put("main", blobs...)))
			hurtRecord(t, r.dir, cas.Blob, cas.Sum(blobs[0]))
			eachPack(t, r.dir, func(p *pack) {
				pages := int(p.foot.pages())
				for n := (from + pages) % pages; n < pages; n++ {
					flip(t, p.path, int64(p.foot.index)+int64(n)*pageSize+100)
				}
			})
			s, err := open(r.dir, Options{})
			must(t, err)
			found, err := s.Fsck(t.Context(), nil)
			must(t, err)
			done, err := s.Repair(t.Context(), found, good.Store)
			must(t, err)
			if len(done.Healed) == 0 || len(done.Lost) > 0 {
				t.Errorf("healed %v, lost %v", done.Healed, done.Lost)
			}
			must(t, clean(s))
			must(t, r.w.check(s))
		})
	}
}

func TestReindex(t *testing.T) {
	ctx := t.Context()
	for name, test := range map[string]struct {
		hurt func(p *pack)
		lost int
	}{
		"no footer": {func(p *pack) { must(t, os.Truncate(p.path, p.size-footerSize)) }, 0},
		// who knows what followed
		"no index": {func(p *pack) { must(t, os.Truncate(p.path, int64(p.foot.index))) }, 2},
		"a page":   {func(p *pack) { flip(t, p.path, p.size-footerSize-pageSize) }, 0},
		"another name": {func(p *pack) {
			must(t, os.Rename(p.path, filepath.Join(filepath.Dir(p.path), "x"+filepath.Base(p.path))))
		}, 0},
		"header, index": {func(p *pack) { flip(t, p.path, headerSize+4); flip(t, p.path, int64(p.foot.index)) }, 2},
		"half":          {func(p *pack) { must(t, os.Truncate(p.path, p.size/2)) }, 2},
		"magic, footer": {func(p *pack) { flip(t, p.path, 1); flip(t, p.path, p.size-1) }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			r := &run{Store: tinyStore(t, Options{}), w: newWorld()}
			r.packObjects, r.fanout = 10, 100 // parts of the long file lie in several packs
			must(t, r.put("main", noise(1, 400<<10), text(2, 100), text(3, 6000)))
			n := 0
			eachPack(t, r.dir, func(p *pack) {
				if n++; n <= 2 {
					test.hurt(p)
				}
			})
			s, err := open(r.dir, Options{})
			must(t, err)
			if test.lost == 0 {
				must(t, r.w.readable(s)) // as it is, from the blocks
			}
			got, err := s.Reindex(ctx)
			if err != nil || len(got.Lost) != test.lost || len(got.Rebuilt)+test.lost < 2 {
				t.Errorf("%+v, %v", got, err)
			}
			aside, err := filepath.Glob(filepath.Join(r.dir, "packs", "*.damaged"))
			if err != nil || len(aside) != test.lost {
				t.Errorf("set aside: %v, %v", aside, err)
			}
			if test.lost == 0 {
				must(t, clean(s))
				must(t, r.w.check(s))
				return
			}
			b, err := s.Batch(ctx) // to put it again heals
			must(t, err)
			report, err := s.Fsck(ctx, nil)
			must(t, err)
			must(t, b.Close())
			_, err = s.Repair(ctx, report, nil)
			must(t, err)
			must(t, r.put("main", slices.Collect(blobsOf(r.w))...))
			must(t, s.Close())
			s, err = open(r.dir, Options{})
			must(t, err)
			must(t, r.put("main", noise(1, 400<<10), text(2, 100), text(3, 6000)))
			must(t, r.w.check(s))
			must(t, clean(s))
		})
	}
}

func blobsOf(w *world) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for id, x := range maps.All(w.objects) {
			if id.Kind == cas.Blob && !yield(x) {
				return
			}
		}
	}
}

// A block that stands in a file is no block of the pack that the file is in, also when the pack is searched.
func TestForeignBlocks(t *testing.T) {
	tree := []byte("rye: \"tree/2\"\n")
	var pad [8]byte
	header := appendBlockHeader(nil, 0, codecRaw, len(tree), len(tree), []record{{cas.TreeKind, uint32(len(tree))}})
	blob := slices.Concat(noise(1, 1000), header, tree, pad[:], noise(2, 1000))
	s := tinyStore(t, Options{})
	_, err := s.Put(t.Context(), cas.Blob, strings.NewReader(string(blob)))
	must(t, err)
	eachPack(t, s.dir, func(p *pack) {
		flip(t, p.path, headerSize+5)
		flip(t, p.path, int64(p.foot.index))
	})
	s, err = open(s.dir, Options{})
	must(t, err)
	id := cas.ID{Kind: cas.TreeKind, Digest: cas.Sum(tree)}
	if _, err := s.Get(t.Context(), id); err == nil {
		t.Error("a tree from within a file")
	}
	_, err = s.Reindex(t.Context())
	must(t, err)
	if _, err := s.Get(t.Context(), id); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a tree from within a file, after reindex: %v", err)
	}
}

// TestHeal: damage that no time of a pack tells of is healed from another store, with all that the object refers to.
func TestHeal(t *testing.T) {
	ctx := t.Context()
	blobs := [][]byte{noise(1, 100), noise(2, 400<<10), text(3, 5000), text(4, 50)}
	good := &run{Store: tinyStore(t, Options{}), w: newWorld()}
	must(t, good.put("main", blobs...))
	r := &run{Store: tinyStore(t, Options{}), w: newWorld()}
	must(t, r.put("", text(5, 77)))
	must(t, r.put("main", blobs...))
	tree, err := r.Ref("main")
	must(t, err)
	if n, err := r.Heal(ctx, good, tree); n != 0 || err != nil {
		t.Errorf("healed %d objects of an intact tree: %v", n, err)
	}
	hurtRecord(t, r.dir, cas.Blob, cas.Sum(blobs[0]))
	hurtRecord(t, r.dir, cas.TreeKind, tree.Digest)
	eachPack(t, r.dir, func(p *pack) { must(t, os.Chtimes(p.path, sealedTime, sealedTime)) })
	refused, err := r.w.reads(r.Store)
	if err != nil || len(refused) == 0 {
		t.Fatalf("%v are damaged, %v", refused, err)
	}

	lacking := tinyStore(t, Options{})
	if n, err := r.Heal(ctx, lacking, tree); n != 0 || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("healed %d objects from an empty store: %v", n, err)
	}
	if n, err := r.Heal(ctx, good, tree); n < int64(len(refused)) || err != nil {
		t.Errorf("healed %d objects of %d: %v", n, len(refused), err)
	}
	must(t, good.w.check(r.Store))
	if n, err := r.Heal(ctx, good, tree); n != 0 || err != nil {
		t.Errorf("healed %d objects again: %v", n, err)
	}
	// A put of what else is in the damaged pack must not rely on it.
	untrusted := 0
	eachPack(t, r.dir, func(p *pack) {
		fi, err := p.f.Stat()
		must(t, err)
		if !fi.ModTime().Equal(sealedTime) {
			untrusted++
		}
	})
	if untrusted == 0 {
		t.Error("the damaged pack still counts as it was sealed")
	}
}
