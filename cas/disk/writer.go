package disk

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"os"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/rye-build/rye/cas"
)

// A packWriter builds one pack in a temporary file. claim and write are safe for concurrent use.
type packWriter struct {
	f    *file
	salt uint64
	mu   sync.Mutex

	off     int64 // of the next block
	locs    []loc
	entries []entry
	table   []uint32 // open addressing over entries, by digest; 0 is free, n+1 is entries[n]
}

// newPackWriter starts a pack. The caller picks a unique salt.
func newPackWriter(fs files, tmp string, salt uint64) (*packWriter, error) {
	f, err := fs.create(tmp)
	if err != nil {
		return nil, err
	}
	w := &packWriter{f: f, salt: salt, off: headerSize, table: make([]uint32, 1024)}
	if err := f.writeAt(packHeader(salt), 0); err != nil {
		return nil, errors.Join(err, w.abort())
	}
	return w, nil
}

// reuse takes over the memory of a finished pack's writer; last may be nil.
func (w *packWriter) reuse(last *packWriter) {
	if last == nil {
		return
	}
	w.locs, w.entries, w.table = last.locs[:0], last.entries[:0], last.table
	clear(w.table)
}

// abort drops the pack.
func (w *packWriter) abort() error {
	return errors.Join(w.f.Close(), w.f.fs.remove(w.f.Name()))
}

// find returns the slot of kind (whole or as chunk list) and digest in the table, or their free slot. Digests are
// uniform, so their bytes serve as the hash.
func (w *packWriter) find(kind cas.Kind, d *cas.Digest) (slot uint32, found bool) {
	mask := uint32(len(w.table) - 1)
	for slot = binary.LittleEndian.Uint32(d[8:]) & mask; ; slot = (slot + 1) & mask {
		n := w.table[slot]
		if n == 0 {
			return slot, false
		}
		if e := &w.entries[n-1]; e.kind&^large == kind&^large && e.digest == *d {
			return slot, true
		}
	}
}

// has reports whether an entry was claimed.
func (w *packWriter) has(kind cas.Kind, d *cas.Digest) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, found := w.find(kind, d)
	return found
}

// claim enters entry unless its kind and digest have an entry. It replaces the block number noBlock by that of a new
// block, which the caller writes later.
func (w *packWriter) claim(entry entry) (block uint32, claimed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	slot, found := w.find(entry.kind, &entry.digest)
	if found {
		return entry.block, false
	}
	if entry.block == noBlock {
		entry.block = uint32(len(w.locs))
		w.locs = append(w.locs, loc{})
	}
	w.entries = append(w.entries, entry)
	w.table[slot] = uint32(len(w.entries))
	if len(w.entries)*2 > len(w.table) {
		w.grow()
	}
	return entry.block, true
}

func (w *packWriter) grow() {
	w.table = make([]uint32, 2*len(w.table))
	mask := uint32(len(w.table) - 1)
	for i := range w.entries {
		slot := binary.LittleEndian.Uint32(w.entries[i].digest[8:]) & mask
		for w.table[slot] != 0 {
			slot = (slot + 1) & mask
		}
		w.table[slot] = uint32(i + 1)
	}
}

// prints are the part of a finished pack that its batch keeps in memory: a hash table of the entries like the
// writer's, with two bytes of each digest in place of the entry's number. They answer almost every lookup of a missing
// record without reading the pages of the index.
type prints []uint16

func (w *packWriter) prints() prints {
	t := make(prints, 1<<bits.Len(uint(len(w.entries)*3/2)))
	mask := uint32(len(t) - 1)
	for i := range w.entries {
		d := &w.entries[i].digest
		slot := binary.LittleEndian.Uint32(d[8:]) & mask
		for t[slot] != 0 {
			slot = (slot + 1) & mask
		}
		t[slot] = printOf(d)
	}
	return t
}

func printOf(d *cas.Digest) uint16 { return binary.LittleEndian.Uint16(d[4:]) | 1 }

// may reports whether the pack may have an entry with the digest.
func (t prints) may(d *cas.Digest) bool {
	mask := uint32(len(t) - 1)
	for slot := binary.LittleEndian.Uint32(d[8:]) & mask; t[slot] != 0; slot = (slot + 1) & mask {
		if t[slot] == printOf(d) {
			return true
		}
	}
	return false
}

// write appends a finished block to the file.
func (w *packWriter) write(block uint32, b []byte, header int, codec byte, raw int) error {
	w.mu.Lock()
	off := w.off
	w.off += int64(len(b))
	w.locs[block] = loc{off: off + int64(header), stored: uint32(len(b) - header), raw: uint32(raw), codec: codec}
	w.mu.Unlock()
	return w.f.writeAt(b, off)
}

// finish writes index and footer, and does not sync. Nothing else may use w meanwhile.
func (w *packWriter) finish() (footer, error) {
	foot := footer{entries: uint64(len(w.entries)), blocks: uint64(len(w.locs)),
		index: uint64(w.off+pageSize-1) / pageSize * pageSize, salt: w.salt}
	hasher := cas.NewHasher()
	off := int64(foot.index)
	buf := make([]byte, 0, 64*pageSize) // the buffer of one write
	flush := func() error {
		hasher.Write(buf)
		err := w.f.writeAt(buf, off)
		off += int64(len(buf))
		buf = buf[:0]
		return err
	}
	err := w.eachPage(func(p []byte) error {
		if buf = append(buf, p...); len(buf) == cap(buf) {
			return flush()
		}
		return nil
	})
	if err != nil {
		return footer{}, err
	}
	hasher.Write(buf)
	foot.id = foot.hash(hasher)
	err = w.f.writeAt(append(buf, foot.encode()...), off)
	return foot, err
}

// seal finishes the pack and opens it, still unsynced and under its temporary name.
func (w *packWriter) seal() (*pack, error) {
	foot, err := w.finish()
	if err == nil {
		err = os.Chtimes(w.f.Name(), sealedTime, sealedTime)
	}
	if err != nil {
		return nil, err
	}
	return newPack(w.f.Name(), w.f.File, foot.size())
}

// eachPage calls f with the pages of the index in order: entries by digest, then the block table. f must not keep the
// page.
func (w *packWriter) eachPage(f func(p []byte) error) error {
	data := make([]byte, pageSize)
	number := 0
	emit := func() error {
		sealPage(data, number)
		number++
		err := f(data)
		clear(data)
		return err
	}
	for part := range slices.Chunk(sortedOrder(w.entries), pageEntries) {
		for i, n := range part {
			w.entries[n].put(data[i*entrySize:])
		}
		if err := emit(); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(w.locs, pageLocs) {
		for i, l := range part {
			l.put(data[i*locSize:])
		}
		if err := emit(); err != nil {
			return err
		}
	}
	return nil
}

// sortedOrder returns the positions of es in the order of an index.
func sortedOrder(es []entry) []uint32 {
	// Buckets by the first byte keep the comparisons short and near each other.
	var start [257]uint32
	for i := range es {
		start[int(es[i].digest[0])+1]++
	}
	for i := range 256 {
		start[i+1] += start[i]
	}
	order := make([]uint32, len(es))
	next := start
	for i := range es {
		b := es[i].digest[0]
		order[next[b]] = uint32(i)
		next[b]++
	}
	for i := range 256 {
		slices.SortFunc(order[start[i]:start[i+1]], func(a, b uint32) int { return es[a].compare(&es[b]) })
	}
	return order
}

const noBlock = ^uint32(0)

// A builder collects records into a block. It is not safe for concurrent use.
type builder struct {
	number uint32
	recs   []record
	raw    []byte
	out    []byte
	plain  bool // store the block uncompressed
}

func newBuilder() *builder { return &builder{number: noBlock} }

// fits reports whether a record of n bytes can be added before the block is sealed.
func (b *builder) fits(n int) bool { return len(b.raw)+n <= blockMax && len(b.recs) < blockRecs }

// add claims and appends a record. It must fit.
func (b *builder) add(w *packWriter, kind cas.Kind, d *cas.Digest, data []byte) bool {
	n, ok := w.claim(entry{digest: *d, block: b.number, off: uint32(len(b.raw)), size: uint32(len(data)), kind: kind})
	if !ok {
		return false
	}
	b.number = n
	if b.raw == nil {
		b.raw = make([]byte, 0, blockMax)
	}
	b.recs = append(b.recs, record{kind, uint32(len(data))})
	b.raw = append(b.raw, data...)
	return true
}

// seal writes the block, unless it is empty, and resets the builder.
func (b *builder) seal(packWriter *packWriter, enc *zstd.Encoder) error {
	if len(b.recs) == 0 {
		return nil
	}
	codec, stored := byte(codecRaw), b.raw
	// The header comes first in the buffer, with room for the payload behind it, so that one write is enough.
	head := blockFixed + 4*len(b.recs)
	b.out = slices.Grow(b.out[:0], head+blockMax+1024)
	if !b.plain {
		if z := enc.EncodeAll(b.raw, b.out[head:head]); len(z) < len(b.raw) {
			codec, stored = codecZstd, z
		}
	}
	h := appendBlockHeader(b.out[:0], packWriter.salt, codec, len(b.raw), len(stored), b.recs)
	n := len(h)
	err := packWriter.write(b.number, append(h, stored...), n, codec, len(b.raw))
	b.number, b.recs, b.raw = noBlock, b.recs[:0], b.raw[:0]
	return err
}
