package disk

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
)

// Kinds of records, in addition to those of package cas. A record of kind k|large is the root of the chunk list of an
// object of kind k.
const (
	chunkRecord cas.Kind = 0x10
	textRecord  cas.Kind = 0x11 // a chunk of a tree or document
	listRecord  cas.Kind = 0x12
	large       cas.Kind = 0x80
)

const (
	headerSize  = 16
	blockMax    = 256 << 10 // most bytes of records in one block
	blockRecs   = 4096      // most records in one block
	blockFixed  = 20        // bytes of a block header before its record table
	pageSize    = 4096
	entrySize   = 44
	pageEntries = (pageSize - 4) / entrySize // 93
	locSize     = 16
	pageLocs    = (pageSize - 4) / locSize // 255
	footerSize  = 64

	packMagic   = "rye pack" // and the salt
	blockMagic  = 0x6b6c6272 // "rblk"
	footerMagic = "ryepack2"

	codecRaw  = 0
	codecZstd = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// An entry is one line of an index: the place of an ID's record in the pack.
type entry struct {
	digest cas.Digest
	block  uint32 // number of the block
	off    uint32 // in the block's uncompressed bytes; below 1<<24
	size   uint32 // of the record
	kind   cas.Kind
}

func (e *entry) put(b []byte) {
	copy(b, e.digest[:])
	binary.LittleEndian.PutUint32(b[32:], e.block)
	binary.LittleEndian.PutUint32(b[36:], uint32(e.kind)<<24|e.off)
	binary.LittleEndian.PutUint32(b[40:], e.size)
}

func getEntry(b []byte) entry {
	ko := binary.LittleEndian.Uint32(b[36:])
	return entry{
		digest: cas.Digest(b[:32]),
		block:  binary.LittleEndian.Uint32(b[32:]),
		off:    ko & (1<<24 - 1),
		size:   binary.LittleEndian.Uint32(b[40:]),
		kind:   cas.Kind(ko >> 24),
	}
}

// compare orders entries as an index does: by digest, then by kind.
func (e *entry) compare(o *entry) int {
	if c := e.digest.Compare(o.digest); c != 0 {
		return c
	}
	return int(e.kind) - int(o.kind)
}

// A loc is one line of a pack's block table: the place of a block's payload.
type loc struct {
	off    int64 // of the payload in the file
	stored uint32
	raw    uint32
	codec  byte
}

func (l loc) put(b []byte) {
	binary.LittleEndian.PutUint64(b, uint64(l.off)|uint64(l.codec)<<56)
	binary.LittleEndian.PutUint32(b[8:], l.stored)
	binary.LittleEndian.PutUint32(b[12:], l.raw)
}

func getLoc(b []byte) loc {
	u := binary.LittleEndian.Uint64(b)
	return loc{
		off:    int64(u & (1<<56 - 1)),
		codec:  byte(u >> 56),
		stored: binary.LittleEndian.Uint32(b[8:]),
		raw:    binary.LittleEndian.Uint32(b[12:]),
	}
}

// sealPage writes the checksum of a page into its last four bytes. The sum covers the page's number, which detects a
// swapped page, and a constant, which detects a page of zeros.
func sealPage(p []byte, number int) {
	binary.LittleEndian.PutUint32(p[pageSize-4:], pageSum(p, number))
}

func pageOK(p []byte, number int) bool {
	return binary.LittleEndian.Uint32(p[pageSize-4:]) == pageSum(p, number)
}

func pageSum(p []byte, number int) uint32 {
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(number)+1)
	return crc32.Update(crc32.Checksum(n[:], castagnoli), castagnoli, p[:pageSize-4])
}

// A footer is the last footerSize bytes of a pack.
type footer struct {
	entries, blocks uint64
	index           uint64   // offset of the first index page
	id              [16]byte // of the pack: names the file
	salt            uint64
}

func (f *footer) entryPages() int { return int((f.entries + pageEntries - 1) / pageEntries) }
func (f *footer) locPages() int   { return int((f.blocks + pageLocs - 1) / pageLocs) }
func (f *footer) pages() int      { return f.entryPages() + f.locPages() }

// size is the length of the pack.
func (f *footer) size() int64 { return int64(f.index) + int64(f.pages())*pageSize + footerSize }

func (f *footer) encode() []byte {
	b := make([]byte, footerSize)
	copy(b, footerMagic)
	binary.LittleEndian.PutUint64(b[8:], f.entries)
	binary.LittleEndian.PutUint64(b[16:], f.blocks)
	binary.LittleEndian.PutUint64(b[24:], f.index)
	copy(b[32:48], f.id[:])
	binary.LittleEndian.PutUint64(b[48:], f.salt)
	binary.LittleEndian.PutUint32(b[60:], crc32.Checksum(b[:60], castagnoli))
	return b
}

// hash completes the digest that names a pack. h has hashed the pages of its index.
func (f *footer) hash(h cas.Hasher) (id [16]byte) {
	b := f.encode()
	h.Write(b[:32])
	h.Write(b[48:56])
	d := h.Digest()
	return [16]byte(d[:16])
}

// packHeader returns the first bytes of a pack.
func packHeader(salt uint64) []byte {
	return binary.LittleEndian.AppendUint64([]byte(packMagic), salt)
}

// ErrFormat is wrapped by every error about a pack's own structure.
var ErrFormat error = fault.New(fault.Integrity, "not a readable pack").Try("rye store fsck", "rye store reindex")

func badPack(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(format, args...))
}

// decodeFooter reads the footer of a pack of the given size.
func decodeFooter(data []byte, size int64) (footer, error) {
	if len(data) != footerSize || string(data[:8]) != footerMagic {
		return footer{}, badPack("it has no footer")
	}
	if binary.LittleEndian.Uint32(data[60:]) != crc32.Checksum(data[:60], castagnoli) {
		return footer{}, badPack("the checksum of its footer is wrong")
	}
	decoded := footer{
		entries: binary.LittleEndian.Uint64(data[8:]),
		blocks:  binary.LittleEndian.Uint64(data[16:]),
		index:   binary.LittleEndian.Uint64(data[24:]),
		id:      [16]byte(data[32:48]),
		salt:    binary.LittleEndian.Uint64(data[48:]),
	}
	const most = 1 << 40
	if decoded.entries > most || decoded.blocks > most || decoded.index > 1<<56 || decoded.index%pageSize != 0 ||
		binary.LittleEndian.Uint32(data[56:]) != 0 ||
		decoded.size() != size {
		return footer{}, badPack("its footer and its length disagree")
	}
	return decoded, nil
}

// A record is one line of a block's table: a kind and a length.
type record struct {
	kind cas.Kind
	size uint32
}

// appendBlockHeader appends the header of a block: the fixed part, then the record table.
func appendBlockHeader(data []byte, salt uint64, codec byte, raw, stored int, recs []record) []byte {
	start := len(data)
	data = append(data, make([]byte, blockFixed)...)
	for _, r := range recs {
		data = append(data, byte(r.kind))
		data = binary.AppendUvarint(data, uint64(r.size))
	}
	h := data[start:]
	binary.LittleEndian.PutUint32(h, blockMagic)
	binary.LittleEndian.PutUint32(h[4:], uint32(codec)<<24|uint32(len(recs)))
	binary.LittleEndian.PutUint32(h[8:], uint32(raw))
	binary.LittleEndian.PutUint32(h[12:], uint32(stored))
	binary.LittleEndian.PutUint32(h[16:], blockSum(h, salt))
	return data
}

// blockSum is the checksum of a block header without its own four bytes. It covers the pack's salt, so that a file
// that contains a forged block and is stored in a pack can't pass it off as a block of that pack.
func blockSum(h []byte, salt uint64) uint32 {
	var s [8]byte
	binary.LittleEndian.PutUint64(s[:], salt)
	sum := crc32.Update(crc32.Checksum(s[:], castagnoli), castagnoli, h[:16])
	return crc32.Update(sum, castagnoli, h[blockFixed:])
}

// isKind reports whether records of kind k exist.
func isKind(k cas.Kind) bool {
	return k >= chunkRecord && k <= listRecord || isObject(k&^large)
}

// isObject reports whether k is a kind of objects.
func isObject(k cas.Kind) bool { return k >= cas.Blob && k <= cas.Document }

// A blockHeader is a decoded block header.
type blockHeader struct {
	codec       byte
	raw, stored uint32
	recs        []record
	size        int // of the header itself
}

// decodeBlockHeader reads the header at the start of data, which may be longer than the header.
func decodeBlockHeader(data []byte, salt uint64) (blockHeader, error) {
	if len(data) < blockFixed || binary.LittleEndian.Uint32(data) != blockMagic {
		return blockHeader{}, badPack("no block begins here")
	}
	cn := binary.LittleEndian.Uint32(data[4:])
	header := blockHeader{codec: byte(cn >> 24), raw: binary.LittleEndian.Uint32(data[8:]),
		stored: binary.LittleEndian.Uint32(data[12:])}
	n := int(cn & (1<<24 - 1))
	if header.codec > codecZstd || header.raw > blockMax || header.stored > header.raw ||
		(header.codec == codecRaw && header.raw != header.stored) ||
		n == 0 || n > blockRecs {
		return blockHeader{}, badPack("invalid block header")
	}
	at, sum := blockFixed, uint64(0)
	header.recs = make([]record, 0, n)
	for range n {
		if at >= len(data) {
			return blockHeader{}, badPack("a block header is cut short")
		}
		size, w := binary.Uvarint(data[at+1:])
		if w <= 0 || size > blockMax || w > 1 && data[at+w] == 0 || !isKind(cas.Kind(data[at])) {
			return blockHeader{}, badPack("a block header has a bad length")
		}
		header.recs = append(header.recs, record{cas.Kind(data[at]), uint32(size)})
		sum += size
		at += 1 + w
	}
	header.size = at
	if sum != uint64(header.raw) || blockSum(data[:at], salt) != binary.LittleEndian.Uint32(data[16:]) {
		return blockHeader{}, badPack("the checksum of a block header is wrong")
	}
	return header, nil
}
