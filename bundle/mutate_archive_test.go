package bundle_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
)

// frameOf puts a tar stream into one frame.
func frameOf(t testing.TB, plain []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(true), zstd.WithEncoderConcurrency(1),
		zstd.WithSingleSegment(false), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithLowerEncoderMem(true))
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(plain, nil)
}

// plainOf is what is in a frame.
func plainOf(b []byte) ([]byte, error) {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	return z.DecodeAll(b, nil)
}

const blockSize = 512

// tarHeader is the header of an entry, as package archive says it must be.
func tarHeader(name string, mode cas.Mode, size int) []byte {
	h := make([]byte, blockSize)
	copy(h, name)
	copy(h[100:], "0000644")
	if mode == cas.Exec {
		copy(h[100:], "0000755")
	}
	copy(h[108:], "0000000\x000000000\x00")
	copy(h[124:], fmt.Sprintf("%011o\x0000000000000\x00", size))
	h[156] = '0'
	copy(h[257:], "ustar\x0000")
	copy(h[329:], "0000000\x000000000\x00")
	return summed(h)
}

// summed sets the sum of a header.
func summed(h []byte) []byte {
	copy(h[148:], "        ")
	sum := 0
	for _, c := range h[:blockSize] {
		sum += int(c)
	}
	copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
	return h
}

// tarEntry is an entry with its content and padding.
func tarEntry(name string, mode cas.Mode, content []byte) []byte {
	padded := (len(content) + blockSize - 1) / blockSize * blockSize
	return append(append(tarHeader(name, mode, len(content)), content...), make([]byte, padded-len(content))...)
}

// split takes a tar stream apart into its entries. What is behind the last one is two blocks of zeros.
func split(t testing.TB, plain []byte) (entries [][]byte) {
	t.Helper()
	for plain[0] != 0 {
		var size int
		if _, err := fmt.Sscanf(string(plain[124:135]), "%o", &size); err != nil {
			t.Fatal(err)
		}
		n := blockSize + (size+blockSize-1)/blockSize*blockSize
		entries, plain = append(entries, plain[:n:n]), plain[n:]
	}
	if len(plain) != 2*blockSize {
		t.Fatalf("%d bytes behind the last entry", len(plain))
	}
	return entries
}

// The fields of a header: where they are, and what else could be there.
var headerFields = []struct {
	name  string
	at    int
	other []string
}{
	{"name", 0, []string{"files/../x", "/files/x", "x", "FILES/", "\x00", "./files"}},
	{"name's end", 99, []string{"x"}},
	{"mode", 100, []string{"0000600", "0000777", "0004755", "0002755", "0100644", "    644", "0000755\x00",
		"0000644\x00"}},
	{"uid", 108, []string{"0001750", "      0", "\x80\x00\x00\x00\x00\x00\x00\x00"}},
	{"gid", 116, []string{"0001750", "      0", "\x00"}},
	{"size", 124, []string{"00000000000\x00", "00000000001\x00", "77777777777\x00", "          7\x00",
		"\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07"}},
	{"mtime", 136, []string{"00000000001", "14736170200", "          0"}},
	{"type", 156, []string{"\x00", "1", "2", "3", "4", "5", "6", "7", "L", "K", "S", "g", "x", "X", "V", "M"}},
	{"link", 157, []string{"x", "/etc/passwd", "../x"}},
	{"magic", 257, []string{"ustar  \x00", "USTAR", "\x00\x00\x00\x00\x00\x00"}},
	{"version", 263, []string{"01", "  ", "\x00\x00"}},
	{"user", 265, []string{"root"}},
	{"group", 297, []string{"root"}},
	{"major", 329, []string{"0000001", "\x00\x00\x00\x00\x00\x00\x00"}},
	{"minor", 337, []string{"0000001", "\x00\x00\x00\x00\x00\x00\x00"}},
	{"prefix", 345, []string{"files", "..", "/"}},
	{"the rest", 500, []string{"x"}},
}

// TestMutateArchive changes what is in an archive. There is one tar stream for a bundle, so that none other passes.
func TestMutateArchive(t *testing.T) {
	t.Parallel()
	b := newBreeder(t)
	good := b.p.archive()
	b.sound("archive", bundle.InArchive(bytes.NewReader(good)))
	plain, err := plainOf(good)
	if err != nil {
		t.Fatal(err)
	}
	entries := split(t, plain)
	end := make([]byte, 2*blockSize)
	b.sound("put together again", bundle.InArchive(bytes.NewReader(frameOf(t,
		append(slices.Concat(entries...), end...)))))
	stream := func(op, what string, tar []byte) {
		t.Helper()
		if !bytes.Equal(tar, plain) {
			b.refused(op, what, bundle.InArchive(bytes.NewReader(frameOf(t, tar))), nil)
		}
	}
	with := func(i, without int, by ...[]byte) []byte {
		return slices.Concat(slices.Concat(entries[:i]...), slices.Concat(by...),
			slices.Concat(entries[i+without:]...), end)
	}

	signatures := b.p.list.Signatures.Append(nil)
	for _, m := range some(mutations(string(b.p.body)), 2, 5) {
		stream(m.op, m.what, with(0, 1, tarEntry("manifest.yaml", cas.File, []byte(m.text))))
	}
	for _, m := range some(mutations(string(signatures)), 1, 3) {
		stream(m.op, m.what, with(1, 1, tarEntry("manifest.yaml.sig", cas.File, []byte(m.text))))
	}
	for i, e := range entries {
		name := strings.TrimRight(string(e[:100]), "\x00")
		stream("drop entry", name, with(i, 1))
		stream("duplicate entry", name, with(i, 1, e, e))
		stream("reorder entries", name+" to the front", with(0, i+1, append([][]byte{e}, entries[:i]...)...))
		stream("reorder entries", name+" to the end",
			with(i, len(entries)-i, append(slices.Clone(entries[i+1:]), e)...))
		if i+1 < len(entries) {
			stream("reorder entries", name, with(i, 2, entries[i+1], e))
		}
		stream("add entry", name, with(i, 0, tarEntry("files/new", cas.File, []byte("new\n"))))
		stream("add entry", name+" long", with(i, 0, tarEntry("pax", cas.File, []byte("19 path=files/abcd\n")), e))
		for _, f := range headerFields {
			for _, other := range f.other {
				h := bytes.Clone(e)
				copy(h[f.at:], other)
				stream("header", fmt.Sprintf("%s: %s %q", name, f.name, other), with(i, 1, summed(h)))
			}
		}
		for _, other := range []string{"0000000\x00", "       \x00", "\x00\x00\x00\x00\x00\x00\x00\x00"} {
			h := bytes.Clone(e)
			copy(h[148:], other)
			stream("header", fmt.Sprintf("%s: sum %q", name, other), with(i, 1, h))
		}
		content := bytes.TrimRight(e[blockSize:], "\x00")
		for j := 0; j < len(content); j += max(1, len(content)/5) {
			c := bytes.Clone(e)
			c[blockSize+j] ^= 0x20
			stream("content", fmt.Sprintf("%s at %d", name, j), with(i, 1, c))
		}
		if len(content) > 0 && len(content)%blockSize > 0 {
			c := bytes.Clone(e)
			c[len(c)-1] = 1
			stream("padding", name, with(i, 1, c))
		}
		stream("padding", name+" a block", with(i, 1, e, end[:blockSize]))
		stream("truncate", name, slices.Concat(slices.Concat(entries[:i]...), end))
		stream("truncate", name+" half", slices.Concat(slices.Concat(entries[:i]...), e[:len(e)/2], end))
	}
	for n := range 5 {
		stream("end", fmt.Sprintf("%d blocks", n), append(slices.Concat(entries...), make([]byte, n*blockSize)...))
	}
	stream("end", "a byte", append(bytes.Clone(plain), 0))
	stream("end", "a byte less", plain[:len(plain)-1])
	flips(plain, 41, func(what string, tar []byte) { stream("flip byte", what, tar) })
	b.frames(good, plain)
	b.enough(withText(6, map[string]int{"drop entry": 14, "duplicate entry": 14, "reorder entries": 39,
		"add entry": 28, "header": 900, "content": 60, "padding": 27, "truncate": 28, "end": 6,
		"flip byte": 400, "flip in frame": 560, "drop in frame": 200, "duplicate in frame": 200,
		"reorder in frame": 200, "cut frame": 60, "around frame": 5}))
}

// frames changes bytes of the frame. A mutant may pass if what is in it is the same to the byte.
func (b *breeder) frames(good, plain []byte) {
	try := func(op, what string, mutant []byte) {
		b.t.Helper()
		if bytes.Equal(mutant, good) {
			return
		}
		b.refused(op, what, bundle.InArchive(bytes.NewReader(mutant)), func() bool {
			is, err := plainOf(mutant)
			return err == nil && bytes.Equal(is, plain)
		})
	}
	flips(good, 5, func(what string, mutant []byte) { try("flip in frame", what, mutant) })
	for i := 0; i < len(good); i += 13 {
		what := fmt.Sprintf("at %d", i)
		try("drop in frame", what, slices.Delete(bytes.Clone(good), i, i+1))
		try("duplicate in frame", what, slices.Insert(bytes.Clone(good), i, good[i]))
		if i+1 < len(good) {
			c := bytes.Clone(good)
			c[i], c[i+1] = c[i+1], c[i]
			try("reorder in frame", what, c)
		}
	}
	for n := 0; n < len(good); n += 41 {
		try("cut frame", fmt.Sprint(n), good[:n])
	}
	skip := []byte{0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0}
	half := len(plain) / 2
	for what, mutant := range map[string][]byte{
		"a byte behind": append(bytes.Clone(good), 0), "twice": append(bytes.Clone(good), good...),
		"skipped before": append(bytes.Clone(skip), good...), "skipped behind": append(bytes.Clone(good), skip...),
		"two frames": append(frameOf(b.t, plain[:half]), frameOf(b.t, plain[half:])...), "no frame": plain,
	} {
		// The contents of these are the same, and yet they aren't archives.
		b.refused("around frame", what, bundle.InArchive(bytes.NewReader(mutant)), nil)
	}
}
