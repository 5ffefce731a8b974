// Package cut divides long objects into chunks at boundaries that depend on their content, so that an edited copy
// shares most chunks with the original. A reader does not depend on the choice of boundaries.
package cut

import (
	"encoding/binary"
	"sync"

	"github.com/rye-build/rye/cas"
	"github.com/zeebo/blake3"
)

// A Cutter finds chunk boundaries with a gear hash: a boundary depends on the 64 bytes before it, so an edit moves
// only the boundaries next to it. Two masks make boundaries rare below the normal length and frequent above it, which
// keeps chunks close to one length.
type Cutter struct {
	Whole       int // objects up to this length are not cut
	Min, Max    int // lengths of a chunk; the last one may be shorter
	normal      int
	rare, often uint64
}

// Blobs are cut into chunks of about 4 KiB: the index and the lists take 2% more space. Trees and documents are cut
// finer, because single lines change, and half of each line is a digest, which does not compress.
var (
	blob = Cutter{Whole: 256 << 10, Min: 2 << 10, normal: 3 << 10, Max: 12 << 10, rare: topBits(13),
		often: topBits(10)}
	text = Cutter{Whole: 4 << 10, Min: 512, normal: 1 << 10, Max: 8 << 10, rare: topBits(12), often: topBits(9)}
)

// Of returns the cutter for objects of a kind.
func Of(k cas.Kind) *Cutter {
	if k == cas.Blob {
		return &blob
	}
	return &text
}

// topBits returns a mask of n bits. High bits of a gear hash have seen the most bytes.
func topBits(n int) uint64 { return ^uint64(0) << (64 - n) }

// gear maps each byte to a fixed random number: the first 2 KiB of BLAKE3's output for the line below. The numbers
// decide only where cuts fall: stores with another table have the same format.
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

// Next returns the length of the first chunk of data, which must hold at least c.Max bytes unless the object ends with
// it.
func (c *Cutter) Next(data []byte) int {
	if len(data) <= c.Min {
		return len(data)
	}
	if len(data) > c.Max {
		data = data[:c.Max]
	}
	table := gear()
	mid := min(c.normal, len(data))
	var hash uint64
	// The hash needs 64 bytes to forget what came before; starting that far ahead of the shortest chunk makes
	// its first value depend on content alone.
	i := c.Min - 64
	for ; i < c.Min; i++ {
		hash = hash<<1 + table[data[i]]
	}
	if n := scan(data[i:mid], hash, c.rare, table); n >= 0 {
		return i + n
	}
	for ; i < mid; i++ {
		hash = hash<<1 + table[data[i]]
	}
	if n := scan(data[mid:], hash, c.often, table); n >= 0 {
		return mid + n
	}
	return len(data)
}

// scan rolls h over b. It returns how many bytes it took until the masked hash was zero, or -1.
func scan(b []byte, h, mask uint64, t *[256]uint64) int {
	for i, x := range b {
		h = h<<1 + t[x]
		if h&mask == 0 {
			return i + 1
		}
	}
	return -1
}
