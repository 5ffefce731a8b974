package format

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/rye-build/rye/cas"
)

// The sizes of layers.
const (
	MinLayer = 4 << 20
	MaxLayer = 16 << 20
)

// window is how many bytes the gear hash remembers.
const window = 64

// Row sorts objects into the order of the layers, each once: the small ones, then the others.
func Row(objects []cas.Info) (small, large []cas.Info, err error) {
	all := slices.Clone(objects)
	slices.SortFunc(all, func(a, b cas.Info) int { return a.Digest.Compare(b.Digest) })
	for i, info := range all {
		switch {
		case info.Kind != cas.Blob || info.Size < 0:
			return nil, nil, fmt.Errorf("%s of %d bytes can't stand in a layer", info.ID, info.Size)
		case i > 0 && all[i-1].Digest == info.Digest:
			if all[i-1].Size != info.Size {
				return nil, nil, fmt.Errorf("%s has %d bytes, and %d", info.ID, all[i-1].Size, info.Size)
			}
		case info.Size <= MinLayer:
			small = append(small, info)
		default:
			large = append(large, info)
		}
	}
	return small, large, nil
}

// Parts cuts small objects into layers.
func Parts(small []cas.Info) (out [][]cas.Info) {
	from, size := 0, int64(0)
	for i, o := range small {
		if size += o.Size; size >= MinLayer && ends(o) || i+1 < len(small) && size+small[i+1].Size > MaxLayer {
			out, from, size = append(out, small[from:i+1]), i+1, 0
		}
	}
	if from < len(small) {
		out = append(out, small[from:])
	}
	return out
}

// ends reports whether a layer ends behind an object.
func ends(o cas.Info) bool {
	return o.Size == MinLayer || binary.BigEndian.Uint64(o.Digest[cas.Size-8:]) < uint64(o.Size)<<42
}

var gear = sync.OnceValue(func() (table [256]uint64) {
	for i := range table {
		d := cas.Sum([]byte{byte(i)})
		table[i] = binary.BigEndian.Uint64(d[:])
	}
	return table
})

// A Cutter finds where the layers of a large object end.
type Cutter struct {
	table *[256]uint64
	hash  uint64
	n     int // bytes of the layer so far
}

// NewCutter returns a cutter at the start of an object.
func NewCutter() *Cutter {
	table := gear()
	return &Cutter{table: &table}
}

// Next returns how many bytes of data still belong to the layer, and whether it ends with them.
func (c *Cutter) Next(data []byte) (int, bool) {
	i := 0
	if c.n < MinLayer-window {
		i = min(len(data), MinLayer-window-c.n)
		c.n += i
	}
	for ; i < len(data); i++ {
		c.hash = c.hash<<1 + c.table[data[i]]
		if c.n++; c.n == MaxLayer || c.n >= MinLayer && c.hash>>42 == 0 {
			c.hash, c.n = 0, 0
			return i + 1, true
		}
	}
	return len(data), false
}
