package disk

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/rye-build/rye/cas"
)

// salvaged returns the readable contents of the snapshot's packs that have no good index.
func (n *snapshot) salvaged(c *scratch) []*pack {
	n.once.Do(func() {
		for _, b := range n.unindexed() {
			if p, _, err := salvage(b.path, c); err == nil {
				n.saved = append(n.saved, p)
			}
		}
	})
	return n.saved
}

// unindexed returns the packs whose index is missing or has a page with a wrong checksum.
func (n *snapshot) unindexed() []badPackFile {
	bad := slices.Clone(n.bad)
	for _, p := range n.packs {
		if err := p.check(); err != nil {
			bad = append(bad, badPackFile{p.path, err})
		}
	}
	return bad
}

// salvage reads a pack without its index: it finds the blocks and hashes their records, which gives the digests again.
// The new index is in memory. whole reports whether all blocks of the pack were readable. The caller releases p.
func salvage(path string, scratch *scratch) (p *pack, whole bool, err error) {
	file, size, err := openRegular(path)
	if err != nil {
		return nil, false, err
	}
	salt, index, err := readEnds(file, size)
	if err != nil {
		file.Close()
		return nil, false, err
	}
	packWriter := &packWriter{salt: salt, table: make([]uint32, 1024)}
	buf := make([]byte, blockFixed+blockRecs*4+blockMax)
	var raw []byte
	whole = true
	for at := int64(headerSize); at < index; {
		n, err := file.ReadAt(buf[:min(int64(len(buf)), index-at)], at)
		if err != nil && err != io.EOF && !errors.Is(err, syscall.EIO) {
			file.Close()
			return nil, false, err
		}
		if n == 0 { // a bad sector; the rest may be good
			whole = false
			at += pageSize
			continue
		}
		data := buf[:n]
		blockHeader, herr := decodeBlockHeader(data, salt)
		if herr != nil || blockHeader.size+int(blockHeader.stored) > n {
			// The index begins here, or a block is damaged: the next block begins at the next mark.
			if isIndex(data, size, at, index) {
				break
			}
			whole = false
			at += int64(nextBlock(data))
			continue
		}
		if raw, err = readBlock(
			scratch, blockHeader, data[blockHeader.size:blockHeader.size+int(blockHeader.stored)],
			raw[:0]); err != nil {
			whole = false
		} else {
			packWriter.enter(blockHeader, raw, at)
		}
		at += int64(blockHeader.size) + int64(blockHeader.stored)
	}
	return packWriter.inMemory(path, file, size), whole, nil
}

// readEnds finds a pack's salt, which is in its header and in its footer, and the end of its blocks. Without a footer,
// that is the end of the file.
func readEnds(file *os.File, size int64) (salt uint64, index int64, err error) {
	if size < headerSize {
		return 0, 0, badPack("it is cut short")
	}
	var footer [footerSize]byte
	if size >= headerSize+footerSize {
		if _, err := file.ReadAt(footer[:], size-footerSize); err == nil {
			if foot, err := decodeFooter(footer[:], size); err == nil {
				return foot.salt, int64(foot.index), nil
			}
		}
	}
	if _, err := file.ReadAt(footer[:headerSize], 0); err != nil {
		return 0, 0, noEOF(err)
	}
	if string(footer[:len(packMagic)]) != packMagic {
		return 0, 0, badPack("neither its header nor its footer can be read")
	}
	return binary.LittleEndian.Uint64(footer[len(packMagic):]), size, nil
}

// isIndex reports whether b, at an offset of a file whose blocks end before index, can be the part that finish writes
// between the last block and the footer: zeros up to a page, and then pages.
func isIndex(b []byte, size, at, index int64) bool {
	pad := int((at+pageSize-1)/pageSize*pageSize - at)
	if pad > len(b) || len(bytes.TrimLeft(b[:pad], "\x00")) > 0 {
		return false
	}
	if at+int64(pad) == index && index < size {
		return true // the footer places the index here
	}
	b = b[pad:]
	return len(b) >= pageSize && pageOK(b[:pageSize], 0)
}

// nextBlock returns the distance to the next mark of a block, beyond the first byte.
func nextBlock(b []byte) int {
	mark := binary.LittleEndian.AppendUint32(nil, blockMagic)
	if i := bytes.Index(b[1:], mark); i >= 0 {
		return i + 1
	}
	return max(1, len(b)-len(mark)+1)
}

// readBlock uncompresses a payload.
func readBlock(c *scratch, h blockHeader, stored, raw []byte) ([]byte, error) {
	if cap(raw) < int(h.raw) {
		raw = make([]byte, 0, blockMax+slack)
	}
	if h.codec == codecRaw {
		return append(raw, stored...), nil
	}
	return c.decode(stored, int(h.raw), raw)
}

// enter adds the records of a block to the index, under the digests of their bytes.
func (w *packWriter) enter(h blockHeader, raw []byte, at int64) {
	number := uint32(len(w.locs))
	w.locs = append(w.locs, loc{off: at + int64(h.size), stored: h.stored, raw: h.raw, codec: h.codec})
	off := uint32(0)
	for _, record := range h.recs {
		b := raw[off : off+record.size]
		d := cas.Sum(b)
		if record.kind&large != 0 {
			var err error
			if d, _, _, _, err = decodeRoot(b); err != nil {
				off += record.size
				continue
			}
		}
		w.claim(entry{digest: d, block: number, off: off, size: record.size, kind: record.kind})
		off += record.size
	}
}

// inMemory returns a pack whose index holds the entered records.
func (w *packWriter) inMemory(path string, f *os.File, size int64) *pack {
	foot := footer{entries: uint64(len(w.entries)), blocks: uint64(len(w.locs)), index: uint64(size), salt: w.salt}
	p := &pack{path: path, f: f, size: size, foot: foot, unmap: func() {}}
	p.retain()
	p.index = make([]byte, 0, p.foot.pages()*pageSize)
	w.eachPage(func(b []byte) error {
		p.index = append(p.index, b...)
		return nil
	})
	p.checked = make([]atomic.Uint64, (p.foot.pages()+63)/64)
	return p
}

// A ReindexResult lists the packs that a reindex rebuilt or could not read whole.
type ReindexResult struct {
	Packs   int      `json:"packs"`   // packs whose index was right
	Rebuilt []string `json:"rebuilt"` // packs whose index was rebuilt
	Lost    []string `json:"lost"`    // packs with unreadable parts, which are kept as *.damaged
}

// Reindex rebuilds the index of every pack that has none or a damaged one.
func (s *Store) Reindex(ctx context.Context) (ReindexResult, error) {
	reindexResult := ReindexResult{Rebuilt: []string{}, Lost: []string{}}
	release, err := s.janitor(ctx)
	if err != nil {
		return reindexResult, err
	}
	defer release()
	snap, err := s.load()
	if err != nil {
		return reindexResult, err
	}
	defer snap.release()
	bad := snap.unindexed()
	reindexResult.Packs = len(snap.packs) + len(snap.bad) - len(bad)
	k := s.takeCache()
	defer s.giveCache(k)
	for _, badPackFile := range bad {
		if ctx.Err() != nil {
			return reindexResult, context.Cause(ctx)
		}
		found, whole, err := s.reindex(ctx, k.c, badPackFile.path)
		if err != nil {
			return reindexResult, err
		}
		if found {
			reindexResult.Rebuilt = append(reindexResult.Rebuilt, filepath.Base(badPackFile.path))
		}
		if whole {
			err = s.files.remove(badPackFile.path)
		} else {
			reindexResult.Lost = append(reindexResult.Lost, filepath.Base(badPackFile.path))
			err = s.setAside(badPackFile.path)
		}
		if err != nil {
			return reindexResult, err
		}
	}
	s.forget()
	return reindexResult, s.files.syncDir(filepath.Join(s.dir, "packs"))
}

// reindex writes the readable records of a pack into a new pack. It reports whether it found any, and whether the pack
// was readable as a whole.
func (s *Store) reindex(ctx context.Context, c *scratch, path string) (found, whole bool, err error) {
	salvaged, whole, err := salvage(path, c)
	if errors.Is(err, ErrFormat) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	defer salvaged.release()
	if salvaged.foot.entries == 0 {
		return false, false, nil
	}
	damaged, err := s.add(ctx, []*pack{salvaged}, nil)
	if err == nil && damaged != nil {
		err = badPack("%q changed while it was read", path)
	}
	return true, whole, err
}

// setAside takes a pack out of use without removing it.
func (s *Store) setAside(path string) error {
	return s.files.rename(path, path+".damaged")
}
