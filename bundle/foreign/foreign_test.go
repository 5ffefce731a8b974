package foreign

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
)

// packed has the same entries in every format: a file, a program, a directory and a symbolic link.
func packed(t testing.TB) map[string][]byte {
	t.Helper()
	var zipped, tarred bytes.Buffer
	z, g := zip.NewWriter(&zipped), gzip.NewWriter(&tarred)
	w := tar.NewWriter(g)
	for _, e := range []struct {
		name, text string
		mode       fs.FileMode
	}{{"d/", "", fs.ModeDir | 0o755}, {"./d/a", "first", 0o644}, {"d/run", "second", 0o755},
		{"d/link", "a", fs.ModeSymlink | 0o777}} {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		h.SetMode(e.mode)
		to, err := z.CreateHeader(h)
		if err == nil {
			_, err = io.WriteString(to, e.text)
		}
		if err != nil {
			t.Fatal(err)
		}
		th := &tar.Header{Name: e.name, Mode: int64(e.mode.Perm()), Typeflag: tar.TypeReg, Size: int64(len(e.text))}
		switch {
		case e.mode.IsDir():
			th.Typeflag = tar.TypeDir
		case e.mode&fs.ModeSymlink != 0:
			th.Typeflag, th.Linkname, th.Size, e.text = tar.TypeSymlink, e.text, 0, ""
		}
		if err := w.WriteHeader(th); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.text); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(z.Close(), w.Close(), g.Close()); err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{"zip": zipped.Bytes(), "tar": tarred.Bytes()}
}

func all(int) bool { return true }

// TestRead: the entries come with their kinds, and the wanted ones with their bytes, of a link its target.
func TestRead(t *testing.T) {
	for name, b := range packed(t) {
		if !Is(b[:MagicSize]) {
			t.Errorf("%s isn't recognized", name)
		}
		archive, err := Open(b)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			listed, err := archive.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var paths []string
			var kinds []Kind
			for _, e := range listed {
				paths, kinds = append(paths, e.Path), append(kinds, e.Kind)
			}
			if !slices.Equal(paths, []string{"d/a", "d/run", "d/link"}) ||
				!slices.Equal(kinds, []Kind{Plain, Executable, Link}) {
				t.Errorf("%s: %v, %v", name, paths, kinds)
			}
		}
		got := map[int]string{}
		if err := archive.Read(t.Context(), func(i int) bool { return i > 0 }, func(i int, r io.Reader) error {
			text, err := io.ReadAll(r)
			got[i] = string(text)
			return err
		}); err != nil || len(got) != 2 || got[1] != "second" || got[2] != "a" {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for _, other := range []string{"", "x", "\x28\xb5\x2f\xfd"} {
		if _, err := Open([]byte(other)); err == nil || Is([]byte(other)) {
			t.Errorf("%q is an archive", other)
		}
	}
}

// TestReadFails: an error of the caller is its own, one of the archive refuses it, and the bytes that a caller leaves
// unread are checked too.
func TestReadFails(t *testing.T) {
	mine := errors.New("mine")
	for name, b := range packed(t) {
		archive, err := Open(b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := archive.List(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := archive.Read(t.Context(), all, func(int, io.Reader) error { return mine }); err != mine {
			t.Errorf("%s: %v", name, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if err := archive.Read(ctx, all, func(int, io.Reader) error { cancel(); return nil }); !errors.Is(err,
			context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	b := packed(t)["zip"]
	i := bytes.Index(b, []byte("d/run")) + len("d/run") + 4 // in the bytes behind the header
	for bytes.HasPrefix(b[i:], []byte("PK")) {
		i++
	}
	b[i] ^= 1
	archive, err := Open(b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := archive.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	err = archive.Read(t.Context(), all, func(int, io.Reader) error { return nil })
	if f := fault.Of(err); f.Code != fault.Validation || f.Details["reason"] != "archive" ||
		f.Details["file"] != "d/run" {
		t.Error(err)
	}
}

// refusedFor returns why the archive of some bytes is refused; empty if it isn't.
func refusedFor(t *testing.T, b []byte) any {
	t.Helper()
	archive, err := Open(b)
	if err == nil {
		_, err = archive.List(t.Context())
	}
	if err == nil {
		return ""
	}
	return fault.Of(err).Details["reason"]
}

// TestRefused: an archive with a name that leads out, or about which readers can disagree, is refused as a whole.
func TestRefused(t *testing.T) {
	for name, want := range map[string]string{"a": "", "./a/b": "", "../a": "path", "a/../../b": "path", "/a": "path",
		`a\b`: "path", "a//b": "path", "a\xff": "utf8", strings.Repeat("a/", 600) + "b": "path-length"} {
		var zipped, tarred bytes.Buffer
		z, g := zip.NewWriter(&zipped), gzip.NewWriter(&tarred)
		w := tar.NewWriter(g)
		_, err := z.CreateHeader(&zip.FileHeader{Name: name})
		if err := errors.Join(err, w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg}), z.Close(), w.Close(),
			g.Close()); err != nil {
			t.Fatal(err)
		}
		for kind, b := range map[string][]byte{"zip": zipped.Bytes(), "tar": tarred.Bytes()} {
			if got := refusedFor(t, b); got != want {
				t.Errorf("%s: %q: %v, want %q", kind, name, got, want)
			}
		}
	}
	for kind, b := range packed(t) {
		for what, bad := range map[string][]byte{"cut": b[:len(b)-9], "more behind": append(slices.Clone(b), 'x'),
			"twice": append(slices.Clone(b), b...), "a part": b[:len(b)/2]} {
			if refusedFor(t, bad) == "" {
				t.Errorf("%s: %s is taken", kind, what)
			}
		}
	}
	z := packed(t)["zip"]
	directory, end := bytes.Index(z, []byte("PK\x01\x02")), bytes.LastIndex(z, []byte("PK\x05\x06"))
	for what, at := range map[string]int{"flags": directory + 8, "method": directory + 10, "sum": directory + 16,
		"packed size": directory + 20, "size": directory + 24, "place": directory + 42, "name": directory + 46,
		"entries": end + 10, "directory's size": end + 12, "directory's place": end + 16, "local name": 30} {
		bad := slices.Clone(z)
		if bad[at]++; refusedFor(t, bad) == "" {
			t.Errorf("another %s is taken", what)
		}
	}
}

// TestRatio: a small archive doesn't unpack to much, whatever the size of its files is.
func TestRatio(t *testing.T) {
	zeros := make([]byte, MinTotal/2)
	for _, n := range []int{2, 3} {
		var zipped, tarred bytes.Buffer
		z, g := zip.NewWriter(&zipped), gzip.NewWriter(&tarred)
		w := tar.NewWriter(g)
		for i := range n {
			name := string(rune('a' + i))
			to, err := z.Create(name)
			if err == nil {
				_, err = to.Write(zeros)
			}
			if err == nil {
				err = w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: int64(len(zeros))})
			}
			if err == nil {
				_, err = w.Write(zeros)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(z.Close(), w.Close(), g.Close()); err != nil {
			t.Fatal(err)
		}
		for _, b := range [][]byte{zipped.Bytes(), tarred.Bytes()} {
			archive, err := Open(b)
			if err == nil {
				_, err = archive.List(t.Context())
			}
			refused := fault.CodeOf(err) == fault.Validation && fault.Of(err).Details["reason"] == "size" &&
				fault.Of(err).Details["file"] == "c"
			if refused != (n == 3) || n == 2 && err != nil {
				t.Errorf("%d files: %v", n, err)
			}
		}
	}
	for size, want := range map[int]int64{0: MinTotal, MinTotal / Ratio: MinTotal, 1 << 20: Ratio << 20,
		MaxArchive: MaxTotal} {
		if got := budget(make([]byte, size)); got != want {
			t.Errorf("an archive of %d bytes unpacks to %d", size, got)
		}
	}
}

// TestWhole: an entry with another size than its header says is refused.
func TestWhole(t *testing.T) {
	for size, want := range map[int64]bool{2: false, 3: true, 4: false} {
		err := whole(t.Context(), "a", bytes.NewReader([]byte("abc")), size, func(io.Reader) error { return nil })
		if (err == nil) != want {
			t.Errorf("%d: %v", size, err)
		}
	}
}

// FuzzArchive: whatever the bytes are, what is listed has plain paths, each once, and not too much, and what is read
// of a file has the size that is listed.
func FuzzArchive(f *testing.F) {
	for _, b := range packed(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		archive, err := Open(b)
		if err != nil {
			return
		}
		listed, err := archive.List(t.Context())
		if err != nil {
			return
		}
		seen, total := map[string]bool{}, int64(0)
		for _, e := range listed {
			if !fs.ValidPath(e.Path) || seen[e.Path] {
				t.Errorf("listed %q", e.Path)
			}
			seen[e.Path], total = true, total+e.Size
		}
		if total > budget(b) || len(listed) > MaxEntries {
			t.Errorf("%d files of %d bytes", len(listed), total)
		}
		_ = archive.Read(t.Context(), all, func(i int, r io.Reader) error {
			n, err := io.Copy(io.Discard, r)
			if kind := listed[i].Kind; err == nil && n != listed[i].Size && kind != Link {
				t.Errorf("%q has %d bytes and not %d", listed[i].Path, n, listed[i].Size)
			}
			return err
		})
	})
}
