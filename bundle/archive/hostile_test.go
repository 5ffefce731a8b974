package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key/keytest"
)

// TestHostileTar changes the tar stream in ways that other readers accept, or overlook.
func TestHostileTar(t *testing.T) {
	w := demo(t)
	good := unpack(t, w.write(t))
	// Where the header of an entry begins, and the padding behind it.
	at := func(name string) int {
		i := bytes.Index(good, []byte(name+"\x00"))
		if i < 0 || i%512 != 0 {
			t.Fatalf("no header of %q", name)
		}
		return i
	}
	const readme, script = "files/README.md", "files/.ai/tools/acme/run.sh"
	// header replaces one by what archive/tar makes.
	header := func(h tar.Header) []byte {
		var b bytes.Buffer
		z := tar.NewWriter(&b)
		if err := z.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	edit := func(f func(b []byte) []byte) []byte { return f(bytes.Clone(good)) }
	replace := func(name string, n int, by []byte) []byte {
		return edit(func(b []byte) []byte { return slices.Concat(b[:at(name)], by, b[at(name)+n:]) })
	}
	poke := func(name string, off int, by string) []byte {
		return edit(func(b []byte) []byte {
			h := b[at(name):][:512]
			copy(h[off:], by)
			sum := int64(8 * ' ')
			for i, c := range h {
				if i < atSum || i >= atSum+8 {
					sum += int64(c)
				}
			}
			octal(h[atSum:], 6, sum)
			return b
		})
	}
	entry := good[at(readme):][:1024]
	other := func(name string) string { return fmt.Sprintf("%+q: unexpected header", name) }
	for name, c := range map[string]struct {
		plain []byte
		want  string
	}{
		"empty":            {nil, "unexpected EOF"},
		"zeros alone":      {make([]byte, 1024), "expected the manifest's header"},
		"link":             {poke(readme, atType, "2"), other(readme)},
		"hard link":        {poke(readme, atType, "1"), other(readme)},
		"device":           {poke(readme, atType, "3"), other(readme)},
		"directory":        {poke(readme, atType, "5"), other(readme)},
		"sparse":           {poke(readme, atType, "S"), other(readme)},
		"old regular":      {poke(readme, atType, "\x00"), other(readme)},
		"contiguous":       {poke(readme, atType, "7"), other(readme)},
		"link name":        {poke(readme, 157, "etc"), other(readme)},
		"owner":            {poke(readme, atUID, "0000001"), other(readme)},
		"group":            {poke(readme, atGID, "0000001"), other(readme)},
		"user name":        {poke(readme, 265, "root"), other(readme)},
		"time":             {poke(readme, atTime, "00000000001"), other(readme)},
		"setuid":           {poke(script, atMode, "0004755"), other(script)},
		"writable":         {poke(script, atMode, "0000777"), other(script)},
		"mode":             {poke(script, atMode, "0000644"), other(script)},
		"prefix":           {poke(readme, 345, "x"), other(readme)},
		"GNU magic":        {poke(readme, atMagic, "ustar  \x00"), other(readme)},
		"octal spaces":     {poke(readme, atUID, "      0"), other(readme)},
		"size in base 256": {poke(readme, atSize, "\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07"), other(readme)},
		"size":             {poke(readme, atSize, "00000000006"), other(readme)},
		"sum":              {edit(func(b []byte) []byte { b[at(readme)+atSum+1]++; return b }), other(readme)},
		"name":             {poke(readme, 0, "files/readme.md"), other(readme)},
		"parent":           {poke(readme, 0, "files/../../x.y"), other(readme)},
		"NUL in name":      {poke(readme, len(readme)+1, "x"), other(readme)},
		"PAX of size": {replace(readme, 512, header(tar.Header{Name: readme, Mode: 0o644, Size: 7,
			Format: tar.FormatPAX, PAXRecords: map[string]string{"ACME.x": "1"}})), other(readme)},
		"GNU long name": {replace(readme, 512, header(tar.Header{Name: strings.Repeat("x", 200), Mode: 0o644,
			Size: 7, Format: tar.FormatGNU})), other(readme)},
		"global header": {replace(readme, 0, header(tar.Header{Typeflag: tar.TypeXGlobalHeader,
			PAXRecords: map[string]string{"path": "x"}, Format: tar.FormatPAX})), other(readme)},
		"twice":    {replace(readme, 0, entry), other("files/" + long(120))},
		"left out": {replace(readme, 1024, nil), other(readme)},
		"added":    {replace(script, 0, entry), other(script)},
		"padding": {edit(func(b []byte) []byte {
			b[at(readme)+512+7] = 1
			return b
		}), `"files/README.md": nonzero padding`},
		"end":             {edit(func(b []byte) []byte { b[len(b)-1] = 1; return b }), "nonzero padding"},
		"one end block":   {good[:len(good)-512], "unexpected EOF"},
		"more at the end": {append(bytes.Clone(good), make([]byte, 512)...), "content after the last file"},
		"another archive": {append(bytes.Clone(good), good...), "content after the last file"},
		"content": {edit(func(b []byte) []byte {
			b[at(readme)+512] = '!'
			return b
		}), `"files/README.md": blob`},
		"manifest": {edit(func(b []byte) []byte { b[512+300] ^= 1; return b }), "manifest.yaml"},
		"manifest size": {poke("manifest.yaml", atSize, "77777777777"),
			"the manifest is larger than 67108864 bytes"},
		"manifest shorter": {poke("manifest.yaml", atSize, "00000000400"), "manifest.yaml"},
		"no size":          {poke("manifest.yaml", atSize, "        400"), "expected the manifest's header"},
		"no signatures": {edit(func(b []byte) []byte {
			return slices.Delete(b, at("manifest.yaml.sig"), at("manifest.yaml.sig")+1024)
		}), "the signature file is missing or too large"},
		"empty signatures": {slices.Concat(good[:at("manifest.yaml.sig")],
			appendHeader(nil, signaturesName, cas.File, 0), good[at("manifest.yaml.sig")+1024:]), "unsigned"},
		"large signatures": {poke("manifest.yaml.sig", atSize, "00001000000"),
			"the signature file is missing or too large"},
		"other signatures": {edit(func(b []byte) []byte {
			b[at("manifest.yaml.sig")+512+50] ^= 1
			return b
		}), "content was changed after signing"},
		"joined manifest": {joined(w, good), "the manifest contains signature lines"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(t.Context(), bytes.NewReader(pack(t, c.plain)), &log{lazy: true})
			if bad, ok := errors.AsType[*Error](err); !ok || !strings.Contains(err.Error(), c.want) || bad.Frame {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// joined is an archive whose manifest has its signature lines in it.
func joined(w *world, good []byte) []byte {
	text := manifest.Join(nil, w.body, w.list.Signatures)
	b := appendHeader(nil, manifestName, cas.File, int64(len(text)))
	b = append(append(b, text...), zeros[:padding(int64(len(text)))]...)
	return append(b, good[bytes.Index(good, []byte(signaturesName)):]...)
}

func TestHostileFrame(t *testing.T) {
	good := demo(t).write(t)
	plain := unpack(t, good)
	skip := []byte{0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 'x'}
	poke := func(i int, mask byte) []byte {
		b := bytes.Clone(good)
		b[i] ^= mask
		return b
	}
	// A header of a frame, and blocks behind it.
	frame := func(flags byte, more ...byte) []byte { return append([]byte{0x28, 0xb5, 0x2f, 0xfd, flags}, more...) }
	endless := frame(hasChecksum, 0x58)
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"nothing": {nil, "byte 0: unexpected EOF"},
		"a tar":   {plain, "byte 0: not a zstd frame"},
		"gzip": {[]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff},
			"byte 0: a zip or a gzip, which no bundle is: rye add reads a plugin in one"},
		"skippable first": {append(bytes.Clone(skip), good...), "byte 0: not a zstd frame"},
		"skippable last": {append(bytes.Clone(good), skip...),
			fmt.Sprintf("byte %d: trailing bytes after the end", len(good))},
		"a byte behind": {append(bytes.Clone(good), 0),
			fmt.Sprintf("byte %d: trailing bytes after the end", len(good))},
		"two frames": {append(bytes.Clone(good), good...),
			fmt.Sprintf("byte %d: trailing bytes after the end", len(good))},
		"split":          {append(pack(t, plain[:1024]), pack(t, plain[1024:])...), "unexpected EOF"},
		"no checksum":    {pack(t, plain, zstd.WithEncoderCRC(false)), "the zstd frame has no checksum"},
		"wrong checksum": {poke(len(good)-1, 1), "CRC check failed"},
		"cut off":        {good[:len(good)-1], "unexpected EOF"},
		"dictionary":     {frame(hasChecksum|1, 0x58, 7, 0, 0), "the zstd frame requires a dictionary"},
		"reserved":       {poke(4, 1<<3), "the zstd frame uses reserved bits"},
		"unused":         {poke(4, 1<<4), "the zstd frame uses reserved bits"},
		"window": {pack(t, bytes.Repeat(plain, 1000), zstd.WithWindowSize(16<<20)),
			"the zstd frame has a window of more than 8388608 bytes"},
		"a little window": {frame(hasChecksum, 13<<3|1, 1, 0, 0),
			"the zstd frame has a window of more than 8388608 bytes"},
		"largest window": {frame(hasChecksum, 0xff, 1, 0, 0),
			"the zstd frame has a window of more than 8388608 bytes"},
		"single segment": {frame(hasChecksum|singleSegment|3<<6, 0, 0, 0, 0, 0, 0, 0, 0x80),
			"the zstd frame has a window of more than 8388608 bytes"},
		"short size":  {frame(hasChecksum|singleSegment, 5), "unexpected EOF"},
		"no window":   {frame(hasChecksum), "unexpected EOF"},
		"block type":  {frame(hasChecksum, 0x58, 7, 0, 0), "a zstd block of a reserved type"},
		"zeros":       {frame(hasChecksum, 0x58, 3, 0x80, 0, 0, 0, 0, 0, 0), "CRC check failed"},
		"empty frame": {frame(hasChecksum, 0x58, 1, 0, 0, 0x99, 0xe9, 0xd8, 0x51), "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := read(c.b)
			if _, ok := errors.AsType[*Error](err); !ok || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	// Blocks of nothing, none of them the last one: there may be as many as the content could need.
	if _, err := Read(t.Context(), io.MultiReader(bytes.NewReader(endless), nothing{}), new(log)); err == nil ||
		!strings.Contains(err.Error(), "the compressed content is too long") {
		t.Errorf("endless: %v", err)
	}
}

// Nothing is blocks of nothing without end.
type nothing struct{}

func (nothing) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// TestEveryByte changes a bit of each byte of an archive: it is refused, or says the same.
func TestEveryByte(t *testing.T) {
	w := demo(t)
	good := w.write(t)
	want, err := read(good)
	if err != nil {
		t.Fatal(err)
	}
	for i := range good {
		mask := byte(1) << (i % 8)
		b := bytes.Clone(good)
		b[i] ^= mask
		got, err := read(b)
		if err == nil && (!bytes.Equal(got.head.Body, want.head.Body) || !slices.Equal(got.contents, want.contents) ||
			!slices.Equal(got.head.List.Signatures, want.head.List.Signatures)) {
			t.Fatalf("byte %d ^ %#x: another archive is accepted", i, mask)
		}
	}
	for n := 0; n < len(good); n += 3 {
		if _, err := read(good[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes are accepted", n, len(good))
		}
	}
}

// TestLargeManifest: what few bytes unpack to is no manifest of an archive, and is refused by its size alone; nor is
// one written.
func TestLargeManifest(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	l := &manifest.FileList{BundleID: "acme/large", Version: "1.0.0"}
	var all []manifest.File
	deep := strings.Repeat("x", 200)
	for i := range 100_000 {
		all = append(all, manifest.File{Path: fmt.Sprintf("%s/%s/%s/%06d", deep, deep, deep, i), Digest: cas.Sum(nil),
			Mode: cas.File})
	}
	body, l, err := manifest.AppendFileList(nil, l, all)
	if err != nil || len(body) <= MaxManifest {
		t.Fatalf("%d bytes, %v", len(body), err)
	}
	if err := l.Sign(keytest.Seeded(1), noon); err != nil {
		t.Fatal(err)
	}
	if err := Write(t.Context(), io.Discard, body, l.Signatures, &cas.Memory{}); !errors.Is(err, errLarge) {
		t.Errorf("written: %v", err)
	}
	plain := append(appendHeader(nil, manifestName, cas.File, int64(len(body))), body...)
	b := pack(t, append(plain, zeros[:padding(int64(len(body)))]...))
	all, plain, body = nil, nil, nil
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	_, err = read(b)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, errLarge) || took > 16<<20 {
		t.Errorf("%d bytes that unpack to more: %v, and %d bytes of memory", len(b), err, took)
	}
}

// TestBombs reads what unpacks to far more than it is, and costs little.
func TestBombs(t *testing.T) {
	head := appendHeader(nil, manifestName, cas.File, MaxManifest)
	w := demo(t)
	good := unpack(t, w.write(t))
	for name, plain := range map[string][]byte{
		"a manifest of zeros":  append(bytes.Clone(head), make([]byte, 64<<20)...),
		"zeros behind the end": append(bytes.Clone(good), make([]byte, 64<<20)...),
		"a line without an end": append(append(bytes.Clone(head), "rye: \"manifest/2\"\nid: \""...),
			bytes.Repeat([]byte("a"), 64<<20)...),
	} {
		b := pack(t, plain)
		plain = nil
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		_, err := read(b)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
		// held whole it would be 64 MiB, and as much again on the way
		if took := after.TotalAlloc - before.TotalAlloc; took > 56<<20 {
			t.Errorf("%s: took %d bytes", name, took)
		}
	}
}
