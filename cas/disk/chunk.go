package disk

import (
	"encoding/binary"
	"sync"

	"github.com/rye-build/rye/cas"
	"github.com/zeebo/blake3"
)

// A cutter says where a long object is cut into chunks. The places depend on the bytes near them alone, so
// that an edit moves only the cuts beside it. It is the gear hash with two masks: below the wanted length a
// cut is made rarely, above it often, which keeps lengths close together, and so an edit cheap.
type cutter struct {
	whole            int // objects up to this long are not cut
	min, normal, max int
	rare, often      uint64
}

// Blobs are cut to some 4 KiB: a changed run of a large asset costs about two chunks, and what index and lists take
// for it is one part in fifty. Trees and documents are lines of text of which single ones change, and half of
// each line is digest, which does not compress: they are cut finely.
var (
	blobCutter = cutter{whole: blockMax, min: 2 << 10, normal: 3 << 10, max: 12 << 10, rare: topBits(13), often: topBits(10)}
	textCutter = cutter{whole: 4 << 10, min: 512, normal: 1 << 10, max: 8 << 10, rare: topBits(12), often: topBits(9)}
)

func cutterOf(k cas.Kind) *cutter {
	if k == cas.Blob {
		return &blobCutter
	}
	return &textCutter
}

// topBits returns a mask of n bits. High bits of a gear hash have seen the most bytes.
func topBits(n int) uint64 { return ^uint64(0) << (64 - n) }

// gear maps each byte to a fixed random number: the first 2 KiB of BLAKE3's output for the line below. The
// numbers decide where cuts fall, and nothing else: another table would read the same stores.
var gear = sync.OnceValue(func() *[256]uint64 {
	h := blake3.New()
	h.Write([]byte("rye store 2 gear table"))
	var b [2048]byte
	h.Digest().Read(b[:])
	var t [256]uint64
	for i := range t {
		t[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return &t
})

// cut returns the length of the first chunk of b. When more bytes will follow b, it must hold at least c.max.
func (c *cutter) cut(b []byte) int {
	if len(b) <= c.min {
		return len(b)
	}
	if len(b) > c.max {
		b = b[:c.max]
	}
	t := gear()
	mid := min(c.normal, len(b))
	var h uint64
	// The hash needs 64 bytes to forget what came before; starting that far ahead of the shortest chunk makes
	// its first value depend on content alone.
	i := c.min - 64
	for ; i < c.min; i++ {
		h = h<<1 + t[b[i]]
	}
	if n := scan(b[i:mid], h, c.rare, t); n >= 0 {
		return i + n
	}
	for ; i < mid; i++ {
		h = h<<1 + t[b[i]]
	}
	if n := scan(b[mid:], h, c.often, t); n >= 0 {
		return mid + n
	}
	return len(b)
}

// scan rolls h over b and returns how many bytes were taken when the masked hash was zero, or -1.
func scan(b []byte, h, mask uint64, t *[256]uint64) int {
	for i, x := range b {
		h = h<<1 + t[x]
		if h&mask == 0 {
			return i + 1
		}
	}
	return -1
}
