package disk

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"io"
	"iter"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"
	"github.com/rye-build/rye/cas"
)

// A pack is an open, finished pack. It is immutable and safe for concurrent use. Its file stays open and its index
// mapped until its last user releases it, even if a larger pack has replaced the file.
type pack struct {
	path    string
	f       *os.File
	size    int64
	foot    footer
	index   []byte // the pages: entries, then block table
	checked []atomic.Uint64
	named   bool        // path is final; set only for packs that this process wrote
	durable atomic.Bool // this process has seen its name synced
	unmap   func()
	refs    atomic.Int64
}

const packExt = ".pack"

// packName is the file name of the pack with the given id.
func packName(id [16]byte) string { return hex.EncodeToString(id[:]) + packExt }

// openPack opens a finished pack, which the caller releases. An error that wraps ErrFormat means that the pack must be
// salvaged.
func openPack(path string) (*pack, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	p, err := newPack(path, f, size)
	if err != nil {
		f.Close()
		return nil, err
	}
	return p, nil
}

// newPack takes over file, a finished pack, unless it returns an error.
func newPack(path string, file *os.File, size int64) (*pack, error) {
	if size < headerSize+footerSize {
		return nil, badPack("it is cut short")
	}
	var b [footerSize]byte
	if _, err := file.ReadAt(b[:], size-footerSize); err != nil {
		return nil, noEOF(err)
	}
	foot, err := decodeFooter(b[:], size)
	if err != nil {
		return nil, err
	}
	index, unmap, err := mapFile(file, int64(foot.index), foot.pages()*pageSize)
	if err != nil {
		return nil, err
	}
	p := &pack{path: path, f: file, size: size, foot: foot, index: index,
		checked: make([]atomic.Uint64, (foot.pages()+63)/64)}
	p.unmap = unmap
	p.retain()
	return p, nil
}

func (p *pack) retain() { p.refs.Add(1) }

// release closes the pack's file when its last user is gone.
func (p *pack) release() {
	if p.refs.Add(-1) == 0 {
		p.unmap()
		p.index = nil // a read after this panics
		p.f.Close()
	}
}

// fault turns the memory fault of reading a truncated, mapped file into an error.
func (p *pack) fault(err *error) {
	if r := recover(); r != nil {
		if _, ok := r.(interface{ Addr() uintptr }); !ok {
			panic(r)
		}
		*err = badPack("its index was cut off")
	}
}

// check verifies the checksum of every page.
func (p *pack) check() (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer p.fault(&err)
	for n := range p.foot.pages() {
		if _, err := p.page(n); err != nil {
			return err
		}
	}
	return nil
}

// page returns a page of the index, after verifying its checksum once. Reading the page may fault; callers recover
// from that.
func (p *pack) page(n int) ([]byte, error) {
	b := p.index[n*pageSize : (n+1)*pageSize]
	word, bit := &p.checked[n/64], uint64(1)<<(n%64)
	if word.Load()&bit == 0 {
		if !pageOK(b, n) {
			return nil, badPack("the checksum of page %d of its index is wrong", n)
		}
		word.Or(bit)
	}
	return b, nil
}

// entriesIn returns how many entries page n holds.
func (p *pack) entriesIn(n int) int {
	return min(pageEntries, int(p.foot.entries)-n*pageEntries)
}

// lookup finds the entry of a digest and one of two kinds: the kind itself, or the root of its chunk list.
func (p *pack) lookup(kind cas.Kind, d *cas.Digest) (entry, bool, error) {
	e, n, err := p.place(kind, d)
	return e, n >= 0 && err == nil, err
}

// place does what lookup does, and also returns the entry's number in the index, or -1.
func (p *pack) place(kind cas.Kind, digest *cas.Digest) (e entry, n int, err error) {
	n = -1 // also after a fault
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer p.fault(&err)
	pages := p.foot.entryPages()
	lo, hi := 0, pages // the wanted page is in [lo, hi)
	if pages > 1 {
		// Digests are spread evenly: begin where this one should be, and narrow the range from there.
		x := binary.BigEndian.Uint32(digest[:])
		guess := int(uint64(x) * uint64(pages) >> 32)
		for step := 1; hi-lo > 1; step *= 2 {
			b, err := p.page(guess)
			if err != nil {
				return entry{}, -1, err
			}
			if c := bytes.Compare(b[:cas.Size], digest[:]); c < 0 {
				lo = guess
				guess += step
			} else if c > 0 {
				hi = guess
				guess -= step
			} else {
				// Entries of one digest and several kinds may begin on the page before.
				lo, hi = max(guess-1, lo), guess+1
				break
			}
			if guess <= lo || guess >= hi {
				guess = (lo + hi) / 2
			}
		}
	}
	for at := lo; at < max(hi, lo+1) && at < pages; at++ {
		b, err := p.page(at)
		if err != nil {
			return entry{}, -1, err
		}
		count := p.entriesIn(at)
		for i := find(b, count, digest); i < count &&
			bytes.Equal(b[i*entrySize:i*entrySize+cas.Size], digest[:]); i++ {
			if e := getEntry(b[i*entrySize:]); e.kind&^large == kind {
				return e, at*pageEntries + i, nil
			}
		}
	}
	return entry{}, -1, nil
}

// find returns the first of a page's entries whose digest isn't below d. It begins at d's place in an even spread.
func find(page []byte, count int, d *cas.Digest) (i int) {
	x, first, last := binary.BigEndian.Uint32(d[:]), binary.BigEndian.Uint32(page),
		binary.BigEndian.Uint32(page[(count-1)*entrySize:])
	if x > first {
		i = int(min(uint64(x-first)*uint64(count)/(uint64(last-first)+1), uint64(count-1)))
	}
	for ; i > 0 && bytes.Compare(page[(i-1)*entrySize:][:cas.Size], d[:]) >= 0; i-- {
	}
	for ; i < count && bytes.Compare(page[i*entrySize:][:cas.Size], d[:]) < 0; i++ {
	}
	return i
}

// all yields every entry in index order.
func (p *pack) all() iter.Seq2[placed, error] {
	return func(yield func(placed, error) bool) {
		var b [pageSize]byte
		for n := range p.foot.entryPages() {
			if err := p.copyPage(b[:], n); err != nil {
				yield(placed{}, err)
				return
			}
			for i := range p.entriesIn(n) {
				if !yield(placed{getEntry(b[i*entrySize:]), n*pageEntries + i}, nil) {
					return
				}
			}
		}
	}
}

// copyPage copies a page of the index to b if its checksum is right.
func (p *pack) copyPage(b []byte, n int) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer p.fault(&err)
	from, err := p.page(n)
	copy(b, from)
	return err
}

// A placed is an entry and its number in the index.
type placed struct {
	entry
	n int
}

// byPlace returns all entries in the order of their records in the pack.
func (p *pack) byPlace() ([]placed, error) {
	if err := p.check(); err != nil { // before allocating so much memory
		return nil, err
	}
	es := make([]placed, 0, p.foot.entries)
	for e, err := range p.all() {
		if err != nil {
			return nil, err
		}
		es = append(es, e)
	}
	slices.SortFunc(es, func(a, b placed) int {
		c := cmp.Compare(uint64(a.block)<<32|uint64(a.off), uint64(b.block)<<32|uint64(b.off))
		return cmp.Or(c, int(a.size)-int(b.size), a.n-b.n) // empty records share an offset with the next
	})
	return es, nil
}

// loc returns the place of block n.
func (p *pack) loc(n uint32) (found loc, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer p.fault(&err)
	if uint64(n) >= p.foot.blocks {
		return loc{}, badPack("its index names a missing block")
	}
	b, err := p.page(p.foot.entryPages() + int(n)/pageLocs)
	if err != nil {
		return loc{}, err
	}
	found = getLoc(b[int(n)%pageLocs*locSize:])
	if found.raw > blockMax || found.stored > found.raw || found.off < headerSize ||
		found.off+int64(found.stored) > int64(p.foot.index) ||
		found.codec > codecZstd || (found.codec == codecRaw && found.stored != found.raw) {
		return loc{}, badPack("its block table is invalid")
	}
	return found, nil
}

// A scratch is the memory that one goroutine needs to read blocks.
type scratch struct {
	dec    *zstd.Decoder
	stored []byte
}

func (s *scratch) close() {
	if s.dec != nil {
		s.dec.Close()
	}
}

// block reads and uncompresses block n into dst, if dst is large enough. It checks only lengths: callers hash the
// bytes.
func (p *pack) block(n uint32, scratch *scratch, dst []byte) ([]byte, error) {
	loc, err := p.loc(n)
	if err != nil {
		return nil, err
	}
	if cap(dst) < int(loc.raw) {
		dst = make([]byte, 0, blockMax+slack)
	}
	if loc.codec == codecRaw {
		dst = dst[:loc.raw]
		_, err := p.f.ReadAt(dst, loc.off)
		return dst, noEOF(err)
	}
	if cap(scratch.stored) < int(loc.stored) {
		scratch.stored = make([]byte, blockMax)
	}
	stored := scratch.stored[:loc.stored]
	if _, err := p.f.ReadAt(stored, loc.off); err != nil {
		return nil, noEOF(err)
	}
	return scratch.decode(stored, int(loc.raw), dst)
}

// slack is room behind the uncompressed bytes. With it, zstd copies in large steps up to the end.
const slack = 16

// decode uncompresses one block of raw bytes into dst, which has room for them.
func (s *scratch) decode(stored []byte, raw int, dst []byte) ([]byte, error) {
	if s.dec == nil {
		var err error
		s.dec, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(blockMax), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return nil, err
		}
	}
	// The capacity is the limit: whatever a frame declares, it yields at most raw+slack bytes.
	out, err := s.dec.DecodeAll(stored, dst[:0:min(cap(dst), raw+slack)])
	if err != nil {
		return nil, badPack("a block does not decompress: %v", err)
	}
	if len(out) != raw {
		return nil, badPack("a block has %d bytes instead of %d", len(out), raw)
	}
	if raw > 0 && &out[0] == &dst[:1][0] {
		return dst[:raw], nil // with dst's capacity
	}
	return out, nil
}

// of returns the bytes of e's record in its uncompressed block.
func (e *entry) of(block []byte) ([]byte, error) {
	if uint64(e.off)+uint64(e.size) > uint64(len(block)) {
		return nil, badPack("its index names bytes outside of a block")
	}
	if !isKind(e.kind) {
		return nil, badPack("its index names a record of an unknown kind")
	}
	return block[e.off : e.off+e.size : e.off+e.size], nil
}

// noEOF turns an unexpected end of a pack into damage.
func noEOF(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return badPack("it is cut short")
	}
	return err
}

// listPacks returns the sorted paths of everything in a store that has a pack's name.
func listPacks(dir string) ([]string, error) {
	names, err := os.ReadDir(filepath.Join(dir, "packs"))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, n := range names {
		if filepath.Ext(n.Name()) == packExt {
			out = append(out, filepath.Join(dir, "packs", n.Name()))
		}
	}
	return out, nil
}
