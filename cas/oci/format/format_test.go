package format

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/goldentest"
)

// noise returns bytes that don't compress, the same for the same seed.
func noise(seed byte, n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

// layersOf makes the layers of objects as a push does.
func layersOf(t testing.TB, objects ...[]byte) (infos []cas.Info, all []Descriptor, blobs [][]byte) {
	t.Helper()
	has := map[cas.Digest][]byte{}
	for _, b := range objects {
		infos = append(infos, cas.Info{ID: cas.ID{Kind: cas.Blob, Digest: cas.Sum(b)}, Size: int64(len(b))})
		has[cas.Sum(b)] = b
	}
	small, large, err := Row(infos)
	if err != nil {
		t.Fatal(err)
	}
	l, err := NewLayer()
	if err != nil {
		t.Fatal(err)
	}
	add := func(parts ...[]byte) {
		l.Begin()
		for _, b := range parts {
			if err := l.Write(b); err != nil {
				t.Fatal(err)
			}
		}
		d, err := l.End()
		if err != nil {
			t.Fatal(err)
		}
		all, blobs = append(all, d), append(blobs, bytes.Clone(l.Bytes()))
	}
	for _, part := range Parts(small) {
		var texts [][]byte
		for _, o := range part {
			texts = append(texts, has[o.Digest])
		}
		add(texts...)
	}
	for _, o := range large {
		c := NewCutter()
		b, from := has[o.Digest], 0
		for at := 0; at < len(b); {
			n, ends := c.Next(b[at:min(len(b), at+100_000)])
			if at += n; ends {
				add(b[from:at])
				from = at
			}
		}
		if from < len(b) {
			add(b[from:])
		}
	}
	return infos, all, blobs
}

// TestGolden: the bytes of a manifest, and of its layers by their digests, never change.
func TestGolden(t *testing.T) {
	t.Parallel()
	if testing.Short() { // one goroutine cuts many megabytes
		t.Skip("nothing meets here")
	}
	document := []byte("rye: \"bundle/2\"\n")
	_, layers, _ := layersOf(t, []byte("a"), bytes.Repeat([]byte("ab"), 1000), noise(1, 3<<20), noise(2, 3<<20),
		noise(3, 30<<20))
	m := Manifest{Document: Descriptor{SHA256: Sum(document), Size: int64(len(document)), Digest: cas.Sum(document),
		Length: int64(len(document))},
		Layers: layers, Annotations: map[string]string{"org.opencontainers.image.title": "acme/deploy",
			"org.opencontainers.image.version": "1.4.0"}}
	got, err := m.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	goldentest.File(t, filepath.Join("testdata", "manifest.json"), got)
}

// TestCut: layers have 4 to 16 MiB, but for the last ones; a change moves no boundary elsewhere.
func TestCut(t *testing.T) {
	t.Parallel()
	if testing.Short() { // one goroutine cuts many megabytes
		t.Skip("nothing meets here")
	}
	var objects [][]byte
	for i := range 3000 {
		objects = append(objects, fmt.Appendf(noise(byte(i), 20_000), "%d", i))
	}
	_, all, _ := layersOf(t, objects...)
	for i, d := range all {
		if d.Length > MaxLayer || d.Length < MinLayer && i+1 < len(all) {
			t.Errorf("layer %d has %d bytes", i, d.Length)
		}
	}
	objects[100] = []byte("changed")
	_, now, _ := layersOf(t, objects...)
	other := 0
	for _, d := range now {
		if !slices.Contains(all, d) {
			other++
		}
	}
	if other == 0 || other > 4 || len(now) < 6 {
		t.Errorf("%d of %d layers are others", other, len(now))
	}
	big := noise(9, 50<<20)
	_, all, _ = layersOf(t, big)
	_, now, _ = layersOf(t, append(append(bytes.Clone(big[:20<<20]), "inserted"...), big[20<<20:]...))
	other = 0
	for _, d := range now {
		if !slices.Contains(all, d) {
			other++
		}
	}
	if other == 0 || other > 2 || len(now) < 4 {
		t.Errorf("%d of %d layers are others", other, len(now))
	}
}

// TestCutPlaces: wherever the reads of an object end, its layers do not.
func TestCutPlaces(t *testing.T) {
	t.Parallel()
	if testing.Short() { // one goroutine cuts many megabytes
		t.Skip("nothing meets here")
	}
	b := noise(4, 18<<20)
	cuts := func(step int) (places []int) {
		c := NewCutter()
		for at := 0; at < len(b); {
			n, ends := c.Next(b[at:min(len(b), at+step)])
			if at += n; ends {
				places = append(places, at)
			}
		}
		return places
	}
	if a, b, c := cuts(len(b)), cuts(7), cuts(1<<20); len(a) == 0 || !slices.Equal(a, b) || !slices.Equal(a, c) {
		t.Errorf("%d, %d, %d", a, b, c)
	}
	// The same byte for ever has no place to end.
	c := NewCutter()
	if n, ends := c.Next(make([]byte, MaxLayer+1)); n != MaxLayer && n < MinLayer || !ends {
		t.Errorf("%d, %t", n, ends)
	}
}

func TestRow(t *testing.T) {
	t.Parallel()
	o := cas.Info{ID: cas.ID{Kind: cas.Blob}, Size: 1}
	twice := o
	twice.Size = 2
	tree := o
	tree.Kind = cas.TreeKind
	for _, all := range [][]cas.Info{{o, twice}, {tree}, {{ID: o.ID, Size: -1}}} {
		if small, large, err := Row(all); err == nil {
			t.Errorf("%v, %v", small, large)
		}
	}
	if small, _, err := Row([]cas.Info{o, o}); err != nil || len(small) != 1 {
		t.Errorf("%v, %v", small, err)
	}
	if len(Parts(nil)) != 0 {
		t.Error("parts of nothing")
	}
}

// FuzzParseManifest: what is accepted is written as it was read, and keeps to the limits.
func FuzzParseManifest(f *testing.F) {
	b, err := os.ReadFile(filepath.Join("testdata", "manifest.json"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	for _, old := range []string{`"size":16`, `"blake3:`, `"sha256:`, `"layers":[`, `"annotations"`,
		`"schemaVersion":2`, "application/vnd.rye.bundle.v2"} {
		f.Add(bytes.Replace(b, []byte(old), []byte(`"size":-1`), 1))
	}
	f.Add([]byte(`{"schemaVersion":2,"manifests":[{}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseManifest(b)
		if err != nil {
			return
		}
		again, err := m.Append(nil)
		if err != nil || !bytes.Equal(again, b) || !json.Valid(b) {
			t.Fatalf("%q is written as %q, %v", b, again, err)
		}
		if m.Document.Size > MaxDocument || len(m.Layers) == 0 {
			t.Errorf("%+v", m)
		}
		for _, l := range m.Layers {
			if l.Size < 0 || l.Size > MaxBlob || l.Length < 0 || l.Length > MaxLayer || !ValidDigest(l.SHA256) {
				t.Errorf("%+v", l)
			}
		}
	})
}

// FuzzUnpack: no layer gives more than it says, and what ends well has the length that it says.
func FuzzUnpack(f *testing.F) {
	for _, texts := range [][][]byte{{nil}, {[]byte("a")}, {bytes.Repeat([]byte("ab"), 5000)}, {noise(1, 300)}} {
		_, all, blobs := layersOf(f, texts...)
		f.Add(blobs[0], uint16(all[0].Length))
		f.Add(blobs[0], uint16(all[0].Length)+1)
		f.Add(blobs[0][:len(blobs[0])-1], uint16(all[0].Length))
	}
	f.Fuzz(func(t *testing.T, b []byte, length uint16) {
		d := Descriptor{Length: int64(length)}
		read := func() (out []byte, err error) {
			err = Unpack(bytes.NewReader(b), d, func(b []byte) error { out = append(out, b...); return nil })
			return out, err
		}
		out, err := read()
		if len(out) > int(length)+64<<10 {
			t.Fatalf("%d bytes of %d", len(out), length)
		}
		again, err2 := read()
		if (err == nil) != (err2 == nil) || err == nil && (len(out) != int(length) || !bytes.Equal(out, again)) {
			t.Errorf("%d and %d bytes are believed: %v, %v", len(out), len(again), err, err2)
		}
	})
}

// TestUnpack: what takes the bytes may refuse them.
func TestUnpack(t *testing.T) {
	t.Parallel()
	_, all, blobs := layersOf(t, []byte("some text"))
	no := errors.New("no")
	if err := Unpack(bytes.NewReader(blobs[0]), all[0], func([]byte) error { return no }); !errors.Is(err, no) {
		t.Errorf("%v", err)
	}
	if err := Unpack(strings.NewReader(""), all[0], nil); err == nil {
		t.Error("nothing is believed")
	}
}

// FuzzParseAttachment: what is accepted is about the subject, and its parts keep to the limits.
func FuzzParseAttachment(f *testing.F) {
	subject := Blob(ocispec.MediaTypeImageManifest, []byte("m"))
	b, err := (&Attachment{Type: SignaturesType, Parts: []Part{{SignaturesType, "manifest.yaml.sig",
		[]byte("line\n")}, {"x", "", nil}}}).Append(nil, subject)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	for _, old := range []string{`"subject"`, `"size":5`, `"sha256:`, `"layers":[`, "null"} {
		f.Add(bytes.Replace(b, []byte(old), []byte(`"size":-1`), 1))
		f.Add(bytes.Replace(b, []byte(old), []byte(`"size":70000`), 1))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		a, at, err := ParseAttachment(b, subject)
		if err != nil {
			return
		}
		if len(a.Parts) != len(at) || len(at) > maxParts {
			t.Errorf("%+v, %+v", a, at)
		}
		for _, d := range at {
			if d.Size < 0 || d.Size > maxAttached || d.MediaType == SignaturesType && d.Size > maxSigned ||
				!ValidDigest(d.Digest.String()) {
				t.Errorf("%+v", d)
			}
		}
	})
}
