package disk

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rye-build/rye/cas"
)

// A Problem is one thing that is wrong with a store.
type Problem struct {
	File string   `json:"file,omitempty"` // the pack, or empty
	Ref  string   `json:"ref,omitempty"`  // the ref, or empty
	ID   cas.ID   `json:"-"`              // the object, or zero
	Text string   `json:"text"`           // one line
	From []string `json:"from,omitempty"` // refs that need the object, with the path below them
	Lost bool     `json:"lost"`           // no intact copy of the object is left
}

// A Report is the result of Fsck. A report without problems means that everything in the store was read and hashed.
type Report struct {
	Packs    int       `json:"packs"`
	Objects  int64     `json:"objects"`
	Bytes    int64     `json:"bytes"` // uncompressed
	Refs     int       `json:"refs"`
	Problems []Problem `json:"-"`
}

// Fsck reads and hashes everything in the store, follows every ref, and reports every problem. It uses no cache and
// changes nothing. If progress isn't nil, Fsck calls it with numbers of uncompressed bytes.
func (s *Store) Fsck(ctx context.Context, progress func(bytes int64)) (Report, error) {
	// The refs come first: the objects that they reach were in the store before them.
	refs, err := s.Refs()
	damagedRefs := unjoin(err)
	for _, e := range damagedRefs {
		if _, ok := errors.AsType[*RefError](e); !ok {
			return Report{}, e
		}
	}
	snap, err := s.read(nil) // open all files again
	if err != nil {
		return Report{}, err
	}
	defer snap.release()
	fsck := newFsck(s, snap)
	fsck.progress = progress
	for _, b := range snap.bad {
		fsck.add(Problem{File: filepath.Base(b.path), Text: b.err.Error() + "; rye store reindex"})
	}
	if err := fsck.longs(ctx, snap.packs); err != nil {
		return Report{}, err
	}
	for _, p := range snap.packs {
		if err := fsck.pack(ctx, p); err != nil {
			return Report{}, err
		}
	}
	if err := fsck.refs(ctx, refs, damagedRefs); err != nil {
		return Report{}, err
	}
	if ctx.Err() != nil {
		return Report{}, context.Cause(ctx)
	}
	r := Report{Packs: len(snap.packs) + len(snap.bad), Refs: len(refs), Objects: fsck.objects.Load(),
		Bytes: fsck.bytes.Load(), Problems: fsck.problems}
	slices.SortFunc(r.Problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Ref, b.Ref), a.ID.Digest.Compare(b.ID.Digest),
			cmp.Compare(a.Text, b.Text))
	})
	return r, nil
}

// atomicBits is a bitset that several goroutines may set.
type atomicBits []atomic.Uint64

func (b atomicBits) set(n int)      { b[n/64].Or(1 << (n % 64)) }
func (b atomicBits) has(n int) bool { return b[n/64].Load()&(1<<(n%64)) != 0 }

type fsck struct {
	s        *Store
	snap     *snapshot
	progress func(int64)
	checked  map[*pack]atomicBits // entries whose bytes have the right hash

	objects, bytes atomic.Int64

	mu       sync.Mutex
	problems []Problem
	lost     map[cas.ID]bool
}

func newFsck(s *Store, snap *snapshot) *fsck {
	f := &fsck{s: s, snap: snap, checked: make(map[*pack]atomicBits), lost: make(map[cas.ID]bool)}
	for _, p := range snap.packs {
		f.checked[p] = make(atomicBits, (p.foot.entries+63)/64)
	}
	return f
}

func (f *fsck) add(p Problem) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.problems = append(f.problems, p)
	f.lost[p.ID] = f.lost[p.ID] || p.Lost
}

func (f *fsck) did(n int) {
	f.bytes.Add(int64(n))
	if f.progress != nil {
		f.progress(int64(n))
	}
}

// A longEntry is the root of a chunk list in a pack.
type longEntry struct {
	placed
	p    *pack
	size int64
}

// longs hashes the long objects of some packs whole, and with them their chunks, so that each of their blocks is
// uncompressed once. The longest begin first.
func (f *fsck) longs(ctx context.Context, packs []*pack) error {
	var all []longEntry
	for _, p := range packs {
		for e, err := range p.all() {
			if err != nil {
				break // reported with the pack
			}
			if e.kind&large != 0 {
				all = append(all, longEntry{placed: e, p: p})
			}
		}
	}
	f.measure(all)
	slices.SortFunc(all, func(a, b longEntry) int { return cmp.Compare(b.size, a.size) })
	return cas.Parallel(ctx, 0, len(all), func(ctx context.Context, i int) error {
		k := f.s.takeCache()
		defer f.s.giveCache(k)
		f.long(ctx, k, all[i])
		return nil
	})
}

// measure finds the lengths of long objects, in the order of their places.
func (f *fsck) measure(all []longEntry) {
	slices.SortStableFunc(all, func(a, b longEntry) int {
		if a.p != b.p {
			return strings.Compare(a.p.path, b.p.path)
		}
		return cmp.Compare(a.block, b.block)
	})
	k := f.s.takeCache()
	defer f.s.giveCache(k)
	for i := range all {
		all[i].size, _ = longSize(all[i].p, &all[i].entry, k) // an unreadable root is reported later
	}
}

// long assembles and hashes one object. It reports only the object; pack reports damaged records.
func (f *fsck) long(ctx context.Context, k *blockCache, longEntry longEntry) {
	id := cas.ID{Kind: longEntry.kind &^ large, Digest: longEntry.digest}
	err := func() error {
		b, err := k.record(longEntry.p, &longEntry.entry)
		if err != nil {
			return err
		}
		d, _, level, items, err := decodeRoot(b)
		if err != nil {
			return err
		}
		if d != id.Digest {
			return &cas.DamagedError{ID: id, Found: d}
		}
		h := cas.NewHasher()
		parts := reader(func(rec cas.Kind, d *cas.Digest) ([]byte, error) { return f.record(k, rec, d) })
		if err := parts.chunks(ctx, id.Kind, level, items, func(b []byte) error {
			h.Write(b)
			return nil
		}); err != nil {
			return err
		}
		if found := h.Digest(); found != id.Digest {
			return &cas.DamagedError{ID: id, Found: found}
		}
		return nil
	}()
	if err == nil {
		f.checked[longEntry.p].set(longEntry.n)
		f.objects.Add(1)
		return
	}
	if ctx.Err() == nil {
		f.damaged(ctx, longEntry.p, id, asDamage(id, err))
	}
}

// record is snapshot.record, but remembers which entries it has hashed, and hashes none twice.
func (f *fsck) record(k *blockCache, kind cas.Kind, digest *cas.Digest) ([]byte, error) {
	for _, pack := range f.snap.packs {
		e, n, err := pack.place(kind, digest)
		if err != nil || n < 0 {
			continue
		}
		data, err := k.record(pack, &e)
		if err != nil {
			continue
		}
		if !f.checked[pack].has(n) {
			if cas.Sum(data) != *digest {
				continue
			}
			f.checked[pack].set(n)
			f.did(len(data))
		}
		return data, nil
	}
	return f.snap.record(k, kind, digest) // for its error, or a copy in a pack that has just lost its index
}

// pack checks the parts that longs has not checked: magic, blocks and their headers, records, index, footer, and that
// the file holds nothing else.
func (f *fsck) pack(ctx context.Context, pack *pack) error {
	name := filepath.Base(pack.path)
	es, err := pack.byPlace()
	if err == nil {
		err = pack.frame()
	}
	if err != nil {
		if !errors.Is(err, ErrFormat) {
			return err
		}
		f.add(Problem{File: name, Text: err.Error() + "; rye store reindex"})
		return nil
	}
	blocks := splitBlocks(es)
	if len(blocks) != int(pack.foot.blocks) {
		f.add(Problem{File: name, Text: "index and blocks do not match; rye store reindex"})
	}
	return cas.Parallel(ctx, 0, len(blocks), func(ctx context.Context, i int) error {
		k := f.s.takeCache()
		defer f.s.giveCache(k)
		if err := pack.header(blocks[i]); errors.Is(err, ErrFormat) {
			f.add(Problem{File: name, Text: err.Error()})
		} else if err != nil {
			return err
		}
		f.records(ctx, pack, blocks[i], k)
		return nil
	})
}

func splitBlocks(es []placed) [][]placed {
	var out [][]placed
	for len(es) > 0 {
		n := 1
		for n < len(es) && es[n].block == es[0].block {
			n++
		}
		out = append(out, es[:n])
		es = es[n:]
	}
	return out
}

// frame checks the parts of a pack that no block and no page covers.
func (p *pack) frame() error {
	magic := make([]byte, headerSize)
	if _, err := p.f.ReadAt(magic, 0); err != nil {
		return noEOF(err)
	}
	if !bytes.Equal(magic, packHeader(p.foot.salt)) {
		return badPack("its first bytes are not those of a pack")
	}
	// Blocks are placed in the file in the order in which they filled up, not by number.
	end := int64(headerSize)
	for n := range p.foot.blocks {
		l, err := p.loc(uint32(n))
		if err != nil {
			return err
		}
		end = max(end, l.off+int64(l.stored))
	}
	pad := make([]byte, int64(p.foot.index)-end)
	if len(pad) >= pageSize {
		return badPack("there are bytes between its blocks and its index")
	}
	if _, err := p.f.ReadAt(pad, end); err != nil {
		return noEOF(err)
	}
	if len(bytes.TrimLeft(pad, "\x00")) > 0 {
		return badPack("there are bytes between its blocks and its index")
	}
	h := cas.NewHasher()
	var page [pageSize]byte
	for n := range p.foot.pages() {
		if err := p.copyPage(page[:], n); err != nil {
			return err
		}
		h.Write(page[:])
	}
	if p.foot.hash(h) != p.foot.id {
		return badPack("its index does not match its ID")
	}
	return nil
}

// header checks that the header of a block and the index agree. The length of a header follows from the records that
// it lists.
func (p *pack) header(es []placed) error {
	loc, err := p.loc(es[0].block)
	if err != nil {
		return err
	}
	recs := make([]record, len(es))
	for i := range es {
		recs[i] = record{es[i].kind, es[i].size}
	}
	buf := appendBlockHeader(nil, p.foot.salt, loc.codec, int(loc.raw), int(loc.stored), recs)
	if loc.off < int64(len(buf)) {
		return badPack("block %d has no room for its header", es[0].block)
	}
	if _, err := p.f.ReadAt(buf, loc.off-int64(len(buf))); err != nil {
		return noEOF(err)
	}
	h, err := decodeBlockHeader(buf, p.foot.salt)
	if err != nil {
		return err
	}
	// Empty records share an offset with the next record, in any order.
	order := func(a, b record) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.size, b.size)) }
	slices.SortFunc(recs, order)
	slices.SortFunc(h.recs, order)
	if h.codec != loc.codec || h.raw != loc.raw || h.stored != loc.stored || !slices.Equal(h.recs, recs) {
		return badPack("the header of block %d and the index disagree", es[0].block)
	}
	return nil
}

// records hashes the records of a block that were not hashed before.
func (f *fsck) records(ctx context.Context, pack *pack, es []placed, k *blockCache) {
	bits := f.checked[pack]
	if !slices.ContainsFunc(es, func(e placed) bool { return !bits.has(e.n) }) {
		return
	}
	b, err := k.get(pack, es[0].block)
	for i := range es {
		placed := &es[i]
		if bits.has(placed.n) {
			continue
		}
		bad := err
		if bad == nil {
			bad = placed.verify(b)
		}
		id := cas.ID{Kind: placed.kind &^ large, Digest: placed.digest}
		if bad != nil {
			f.damaged(ctx, pack, id, bad)
			continue
		}
		if placed.kind&large == 0 { // a root is right only if its object could be assembled
			bits.set(placed.n)
			f.did(int(placed.size))
			if placed.kind <= cas.Document {
				f.objects.Add(1)
			}
		}
	}
}

// damaged reports a damaged record, as an object or as a part of a long object.
func (f *fsck) damaged(ctx context.Context, p *pack, id cas.ID, err error) {
	pr := Problem{File: filepath.Base(p.path), ID: id, Text: err.Error()}
	if id.Kind > cas.Document {
		pr.Text = fmt.Sprintf("part of a long object: %v", err)
		pr.ID = cas.ID{}
		f.add(pr)
		return
	}
	o, err := f.s.open(ctx, f.snap, id)
	if err == nil {
		_, err = io.Copy(io.Discard, o)
		o.Close()
	}
	pr.Lost = err != nil
	f.add(pr)
}
