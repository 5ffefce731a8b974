package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key/keytest"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// A world is a bundle and the store that it is in.
type world struct {
	store cas.Memory
	body  []byte
	list  *manifest.FileList
}

// newWorld makes a bundle of files by path; those that end in .sh can be executed.
func newWorld(t testing.TB, files, evidence map[string]string) *world {
	t.Helper()
	w := new(world)
	put := func(text string) cas.Digest {
		info, err := w.store.Put(t.Context(), cas.Blob, strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return info.Digest
	}
	l := &manifest.FileList{BundleID: "acme/demo", Version: "1.0.0"}
	var all []manifest.File
	for path, text := range files {
		mode := cas.File
		if strings.HasSuffix(path, ".sh") {
			mode = cas.Exec
		}
		all = append(all, manifest.File{Path: path, Digest: put(text), Size: int64(len(text)), Mode: mode})
	}
	for name, text := range evidence {
		l.Evidence = append(l.Evidence, manifest.Evidence{Name: name, Digest: put(text), Size: int64(len(text)),
			Type: "text/plain"})
	}
	var err error
	if w.body, w.list, err = manifest.AppendFileList(nil, l, all); err != nil {
		t.Fatal(err)
	}
	if err := w.list.Sign(keytest.Seeded(1), noon); err != nil {
		t.Fatal(err)
	}
	return w
}

func long(n int) string { return strings.Repeat("d/", n/2) + "file" }

func demo(t testing.TB) *world {
	return newWorld(t, map[string]string{
		".ai/tools/acme/run.sh":  "#!/bin/sh\necho hi\n",
		".ai/tools/acme/none.py": "",
		"README.md":              "# demo\n",
		"ä/ö.txt":                strings.Repeat("x", 512),
		long(120):                "deep",
	}, map[string]string{"sbom.json": "{}"})
}

func (w *world) write(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(t.Context(), &b, w.body, w.list.Signatures, &w.store); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// unpack returns the tar stream in an archive, pack makes an archive of one.
func unpack(t testing.TB, b []byte) []byte {
	t.Helper()
	z, err := zstd.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

func pack(t testing.TB, plain []byte, o ...zstd.EOption) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b, append([]zstd.EOption{zstd.WithEncoderCRC(true), zstd.WithEncoderConcurrency(1),
		zstd.WithZeroFrames(true)}, o...)...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A log is a sink that remembers.
type log struct {
	head     *Head
	entries  []Entry
	contents []string
	lazy     bool // read nothing
	tolerant bool // go on where a file is another one
	damaged  []string
	begin    error
	file     error
}

func (l *log) Begin(h *Head) error {
	l.head = h
	return l.begin
}

func (l *log) File(e Entry, r io.Reader) error {
	l.entries = append(l.entries, e)
	if l.lazy {
		return l.file
	}
	b, err := io.ReadAll(r)
	l.contents = append(l.contents, string(b))
	if _, ok := errors.AsType[*cas.DamagedError](err); ok && l.tolerant {
		l.damaged = append(l.damaged, e.Path)
		return nil
	}
	if err != nil {
		return err
	}
	return l.file
}

func read(b []byte) (*log, error) {
	l := new(log)
	_, err := Read(context.Background(), bytes.NewReader(b), l)
	return l, err
}

func TestRoundTrip(t *testing.T) {
	w := demo(t)
	b := w.write(t)
	l, err := read(b)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(l.head.Body, w.body) || l.head.List.ID != w.list.ID ||
		!slices.Equal(l.head.List.Signatures, w.list.Signatures) {
		t.Errorf("another manifest: %+v", l.head.List)
	}
	var names []string
	for i, e := range l.entries {
		names = append(names, fmt.Sprintf("%s %s %v %d", e.Path, e.Mode, e.Evidence, len(l.contents[i])))
	}
	want := []string{".ai/tools/acme/none.py file false 0", ".ai/tools/acme/run.sh exec false 18",
		"README.md file false 7",
		long(120) + " file false 4", "ä/ö.txt file false 512", "sbom.json file true 2"}
	if !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
	again, err := read(b)
	if err != nil || !slices.Equal(again.contents, l.contents) {
		t.Errorf("the second time: %v", err)
	}
}

// TestOtherReaders reads an archive as any other program would.
func TestOtherReaders(t *testing.T) {
	plain := unpack(t, demo(t).write(t))
	if len(plain)%512 != 0 || !bytes.HasSuffix(plain, make([]byte, 1024)) {
		t.Error("no end of an archive")
	}
	r := tar.NewReader(bytes.NewReader(plain))
	var got []string
	for {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil || h.Typeflag != tar.TypeReg || h.Uid+h.Gid != 0 || h.ModTime.Unix() != 0 ||
			h.Uname+h.Gname+h.Linkname != "" {
			t.Errorf("%+v: %v", h, err)
		}
		got = append(got, fmt.Sprintf("%s %o %d", h.Name, h.Mode, len(b)))
	}
	if len(got) != 8 || got[0][:14] != "manifest.yaml " || got[1][:18] != "manifest.yaml.sig " ||
		got[3] != "files/.ai/tools/acme/run.sh 755 18" ||
		got[5] != "files/"+long(120)+" 644 4" || got[6] != "files/ä/ö.txt 644 512" ||
		got[7] != "evidence/sbom.json 644 2" {
		t.Errorf("got %q", got)
	}
}

func TestGolden(t *testing.T) {
	got := unpack(t, demo(t).write(t))
	goldentest.File(t, filepath.Join("testdata", "demo.tar"), got)
}

func TestDeterministic(t *testing.T) {
	files := map[string]string{"large.bin": strings.Repeat("0123456789abcdef", 1<<17)}
	for i := range 3000 {
		files[fmt.Sprintf("f/%04d.txt", i)] = strings.Repeat(fmt.Sprint(i), i%700)
	}
	w := newWorld(t, files, nil)
	first := w.write(t)
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	for _, n := range []int{1, 2, 7} {
		runtime.GOMAXPROCS(n)
		if !bytes.Equal(w.write(t), first) {
			t.Errorf("with %d processors: another archive", n)
		}
	}
	var plain bytes.Buffer
	if err := Write(t.Context(), &plain, w.body, w.list.Signatures, onlyGet{&w.store}); err != nil ||
		!bytes.Equal(plain.Bytes(), first) {
		t.Errorf("from a store that can't visit: another archive (%v)", err)
	}
	l, err := read(first)
	if err != nil || len(l.contents) != 3001 {
		t.Errorf("%d files: %v", len(l.contents), err)
	}
}

type onlyGet struct{ cas.Getter }

func TestSinks(t *testing.T) {
	w := demo(t)
	good := w.write(t)
	stop := errors.New("stop")
	for name, l := range map[string]*log{"begin": {begin: stop}, "file": {file: stop},
		"lazy": {lazy: true, file: stop}} {
		if _, err := Read(t.Context(), bytes.NewReader(good), l); err != stop {
			t.Errorf("%s: %v", name, err)
		}
	}
	l := &log{lazy: true}
	if _, err := Read(t.Context(), bytes.NewReader(good), l); err != nil || len(l.entries) != 6 {
		t.Errorf("a lazy one: %v", err)
	}
	plain := unpack(t, good)
	plain[bytes.Index(plain, []byte("# demo"))] = '!'
	bad := pack(t, plain)
	if _, err := Read(t.Context(), bytes.NewReader(bad), &log{lazy: true}); err == nil ||
		!strings.Contains(err.Error(), "damaged") && !strings.Contains(err.Error(), "blake3") {
		t.Errorf("a lazy one was allowed to continue: %v", err)
	}
	l = &log{tolerant: true}
	if _, err := Read(t.Context(), bytes.NewReader(bad), l); err != nil ||
		!slices.Equal(l.damaged, []string{"README.md"}) || len(l.contents) != 6 {
		t.Errorf("a tolerant one: %v, %q", err, l.damaged)
	}
}

func TestContext(t *testing.T) {
	w := demo(t)
	good := w.write(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	cancel(stop)
	if _, err := Read(ctx, bytes.NewReader(good), new(log)); !errors.Is(err, stop) {
		t.Errorf("read: %v", err)
	}
	if err := Write(ctx, io.Discard, w.body, w.list.Signatures, &w.store); !errors.Is(err, stop) {
		t.Errorf("write: %v", err)
	}
	large := newWorld(t, map[string]string{"x": strings.Repeat("x", 1<<20)}, nil)
	if err := Write(ctx, io.Discard, large.body, large.list.Signatures, &large.store); !errors.Is(err, stop) {
		t.Errorf("write a large file: %v", err)
	}
}

type broken struct {
	r   io.Reader
	err error
}

func (b broken) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err == io.EOF {
		err = b.err
	}
	return n, err
}

// TestReaderFails tells what befalls the source apart from what is in it.
func TestReaderFails(t *testing.T) {
	good := demo(t).write(t)
	for n := 0; n < len(good); n += 5 {
		_, err := Read(t.Context(), broken{bytes.NewReader(good[:n]), fs.ErrPermission}, new(log))
		if _, ours := errors.AsType[*Error](err); !errors.Is(err, fs.ErrPermission) || ours {
			t.Fatalf("after %d bytes: %v", n, err)
		}
	}
	if _, err := Read(t.Context(), broken{bytes.NewReader(good), fs.ErrPermission},
		new(log)); err != fs.ErrPermission {
		t.Errorf("at the end: %v", err)
	}
}

type failing struct{ left int }

func (f *failing) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, fs.ErrPermission
	}
	return len(b), nil
}

type lying struct {
	cas.Getter
	edit func(cas.Object) cas.Object
}

func (l lying) Get(ctx context.Context, id cas.ID) (cas.Object, error) {
	o, err := l.Getter.Get(ctx, id)
	if err == nil {
		o = l.edit(o)
	}
	return o, err
}

func TestWriteFails(t *testing.T) {
	w := newWorld(t, map[string]string{"small": "abc", "zlarge": strings.Repeat("0123456789", 60_000)}, nil)
	for _, n := range []int{0, 10} {
		if err := Write(t.Context(), &failing{n}, w.body, w.list.Signatures, &w.store); !errors.Is(err,
			fs.ErrPermission) {
			t.Errorf("a disk that is full after %d bytes: %v", n, err)
		}
	}
	write := func(src cas.Getter) error { return Write(t.Context(), io.Discard, w.body, w.list.Signatures, src) }
	if err := write(new(cas.Memory)); !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), `"small": `) {
		t.Errorf("from an empty store: %v", err)
	}
	for name, edit := range map[string]func(cas.Object) cas.Object{
		"larger":  func(o cas.Object) cas.Object { o.Size++; return o },
		"cut off": func(o cas.Object) cas.Object { o.ReadCloser = io.NopCloser(strings.NewReader("")); return o },
		"failing": func(o cas.Object) cas.Object {
			o.ReadCloser = io.NopCloser(broken{strings.NewReader("a"), fs.ErrInvalid})
			return o
		},
		"unclosed": func(o cas.Object) cas.Object { o.ReadCloser = badClose{o.ReadCloser}; return o },
		"and large": func(o cas.Object) cas.Object {
			if o.Size > 3 {
				o.Size++
			}
			return o
		},
		"large failing": func(o cas.Object) cas.Object {
			if o.Size > 3 {
				o.ReadCloser = io.NopCloser(broken{strings.NewReader("a"), fs.ErrInvalid})
			}
			return o
		},
		"too long": func(o cas.Object) cas.Object {
			o.ReadCloser = io.NopCloser(io.MultiReader(o.ReadCloser, strings.NewReader("x")))
			return o
		},
	} {
		if err := write(lying{onlyGet{&w.store}, edit}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := Write(t.Context(), io.Discard, w.body, nil, &w.store); err == nil || err.Error() != "unsigned" {
		t.Errorf("unsigned: %v", err)
	}
	if err := Write(t.Context(), io.Discard, []byte("x"), w.list.Signatures, &w.store); err == nil {
		t.Error("a manifest that is none was written")
	}
	if err := Write(t.Context(), io.Discard, manifest.Join(nil, w.body, w.list.Signatures), w.list.Signatures,
		&w.store); err != errSigned {
		t.Errorf("a joined manifest: %v", err)
	}
	body, l, err := manifest.AppendFileList(nil, w.list,
		[]manifest.File{{Path: "x", Digest: cas.Sum(nil), Size: MaxFile + 1, Mode: cas.File}})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Sign(keytest.Seeded(1), noon); err != nil {
		t.Fatal(err)
	}
	if err := Write(t.Context(), io.Discard, body, l.Signatures, &w.store); err == nil ||
		err.Error() != `"x" has 8589934592 bytes, more than the archive limit of 8589934591` {
		t.Errorf("a file that is too large: %v", err)
	}
	lines := l.Signatures.Append(nil)
	plain := append(appendHeader(nil, manifestName, cas.File, int64(len(body))), body...)
	plain = append(plain, zeros[:padding(int64(len(body)))]...)
	plain = append(append(plain, appendHeader(nil, signaturesName, cas.File, int64(len(lines)))...), lines...)
	if _, err := read(pack(t, plain)); err == nil || !strings.Contains(err.Error(), "more than the archive limit of") {
		t.Errorf("an archive with a file that is too large: %v", err)
	}
}

type badClose struct{ io.ReadCloser }

func (badClose) Close() error { return fs.ErrClosed }

func TestPaxRecord(t *testing.T) {
	for _, n := range []int{1, 2, 88, 89, 90, 91, 92, 93, 980, 990, 991, 1000} {
		name := strings.Repeat("x", n)
		r := paxRecord(name)
		if want := fmt.Sprintf("%d path=%s\n", len(r), name); r != want {
			t.Errorf("%d: got %q", n, r)
		}
	}
}

// TestKeys: the keys of signers are read back, change nothing else, and must be those of the signers.
func TestKeys(t *testing.T) {
	w := demo(t)
	alice := manifest.SignerKey{Public: keytest.Seeded(1).Public(), Owner: "Alice"}
	var b bytes.Buffer
	if err := Write(t.Context(), &b, w.body, w.list.Signatures, &w.store, alice,
		manifest.SignerKey{Public: keytest.Seeded(2).Public()}); err != nil {
		t.Fatal(err)
	}
	h, err := ReadHead(t.Context(), bytes.NewReader(b.Bytes()))
	if err != nil || len(h.Keys) != 1 || h.Keys[0] != alice {
		t.Fatalf("%v, %v", h, err)
	}
	if h, err := ReadHead(t.Context(), bytes.NewReader(w.write(t))); err != nil || h.Keys != nil {
		t.Errorf("%v, %v", h, err)
	}
	plain := unpack(t, b.Bytes())
	if _, err := Read(t.Context(), bytes.NewReader(pack(t, plain)), new(log)); err != nil {
		t.Error(err)
	}
	for _, forged := range []string{keytest.Seeded(2).Public().String(), strings.Repeat("A", 43)} {
		bad := bytes.Replace(plain, []byte(alice.Public.String()), []byte(forged), 1)
		if _, err := Read(t.Context(), bytes.NewReader(pack(t, bad)), new(log)); err == nil ||
			!strings.Contains(err.Error(), keysName) {
			t.Errorf("%s: %v", forged, err)
		}
	}
}
