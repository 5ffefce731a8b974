package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/rye-build/rye/cas"
)

// A RepairResult says what Repair did.
type RepairResult struct {
	Healed []cas.ID
	Lost   []cas.ID // the other store does not have them intact either
}

// Repair puts right what a report of Fsck names: damaged records are taken out of their packs, lost objects
// are brought from another store, and indexes are made again. What other lacks stays lost, and is no more
// found: putting it again heals it, too.
func (s *Store) Repair(ctx context.Context, r Report, other cas.Getter) (RepairResult, error) {
	var out RepairResult
	made, err := s.Reindex(ctx)
	if err != nil {
		return out, err
	}
	if len(made.Rebuilt)+len(made.Lost) > 0 { // what those packs lack is known only now
		again, err := s.Fsck(ctx, nil)
		if err != nil {
			return out, err
		}
		r.Problems = append(slices.Clip(r.Problems), again.Problems...)
	}
	if err := s.expel(ctx); err != nil {
		return out, err
	}
	var ids []cas.ID
	for _, p := range r.Problems {
		if p.Lost && !slices.Contains(ids, p.ID) {
			ids = append(ids, p.ID)
		}
	}
	if other == nil {
		out.Lost = ids
		return out, nil
	}
	// A tree that was lost may refer to objects that gc took with it, so whole closures are brought.
	for _, id := range ids {
		_, err := cas.Copy(ctx, s, other, id)
		switch {
		case err == nil:
			out.Healed = append(out.Healed, id)
		case ctx.Err() != nil:
			return out, err
		case errors.Is(err, fs.ErrNotExist), isDamage(err):
			out.Lost = append(out.Lost, id)
		default:
			return out, err
		}
	}
	return out, nil
}

func isDamage(err error) bool {
	_, ok := errors.AsType[*cas.DamagedError](err)
	return ok
}

// expel writes packs that have damaged records again, without those.
func (s *Store) expel(ctx context.Context) error {
	release, err := s.janitor(ctx)
	if err != nil {
		return err
	}
	defer release()
	snap, err := s.read(nil)
	if err != nil {
		return err
	}
	defer snap.release()
	k := s.takeCache()
	defer s.giveCache(k)
	for _, p := range snap.packs {
		bad, err := s.badRecords(ctx, k, snap, p)
		if err != nil {
			return err
		}
		if bad == nil {
			continue
		}
		damaged, err := s.replace(ctx, []*pack{p}, func(_ *pack, n int) bool { return bad.has(n) })
		if err == nil && damaged != nil {
			err = fmt.Errorf("%q: a record of it changed while it was read", filepath.Base(p.path))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// badRecords returns the numbers of a pack's entries whose record can't be read as it should be, or nil where
// nothing at all is wrong with the pack. The root of a long object counts as bad when its object can't be assembled.
func (s *Store) badRecords(ctx context.Context, k *blockCache, snap *snapshot, p *pack) (bitset, error) {
	es, err := p.byPlace()
	if err != nil {
		return nil, err
	}
	var bad bitset
	if p.frame() != nil {
		bad = newBitset(len(es))
	}
	for _, block := range splitBlocks(es) {
		if p.header(block) != nil && bad == nil {
			bad = newBitset(len(es))
		}
	}
	for i := range es {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		e := &es[i]
		b, err := k.get(p, e.block)
		if err == nil {
			err = e.verify(b)
		}
		if err == nil && e.kind&large != 0 {
			err = assembles(ctx, snap, k, e, b)
		}
		if err != nil {
			if bad == nil {
				bad = newBitset(len(es))
			}
			bad.set(e.n)
		}
	}
	return bad, nil
}

// assembles reports what keeps a long object from being read. b holds its root.
func assembles(ctx context.Context, snap *snapshot, k *blockCache, e *placed, block []byte) error {
	root, err := e.of(block)
	if err != nil {
		return err
	}
	_, _, level, items, err := decodeRoot(root) // a copy: the block may leave the cache
	if err != nil {
		return err
	}
	h := cas.NewHasher()
	err = snap.chunks(ctx, k, e.kind&^large, level, items, func(b []byte) error { h.Write(b); return nil })
	if err == nil && h.Digest() != e.digest {
		err = badPack("its chunks make another object")
	}
	return err
}
