package wasm

import "encoding/binary"

const opEnd = 0x0b

// build makes a module of some bytes: with a function of nothing imported from each of some modules, a function _start of
// this code, nil for none, and a memory of so many pages.
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
