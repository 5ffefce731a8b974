package disk

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
)

// GCOptions are the options of GC.
type GCOptions struct {
	// Grace is how long an object must have been seen unreachable before it is removed.
	Grace time.Duration
	// DryRun only counts.
	DryRun bool
}

// A GCResult counts what GC found and removed.
type GCResult struct {
	Roots       int   `json:"roots"`
	Reachable   int64 `json:"reachable"` // records: objects and the parts of long ones
	Unreachable int64 `json:"unreachable"`
	Removed     int64 `json:"removed"` // of the unreachable; the rest is in its grace period
	PacksBefore int   `json:"packs_before"`
	PacksAfter  int   `json:"packs_after"`
	BytesBefore int64 `json:"bytes_before"`
	BytesAfter  int64 `json:"bytes_after"`
}

// GC removes the objects that have been unreachable from refs and pins for the grace period, according to the store's
// own record. It never removes an object that a running writer may rely on:
//
//  1. GC marks everything reachable, and lists the rest that is old enough in the file "condemned". Writers that begin
//     later treat these objects as absent and put them again if they need them.
//  2. It waits for writers that began earlier, and keeps what their new objects need.
//  3. It rewrites the packs without the condemned objects.
//  4. Under the lock of the refs it marks new roots, and rewrites a pack again if it dropped something they reach.
//  5. It gives the new packs their names and lists the old ones in the file "doomed", which hides them from all
//     processes. Then it removes them.
//
// The removal is atomic, because objects need each other: the root of a long object counts as the object even after
// its chunks are gone. If GC is killed, the old packs or the new ones remain, or both, and the next janitor cleans up.
func (s *Store) GC(ctx context.Context, options GCOptions) (GCResult, error) {
	var result GCResult
	if !options.DryRun {
		release, err := s.janitor(ctx)
		if err != nil {
			return result, err
		}
		defer release()
		// Objects that an earlier gc condemned and did not remove are ordinary garbage.
		if err := s.files.remove(filepath.Join(s.dir, condemnedFile)); err != nil {
			return result, err
		}
	}
	snap, err := s.load()
	if err != nil {
		return result, err
	}
	marks := newMarks(s, snap)
	defer marks.close()
	if len(snap.bad) > 0 {
		return result, fmt.Errorf("%q: %w", filepath.Base(snap.bad[0].path), snap.bad[0].err)
	}
	if result.Roots, err = marks.roots(ctx); err != nil {
		return result, err
	}
	result.PacksBefore, result.BytesBefore = len(marks.snap.packs), marks.snap.size()
	garbage, err := s.findGarbage(ctx, marks, options, &result)
	if err != nil {
		return result, err
	}
	result.PacksAfter, result.BytesAfter = result.PacksBefore, result.BytesBefore
	if options.DryRun {
		return result, nil
	}
	if err := s.writeGarbage(garbage); err != nil || result.Removed == 0 {
		return result, err
	}
	if err := s.condemn(ctx, garbage.piles); err != nil {
		return result, err
	}
	// The writers that gc waited for may have put objects that need some of the garbage.
	if _, err = marks.roots(ctx); err == nil {
		err = garbage.spareNew(ctx, marks, s.now().UnixNano(), &result)
	}
	if err == nil {
		err = s.collect(ctx, marks, garbage, &result)
	}
	err = errors.Join(err, s.files.remove(filepath.Join(s.dir, condemnedFile)))
	s.forget()
	if err != nil {
		return result, err
	}
	result.PacksAfter, result.BytesAfter, err = s.sizeNow()
	return result, err
}

// A pile is the garbage in one pack: a bit for each entry.
type pile struct {
	p    *pack
	dead bitset
	next *pack // the rest of p, still unnamed; nil if nothing is left
}

// rewrite writes the pack again, without the garbage.
func (g *pile) rewrite(ctx context.Context, s *Store) error {
	next, damaged, err := s.rewrite(ctx, []*pack{g.p}, func(_ *pack, n int) bool { return g.dead.has(n) })
	if err == nil && damaged != nil {
		err = fmt.Errorf("%q is damaged, so nothing was removed; run rye store fsck",
			filepath.Base(damaged.path))
	}
	g.next = next
	return err
}

// collect replaces the packs that hold garbage by packs without it.
func (s *Store) collect(ctx context.Context, marks *marks, garbage *garbage, result *GCResult) error {
	defer func() {
		for _, pile := range garbage.piles {
			s.drop(pile.next) // otherwise the next janitor would
		}
	}()
	for _, pile := range garbage.piles {
		if err := pile.rewrite(ctx, s); err != nil {
			return err
		}
	}
	lock, err := s.lockRefs(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	if _, err := marks.roots(ctx); err != nil {
		return err
	}
	var old, next []*pack
	for _, pile := range garbage.piles {
		if n := pile.dead.remove(marks.live[pile.p]); n > 0 {
			// New references to such old garbage are rare.
			result.Removed -= int64(n)
			if err := errors.Join(s.drop(pile.next), pile.rewrite(ctx, s)); err != nil {
				return err
			}
		}
		old = append(old, pile.p)
		if pile.next != nil {
			next = append(next, pile.next)
		}
	}
	if err := s.publish(next); err != nil {
		return err
	}
	// Packs that earlier janitors removed must not come back after a power cut without the packs that are removed
	// here.
	if err := s.files.syncDir(filepath.Join(s.dir, "packs")); err != nil {
		return err
	}
	if err := s.writeRecord(doomedFile, old, nil); err != nil {
		return err
	}
	if err := s.removeDoomed(); err != nil {
		return err
	}
	for _, pile := range garbage.piles {
		garbage.moved(pile.p, pile.next)
	}
	garbage.lines = linesOf(garbage.young)
	return s.writeGarbage(garbage)
}

// A bitset is a set of small numbers.
type bitset []uint64

func newBitset(n int) bitset    { return make(bitset, (n+63)/64) }
func (b bitset) has(n int) bool { return b[n/64]&(1<<(n%64)) != 0 }
func (b bitset) set(n int)      { b[n/64] |= 1 << (n % 64) }
func (b bitset) clear(n int)    { b[n/64] &^= 1 << (n % 64) }
func (b bitset) none() bool     { return !slices.ContainsFunc(b, func(w uint64) bool { return w != 0 }) }

// remove removes the numbers of o and returns how many of them b had.
func (b bitset) remove(o bitset) (n int) {
	for i := range b {
		n += bits.OnesCount64(b[i] & o[i])
		b[i] &^= o[i]
	}
	return n
}

// marks are the reachable entries: a bit for each entry of each pack.
type marks struct {
	s    *Store
	snap *snapshot
	live map[*pack]bitset
	gaps []cas.ID // missing objects that reachable objects refer to
	k    *blockCache
}

// newMarks takes over the snapshot.
func newMarks(s *Store, snap *snapshot) *marks {
	return &marks{s: s, snap: snap, live: make(map[*pack]bitset), k: s.takeCache()}
}

func (m *marks) close() {
	m.s.giveCache(m.k)
	m.snap.release()
}

// mark marks every copy of a record, and reports whether it was unmarked before and whether a copy exists.
func (m *marks) mark(kind cas.Kind, d *cas.Digest) (isNew, found bool, err error) {
	for _, p := range m.snap.packs {
		_, n, err := p.place(kind, d)
		if err != nil {
			return false, false, fmt.Errorf("%q: %w", filepath.Base(p.path), err)
		}
		if n >= 0 {
			found = true
			if !m.live[p].has(n) {
				isNew = true
				m.live[p].set(n)
			}
		}
	}
	return isNew, found, nil
}

// roots marks everything that refs and pins reach.
func (m *marks) roots(ctx context.Context) (int, error) {
	refs, err := m.s.Refs()
	if err != nil {
		return 0, err
	}
	// A writer may have put a missing object since, and it may reach older objects.
	ids := m.gaps
	m.gaps = nil
	for _, r := range refs {
		ids = append(ids, r.ID)
	}
	live, err := m.s.leases(pins, false)
	if err != nil {
		return 0, err
	}
	for _, text := range live {
		_, lines, _ := strings.Cut(text, "\n")
		for line := range strings.Lines(lines) {
			kind, digest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			k, ok := cas.ParseKind(kind)
			d, err := cas.ParseDigest(digest)
			if !ok || err != nil {
				return 0, fmt.Errorf("invalid line in a pin: %q", line)
			}
			ids = append(ids, cas.ID{Kind: k, Digest: d})
		}
	}
	// The packs are listed after the roots are read, because objects exist before the roots that reach them. Known
	// packs stay: only this janitor removes packs.
	snap, err := m.s.read(m.snap)
	if err != nil {
		return 0, err
	}
	m.snap.release()
	m.snap = snap
	for _, p := range m.snap.packs {
		if m.live[p] == nil {
			m.live[p] = newBitset(int(p.foot.entries))
		}
	}
	for len(ids) > 0 {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		id := ids[len(ids)-1]
		ids = ids[:len(ids)-1]
		if ids, err = m.object(ctx, id, ids); err != nil {
			return 0, err
		}
	}
	return len(refs) + len(live), nil
}

// object marks an object and its chunks, and appends the objects that it refers to. A missing object reaches nothing
// yet. An unreadable one might reach anything, so it ends the gc.
func (m *marks) object(ctx context.Context, id cas.ID, todo []cas.ID) ([]cas.ID, error) {
	isNew, found, err := m.mark(id.Kind, &id.Digest)
	if err == nil && !found {
		m.gaps = append(m.gaps, id)
	}
	if err != nil || !isNew {
		return todo, err
	}
	for _, p := range m.snap.packs {
		e, ok, err := p.lookup(id.Kind, &id.Digest)
		if err != nil {
			return todo, err
		}
		if ok && e.kind&large != 0 {
			if err := m.long(ctx, p, &e); err != nil {
				return todo, asDamage(id, err)
			}
		}
	}
	if id.Kind != cas.TreeKind {
		return todo, nil
	}
	b, err := m.s.readAll(ctx, m.snap, id)
	if err != nil {
		return todo, err
	}
	err = cas.DecodeTree(b, func(e cas.Entry) error {
		todo = append(todo, e.ID())
		return nil
	})
	if err != nil {
		err = asDamage(id, err)
	}
	return todo, err
}

// long marks the chunk lists and chunks of a long object.
func (m *marks) long(ctx context.Context, p *pack, entry *entry) error {
	b, err := m.k.record(p, entry)
	if err != nil {
		return err
	}
	_, _, level, items, err := decodeRoot(b)
	if err != nil {
		return err
	}
	lists := reader(func(rec cas.Kind, d *cas.Digest) ([]byte, error) {
		if _, _, err := m.mark(rec, d); err != nil {
			return nil, err
		}
		return m.snap.record(m.k, rec, d)
	})
	return lists.items(ctx, level, items, func(i *listItem) error {
		_, _, err := m.mark(chunkOf(entry.kind&^large), &i.digest)
		return err
	})
}

// condemn publishes the list of objects to remove and waits for all writers that began before the list.
func (s *Store) condemn(ctx context.Context, piles []*pile) error {
	var packs []*pack
	var es []entry
	for _, g := range piles {
		packs = append(packs, g.p)
		for e, err := range g.p.all() {
			if err != nil {
				return err
			}
			if g.dead.has(e.n) {
				es = append(es, e.entry)
			}
		}
	}
	slices.SortFunc(es, func(a, b entry) int { return a.compare(&b) })
	var b []byte
	for i := range es {
		if i > 0 && es[i].compare(&es[i-1]) == 0 {
			continue
		}
		b = append(append(b, es[i].digest[:]...), byte(es[i].kind))
	}
	if err := s.writeRecord(condemnedFile, packs, b); err != nil {
		return err
	}
	err := s.waitForWriters(ctx)
	if err != nil {
		err = errors.Join(err, s.files.remove(filepath.Join(s.dir, condemnedFile)))
	}
	return err
}

// waitForWriters waits for the writers that are running now, not for later ones.
func (s *Store) waitForWriters(ctx context.Context) error {
	old, err := s.leases(writers, true)
	if err != nil {
		return err
	}
	deadline := time.NewTimer(s.wait)
	defer deadline.Stop()
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		live, err := s.leases(writers, true)
		if err != nil {
			return err
		}
		who := ""
		for name := range old {
			if text, ok := live[name]; ok {
				who, _, _ = strings.Cut(text, "\n")
			}
		}
		if who == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-deadline.C:
			return fault.Wrap(osfile.Busy(s.dir, s.wait), "the store %q is busy: waited %s for a writer, %s", s.dir,
				s.wait, who)
		case <-time.After(pause):
		}
	}
}
