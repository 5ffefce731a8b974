package wasm

import (
	"encoding/binary"
	"slices"
)

// build makes a module of some bytes: with a function of nothing imported from each of some modules, a function _start
// of this code, nil for none, and a memory of so many pages.
func build(imports []string, start []byte, pages ...uint64) []byte {
	m := []byte("\x00asm\x01\x00\x00\x00")
	section := func(id byte, n int, b []byte) {
		if n > 0 {
			b = append(binary.AppendUvarint(nil, uint64(n)), b...)
			m = append(binary.AppendUvarint(append(m, id), uint64(len(b))), b...)
		}
	}
	name := func(b []byte, s string) []byte { return append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	section(1, 1, []byte{0x60, 0, 0})
	var b []byte
	for _, from := range imports {
		b = append(name(name(b, from), "f"), 0, 0)
	}
	section(2, len(imports), b)
	if start != nil {
		section(3, 1, []byte{0})
	}
	b = nil
	for _, n := range pages {
		b = binary.AppendUvarint(append(b, 0), n)
	}
	section(5, len(pages), b)
	if start != nil {
		section(7, 1, append(name(nil, "_start"), 0, byte(len(imports))))
		section(10, 1, append(binary.AppendUvarint(nil, uint64(len(start)+1)), append([]byte{0}, start...)...))
	}
	return m
}

// echo is a module that writes what it reads: there is little of it to load, for tests of many calls.
var echo = slices.Concat(
	[]byte("\x00asm\x01\x00\x00\x00"),
	// types: of _start; of fd_read and fd_write
	[]byte{1, 12, 2, 0x60, 0, 0, 0x60, 4, 0x7f, 0x7f, 0x7f, 0x7f, 1, 0x7f},
	[]byte{2, 68, 2},
	[]byte("\x16wasi_snapshot_preview1\x07fd_read\x00\x01"),
	[]byte("\x16wasi_snapshot_preview1\x08fd_write\x00\x01"),
	[]byte{3, 2, 1, 0},
	[]byte{5, 3, 1, 0, 1}, // a page
	[]byte("\x07\x13\x02\x06memory\x02\x00\x06_start\x00\x02"),
	[]byte{10, 74, 1, 72, 0},
	[]byte{0x02, 0x40, 0x03, 0x40},                       // block, loop
	[]byte{0x41, 0, 0x41, 16, 0x36, 2, 0},                // at 0 the vector: what is at 16,
	[]byte{0x41, 4, 0x41, 0x80, 0x80, 2, 0x36, 2, 0},     // 32,768 bytes
	[]byte{0x41, 0, 0x41, 0, 0x41, 1, 0x41, 8, 0x10, 0},  // fd_read, how many to 8
	[]byte{0x04, 0x40, 0x00, opEnd},                      // if it fails, a trap
	[]byte{0x41, 8, 0x28, 2, 0, 0x45, 0x0d, 1},           // none: out of the block
	[]byte{0x41, 4, 0x41, 8, 0x28, 2, 0, 0x36, 2, 0},     // so many are to be written
	[]byte{0x41, 1, 0x41, 0, 0x41, 1, 0x41, 12, 0x10, 1}, // fd_write
	[]byte{0x04, 0x40, 0x00, opEnd},
	[]byte{0x0c, 0, opEnd, opEnd, opEnd},
)
