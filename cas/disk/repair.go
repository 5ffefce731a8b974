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

// A RepairResult lists the objects that Repair healed, and those it could not heal.
type RepairResult struct {
	Healed []cas.ID
	Lost   []cas.ID // the other store has no intact copy either
}

// Repair repairs the problems in a report of Fsck: it rebuilds indexes, removes damaged records from their packs,
// and copies lost objects from another store. Objects that other lacks stay lost, and the store reports them as
// missing, so that a later put heals them.
func (s *Store) Repair(ctx context.Context, report Report, other cas.Getter) (RepairResult, error) {
	var out RepairResult
	made, err := s.Reindex(ctx)
	if err != nil {
		return out, err
	}
	if len(made.Rebuilt)+len(made.Lost) > 0 { // the first report could not know what these packs lack
		again, err := s.Fsck(ctx, nil)
		if err != nil {
			return out, err
		}
		report.Problems = append(slices.Clip(report.Problems), again.Problems...)
	}
	if err := s.expel(ctx); err != nil {
		return out, err
	}
	var ids []cas.ID
	for _, p := range report.Problems {
		if p.Lost && !slices.Contains(ids, p.ID) {
			ids = append(ids, p.ID)
		}
	}
	if other == nil {
		out.Lost = ids
		return out, nil
	}
	// gc may have removed the objects of a lost tree too, so whole closures are copied.
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

// Heal copies the unreadable objects among roots, and everything that roots refer to, from other. It returns how many
// objects it put; 0 means that Heal can't help. Unlike Repair it leaves damaged records in place and needs no janitor.
func (s *Store) Heal(ctx context.Context, other cas.Getter, roots ...cas.ID) (int64, error) {
	n, err := cas.Copy(ctx, Rereading{s}, other, roots...)
	return n.Objects, err
}

// A Rereading is a store whose batches read each pack before they rely on it.
type Rereading struct{ *Store }

// Batch implements cas.Batcher.
func (s Rereading) Batch(ctx context.Context) (cas.Batch, error) { return s.batch(ctx, true) }

func isDamage(err error) bool {
	_, ok := errors.AsType[*cas.DamagedError](err)
	return ok
}

// expel rewrites packs that have damaged records, without those records.
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
			err = fmt.Errorf("%q: a record changed while it was read", filepath.Base(p.path))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// badNow is badRecords for a pack as it is on disk now: it reads the pack again.
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

// badRecords returns the numbers of a pack's entries whose records are unreadable or wrong, or nil if the whole pack
// is right. The root of a long object counts as bad if its object can't be assembled.
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
