package wasm

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero"
)

// withData makes a module of one page of memory, which it exports, and of these segments.
func withData(segments ...segment) []byte {
	m := []byte("\x00asm\x01\x00\x00\x00\x05\x03\x01\x00\x01\x07\x0a\x01\x06memory\x02\x00")
	data := binary.AppendUvarint(nil, uint64(len(segments)))
	for _, s := range segments {
		data = append(appendSigned(append(data, 0, opI32Const), s.at), opEnd)
		data = append(binary.AppendUvarint(data, uint64(len(s.bytes))), s.bytes...)
	}
	return append(binary.AppendUvarint(append(m, dataSection), uint64(len(data))), data...)
}

// memoryOf returns what an instance of a module begins with, nil for an invalid one.
func memoryOf(t *testing.T, module []byte) []byte {
	t.Helper()
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	defer r.Close(ctx)
	i, err := r.Instantiate(ctx, module)
	if err != nil {
		return nil
	}
	b, ok := i.Memory().Read(0, i.Memory().Size())
	if !ok {
		t.Fatal("the memory can't be read")
	}
	return slices.Clone(b)
}

// TestJoined: segments that are near each other become one, and no instance begins with another memory for it.
func TestJoined(t *testing.T) {
	at := func(n uint64, s string) segment { return segment{n, []byte(s)} }
	for name, c := range map[string]struct {
		of   []segment
		want int // segments
	}{
		"none":                           {nil, 0},
		"side by side":                   {[]segment{at(0, "a"), at(1, "b"), at(2, "")}, 1},
		"a small gap":                    {[]segment{at(5, "a"), at(6+smallGap, "b")}, 1},
		"a large gap":                    {[]segment{at(5, "a"), at(7+smallGap, "b")}, 2},
		"one before":                     {[]segment{at(5000, "a"), at(5001, "b"), at(100, "c"), at(102, "d")}, 2},
		"one over another":               {[]segment{at(10, "abc"), at(11, "x")}, 2},
		"zeros over another":             {[]segment{at(10, "abc"), at(5, "x"), at(20, "y")}, 3},
		"to the end of the memory":       {[]segment{at(65534, "a"), at(65535, "b")}, 1},
		"beyond the end of the memory":   {[]segment{at(65534, "a"), at(65535, "bc")}, 2},
		"far beyond, where it may grow":  {[]segment{at(1<<20, "a"), at(1<<20+1, "b")}, 2},
		"nothing beyond, but at the end": {[]segment{at(65535, "a"), at(65536, "")}, 1},
	} {
		module := withData(c.of...)
		got := joined(module)
		if before, after := memoryOf(t, module), memoryOf(t, got); !bytes.Equal(before, after) ||
			(before == nil) != (after == nil) {
			t.Errorf("%s: the memory isn't the same", name)
		}
		if n := dataSegments(t, got); n != c.want {
			t.Errorf("%s: %d segments instead of %d", name, n, c.want)
		}
	}
}

// dataSegments returns how many segments a module has.
func dataSegments(t *testing.T, module []byte) int {
	t.Helper()
	for rest := module[preamble:]; len(rest) > 0; {
		id, content, next, ok := section(rest)
		if !ok {
			t.Fatal("the module has no end")
		}
		if id == dataSection {
			n, _ := binary.Uvarint(content)
			return int(n)
		}
		rest = next
	}
	return 0
}

// TestJoinedRandom: whatever segments a module has, and wherever it is damaged, joining changes nothing that an
// instance sees.
func TestJoinedRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		var all []segment
		for at := uint64(0); len(all) < 1+random.IntN(12); {
			if random.IntN(6) == 0 {
				at = random.Uint64N(1 << 12)
			}
			b := make([]byte, random.IntN(20))
			for i := range b {
				b[i] = byte(random.Uint32())
			}
			all = append(all, segment{at, b})
			at += uint64(len(b)) + random.Uint64N(2*smallGap)
		}
		module := withData(all...)
		if random.IntN(2) == 0 {
			i := preamble + random.IntN(len(module)-preamble)
			module[i] ^= 1 << random.IntN(8)
		}
		before, after := memoryOf(t, module), memoryOf(t, joined(module))
		if !bytes.Equal(before, after) || (before == nil) != (after == nil) {
			t.Fatalf("the memory isn't the same after joining %x", module)
		}
	}
}

// TestJoinedNot: a module whose instructions or imports may see a difference is left as it is, and so is what is no
// module.
func TestJoinedNot(t *testing.T) {
	near := []segment{{0, []byte("a")}, {1, []byte("b")}}
	whole := withData(near...)
	memory := []byte("\x05\x03\x01\x00\x01")
	for name, module := range map[string][]byte{
		"segments with numbers": bytes.Replace(whole, memory, append([]byte("\x0c\x01\x02"), memory...), 1),
		"a memory from outside": bytes.Replace(whole, memory, nil, 1),
		"two memories":          bytes.Replace(whole, memory, []byte("\x05\x05\x02\x00\x01\x00\x01"), 1),
		"cut off":               whole[:len(whole)-1],
		"nothing":               nil,
		"not a module":          []byte("MZ"),
	} {
		if got := joined(module); !bytes.Equal(got, module) {
			t.Errorf("%s: %x became %x", name, module, got)
		}
	}
	if bytes.Equal(joined(whole), whole) {
		t.Error("the module itself isn't joined")
	}
}
