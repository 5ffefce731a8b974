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

// Heal puts again what of roots, and of all that they refer to, can't be read, if other has it. It returns how many
// objects it put: 0 means that Heal has nothing to add. Unlike Repair it leaves damaged records where they are, and
// needs no janitor.
func (s *Store) Heal(ctx context.Context, other cas.Getter, roots ...cas.ID) (int64, error) {
	n, err := cas.Copy(ctx, Rereading{s}, other, roots...)
	return n.Objects, err
}

// A Rereading is a store whose batches read a pack before they rely on it.
type Rereading struct{ *Store }

// Batch implements cas.Batcher.
func (s Rereading) Batch(ctx context.Context) (cas.Batch, error) { return s.batch(ctx, true) }

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
	for _, p := range snap.packs {
		bad, err := s.badRecords(ctx, snap, p)
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

// badNow is badRecords for a pack as it is on disk now: nothing that was read of it before counts.
func (s *Store) badNow(ctx context.Context, path string) (bitset, error) {
	snap, err := s.read(nil)
	if err != nil {
		return nil, err
	}
	defer snap.release()
	i := slices.IndexFunc(snap.packs, func(p *pack) bool { return p.path == path })
	if i < 0 {
		return nil, fs.ErrNotExist
	}
	return s.badRecords(ctx, snap, snap.packs[i])
}

// badRecords returns the numbers of a pack's entries whose record can't be read as it should be, or nil where
// nothing at all is wrong with the pack. The root of a long object counts as bad when its object can't be assembled.
func (s *Store) badRecords(ctx context.Context, snap *snapshot, p *pack) (bitset, error) {
	f := newFsck(s, snap)
	if err := f.longs(ctx, []*pack{p}); err != nil {
		return nil, err
	}
	if err := f.pack(ctx, p); err != nil || len(f.problems) == 0 {
		return nil, err
	}
	bad := newBitset(int(p.foot.entries))
	for n := range int(p.foot.entries) {
		if !f.checked[p].has(n) {
			bad.set(n)
		}
	}
	return bad, nil
}
