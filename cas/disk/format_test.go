package disk

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/goldentest"
)

const vectors = "../../testdata/vectors/disk"

// golden compares b with a file, which holds it as it is or as hexadecimal lines.
func golden(t *testing.T, name string, b []byte) {
	t.Helper()
	path := filepath.Join(vectors, name)
	if filepath.Ext(name) == ".hex" {
		var text []byte
		for line := range slices.Chunk(b, 32) {
			text = fmt.Appendf(text, "%x\n", line)
		}
		b = text
	}
	goldentest.File(t, path, b)
}

func vector(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(vectors, name))
	must(t, err)
	if filepath.Ext(name) == ".hex" {
		b, err = hex.DecodeString(string(bytes.ReplaceAll(b, []byte("\n"), nil)))
		must(t, err)
	}
	return b
}

// A part is a record of the golden packs.
type part struct {
	kind cas.Kind
	d    cas.Digest
	b    []byte
}

// goldenParts are a small file, a tree, and a long document in two chunks with its list.
func goldenParts(fill func(seed uint64, n int) []byte) (parts []part, blob, tree, doc []byte) {
	blob = fill(1, 300)
	tree, err := cas.AppendTree(nil, []cas.Entry{{Name: "f", Mode: cas.Exec, Digest: cas.Sum(blob),
		Size: int64(len(blob))}})
	if err != nil {
		panic(err)
	}
	a, b := fill(2, 5000), fill(3, 1200)
	doc = slices.Concat(a, b)
	list := encodeList(nil, 0, []listItem{{cas.Sum(a), int64(len(a))}, {cas.Sum(b), int64(len(b))}})
	root := binary.LittleEndian.AppendUint64(slices.Clone(sumOfBytes(doc)), uint64(len(doc)))
	root = encodeList(root, 1, []listItem{{cas.Sum(list), int64(len(doc))}})
	return []part{
		{cas.Blob, cas.Sum(blob), blob}, {cas.TreeKind, cas.Sum(tree), tree}, {cas.Blob, cas.Sum(nil), nil},
		{textRecord, cas.Sum(a), a}, {textRecord, cas.Sum(b), b}, {listRecord, cas.Sum(list), list},
		{cas.Document | large, cas.Sum(doc), root},
	}, blob, tree, doc
}

func sumOfBytes(b []byte) []byte {
	d := cas.Sum(b)
	return d[:]
}

// writePack writes a pack of parts, in blocks of three, and returns its path.
func writePack(t testing.TB, salt uint64, parts []part) string {
	t.Helper()
	w, err := newPackWriter(files{lazy: true}, filepath.Join(t.TempDir(), "tmp"), salt)
	must(t, err)
	enc, err := newEncoder()
	must(t, err)
	for block := range slices.Chunk(parts, 3) {
		b := newBuilder()
		for _, p := range block {
			b.add(w, p.kind, &p.d, p.b)
		}
		must(t, b.seal(w, enc))
	}
	p, err := w.seal()
	must(t, err)
	path := filepath.Join(filepath.Dir(p.path), packName(p.foot.id))
	must(t, os.Rename(p.path, path))
	p.release()
	return path
}

// TestVectors: what is written is what was always written, and what was ever written can be read. What zstd makes
// of a block may change with its version; all else may not.
func TestVectors(t *testing.T) {
	const salt = 0x0123456789abcdef
	raw, blob, tree, doc := goldenParts(noise)
	path := writePack(t, salt, raw[:1])
	b, err := os.ReadFile(path)
	must(t, err)
	golden(t, "raw.pack.hex", b)
	golden(t, "chunk-list.hex", raw[5].b)
	golden(t, "root.hex", raw[6].b)
	golden(t, "block-header.hex", appendBlockHeader(nil, salt, codecZstd, 5001, 70,
		[]record{{cas.Blob, 5000}, {listRecord, 1}}))
	foot := footer{entries: 94, blocks: 256, index: 3 * pageSize, id: [16]byte{1, 2, 3}, salt: salt}
	golden(t, "footer.hex", foot.encode())
	golden(t, "format", []byte(formatText(Format, MinReader)))
	golden(t, "ref", []byte(refText("release/Stable", cas.ID{Kind: cas.TreeKind, Digest: cas.Sum(tree)})))
	lines := linesOf([]unreachable{{e: entry{digest: cas.Sum(blob), kind: cas.Blob}, since: 1e18},
		{e: entry{digest: cas.Sum(tree), kind: cas.TreeKind}, since: 2e18}})
	golden(t, "garbage.hex", encodeRecord([][16]byte{{1}, {2}}, lines))
	golden(t, "condemned.hex", encodeRecord([][16]byte{{3}}, lines[:keyLine]))
	golden(t, "doomed.hex", encodeRecord([][16]byte{{3}, {4}}, nil))

	mixed, text1, tree1, doc1 := goldenParts(text)
	if goldentest.Update() {
		b, err := os.ReadFile(writePack(t, salt, append(mixed, raw...)))
		must(t, err)
		golden(t, "mixed.pack.hex", b)
	}
	s := tinyStore(t, Options{})
	b = vector(t, "mixed.pack.hex")
	foot, err = decodeFooter(b[len(b)-footerSize:], int64(len(b)))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(s.dir, "packs", packName(foot.id)), b, 0o600))
	w := newWorld()
	for _, x := range []struct {
		kind cas.Kind
		b    []byte
	}{{cas.Blob, blob}, {cas.Blob, text1}, {cas.Blob, nil}, {cas.TreeKind, tree}, {cas.TreeKind, tree1},
		{cas.Document, doc}, {cas.Document, doc1}} {
		w.objects[cas.ID{Kind: x.kind, Digest: cas.Sum(x.b)}] = x.b
	}
	must(t, w.check(s))
	must(t, clean(s))
	for _, name := range []string{"garbage.hex", "condemned.hex"} {
		size := map[string]int{"garbage.hex": garbageLine, "condemned.hex": keyLine}[name]
		if _, ok := parseRecord(vector(t, name), size); !ok {
			t.Errorf("%s can't be read", name)
		}
	}
	if _, err := parseRef("release/Stable", vector(t, "ref")); err != nil {
		t.Error(err)
	}
}

func TestFormatVersions(t *testing.T) {
	for text, want := range map[string]struct{ read, write bool }{
		"rye store 2\nreaders 2\n":            {true, true},
		"rye store 3\nreaders 2\n":            {true, false},
		"rye store 3\nreaders 2\nand more\n":  {true, false},
		"rye store 3\nreaders 3\n":            {},
		"rye store 1\nreaders 1\n":            {},
		"rye store 2\nreaders 2\nand more\n":  {},
		"rye store 02\nreaders 2\n":           {},
		"rye store 2\nreaders 3\n":            {},
		"rye store 2":                         {},
		"":                                    {},
		"rye store -2\nreaders -2\n":          {},
		"rye store 2\nreaders 0\n":            {},
		"rye store 2\r\nreaders 2\r\n":        {},
		"rye store 99999999999\nreaders 2\n1": {true, false},
	} {
		s := tinyStore(t, Options{})
		must(t, os.WriteFile(filepath.Join(s.dir, "format"), []byte(text), 0o600))
		_, err := Open(s.dir, Options{ReadOnly: true})
		if (err == nil) != want.read {
			t.Errorf("%q to read: %v", text, err)
		}
		if _, err = Open(s.dir, Options{Create: true}); (err == nil) != want.write {
			t.Errorf("%q to write: %v", text, err)
		}
	}
}

func FuzzBlockHeader(f *testing.F) {
	f.Add(vector(f, "block-header.hex"), uint64(0x0123456789abcdef))
	f.Fuzz(func(t *testing.T, b []byte, salt uint64) {
		for range 2 {
			h, err := decodeBlockHeader(b, salt)
			if err == nil {
				if again := appendBlockHeader(nil, salt, h.codec, int(h.raw), int(h.stored),
					h.recs); !bytes.Equal(again, b[:h.size]) {
					t.Fatalf("%x is written as %x", b[:h.size], again)
				}
			}
			if len(b) < blockFixed {
				return
			}
			// Once more with the right checksum, if all of b is the header.
			b = slices.Clone(b)
			binary.LittleEndian.PutUint32(b, blockMagic)
			binary.LittleEndian.PutUint32(b[16:], blockSum(b, salt))
		}
	})
}

func FuzzFooter(f *testing.F) {
	f.Add(vector(f, "footer.hex"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) != footerSize {
			return
		}
		b = slices.Clone(b)
		binary.LittleEndian.PutUint32(b[60:], crc32.Checksum(b[:60], castagnoli))
		index, entries, blocks := binary.LittleEndian.Uint64(b[24:]), binary.LittleEndian.Uint64(b[8:]),
			binary.LittleEndian.Uint64(b[16:])
		maybe := footer{index: index, entries: entries, blocks: blocks}
		foot, err := decodeFooter(b, maybe.size())
		if err == nil && !bytes.Equal(foot.encode(), b) {
			t.Fatalf("%x is written as %x", b, foot.encode())
		}
	})
}

func FuzzLines(f *testing.F) {
	f.Add(bytes.Repeat([]byte{1, 2, 3, 4}, 11))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < entrySize {
			return
		}
		var again [entrySize]byte
		e := getEntry(b)
		if e.put(again[:]); !bytes.Equal(again[:], b[:entrySize]) {
			t.Fatalf("entry %x is written as %x", b[:entrySize], again)
		}
		if getLoc(b).put(again[:locSize]); !bytes.Equal(again[:locSize], b[:locSize]) {
			t.Fatalf("place %x is written as %x", b[:locSize], again[:locSize])
		}
	})
}

func FuzzList(f *testing.F) {
	f.Add(vector(f, "chunk-list.hex"))
	f.Add(vector(f, "root.hex"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if level, items, err := decodeList(b); err == nil && !bytes.Equal(encodeList(nil, level, items), b) {
			t.Fatalf("list %x is written as %x", b, encodeList(nil, level, items))
		}
		d, size, level, items, err := decodeRoot(b)
		if err != nil {
			return
		}
		again := binary.LittleEndian.AppendUint64(slices.Clone(d[:]), uint64(size))
		if again = encodeList(again, level, items); !bytes.Equal(again, b) || size <= 0 {
			t.Fatalf("root %x is written as %x", b, again)
		}
	})
}

func FuzzRef(f *testing.F) {
	f.Add("release/Stable", vector(f, "ref"))
	f.Add(strings.Repeat("A", 130), []byte{})
	f.Fuzz(func(t *testing.T, name string, b []byte) {
		id, err := parseRef(name, b)
		if err == nil && refText(name, id) != string(b) {
			t.Fatalf("%q is written as %q", b, refText(name, id))
		}
		if CheckRefName(name) != nil {
			return
		}
		s := Store{dir: "x"}
		file := filepath.Base(s.refPath(name))
		if back, ok := refName(file); !ok || back != name || len(file) > 255 {
			t.Fatalf("%q, in %q, comes back as %q", name, file, back)
		}
	})
}

func FuzzRecord(f *testing.F) {
	f.Add(vector(f, "garbage.hex"), true)
	f.Add(vector(f, "condemned.hex"), false)
	f.Fuzz(func(t *testing.T, b []byte, long bool) {
		size := keyLine
		if long {
			size = garbageLine
		}
		if len(b) >= cas.Size {
			b = slices.Clone(b)
			copy(b[len(b)-cas.Size:], sumOfBytes(b[:len(b)-cas.Size]))
		}
		r, ok := parseRecord(b, size)
		if !ok {
			return
		}
		var ids [][16]byte
		for _, name := range r.packs {
			id, err := hex.DecodeString(name[:32])
			must(t, err)
			ids = append(ids, [16]byte(id))
		}
		if !bytes.Equal(encodeRecord(ids, r.lines), b) {
			t.Fatal("a record is written otherwise")
		}
		for _, name := range r.packs {
			r.find(&pack{path: name}, &entry{kind: cas.Blob})
		}
	})
}

// FuzzPack opens and salvages what was made of a pack, with its checksums right or not, and reads all that is in it.
func FuzzPack(f *testing.F) {
	b := vector(f, "mixed.pack.hex")
	f.Add(b, false)
	f.Add(b, true)
	f.Add(vector(f, "raw.pack.hex"), true)
	odd := slices.Clone(b) // an entry of its index is of a kind that doesn't exist
	odd[int(binary.LittleEndian.Uint64(b[len(b)-footerSize+24:]))+entrySize+39] = 99
	f.Add(odd, true)
	f.Fuzz(func(t *testing.T, b []byte, right bool) {
		if right {
			b = putRight(b)
		}
		s := tinyStore(t, Options{})
		name := "x" + packExt
		if foot, err := decodeFooter(b[max(0, len(b)-footerSize):], int64(len(b))); err == nil {
			name = packName(foot.id)
		}
		path := filepath.Join(s.dir, "packs", name)
		must(t, os.WriteFile(path, b, 0o600))
		seen := make(map[cas.ID]bool)
		for i := range s.List(t.Context()) {
			if seen[i.ID] || i.Size > 1<<20 {
				continue
			}
			seen[i.ID] = true
			o, err := s.Get(t.Context(), i.ID)
			if err != nil {
				continue
			}
			if got, err := io.ReadAll(o); err == nil && (cas.Sum(got) != i.Digest || int64(len(got)) != o.Size) {
				t.Fatalf("%s was served wrong", i.ID)
			}
			o.Close()
		}
		s.Fsck(t.Context(), nil)
		s.Get(t.Context(), cas.ID{Kind: cas.Blob})
		if _, err := s.Reindex(t.Context()); err != nil {
			t.Fatal(err)
		}
		report, err := s.Fsck(t.Context(), nil)
		must(t, err)
		if _, err := s.Repair(t.Context(), report, nil); err != nil {
			t.Fatal(err)
		}
		must(t, clean(s))
	})
}

// putRight makes the checksums of a pack right, so that what is behind them is reached.
func putRight(b []byte) []byte {
	b = slices.Clone(b)
	if len(b) < headerSize+footerSize {
		return b
	}
	at := len(b) - footerSize
	copy(b[at:], footerMagic)
	binary.LittleEndian.PutUint32(b[at+56:], 0)
	foot := footer{entries: binary.LittleEndian.Uint64(b[at+8:]), blocks: binary.LittleEndian.Uint64(b[at+16:]),
		index: binary.LittleEndian.Uint64(b[at+24:])}
	if foot.entries < 1<<20 && foot.blocks < 1<<20 && foot.index < 1<<30 && foot.size() == int64(len(b)) {
		h := cas.NewHasher()
		for n := range foot.pages() {
			p := b[int(foot.index)+n*pageSize:][:pageSize]
			sealPage(p, n)
			h.Write(p)
		}
		foot.salt = binary.LittleEndian.Uint64(b[at+48:])
		id := foot.hash(h)
		copy(b[at+32:], id[:])
	}
	binary.LittleEndian.PutUint32(b[at+60:], crc32.Checksum(b[at:at+60], castagnoli))
	return b
}

// bomb returns a pack with a block that says it is small, and is a zstd frame of 512 MiB.
func bomb(t testing.TB) []byte {
	t.Helper()
	var z bytes.Buffer
	enc, err := zstd.NewWriter(&z, zstd.WithWindowSize(128<<10))
	must(t, err)
	_, err = io.CopyN(enc, zeros{}, 512<<20)
	must(t, err)
	must(t, enc.Close())
	w, err := newPackWriter(files{lazy: true}, filepath.Join(t.TempDir(), "tmp"), 1)
	must(t, err)
	const raw = 200 << 10
	if z.Len() > raw {
		t.Fatalf("the bomb is %d bytes", z.Len())
	}
	number, _ := w.claim(entry{digest: cas.Sum(make([]byte, raw)), block: noBlock, size: raw, kind: cas.Blob})
	h := appendBlockHeader(nil, w.salt, codecZstd, raw, z.Len(), []record{{cas.Blob, raw}})
	must(t, w.write(number, append(h, z.Bytes()...), len(h), codecZstd, raw))
	p, err := w.seal()
	must(t, err)
	defer p.release()
	b, err := os.ReadFile(p.path)
	must(t, err)
	return b
}

// TestBombs: what a pack declares is the most that is made of it.
func TestBombs(t *testing.T) {
	s := tinyStore(t, Options{})
	b := bomb(t)
	foot, err := decodeFooter(b[len(b)-footerSize:], int64(len(b)))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(s.dir, "packs", packName(foot.id)), b, 0o600))
	id := cas.ID{Kind: cas.Blob, Digest: cas.Sum(make([]byte, 200<<10))}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := s.Get(t.Context(), id); err == nil {
		t.Error("a bomb was served")
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 8<<20 {
		t.Errorf("a bomb of 512 MiB took %d bytes", got)
	}
	// Lists that name each other's like a thousand times: the root's length bounds what is read.
	chunk := noise(1, 1000)
	parts := []part{{chunkRecord, cas.Sum(chunk), chunk}}
	item, below := listItem{cas.Sum(chunk), int64(len(chunk))}, int64(len(chunk))
	for level := range 6 {
		items := slices.Repeat([]listItem{item}, 1000)
		list := encodeList(nil, level, items)
		parts = append(parts, part{listRecord, cas.Sum(list), list})
		below *= 1000
		item = listItem{cas.Sum(list), below}
	}
	for _, says := range []int64{below, 300 << 10, 1} {
		top := listItem{item.digest, says}
		fake := cas.Sum(binary.LittleEndian.AppendUint64(nil, uint64(says)))
		root := binary.LittleEndian.AppendUint64(slices.Clone(fake[:]), uint64(says))
		parts = append(parts, part{cas.Blob | large, fake, encodeList(root, 6, []listItem{top})})
	}
	path := writePack(t, 5, parts)
	b, err = os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(s.dir, "packs", filepath.Base(path)), b, 0o600))
	for _, p := range parts[len(parts)-2:] {
		if o, err := s.Get(t.Context(), cas.ID{Kind: cas.Blob, Digest: p.d}); err == nil {
			if _, err := io.Copy(io.Discard, o); err == nil {
				t.Error("a list that lies was served")
			}
			o.Close()
		}
	}
}

// TestFind: the first entry of a page that isn't below a digest is found wherever digests lie, evenly or not, and one
// digest may stand there with several kinds.
func TestFind(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	digest := func(spread int) (d cas.Digest) {
		for i := range d {
			d[i] = byte(random.IntN(spread))
		}
		return d
	}
	for round := range 400 {
		count, spread := 1+random.IntN(pageEntries), []int{1, 2, 3, 256}[round%4]
		all := make([]cas.Digest, count)
		for i := range all {
			if all[i] = digest(spread); round%3 == 0 {
				copy(all[i][:8], "the same") // only what follows tells them apart
			}
		}
		slices.SortFunc(all, cas.Digest.Compare)
		var page [pageSize]byte
		for i := range all {
			e := entry{digest: all[i], kind: cas.Blob}
			e.put(page[i*entrySize:])
		}
		looked := append(slices.Clone(all), digest(256), digest(2), cas.Digest{},
			cas.Digest(bytes.Repeat([]byte{0xff}, cas.Size)))
		for _, d := range looked {
			want, _ := slices.BinarySearchFunc(all, d, cas.Digest.Compare)
			if got := find(page[:], count, &d); got != want {
				t.Fatalf("round %d: %s is found at %d of %d instead of %d", round, d, got, count, want)
			}
		}
	}
}
