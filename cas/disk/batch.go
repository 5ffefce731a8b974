package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk/cut"
)

// Limits of a pack. At either, the batch finishes the pack and starts another, so that a batch's memory does not grow
// with its size.
const (
	packObjects = 64 << 10
	packBytes   = 1 << 30
)

// Records of one class share blocks, because they compress well together.
const (
	textClass  = iota // trees, documents, chunk lists
	smallClass        // whole blobs
	chunkClass        // chunks of blobs
	plainClass        // records that compression would not make shorter
	classes
)

func classOf(kind cas.Kind, data []byte) int {
	switch {
	case even(data):
		return plainClass
	case kind == cas.Blob:
		return smallClass
	case kind == chunkRecord:
		return chunkClass
	}
	return textClass // also roots of chunk lists
}

// even reports whether the bytes of data are as evenly spread as those of compressed or encrypted files. It counts how
// often two bytes of a sample are equal: four times in a thousand if all values are alike, ten times as often in text.
func even(data []byte) bool {
	const sample = 1 << 10
	if len(data) < 2*sample {
		return false
	}
	var count [256]uint16
	mid := len(data) / 2
	for _, x := range data[mid : mid+sample] {
		count[x]++
	}
	pairs := 0
	for _, n := range count {
		pairs += int(n) * int(n)
	}
	return pairs-sample < sample*sample/128
}

// A batch is a cas.Batch of a Store.
type batch struct {
	s       *Store
	ctx     context.Context // ends the merge in Close
	lease   *lease
	snap    *snapshot        // the packs when the batch began
	garbage func() *gcRecord // objects that gc has seen unreachable, and may remove before a ref names them
	intact  sync.Map         // *pack to a func(entry int) bool, which checks the pack at its first call
	known   atomic.Bool      // some objects were in the store already
	reread  bool             // read each pack before relying on it
	enc     *zstd.Encoder
	slots   chan struct{} // one for each goroutine that may work on a long object

	roll   sync.RWMutex               // shared while records are added, exclusive while packs change
	w      atomic.Pointer[packWriter] // nil until the first new record; set under mu, cleared under roll
	sealed []*pack                    // finished packs of this batch, under their temporary names
	prints []prints                   // of sealed
	last   *packWriter                // the next writer reuses its memory

	mu   sync.Mutex
	free [classes][]*builder
	all  []*builder
	err  error // the first failed write: the batch can't be committed any more
	done bool
}

// Batch begins a group of puts. See cas.Batch.
func (s *Store) Batch(ctx context.Context) (cas.Batch, error) {
	b, err := s.batch(ctx, false)
	if err != nil {
		return nil, err
	}
	return b, nil
}

func (s *Store) batch(ctx context.Context, reread bool) (*batch, error) {
	if s.readOnly {
		return nil, s.errReadOnly()
	}
	lease, err := s.newLease(ctx, writers)
	if err != nil {
		return nil, err
	}
	// After the lease: gc waits for writers that may not have seen what it condemned.
	snap, err := s.load()
	if err != nil {
		return nil, errors.Join(err, lease.release())
	}
	enc, err := s.encoder()
	if err != nil {
		snap.release()
		return nil, errors.Join(err, lease.release())
	}
	return &batch{s: s, ctx: ctx, lease: lease, snap: snap, garbage: sync.OnceValue(s.readGarbage), reread: reread,
		enc: enc, slots: make(chan struct{}, runtime.GOMAXPROCS(0))}, nil
}

// Missing implements cas.Misser.
func (b *batch) Missing(ctx context.Context, ids []cas.ID) ([]cas.ID, error) {
	b.roll.RLock()
	defer b.roll.RUnlock()
	return missing(ctx, ids, b.has)
}

// missing returns those of ids for which has is false.
func missing(ctx context.Context, ids []cas.ID, has func(kind cas.Kind, d *cas.Digest) bool) (out []cas.ID,
	err error) {
	for i := range ids {
		if i%4096 == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if !has(ids[i].Kind, &ids[i].Digest) {
			out = append(out, ids[i])
		}
	}
	return out, nil
}

// has reports whether an object or record is in the store or in this batch. The caller holds b.roll.
func (b *batch) has(kind cas.Kind, digest *cas.Digest) bool {
	if w := b.w.Load(); w != nil && w.has(kind, digest) {
		return true
	}
	for i, p := range b.sealed {
		if !b.prints[i].may(digest) {
			continue
		}
		if _, ok, err := p.lookup(kind, digest); ok && err == nil {
			return true
		}
	}
	if b.snap.has(kind, digest, b.counts) {
		b.known.Store(true)
		return true
	}
	return false
}

// counts reports whether a record in the store can be relied on: gc won't remove it, and it is readable.
func (b *batch) counts(p *pack, e entry, no int) bool {
	intact, ok := b.intact.Load(p)
	if !ok {
		intact, _ = b.intact.LoadOrStore(p, sync.OnceValue(func() func(int) bool { return b.verify(p) }))
	}
	return intact.(func() func(int) bool)()(no) && !b.garbage().has(p, &e)
}

// sealedTime is the modification time of packs that did not change since they were sealed or verified.
var sealedTime = time.Unix(1<<30, 0)

// verify returns a function that reports which entries of a pack are readable. It trusts a pack that has sealedTime
// and reads any other pack as a whole: writing to a file changes its time, as does copying a store.
func (b *batch) verify(pack *pack) func(entry int) bool {
	fi, err := pack.f.Stat()
	sealed := err == nil && fi.Size() == pack.size && fi.ModTime().Equal(sealedTime)
	if sealed && !b.reread {
		return func(int) bool { return true }
	}
	bad, err := b.s.badNow(b.ctx, pack.path)
	if err != nil {
		return func(int) bool { return false }
	}
	// If the time can't be set, the next batch verifies the pack again.
	if now := b.s.now(); bad == nil && !sealed {
		_ = os.Chtimes(pack.path, sealedTime, sealedTime)
	} else if bad != nil && sealed {
		_ = os.Chtimes(pack.path, now, now)
	}
	return func(entry int) bool { return bad == nil || !bad.has(entry) }
}

// PutBytes implements cas.Batch.
func (b *batch) PutBytes(ctx context.Context, kind cas.Kind, data []byte) (cas.Digest, error) {
	if err := checkKind(kind); err != nil {
		return cas.Digest{}, err
	}
	if len(data) > cut.Of(kind).Whole {
		i, err := b.putLong(ctx, kind, nil, bytes.NewReader(data))
		return i.Digest, err
	}
	if ctx.Err() != nil {
		return cas.Digest{}, context.Cause(ctx)
	}
	d := cas.Sum(data)
	return d, b.add(kind, &d, data)
}

// Put implements cas.Putter.
func (b *batch) Put(ctx context.Context, kind cas.Kind, in io.Reader) (cas.Info, error) {
	if err := checkKind(kind); err != nil {
		return cas.Info{}, err
	}
	whole := cut.Of(kind).Whole
	buf := segments.Get().(*segment)
	defer segments.Put(buf)
	n, eof, err := fill(cas.Until(ctx, in), buf.b[:whole+1])
	if err != nil {
		return cas.Info{}, err
	}
	if n > whole {
		if eof {
			in = bytes.NewReader(nil)
		}
		return b.putLong(ctx, kind, buf.b[:n], in)
	}
	d := cas.Sum(buf.b[:n])
	return cas.Info{ID: cas.ID{Kind: kind, Digest: d}, Size: int64(n)}, b.add(kind, &d, buf.b[:n])
}

func checkKind(k cas.Kind) error {
	if !isObject(k) {
		return fmt.Errorf("invalid kind of object: %d", k)
	}
	return nil
}

// add puts one record into a block, unless the store or this batch has it.
func (b *batch) add(kind cas.Kind, d *cas.Digest, data []byte) error {
	b.roll.RLock()
	full, err := b.addShared(kind, d, data)
	b.roll.RUnlock()
	if full && err == nil {
		err = b.rollOver()
	}
	return err
}

func (b *batch) addShared(kind cas.Kind, digest *cas.Digest, data []byte) (full bool, err error) {
	if b.has(kind&^large, digest) {
		return false, nil
	}
	class := classOf(kind, data)
	bu, packWriter, err := b.take(class)
	if err != nil {
		return false, err
	}
	if !bu.fits(len(data)) {
		err = bu.seal(packWriter, b.enc)
	}
	if err == nil {
		bu.add(packWriter, kind, digest, data)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free[class] = append(b.free[class], bu)
	if b.err == nil {
		b.err = err
	}
	packWriter.mu.Lock()
	full = len(packWriter.entries) >= b.s.packObjects || packWriter.off >= packBytes
	packWriter.mu.Unlock()
	return full, b.err
}

// take returns a free builder and the pack that it writes to.
func (b *batch) take(class int) (*builder, *packWriter, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done {
		return nil, nil, errors.New("the batch has ended")
	}
	if b.err != nil {
		return nil, nil, b.err
	}
	packWriter := b.w.Load()
	if packWriter == nil {
		var err error
		if packWriter, err = newPackWriter(b.s.files, b.lease.temp(), randomSalt()); err != nil {
			b.err = err
			return nil, nil, err
		}
		packWriter.reuse(b.last)
		b.w.Store(packWriter)
	}
	if n := len(b.free[class]); n > 0 {
		bu := b.free[class][n-1]
		b.free[class] = b.free[class][:n-1]
		return bu, packWriter, nil
	}
	bu := newBuilder()
	bu.plain = class == plainClass
	b.all = append(b.all, bu)
	return bu, packWriter, nil
}

// rollOver finishes a full pack, so that the next record begins another.
func (b *batch) rollOver() error {
	b.roll.Lock()
	defer b.roll.Unlock()
	w := b.w.Load()
	if w == nil || (len(w.entries) < b.s.packObjects && w.off < packBytes) {
		return b.err
	}
	return b.fail(b.finishPack())
}

// fail remembers the first error.
func (b *batch) fail(err error) error {
	if b.err == nil {
		b.err = err
	}
	return b.err
}

// finishPack writes the builders' open blocks and the index. The caller holds b.roll exclusively.
func (b *batch) finishPack() error {
	packWriter := b.w.Load()
	if packWriter == nil {
		return nil
	}
	var wg sync.WaitGroup
	errs := make([]error, len(b.all))
	for i, bu := range b.all {
		wg.Go(func() { errs[i] = bu.seal(packWriter, b.enc) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err // the other builders would fail the same way on a full disk
		}
	}
	prints := packWriter.prints()
	p, err := packWriter.seal()
	if err != nil {
		return err
	}
	b.sealed, b.prints, b.last = append(b.sealed, p), append(b.prints, prints), packWriter
	b.w.Store(nil)
	return nil
}

// Commit implements cas.Batch.
func (b *batch) Commit(ctx context.Context) error {
	b.roll.Lock()
	defer b.roll.Unlock()
	if b.err != nil {
		return b.err
	}
	if b.done {
		return errors.New("the batch has ended")
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := b.fail(b.finishPack()); err != nil {
		return err
	}
	// Another process may have named a pack that holds some of the objects, and not synced the name yet.
	if b.known.Load() {
		if err := b.fail(b.s.settle(b.snap)); err != nil {
			return err
		}
	}
	if err := b.fail(b.s.publish(b.sealed)); err != nil {
		return err
	}
	b.done = true
	return nil
}

// publish syncs finished packs and gives them their names, in order. A pack's name is durable before the next pack
// gets its name: a long object may have chunks in earlier packs, never in later ones, and must not appear without them
// after a power cut.
func (s *Store) publish(packs []*pack) error {
	for _, p := range packs {
		if err := (&file{p.f, s.files}).sync(); err != nil {
			return err
		}
	}
	dir := filepath.Join(s.dir, "packs")
	for _, p := range packs {
		name := filepath.Join(dir, packName(p.foot.id))
		if err := s.files.rename(p.path, name); err != nil {
			return err
		}
		p.path, p.named = name, true
		if err := s.files.syncDir(dir); err != nil {
			return err
		}
		p.durable.Store(true)
	}
	s.adopt(packs)
	return nil
}

// Close implements cas.Batch. It merges packs, after Commit has made the batch durable.
func (b *batch) Close() error {
	b.roll.Lock()
	defer b.roll.Unlock()
	if b.lease == nil {
		return nil
	}
	var err error
	if w := b.w.Load(); w != nil {
		err = w.abort()
		b.w.Store(nil)
	}
	for _, p := range b.sealed {
		err = errors.Join(err, b.s.drop(p))
	}
	b.snap.release()
	grown := b.done && len(b.sealed) > 0
	b.done, b.sealed, b.snap = true, nil, new(snapshot)
	err = errors.Join(err, b.lease.release())
	b.lease = nil
	if grown {
		// The objects are safe even if the merge fails; the next batch tries again.
		b.s.mergeSome(b.ctx)
	}
	return err
}

// Put implements cas.Putter: a batch of one.
func (s *Store) Put(ctx context.Context, kind cas.Kind, r io.Reader) (cas.Info, error) {
	b, err := s.Batch(ctx)
	if err != nil {
		return cas.Info{}, err
	}
	i, err := b.Put(ctx, kind, r)
	if err == nil {
		err = b.Commit(ctx)
	}
	if err = errors.Join(err, b.Close()); err != nil {
		return cas.Info{}, err
	}
	return i, nil
}
