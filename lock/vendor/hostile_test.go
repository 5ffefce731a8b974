package vendor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/canon"
)

// small is a world with every kind of line.
func small(t testing.TB) *world {
	w := newWorld(t)
	w.put(cas.Blob, nil)
	w.put(cas.Blob, []byte("one\ntwo\\\r\n\x00"))
	w.put(cas.TreeKind, []byte("rye: \"tree/2\"\n"))
	w.bundle("1.0.0", alice)
	w.put(cas.Blob, text(1, maxSmall+1))
	w.write()
	return w
}

// spoil writes a file of the directory, and calls look.
func (w *world) spoil(name string, b []byte, look func()) {
	w.t.Helper()
	at := filepath.Join(w.dir, name)
	was, err := os.ReadFile(at)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(at, b, 0o644); err != nil {
		w.t.Fatal(err)
	}
	look()
	if err := os.WriteFile(at, was, 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// TestFlipped changes each byte, and takes away the end at each byte: it is noticed by reading all objects, and by
// Check, and Write puts it right from what it can get.
func TestFlipped(t *testing.T) {
	w := small(t)
	want := w.files()
	for name, file := range want {
		step := 1
		if len(file) > 5000 {
			step = 4999
		}
		for i := 0; i < len(file); i += step {
			for what, b := range map[string][]byte{
				"flipped":   []byte(file[:i] + string([]byte{file[i] ^ 1}) + file[i+1:]),
				"cut off":   []byte(file[:i]),
				"more":      []byte(file[:i] + "\n" + file[i:]),
				"one twice": []byte(file[:i+1] + file[i:]),
			} {
				if string(b) == file || name == attributesName || what != "flipped" && i%7 > 0 {
					continue
				}
				w.spoil(name, b, func() {
					if r := w.check(); inOrder(r) {
						t.Errorf("%s, byte %d %s, and nothing notices it", name, i, what)
					}
					if err := w.whole(w.objects); err == nil {
						t.Errorf("%s, byte %d %s, and everything was read", name, i, what)
					}
					if i%35 > 0 {
						return
					}
					if w.write(); w.files()[name] != file {
						t.Errorf("%s, byte %d %s, and still so", name, i, what)
					}
				})
			}
		}
	}
}

func TestErrors(t *testing.T) {
	w := small(t)
	want := w.files()["all.pack"]
	blob := cas.Sum([]byte("a"))
	line := hex(blob) + " blob 1 a\n"
	id := cas.ID{Kind: cas.Blob, Digest: blob}
	for _, c := range []struct{ file, err string }{
		{want, id.String() + ": in no file of the vendor directory: file does not exist"},
		{"", `"all.pack": not a pack: the first line must be "rye: \"vendor/2\""`},
		{"rye: \"vendor/3\"\nwhat\n", `"all.pack", line 1: document has format "vendor/3", expected "vendor/2"`},
		{"rye: \"vendor/2\"\r\n", `"all.pack", line 1: ` + errCRLF.Error()},
		{"rye: \"vendor/2", `"all.pack", line 1: not a pack: the first line must be "rye: \"vendor/2\""`},
		{"rye: \"vendor/x\"\n", `"all.pack", line 1: not a pack: the first line must be "rye: \"vendor/2\""`},
		{line, `"all.pack", line 1: not a pack: the first line must be "rye: \"vendor/2\""`},
		{head + line[:len(line)-1], `"all.pack", line 2: ` + errCutOff.Error()},
		{head + line[:len(line)-1] + "\r\n", `"all.pack", line 2: ` + errCRLF.Error()},
		{head + hex(blob) + " signatures " + hex(blob) + "\r\n", `"all.pack", line 2: ` + errCRLF.Error()},
		{head + hex(blob) + " signatures " + hex(blob) + " \n", `"all.pack", line 2: ` + errLine.Error()},
		{head + hex(blob) + " signatures\n", `"all.pack", line 2: ` + errLine.Error()},
		{head + hex(blob) + " signatures 00\n", `"all.pack", line 2: ` + errLine.Error()},
		{head + "\n", `"all.pack", line 2: ` + errLine.Error()},
		{head + strings.ToUpper(line), `"all.pack", line 2: ` + errLine.Error()},
		{head + "x" + line, `"all.pack", line 2: ` + errLine.Error()},
		{head + hex(blob) + " wasm 1 a\n", `"all.pack", line 2: ` + errLine.Error()},
		{head + hex(blob) + " blob 1\n", `"all.pack", line 2: ` + errLine.Error()},
		{head + hex(blob) + " blob 01 a\n", `"all.pack", line 2: "01" is no size of an object in a pack`},
		{head + hex(blob) + " blob -1 a\n", `"all.pack", line 2: "-1" is no size of an object in a pack`},
		{head + hex(blob) + " blob 65537 a\n", `"all.pack", line 2: "65537" is no size of an object in a pack`},
		{head + hex(blob) + " blob 99999999999999999999999999 a\n",
			`"all.pack", line 2: "99999999999999999999" is no size of an object in a pack`},
		{head + hex(blob) + " blob 1 " + strings.Repeat("a", maxLine) + "\n",
			`"all.pack", line 2: ` + errLong.Error()},
		{head + hex(blob) + " blob 1 aa\n", `"all.pack", line 2: the object has 2 bytes, expected 1`},
		{head + hex(blob) + " blob 1 \\n\\x\n",
			`"all.pack", line 2, column 75: not an escape: expected \n, \r, \0 or \\`},
		{head + hex(blob) + " blob 1 \\\n", `"all.pack", line 2, column 73: not an escape: expected \n, \r, \0 or \\`},
		{head + hex(blob) + " blob 1 a\x00\n", `"all.pack", line 2, column 74: a byte that would be escaped`},
		{head + "<<<<<<< HEAD\n" + hex(blob) + " blob 1 a\rb\n",
			`"all.pack", line 3, column 74: a byte that would be escaped`},
		{head + hex(blob) + " blob 1 b\n", "blob " + blob.String() + ": "},
		{strings.Repeat("a", maxPack+1), `"all.pack": the file is larger than 16777216 bytes`},
		{head + line, ""},
		{head + "<<<<<<< HEAD\n" + line + "||||||| 12\n=======\n" + head + line + ">>>>>>> x\n", ""},
	} {
		w.spoil("all.pack", []byte(c.file), func() {
			v, err := Open(w.dir)
			if err != nil {
				t.Fatal(err)
			}
			defer v.Close()
			_, err = get(v, id)
			if text := fmt.Sprint(err); c.err == "" && err != nil || c.err != "" && text != c.err &&
				(!strings.HasSuffix(c.err, ": ") || !strings.Contains(text, c.err[:60])) {
				t.Errorf("%.200q: %s\nwant %s", c.file, text, c.err)
			}
			if _, err := v.Ref("signatures/" + hex(blob)); err == nil {
				t.Errorf("%.200q: there are signatures", c.file)
			}
		})
	}
	w.spoil("all.pack", []byte("rye: \"vendor/12\"\n"), func() {
		if err := w.whole(w.objects); !isVersion(err) {
			t.Errorf("got %v", err)
		}
	})
}

// TestDamagedAtOnce: that a small object is damaged is known before any of it is read, with file and line, so that it
// is available elsewhere. And Check counts what Write does.
func TestDamagedAtOnce(t *testing.T) {
	w := small(t)
	o := w.put(cas.Blob, []byte("to be damaged"))
	r := w.write()
	if is := w.check(); is.Files != r.Files || is.Objects != r.Objects || is.Bytes != r.Bytes {
		t.Errorf("%+v, want %+v", is, r)
	}
	pack := w.files()["all.pack"]
	w.spoil("all.pack", []byte(strings.Replace(pack, "to be damaged", "to be enjoyed", 1)), func() {
		v, err := Open(w.dir)
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		_, err = v.Get(t.Context(), o.ID)
		at, ok := errors.AsType[*Error](err)
		damaged, inside := errors.AsType[*cas.DamagedError](err)
		if !ok || !inside || at.File != "all.pack" || at.Line < 2 || damaged.ID != o.ID ||
			damaged.Found != cas.Sum([]byte("to be enjoyed")) {
			t.Errorf("%v", err)
		}
	})
}

func isVersion(err error) bool {
	_, ok := errors.AsType[*canon.VersionError](err)
	return ok
}

// TestElsewhere looks for a line in a pack that it doesn't belong into.
func TestElsewhere(t *testing.T) {
	w := many(t, 600, 4000)
	w.write()
	b := w.files()["0.pack"]
	w.spoil("1.pack", []byte(b), func() {
		if err := w.whole(w.objects); err == nil ||
			err.Error() != `"1.pack", line 2: the object belongs in another file` {
			t.Errorf("got %v", err)
		}
		if r := w.check(); len(r.Missing) < 10 || len(r.Damaged) < 10 || inOrder(r) {
			t.Errorf("%d missing", len(r.Missing))
		}
	})
}

func TestManySets(t *testing.T) {
	w := small(t)
	doc := cas.Sum([]byte("doc"))
	for _, c := range []struct {
		n   int
		err string
	}{{2, "is missing"}, {65, "more than 64 sets"}, {1000, "more than 64 sets"}} {
		b := []byte(head)
		for i := range c.n {
			b = appendSigned(b, doc, cas.Sum([]byte{byte(i), byte(i >> 8)}))
		}
		w.spoil("all.pack", b, func() {
			v, err := Open(w.dir)
			if err != nil {
				t.Fatal(err)
			}
			defer v.Close()
			if _, err := v.Ref(bundle.SignaturesRef(doc)); err == nil || c.n > 2 &&
				!strings.Contains(err.Error(), c.err) {
				t.Errorf("%d sets: %v", c.n, err)
			}
		})
	}
	// Sets that aren't any.
	for _, text := range []string{"x", "# rye:signed:v2\n"} {
		a, b := []byte(text), []byte(text+text)
		pack := []byte(head)
		pack = appendSigned(appendSigned(pack, doc, cas.Sum(a)), doc, cas.Sum(b))
		pack = appendLine(appendLine(pack, cas.ID{Kind: cas.Blob, Digest: cas.Sum(a)}, a),
			cas.ID{Kind: cas.Blob, Digest: cas.Sum(b)}, a)
		w.spoil("all.pack", pack, func() {
			v, err := Open(w.dir)
			if err != nil {
				t.Fatal(err)
			}
			defer v.Close()
			if _, err := v.Ref(bundle.SignaturesRef(doc)); err == nil {
				t.Error("no signatures, and read")
			}
		})
	}
}

func FuzzPack(f *testing.F) {
	golden, err := os.ReadFile("testdata/all.pack")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden)
	f.Add([]byte(head + "<<<<<<< HEAD\n=======\n"))
	f.Add([]byte("rye: \"vendor/3\"\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for l, err := range lines("all.pack", b) {
			if err != nil {
				if _, ok := errors.AsType[*Error](err); !ok {
					t.Fatalf("%T", err)
				}
				continue
			}
			if l.at < 0 || !bytes.Equal(b[l.at:l.at+len(l.raw)], l.raw) {
				t.Fatal("it stands elsewhere")
			}
			if l.id.Kind == signed {
				if got := appendSigned(nil, l.id.Digest, l.blob); !bytes.Equal(got, l.raw) {
					t.Fatalf("%q is %q", l.raw, got)
				}
				continue
			}
			if object, err := l.object("all.pack"); err == nil {
				if got := appendLine(nil, l.id, object); !bytes.Equal(got, l.raw) {
					t.Fatalf("%q is %q", l.raw, got)
				}
			}
		}
	})
}

// TestCancelled stops before anything is changed.
func TestCancelled(t *testing.T) {
	w := small(t)
	before := w.files()
	w.put(cas.Blob, []byte("new"))
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	cancel(stop)
	if _, err := Write(ctx, w.dir, w.objects, w.store); err != stop {
		t.Error(err)
	}
	if _, err := Check(ctx, w.dir, w.objects); err != stop {
		t.Error(err)
	}
	v, err := Open(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if _, err := v.Get(ctx, w.objects[0].ID); err != stop {
		t.Error(err)
	}
	for name, b := range w.files() {
		if before[name] != b {
			t.Errorf("%s was changed", name)
		}
	}
}
