package foreign

import (
	"bytes"
	"slices"
	"testing"
)

// TestManyEntries: a zip with too many entries, or too long names, is refused before anything is made of them,
// wherever its directory seems to be.
func TestManyEntries(t *testing.T) {
	const n = 2 * MaxEntries
	directory := bytes.Repeat(append([]byte("PK\x01\x02"), make([]byte, directorySize-4)...), n)
	end := func(entries uint16, size, at uint32) []byte {
		b := append([]byte("PK\x05\x06"), make([]byte, endSize-4)...)
		le.PutUint16(b[8:], entries)
		le.PutUint16(b[10:], entries)
		le.PutUint32(b[12:], size)
		le.PutUint32(b[16:], at)
		return b
	}
	wide := append([]byte("PK\x06\x06"), make([]byte, 52)...) // the end of a directory of zip64
	le.PutUint64(wide[4:], 44)
	le.PutUint64(wide[24:], n)
	le.PutUint64(wide[32:], n)
	le.PutUint64(wide[40:], uint64(len(directory)))
	locator := append([]byte("PK\x06\x07"), make([]byte, locatorSize-4)...)
	le.PutUint64(locator[8:], uint64(len(directory)))
	le.PutUint32(locator[16:], 1)
	named := append([]byte("PK\x01\x02"), make([]byte, directorySize-4+1<<15)...)
	le.PutUint16(named[28:], 1<<15)
	named = bytes.Repeat(named, MaxNames>>15+1)
	far := uint32(len(directory) + len(wide) + len(locator))
	for name, b := range map[string][]byte{
		"as it is":          slices.Concat(directory, end(n&0xffff, uint32(len(directory)), 0)),
		"no place":          slices.Concat(directory, end(n&0xffff, uint32(len(directory)), 1<<30)),
		"none of the size":  slices.Concat(directory, end(n&0xffff, 0, 0)),
		"long names":        slices.Concat(named, end(MaxNames>>15+1, uint32(len(named)), 0)),
		"another, by zip64": slices.Concat(directory, wide, locator, end(0xffff, 0, far)),
	} {
		if made := testing.AllocsPerRun(1, func() {
			archive, err := Open(b)
			if err == nil {
				_, err = archive.List(t.Context())
			}
			if err == nil {
				t.Errorf("%s: is taken", name)
			}
		}); made > 1000 {
			t.Errorf("%s: %.0f allocations", name, made)
		}
	}
}
