package disk

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/rye-build/rye/cas"

	"github.com/rye-build/rye/cas/osfile"
)

// janitorLock is held by the one process that replaces packs (merge, repack, reindex, gc). Readers and writers
// continue meanwhile: a process can read packs that it has open after their names are gone, and it lists the packs
// again when it meets a name that has just gone.
const janitorLock = "janitor.lock"

// Limits of merging. A merge takes fanout packs of about the same size, so that a store filled by n batches has
// about fanout*log(n) packs, and each object is rewritten about log(n) times. Packs above one of the two limits are
// not merged; the first limit bounds the memory of a merge.
const (
	fanout       = 8
	mergeObjects = 512 << 10
	mergeBytes   = 4 << 30
)

// tier is the size class of a pack: the logarithm of its number of objects.
func (p *pack) tier(fanout int) int {
	t := 0
	for n := p.foot.entries; n >= uint64(fanout); n /= uint64(fanout) {
		t++
	}
	return t
}

// mergeSome merges packs where too many of them have one size. If another janitor is running, it does nothing.
func (s *Store) mergeSome(ctx context.Context) error {
	snap, err := s.snapshot()
	if err != nil {
		return err
	}
	many := snap.mergeable(s.fanout, nil) != nil
	snap.release()
	if !many {
		return nil
	}
	lock, err := os.OpenFile(filepath.Join(s.dir, janitorLock), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if ok, err := osfile.TryLock(lock, osfile.Exclusive); !ok {
		return err
	}
	if err := s.removeDoomed(); err != nil {
		return err
	}
	var damaged []string // can't be merged; fsck reports them
	for more := true; more && err == nil; {
		more, err = s.merge(ctx, &damaged)
	}
	return err
}

// merge merges one group of packs, if a tier has enough of them. It appends the path of a damaged pack to damaged.
func (s *Store) merge(ctx context.Context, damaged *[]string) (more bool, err error) {
	snap, err := s.load()
	if err != nil {
		return false, err
	}
	defer snap.release()
	group := snap.mergeable(s.fanout, *damaged)
	if group == nil {
		return false, nil
	}
	bad, err := s.replace(ctx, group, nil)
	if bad != nil {
		*damaged = append(*damaged, bad.path)
	}
	return true, err
}

// mergeable returns the packs of the lowest tier that has enough of them.
func (n *snapshot) mergeable(fanout int, except []string) []*pack {
	var tiers [64][]*pack
	for _, p := range n.packs {
		if t := p.tier(fanout); t < len(tiers) && !slices.Contains(except, p.path) &&
			p.size < mergeBytes/int64(fanout) {
			tiers[t] = append(tiers[t], p)
		}
	}
	for _, group := range tiers {
		if len(group) < fanout {
			continue
		}
		objects := uint64(0)
		for _, p := range group {
			objects += p.foot.entries
		}
		if objects <= mergeObjects {
			return group
		}
	}
	return nil
}

// replace replaces some packs by one new pack, without the entries that drop names (by pack and number). If one of
// them is damaged, it changes nothing and returns that pack. The removal isn't synced: a pack that reappears after a
// power cut does no harm.
func (s *Store) replace(ctx context.Context, group []*pack, drop func(p *pack, n int) bool) (damaged *pack,
	err error) {
	damaged, err = s.add(ctx, group, drop)
	if err != nil || damaged != nil {
		return damaged, err
	}
	defer s.forget()
	for _, p := range group {
		if err := s.files.remove(p.path); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// add writes the new pack as replace does, and leaves the old packs.
func (s *Store) add(ctx context.Context, group []*pack, drop func(p *pack, n int) bool) (damaged *pack, err error) {
	p, damaged, err := s.rewrite(ctx, group, drop)
	if p == nil || err != nil {
		return damaged, err
	}
	return nil, errors.Join(s.publish([]*pack{p}), s.drop(p))
}

// drop releases a pack that this process wrote, and removes it if it has no name yet. Other writers may already rely
// on a named pack. A nil p is a pack that would have been empty.
func (s *Store) drop(p *pack) error {
	if p == nil {
		return nil
	}
	p.release()
	if p.named {
		return nil
	}
	return s.files.remove(p.path)
}

// rewrite copies the records of some packs into a new, finished pack that has no name yet. It returns nil if that pack
// would be empty. It verifies each record.
func (s *Store) rewrite(ctx context.Context, group []*pack, drop func(p *pack, n int) bool) (pack, damaged *pack,
	err error) {
	enc, err := s.encoder()
	if err != nil {
		return nil, nil, err
	}
	packWriter, err := newPackWriter(s.files, filepath.Join(s.dir, "tmp", "janitor-"+randomName()), randomSalt())
	if err != nil {
		return nil, nil, err
	}
	k := s.takeCache()
	defer s.giveCache(k)
	mover := &mover{w: packWriter, enc: enc, c: k.c}
	mover.open[plainClass].plain = true
	for _, p := range group {
		err := mover.move(ctx, p, drop)
		if errors.Is(err, ErrFormat) {
			return nil, p, packWriter.abort()
		}
		if err != nil {
			return nil, nil, errors.Join(err, packWriter.abort())
		}
	}
	for i := range mover.open {
		if err := mover.open[i].seal(packWriter, enc); err != nil {
			return nil, nil, errors.Join(err, packWriter.abort())
		}
	}
	if len(packWriter.entries) == 0 {
		return nil, nil, packWriter.abort()
	}
	if pack, err = packWriter.seal(); err != nil {
		return nil, nil, errors.Join(err, packWriter.abort())
	}
	return pack, nil, nil
}

// A mover copies records into a pack.
type mover struct {
	w    *packWriter
	enc  *zstd.Encoder
	c    *scratch
	buf  []byte
	open [classes]builder
}

// move copies the records of p that drop does not name. An error that wraps ErrFormat is about p.
func (m *mover) move(ctx context.Context, p *pack, drop func(p *pack, n int) bool) error {
	es, err := p.byPlace()
	if err != nil {
		return err
	}
	for _, block := range splitBlocks(es) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := m.moveBlock(p, block, drop); err != nil {
			return err
		}
	}
	return nil
}

// enough is the size from which a block is copied unchanged if all its records are needed. Smaller blocks are
// compressed again together with their neighbours.
const enough = blockMax / 4

func (m *mover) moveBlock(pack *pack, es []placed, drop func(p *pack, n int) bool) error {
	dropped := 0
	if drop != nil {
		for i := range es {
			if drop(pack, es[i].n) {
				dropped++
			}
		}
	}
	if dropped == len(es) {
		return nil
	}
	raw, err := pack.block(es[0].block, m.c, m.buf)
	if err != nil {
		return err
	}
	m.buf = raw
	known, at := 0, uint32(0) // at is the offset of the next record if es has the whole block
	for i := range es {
		if es[i].off == at {
			at += es[i].size
		}
		if drop != nil && drop(pack, es[i].n) {
			continue
		}
		if err := es[i].verify(raw); err != nil {
			return err
		}
		if m.w.has(es[i].kind&^large, &es[i].digest) {
			known++
		}
	}
	if dropped == 0 && known == 0 && len(raw) >= enough && int(at) == len(raw) {
		return m.copyBlock(pack, es)
	}
	for i := range es {
		entry := &es[i].entry
		if drop != nil && drop(pack, es[i].n) {
			continue
		}
		data, _ := entry.of(raw)
		bu := &m.open[classOf(entry.kind, data)]
		if bu.raw == nil {
			bu.number = noBlock
		}
		if !bu.fits(len(data)) {
			if err := bu.seal(m.w, m.enc); err != nil {
				return err
			}
		}
		bu.add(m.w, entry.kind, &entry.digest, data)
	}
	return nil
}

// verify hashes the record of e in its uncompressed block. Of a chunk list's root it checks only the structure: the
// object consists of its chunks, and each of those is verified.
func (e *entry) verify(block []byte) error {
	b, err := e.of(block)
	if err != nil {
		return err
	}
	found := cas.Digest{}
	if e.kind&large != 0 {
		if found, _, _, _, err = decodeRoot(b); err != nil {
			return err
		}
	} else {
		found = cas.Sum(b)
	}
	if found != e.digest {
		return badPack("%s has the digest %s", e.digest, found)
	}
	return nil
}

// copyBlock copies a block without compressing it again.
func (m *mover) copyBlock(pack *pack, es []placed) error {
	loc, err := pack.loc(es[0].block)
	if err != nil {
		return err
	}
	number := noBlock
	recs := make([]record, 0, len(es))
	for i := range es {
		e := es[i].entry
		e.block = number
		number, _ = m.w.claim(e)
		recs = append(recs, record{e.kind, e.size})
	}
	b := appendBlockHeader(make([]byte, 0, blockFixed+4*len(recs)+int(loc.stored)), m.w.salt, loc.codec, int(loc.raw),
		int(loc.stored), recs)
	head := len(b)
	b = b[:head+int(loc.stored)]
	if _, err := pack.f.ReadAt(b[head:], loc.off); err != nil {
		return noEOF(err)
	}
	return m.w.write(number, b, head, loc.codec, int(loc.raw))
}

// janitor takes the janitor's lock and removes the leftovers of dead processes.
func (s *Store) janitor(ctx context.Context) (release func() error, err error) {
	if s.readOnly {
		return nil, s.errReadOnly()
	}
	lock, err := s.acquire(ctx, janitorLock)
	if err != nil {
		return nil, err
	}
	if err = s.removeDoomed(); err == nil {
		err = s.sweep(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock.Close, nil
}

// noJanitor reports whether no janitor is running.
func (s *Store) noJanitor() bool {
	f, _, err := openRegular(filepath.Join(s.dir, janitorLock))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	ok, err := osfile.TryLock(f, osfile.Shared)
	return ok && err == nil
}

// sweep removes temporary files without an owner. The caller is the janitor.
func (s *Store) sweep(ctx context.Context) error {
	live, err := s.leases(writers, true)
	if err != nil {
		return err
	}
	if _, err := s.leases(pins, true); err != nil {
		return err
	}
	// Every process that writes a ref holds this lock.
	lock, err := s.lockRefs(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	dir := filepath.Join(s.dir, "tmp")
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		if owner, _, _ := strings.Cut(f.Name(), "-"); owner == "lease" {
			err = s.sweepLease(path)
		} else if s.ownerless(owner, live) {
			err = s.files.remove(path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ownerless reports whether the temporary files of an owner can be removed. A janitor's files belong to an earlier
// janitor, a ref's were never finished, because this process holds the lock, and a missing format file is written
// again.
func (s *Store) ownerless(owner string, live map[string]string) bool {
	if owner == "janitor" || owner == "ref" || owner == "format" {
		return true
	}
	if _, ok := live[owner]; ok {
		return false
	}
	// The lease may be newer than the list of leases.
	_, err := os.Lstat(filepath.Join(s.dir, writers, owner))
	return errors.Is(err, fs.ErrNotExist)
}

// sweepLease removes an unfinished lease. A live process holds its lease locked, or creates another one.
func (s *Store) sweepLease(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	dead, err := osfile.TryLock(f, osfile.Exclusive)
	if err == nil && dead {
		err = s.files.remove(path)
	}
	return err
}

// A RepackResult counts the packs before and after a repack.
type RepackResult struct {
	PacksBefore int      `json:"packs_before"`
	PacksAfter  int      `json:"packs_after"`
	BytesBefore int64    `json:"bytes_before"`
	BytesAfter  int64    `json:"bytes_after"`
	Damaged     []string `json:"damaged,omitempty"` // packs that were not touched
}

// Repack merges packs as far as their limits allow, so that small blocks become large ones.
func (s *Store) Repack(ctx context.Context) (RepackResult, error) {
	var repackResult RepackResult
	release, err := s.janitor(ctx)
	if err != nil {
		return repackResult, err
	}
	defer release()
	snap, err := s.load()
	if err != nil {
		return repackResult, err
	}
	defer snap.release()
	repackResult.PacksBefore, repackResult.BytesBefore = len(snap.packs), snap.size()
	for _, b := range snap.bad {
		repackResult.Damaged = append(repackResult.Damaged, filepath.Base(b.path))
	}
	var group []*pack
	objects, size := uint64(0), int64(0)
	flush := func() error {
		for len(group) > 1 {
			bad, err := s.replace(ctx, group, nil)
			if err != nil {
				return err
			}
			if bad == nil {
				break
			}
			repackResult.Damaged = append(repackResult.Damaged, filepath.Base(bad.path))
			group = slices.DeleteFunc(group, func(p *pack) bool { return p == bad })
		}
		group, objects, size = nil, 0, 0
		return nil
	}
	for _, p := range snap.packs {
		if ctx.Err() != nil {
			return repackResult, context.Cause(ctx)
		}
		if objects+p.foot.entries > mergeObjects || size+p.size > mergeBytes {
			if err := flush(); err != nil {
				return repackResult, err
			}
		}
		group, objects, size = append(group, p), objects+p.foot.entries, size+p.size
	}
	if err := flush(); err != nil {
		return repackResult, err
	}
	repackResult.PacksAfter, repackResult.BytesAfter, err = s.sizeNow()
	return repackResult, err
}

// sizeNow returns the number of packs, and their bytes.
func (s *Store) sizeNow() (packs int, bytes int64, err error) {
	snap, err := s.load()
	if err != nil {
		return 0, 0, err
	}
	defer snap.release()
	return len(snap.packs), snap.size(), nil
}

func (n *snapshot) size() (sum int64) {
	for _, p := range n.packs {
		sum += p.size
	}
	return sum
}
