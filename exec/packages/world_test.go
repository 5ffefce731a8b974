package packages

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas"
)

// A wheelOf describes a wheel, apart from what every wheel has.
type wheelOf struct {
	files  map[string]string
	record func(record string) string // what becomes of RECORD; nil: nothing
	header func(h *zip.FileHeader)    // of each file
	about  string                     // WHEEL
	info   string                     // the directory
	order  []string                   // names, in place of all, sorted; one may come twice
}

const plainWheel = "demo-1.0-py3-none-any.whl"

func (w wheelOf) bytes(t testing.TB) []byte {
	t.Helper()
	if w.info == "" {
		w.info = "demo-1.0.dist-info"
	}
	if w.about == "" {
		w.about = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
	}
	files := maps.Clone(w.files)
	if files == nil {
		files = map[string]string{}
	}
	if w.about != "none" {
		files[w.info+"/WHEEL"] = w.about
	}
	var record strings.Builder
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(path, "/") {
			continue
		}
		sum := sha256.Sum256([]byte(files[path]))
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", path, base64.RawURLEncoding.EncodeToString(sum[:]), len(files[path]))
	}
	fmt.Fprintf(&record, "%s/RECORD,,\n", w.info)
	text := record.String()
	if w.record != nil {
		text = w.record(text)
	}
	if text != "none" {
		files[w.info+"/RECORD"] = text
	}
	if w.order == nil {
		w.order = slices.Sorted(maps.Keys(files))
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, path := range w.order {
		h := &zip.FileHeader{Name: path, Method: zip.Deflate}
		h.SetMode(0o644)
		if strings.HasSuffix(path, "/") {
			h.SetMode(fs.ModeDir | 0o755)
			h.Method = zip.Store
		}
		if w.header != nil {
			w.header(h)
		}
		f, err := z.CreateHeader(h)
		if err == nil {
			_, err = io.WriteString(f, files[path])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A member is one entry of a tarball.
type member struct {
	name, text string
	mode       int64
	kind       byte
	link       string
	pax        map[string]string
}

func packed(t testing.TB, members ...member) []byte {
	t.Helper()
	return zipped(t, tarOf(t, members...))
}

func tarOf(t testing.TB, members ...member) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range members {
		h := &tar.Header{Name: m.name, Size: int64(len(m.text)), Mode: m.mode, Typeflag: m.kind, Linkname: m.link,
			PAXRecords: m.pax}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if m.kind == tar.TypeXGlobalHeader {
			h = &tar.Header{Typeflag: m.kind, PAXRecords: m.pax}
		}
		err := w.WriteHeader(h)
		if err == nil {
			_, err = io.WriteString(w, m.text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed) // the fuzzer has much to do
	if err == nil {
		_, err = w.Write(b)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

var described = member{name: "package/package.json", text: `{"name":"demo","version":"1.0.0"}`}

func readWheel(t testing.TB, name string, b []byte) (*Archive, error) {
	return Wheel(t.Context(), name, bytes.NewReader(b), int64(len(b)))
}

func readTarball(t testing.TB, b []byte) (*Archive, error) {
	return Tarball(t.Context(), "demo-1.0.0.tgz", bytes.NewReader(b), int64(len(b)))
}

// contentsOf reads every file by Visit and by Get, and holds them against their digests.
func contentsOf(t testing.TB, a *Archive) map[string]string {
	t.Helper()
	texts := map[cas.Digest]string{}
	var ids []cas.ID
	for _, f := range a.Files {
		if id := (cas.ID{Kind: cas.Blob, Digest: f.Digest}); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	err := Shelf{a}.Visit(t.Context(), ids, func(i int, o cas.Object) error {
		b, err := io.ReadAll(o)
		texts[ids[i].Digest] = string(b)
		return err
	})
	if err != nil || len(texts) != len(ids) {
		t.Fatal(err, len(texts), len(ids))
	}
	out := map[string]string{}
	for _, f := range a.Files {
		o, err := Shelf{a}.Get(t.Context(), cas.ID{Kind: cas.Blob, Digest: f.Digest})
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(o)
		o.Close()
		if err != nil || string(b) != texts[f.Digest] || cas.Sum(b) != f.Digest || int64(len(b)) != f.Size {
			t.Fatalf("%s: %q by Get, %q by Visit: %v", f.Path, b, texts[f.Digest], err)
		}
		out[f.Path] = f.Mode.String() + " " + string(b)
	}
	return out
}
