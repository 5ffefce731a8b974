package disk

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/rye-build/rye/cas"
)

// A blockCache keeps the blocks that were read last. The chunks of an edited object alternate between old packs and
// new ones, and without the cache each change of pack would uncompress a block again. It is not safe for concurrent
// use.
type blockCache struct {
	c      *scratch
	blocks [4]cachedBlock
	clock  int
}

type cachedBlock struct {
	p    *pack
	n    uint32
	b    []byte
	used int
}

// get returns an uncompressed block, valid until the next get.
func (k *blockCache) get(pack *pack, n uint32) ([]byte, error) {
	k.clock++
	oldest := &k.blocks[0]
	for i := range k.blocks {
		e := &k.blocks[i]
		if e.p == pack && e.n == n {
			e.used = k.clock
			return e.b, nil
		}
		if e.used < oldest.used {
			oldest = e
		}
	}
	oldest.p = nil
	b, err := pack.block(n, k.c, oldest.b)
	if err != nil {
		return nil, err
	}
	*oldest = cachedBlock{pack, n, b, k.clock}
	return b, nil
}

// record returns the bytes of an entry's record, unverified and valid until the next get.
func (k *blockCache) record(p *pack, e *entry) ([]byte, error) {
	b, err := k.get(p, e.block)
	if err != nil {
		return nil, err
	}
	return e.of(b)
}

// record returns a record of the snapshot, verified, from the first pack with an intact copy.
func (n *snapshot) record(k *blockCache, kind cas.Kind, d *cas.Digest) ([]byte, error) {
	b, damage := recordIn(n.packs, k, kind, d)
	if b != nil {
		return b, nil
	}
	if b, _ = recordIn(n.salvaged(k.c), k, kind, d); b != nil {
		return b, nil
	}
	if damage == nil {
		damage = fmt.Errorf("its part %s: %w", d, errPart)
	}
	return nil, damage
}

// recordIn is record for some packs. If no pack has the record, it returns neither bytes nor damage.
func recordIn(packs []*pack, k *blockCache, kind cas.Kind, d *cas.Digest) (b []byte, damage error) {
	for _, p := range packs {
		e, ok, err := p.lookup(kind, d)
		if err == nil && ok {
			if b, err = k.record(p, &e); err == nil {
				found := cas.Sum(b)
				if found == *d {
					return b, nil
				}
				err = fmt.Errorf("one of its parts has digest %s instead of %s", found, d)
			}
		}
		if err != nil && damage == nil {
			damage = err
		}
	}
	return nil, damage
}

// errPart is not an fs.ErrNotExist: an object with a missing part is damaged, not absent.
var errPart = badPack("missing")

// A reader returns the verified bytes of a part of a long object.
type reader func(rec cas.Kind, d *cas.Digest) ([]byte, error)

// parts returns the reader of a snapshot.
func (n *snapshot) parts(k *blockCache) reader {
	return func(rec cas.Kind, d *cas.Digest) ([]byte, error) { return n.record(k, rec, d) }
}

// chunks calls f with each chunk of a long object in order.
func (r reader) chunks(ctx context.Context, kind cas.Kind, level int, items []listItem, f func(b []byte) error) error {
	return r.items(ctx, level, items, func(i *listItem) error {
		b, err := r(chunkOf(kind), &i.digest)
		if err == nil && int64(len(b)) != i.size {
			err = badPack("a chunk list gives a wrong length")
		}
		if err != nil {
			return err
		}
		return f(b)
	})
}

// items calls each with each chunk's item below a list, in order. A list must be as long as the list above declares,
// so that the length in the root bounds everything.
func (r reader) items(ctx context.Context, level int, items []listItem, each func(i *listItem) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for n := range items {
		i := &items[n]
		if level == 0 {
			if err := each(i); err != nil {
				return err
			}
			continue
		}
		b, err := r(listRecord, &i.digest)
		if err != nil {
			return err
		}
		below, err := decodeBelow(b, level, i.size)
		if err == nil {
			err = r.items(ctx, level-1, below, each)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func chunkOf(kind cas.Kind) cas.Kind {
	if kind == cas.Blob {
		return chunkRecord
	}
	return textRecord
}

// openLong opens an object that is stored in chunks. It does not trust the root record: only bytes with the wanted
// digest are accepted in the end.
func (s *Store) openLong(ctx context.Context, snap *snapshot, id cas.ID, k *blockCache, root []byte) (cas.Object,
	error) {
	d, size, level, items, err := decodeRoot(root)
	if err == nil && d != id.Digest {
		err = &cas.DamagedError{ID: id, Found: d}
	}
	if err != nil {
		return cas.Object{}, err
	}
	info := cas.Info{ID: id, Size: size}
	if size <= 2*blockMax {
		// Too little to be worth a goroutine; read it now.
		b := make([]byte, 0, size)
		if err := snap.parts(k).chunks(ctx, id.Kind, level, items, func(c []byte) error {
			b = append(b, c...)
			return nil
		}); err != nil {
			return cas.Object{}, err
		}
		if found := cas.Sum(b); found != id.Digest {
			return cas.Object{}, &cas.DamagedError{ID: id, Found: found}
		}
		return cas.Object{Info: info, ReadCloser: io.NopCloser(bytes.NewReader(b))}, nil
	}
	r := newLongReader(ctx, s, snap, id, level, items)
	return cas.Verify(info, r), nil
}

// longSize returns the length of an object from the root of its chunk list.
func longSize(p *pack, e *entry, k *blockCache) (int64, error) {
	b, err := k.record(p, e)
	if err != nil {
		return 0, err
	}
	_, size, _, _, err := decodeRoot(b)
	return size, err
}

// A longReader streams the chunks of an object. One goroutine reads ahead while another uses the bytes.
type longReader struct {
	full, empty chan []byte
	cur         []byte
	rest        []byte // of cur
	err         error  // of the goroutine; read after full is closed
	stop        context.CancelFunc
}

const readAhead = 3 // buffers of blockMax bytes

func newLongReader(ctx context.Context, store *Store, snap *snapshot, id cas.ID, level int,
	items []listItem) *longReader {
	ctx, stop := context.WithCancel(ctx)
	longReader := &longReader{full: make(chan []byte, readAhead), empty: make(chan []byte, readAhead), stop: stop}
	for range readAhead {
		longReader.empty <- nil
	}
	snap.retain()
	go func() {
		defer close(longReader.full)
		defer snap.release()
		k := store.takeCache()
		defer store.giveCache(k)
		var out []byte
		next := func() error {
			select {
			case out = <-longReader.empty:
				if out == nil {
					out = make([]byte, 0, blockMax)
				}
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		err := next()
		if err == nil {
			err = snap.parts(k).chunks(ctx, id.Kind, level, items, func(b []byte) error {
				if len(out)+len(b) > cap(out) {
					longReader.full <- out // never blocks: full has a place for each buffer
					if err := next(); err != nil {
						return err
					}
				}
				out = append(out, b...)
				return nil
			})
		}
		if err != nil {
			longReader.err = err
			if ctx.Err() == nil {
				longReader.err = asDamage(id, err)
			}
			return
		}
		longReader.full <- out
	}()
	return longReader
}

func (r *longReader) Read(data []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.cur != nil {
			r.empty <- r.cur[:0]
			r.cur = nil
		}
		b, ok := <-r.full
		if !ok {
			if r.err != nil {
				return 0, r.err
			}
			return 0, io.EOF
		}
		r.cur, r.rest = b, b
	}
	n := copy(data, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// Close ends the goroutine and waits for it, so that its memory and its pack are free.
func (r *longReader) Close() error {
	r.stop()
	for range r.full {
	}
	return nil
}

// A wanted is one object of a visit, and its place.
type wanted struct {
	i int // in ids
	p *pack
	entry
}

// Visit implements cas.Visitor: it reads and uncompresses each block once, with as many goroutines as there are
// processors. It verifies objects before visit sees the first byte, unless they are too long for that.
func (s *Store) Visit(ctx context.Context, ids []cas.ID, visit func(i int, o cas.Object) error) error {
	snap, err := s.load()
	if err != nil {
		return err
	}
	defer snap.release()
	small, other := snap.locate(ids)
	groups := slices.Collect(sameBlock(small))
	// Long objects come first: they take longest.
	return cas.Parallel(ctx, 0, len(other)+len(groups), func(ctx context.Context, n int) error {
		if n < len(other) {
			return s.visitOne(ctx, ids, other[n], visit)
		}
		k := s.takeCache()
		defer s.giveCache(k)
		return s.visitBlock(ctx, k, ids, groups[n-len(other)], visit)
	})
}

// visitOne shows the object ids[i].
func (s *Store) visitOne(ctx context.Context, ids []cas.ID, i int, visit func(int, cas.Object) error) error {
	o, err := s.Get(ctx, ids[i])
	if err != nil {
		return err
	}
	defer o.Close()
	return visit(i, o)
}

// locate splits ids into small objects, sorted by place, and the positions in ids of all others.
func (n *snapshot) locate(ids []cas.ID) (small []wanted, other []int) {
	rank := make(map[*pack]int, len(n.packs))
	small = make([]wanted, 0, len(ids))
next:
	for i := range ids {
		if !isObject(ids[i].Kind) {
			other = append(other, i)
			continue
		}
		for r, p := range n.packs {
			if e, ok, err := p.lookup(ids[i].Kind, &ids[i].Digest); ok && err == nil && e.kind&large == 0 {
				small = append(small, wanted{i, p, e})
				rank[p] = r
				continue next
			}
		}
		other = append(other, i)
	}
	slices.SortFunc(small, func(a, b wanted) int {
		if a.p != b.p {
			return rank[a.p] - rank[b.p]
		}
		if a.block != b.block {
			return int(a.block) - int(b.block)
		}
		return int(a.off) - int(b.off)
	})
	return small, other
}

// sameBlock yields the runs of w that share a block.
func sameBlock(w []wanted) func(yield func([]wanted) bool) {
	return func(yield func([]wanted) bool) {
		for len(w) > 0 {
			n := 1
			for n < len(w) && w[n].p == w[0].p && w[n].block == w[0].block {
				n++
			}
			if !yield(w[:n]) {
				return
			}
			w = w[n:]
		}
	}
}

// visitBlock visits the wanted objects of one block. For a damaged record it searches the other packs.
func (s *Store) visitBlock(ctx context.Context, k *blockCache, ids []cas.ID, group []wanted,
	visit func(int, cas.Object) error) error {
	block, blockErr := k.get(group[0].p, group[0].block)
	r := new(bytes.Reader)
	for g := range group {
		w := &group[g]
		b, err := w.of(block)
		if err == nil && blockErr == nil && cas.Sum(b) == w.digest {
			r.Reset(b)
			info := cas.Info{ID: ids[w.i], Size: int64(len(b))}
			err = visit(w.i, cas.Object{Info: info, ReadCloser: io.NopCloser(r)})
		} else {
			err = s.visitOne(ctx, ids, w.i, visit)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

var _ cas.Visitor = (*Store)(nil)
