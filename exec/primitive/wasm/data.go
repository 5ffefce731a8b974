package wasm

import (
	"encoding/binary"
	"slices"
)

// The numbers of some sections of a module.
const (
	memorySection    = 5
	startSection     = 8
	dataSection      = 11
	dataCountSection = 12
	preamble         = 8 // bytes before the first section
)

// section parses the section at the beginning of b. rest is the remainder. ok is false if b doesn't begin with a
// section.
func section(b []byte) (id byte, content, rest []byte, ok bool) {
	if len(b) == 0 {
		return 0, nil, nil, false
	}
	size, n := binary.Uvarint(b[1:])
	if n <= 0 || size > uint64(len(b)-1-n) {
		return b[0], nil, nil, false
	}
	b, id = b[1+n:], b[0]
	return id, b[:size], b[size:], true
}

// starts reports whether instantiating a module runs its code: whether it has a start function.
func starts(module []byte) bool {
	for rest := module[min(preamble, len(module)):]; len(rest) > 0; {
		id, _, next, ok := section(rest)
		if id == startSection || !ok {
			return true
		}
		rest = next
	}
	return false
}

// joined returns an equivalent module with fewer data segments. Go's linker begins a new segment at each run of
// zeros, 30,000 in a program that does nothing, and at each instantiation a segment costs as much as copying a
// kilobyte. joined returns other modules, and invalid ones, unchanged.
func joined(module []byte) []byte {
	var room uint64
	for rest := module[min(preamble, len(module)):]; len(rest) > 0; {
		id, content, next, ok := section(rest)
		switch {
		case !ok || id == dataCountSection: // instructions may refer to segments by number
			return module
		case id == memorySection:
			room = leastMemory(content)
		case id == dataSection:
			all, ok := join(content, room)
			if !ok {
				return module
			}
			data := binary.AppendUvarint(nil, uint64(len(all)))
			for _, s := range all {
				data = append(appendSigned(append(data, 0, opI32Const), s.at), opEnd)
				data = append(binary.AppendUvarint(data, uint64(len(s.bytes))), s.bytes...)
			}
			out := append(slices.Clone(module[:len(module)-len(rest)]), dataSection)
			return append(append(binary.AppendUvarint(out, uint64(len(data))), data...), next...)
		}
		rest = next
	}
	return module
}

// leastMemory returns the initial memory of an instance in bytes, or 0 if the module doesn't define exactly one
// memory.
func leastMemory(content []byte) uint64 {
	const page, most = 64 << 10, 64 << 10
	if len(content) < 3 || content[0] != 1 || content[1] > 1 {
		return 0
	}
	pages, n := binary.Uvarint(content[2:])
	if n <= 0 || pages > most {
		return 0
	}
	return pages * page
}

// A segment is data that instantiation copies to an address in memory.
type segment struct {
	at    uint64
	bytes []byte
}

func (s *segment) end() uint64 { return s.at + uint64(len(s.bytes)) }

const (
	opI32Const = 0x41
	opEnd      = 0x0b
	// smallGap is the longest run of zeros that is written instead of beginning another segment. It bounds how much a
	// module can grow.
	smallGap = 64
)

// join reads a data section and joins each segment with the previous one if only a short gap of zeros separates them.
// ok is false if that could change an instance's initial memory.
func join(content []byte, room uint64) (all []segment, ok bool) {
	count, n := binary.Uvarint(content)
	if n <= 0 || count > uint64(len(content)) {
		return nil, false
	}
	rest := content[n:]
	for range count {
		var s segment
		if s, rest, ok = readSegment(rest); !ok || s.end() > room {
			return nil, false
		}
		if last := len(all) - 1; last >= 0 && s.at >= all[last].end() && s.at-all[last].end() <= smallGap {
			l := &all[last]
			l.bytes = append(append(l.bytes, make([]byte, s.at-l.end())...), s.bytes...)
			continue
		}
		all = append(all, segment{s.at, slices.Clone(s.bytes)})
	}
	inOrder := slices.SortedFunc(slices.Values(all), func(a, b segment) int { return int(a.at) - int(b.at) })
	for i := 1; i < len(inOrder); i++ {
		if inOrder[i].at < inOrder[i-1].end() {
			return nil, false // zeros could overwrite another segment's data
		}
	}
	return all, len(rest) == 0
}

// readSegment parses a segment of the first memory at a constant address.
func readSegment(data []byte) (found segment, rest []byte, ok bool) {
	if len(data) < 2 || data[0] != 0 || data[1] != opI32Const {
		return found, nil, false
	}
	data = data[2:]
	at, n := binary.Uvarint(data)
	const mostBytes, negative = 5, 0x40
	if n <= 0 || n > mostBytes || data[n-1]&negative != 0 || at >= 1<<31 || n == len(data) || data[n] != opEnd {
		return found, nil, false
	}
	data = data[n+1:]
	size, n := binary.Uvarint(data)
	if n <= 0 || size > uint64(len(data)-n) {
		return found, nil, false
	}
	return segment{at, data[n : n+int(size)]}, data[n+int(size):], true
}

// appendSigned appends a non-negative number in signed LEB128.
func appendSigned(b []byte, n uint64) []byte {
	const more, negative = 0x80, 0x40
	for n >= negative {
		b = append(b, byte(n)|more)
		n >>= 7
	}
	return append(b, byte(n))
}
