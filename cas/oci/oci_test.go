package oci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci/format"
)

// noise returns bytes that don't compress, the same for the same seed.
func noise(seed uint64, n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	r.Read(b)
	return b
}

// world is a store with the objects of a bundle.
type world struct {
	cas.Memory
	content Content
}

func newWorld(t *testing.T, objects ...[]byte) *world {
	w := &world{content: Content{Document: []byte("rye: \"bundle/2\"\n"),
		Annotations: map[string]string{"org.opencontainers.image.title": "acme/deploy"},
		Attachments: []format.Attachment{{Type: format.SignaturesType,
			Parts: []format.Part{{Type: format.SignaturesType, Name: "manifest.yaml.sig", Bytes: []byte("line\n")}}}}}}
	for _, b := range objects {
		info, err := w.Put(t.Context(), cas.Blob, bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		w.content.Objects = append(w.content.Objects, info)
	}
	w.content.Source = &w.Memory
	return w
}

// pull takes the objects into an empty store, and compares them.
func (w *world) pull(ctx context.Context, p *Place, name, spool string) (*Image, error) {
	m, err := p.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(m.Document, w.content.Document) {
		return nil, errors.New("another document")
	}
	var store cas.Memory
	_, release, err := m.Objects(ctx, w.content.Objects, &store, spool)
	if err != nil {
		return m, err
	}
	defer release()
	for _, o := range w.content.Objects {
		got, err := store.Get(ctx, o.ID)
		if err != nil {
			return m, err
		}
		if n, err := io.Copy(io.Discard, got); err != nil || n != o.Size {
			return m, errors.Join(err, errors.New("another size"))
		}
	}
	if left, err := os.ReadDir(spool); err != nil || len(left) > 1 { // the lock
		return m, errors.Join(err, errors.New("the spool isn't empty"))
	}
	return m, nil
}

// signatures reads what is attached as signatures.
func (m *Image) signatures(ctx context.Context) (all []*format.Attachment, left []error, err error) {
	left, err = m.Attached(ctx, format.SignaturesType, func(a *format.Attachment) error {
		all = append(all, a)
		return nil
	})
	return all, left, err
}

// places are what a bundle is pushed to.
func places(t *testing.T) map[string]*Place {
	api, byTag, whole := newDouble(t), newDouble(t), newDouble(t)
	byTag.Referrers, whole.Ranges = false, false
	dir := filepath.Join(t.TempDir(), "layout")
	l, err := Open(Reference{Dir: dir}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]*Place{"api": api.place(t), "tag scheme": byTag.place(t), "no ranges": whole.place(t),
		"layout": l}
}

// TestPushPull: what is pushed comes back, everywhere under the same digest; a second push sends nothing.
func TestPushPull(t *testing.T) {
	t.Parallel()
	large := 20 << 20
	if testing.Short() {
		large = 9 << 20
	}
	w := newWorld(t, nil, []byte("a"), []byte("b"), []byte("a"), noise(1, 5<<20), noise(2, 100_000), noise(3, large))
	digests := map[string]bool{}
	for name, p := range places(t) {
		done, err := p.Push(t.Context(), w.content, "1.0.0")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if done.Sent == 0 || done.Layers < 4 || done.ID != cas.Sum(w.content.Document) {
			t.Errorf("%s: %+v", name, done)
		}
		digests[done.Digest] = true
		again, err := p.Push(t.Context(), w.content, "1.0.0")
		if err != nil || again.Sent != 0 || again.Digest != done.Digest {
			t.Errorf("%s: again: %+v, %v", name, again, err)
		}
		for _, by := range []string{"1.0.0", done.Digest} {
			m, err := w.pull(t.Context(), p, by, filepath.Join(t.TempDir(), "spool"))
			if err != nil {
				t.Fatalf("%s: %s: %v", name, by, err)
			}
			found, _, err := m.signatures(t.Context())
			if err != nil || len(found) != 1 || string(found[0].Parts[0].Bytes) != "line\n" ||
				m.Digest != done.Digest {
				t.Errorf("%s: %+v, %v", name, found, err)
			}
		}
		if tags, err := p.Tags(t.Context()); err != nil || !slices.Equal(tags, []string{"1.0.0"}) {
			t.Errorf("%s: tags %q, %v", name, tags, err)
		}
		if _, err := p.Get(t.Context(), "2.0.0"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(digests) != 1 {
		t.Errorf("%d digests of one bundle", len(digests))
	}
}

// An ordered source shows many objects in its own order, and counts those that it is asked for one by one.
type ordered struct {
	cas.Getter
	got, shown atomic.Int64
	wrong      bool // in size
}

func (o *ordered) Get(ctx context.Context, id cas.ID) (cas.Object, error) {
	o.got.Add(1)
	return o.Getter.Get(ctx, id)
}

func (o *ordered) Visit(ctx context.Context, ids []cas.ID, visit func(i int, o cas.Object) error) error {
	o.shown.Add(1)
	for i, id := range slices.Backward(ids) {
		found, err := o.Getter.Get(ctx, id)
		if err != nil {
			return err
		}
		if o.wrong {
			found.Size++
		}
		if err := visit(i, found); err != nil {
			return err
		}
	}
	return nil
}

// TestPushOrder: small objects are read in the order of the store, 10 of them at once, or what is left of a layer,
// and stand in layers as ever.
func TestPushOrder(t *testing.T) {
	t.Parallel()
	var objects [][]byte
	for i := range 50 {
		objects = append(objects, noise(uint64(i), 400_000))
	}
	w := newWorld(t, append(objects, noise(99, 5<<20))...)
	source := &ordered{Getter: &w.Memory}
	p, err := Open(Reference{Dir: t.TempDir()}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want, err := p.Push(t.Context(), w.content, "1")
	if err != nil {
		t.Fatal(err)
	}
	w.content.Source = source
	got, err := p.Push(t.Context(), w.content, "2")
	if err != nil || got.Digest != want.Digest || source.got.Load() != 3 || source.shown.Load() != 6 {
		t.Errorf("%+v, want %s; %d objects asked for, %d times many; %v", got, want.Digest, source.got.Load(),
			source.shown.Load(), err)
	}
	source.wrong = true
	if _, err := p.Push(t.Context(), w.content, "3"); err == nil || !strings.Contains(err.Error(),
		"and the document says 400000") {
		t.Errorf("%v", err)
	}
}

// TestPushMemory: who makes layers uses the same memory for one after the other.
func TestPushMemory(t *testing.T) {
	var objects [][]byte
	for i := range 160 {
		objects = append(objects, bytes.Repeat(fmt.Appendf(nil, "%08d", i), 10_000))
	}
	w := newWorld(t, objects...)
	l, err := format.NewLayer()
	if err != nil {
		t.Fatal(err)
	}
	u, m := &push{content: w.content}, &maker{Layer: l}
	var sum [2]cas.Digest
	for i := range sum {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := u.small(t.Context(), m, w.content.Objects, func() error {
			d, err := m.End()
			sum[i] = d.Digest
			return err
		})
		runtime.ReadMemStats(&after)
		// the race detector drops pooled hashers
		if made := after.TotalAlloc - before.TotalAlloc; err != nil || i > 0 && made > 6<<20 {
			t.Errorf("%d bytes for 12,800,000 of objects, %v", made, err)
		}
	}
	if want := cas.Sum(bytes.Join(objects, nil)); sum[0] != want || sum[1] != want {
		t.Errorf("%s, want %s", sum, want)
	}
}

// TestEmpty: a bundle without files has one layer of nothing.
func TestEmpty(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := newDouble(t)
	p := d.place(t)
	if done, err := p.Push(t.Context(), w.content, "1"); err != nil || done.Layers != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	m, err := p.Get(t.Context(), "1")
	if err != nil {
		t.Fatal(err)
	}
	_, release, err := m.Objects(t.Context(), nil, &w.Memory, filepath.Join(t.TempDir(), "spool"))
	if err != nil {
		t.Fatal(err)
	}
	release()
	if n := d.Count("GET /v2/acme/deploy/blobs/"); n != 1 {
		t.Errorf("%d blobs were fetched, and the document is one", n)
	}
}

// TestReference: what is accepted is written as it was read.
func TestReference(t *testing.T) {
	t.Parallel()
	digest := "@sha256:" + strings.Repeat("0a", 32)
	for text, want := range map[string]string{
		"oci://h.example/a": "", "oci://h.example:5000/a/b:1.0" + digest: "", "oci://[::1]:5000/a:v_1": "",
		"oci://localhost/a" + digest: "",
		"oci-layout:dir":             "", "oci-layout:/a/b c:tag": "", "oci-layout:../a@b": "",
		`oci-layout:C:\a:1`:     "",
		"oci-layout:a" + digest: "",
		"oci://h.example":       "name", "oci://h.example/A": "name", "oci://h/a:": "tag", "oci://h/a:.x": "tag",
		"oci://u@h/a": "host", "oci://h:/a": "host",
		"oci:///a": "host", "oci://h/a@sha256:12": "digest", "oci-layout:": "directory",
		"oci-layout::tag": "directory", "https://h/a": "expected",
		"oci://h/a?x=1": "name", "oci://h/a#x": "name", "oci://h/" + strings.Repeat("a", 300): "name",
		"oci-layout:a:b:" + strings.Repeat("c", 129): "tag",
	} {
		r, err := ParseReference(text)
		switch {
		case want == "" && (err != nil || r.String() != text):
			t.Errorf("%q: %q, %v", text, r, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %+v, %v, want %q", text, r, err, want)
		}
	}
	for text, why := range map[string]int{"h.example/a:1": 1, "localhost:5000/a": 1, "acme/a": 0,
		"https://h.example/a": 0, "h.example": 0} {
		if _, err := ParseReference(text); err == nil || len(fault.Of(err).Why) != why {
			t.Errorf("%q: %v, %q", text, err, fault.Of(err).Why)
		}
	}
}

// TestProgress: pushes and pulls report as many bytes as the objects have, whether they travel or are there already.
func TestProgress(t *testing.T) {
	t.Parallel()
	objects := [][]byte{[]byte("a"), noise(1, 5<<20), noise(2, 100_000)}
	w := newWorld(t, objects...)
	var moved atomic.Int64
	reported := func(what string, err error) {
		t.Helper()
		if n := moved.Swap(0); err != nil || n != 1+5<<20+100_000 {
			t.Errorf("%s: %d bytes, %v", what, n, err)
		}
	}
	p := newDouble(t).place(t, func(o *Options) { o.Progress = func(n int64) { moved.Add(n) } })
	for _, what := range []string{"a push", "a second one"} {
		_, err := p.Push(t.Context(), w.content, "1")
		reported(what, err)
	}
	m, err := p.Get(t.Context(), "1")
	if err != nil {
		t.Fatal(err)
	}
	var store cas.Memory
	for _, what := range []string{"a pull", "a second one"} {
		_, release, err := m.Objects(t.Context(), w.content.Objects, &store, filepath.Join(t.TempDir(), "spool"))
		if reported(what, err); err == nil {
			release()
		}
	}
}

// FuzzReference: what is accepted is written as it was read, and what is named by it has a form that a registry takes.
func FuzzReference(f *testing.F) {
	for _, s := range []string{"oci://h.example:5000/a/b:1.0@sha256:" + strings.Repeat("0a", 32),
		"oci://[::1]:5000/a:v_1", "oci-layout:../a@b:tag", `oci-layout:C:\a:1`, "https://h/a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseReference(s)
		if err != nil {
			return
		}
		if r.String() != s || (r.Dir == "") == (r.Host == "") || (r.Name == "") != (r.Host == "") ||
			r.Tag != "" && !ValidTag(r.Tag) || r.Digest != "" && !format.ValidDigest(r.Digest) {
			t.Errorf("%q is %+v", s, r)
		}
	})
}

// FuzzName: the names of repositories are those of the distribution specification.
func FuzzName(f *testing.F) {
	for _, s := range []string{"a", "acme/deploy", "a.b_c__d-e--f/0", "a..b", "a___b", "a._b", "-a", "a-", "/a",
		"a//b", "a/", "A", "ä", ""} {
		f.Add(s)
	}
	want := regexp.MustCompile(`^[a-z0-9]+(?:(?:[._]|__|[-]*)[a-z0-9]+)*` +
		`(?:/[a-z0-9]+(?:(?:[._]|__|[-]*)[a-z0-9]+)*)*$`)
	f.Fuzz(func(t *testing.T, s string) {
		if got := validName(s); got != want.MatchString(s) {
			t.Errorf("%q: %t", s, got)
		}
	})
}
