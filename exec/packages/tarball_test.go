package packages

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
)

// TestTarball: what is in the one directory of a tarball stands without it.
func TestTarball(t *testing.T) {
	long := strings.Repeat("long/", 30) + "name.js"
	b := packed(t,
		member{kind: tar.TypeXGlobalHeader, pax: map[string]string{"comment": "0123"}},
		member{name: "package/", kind: tar.TypeDir, mode: 0o755},
		described,
		member{name: "package/bin/run.js", text: "#!/usr/bin/env node\n", mode: 0o755},
		member{name: "package/" + long, text: "1"},
		member{name: "package/lib/a.js", text: "1"},
		member{name: "package/node_modules/in/index.js", text: "2"},
		member{name: "package/.DS_Store", text: "3"},
		member{name: "package/._lib", text: "4"},
		member{name: "package/.npmignore", text: ""},
		member{name: "package/grüße.js", text: "5"},
	)
	a, err := readTarball(t, b)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"package.json": "file " + described.text, "bin/run.js": "exec #!/usr/bin/env node\n", long: "file 1",
		"lib/a.js":                 "file 1",
		"node_modules/in/index.js": "file 2", ".npmignore": "file ", "grüße.js": "file 5",
	}
	if got := contentsOf(t, a); !maps.Equal(got, want) {
		t.Errorf("unpacked %q, expected %q", got, want)
	}
	if _, err := a.from.open("no"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestTarballRefused(t *testing.T) {
	zeros := strings.Repeat("\x00", 1<<20)
	plain := tarOf(t, described)
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"empty":           {nil, "EOF"},
		"no gzip":         {[]byte("package"), "EOF"},
		"not gzip":        {bytes.Repeat([]byte("package"), 10), "gzip: invalid header"},
		"no tar":          {zipped(t, bytes.Repeat([]byte("package"), 200)), "archive/tar: invalid tar header"},
		"nothing":         {packed(t), "package.json is missing"},
		"no package.json": {packed(t, member{name: "package/x/package.json", text: "{}"}), "package.json is missing"},
		"up":              {packed(t, described, member{name: "package/../../evil", text: "1"}), `".." is not a name`},
		"absolute":        {packed(t, member{name: "/package/evil", text: "1"}), "is not in a directory"},
		"absolute below":  {packed(t, described, member{name: "package//evil", text: "1"}), "is absolute"},
		"dot":             {packed(t, member{name: "./package/x", text: "1"}), "is not in a directory"},
		"backslash":       {packed(t, described, member{name: `package/a\b`, text: "1"}), `has '\\' in it`},
		"device name":     {packed(t, described, member{name: "package/aux.js", text: "1"}), "is a device on Windows"},
		"top file":        {packed(t, member{name: "package.json", text: "{}"}), "is not in the package's directory"},
		"other top": {packed(t, described, member{name: "other/x", text: "1"}),
			`is not in the top directory "package"`},
		"symbolic link": {packed(t, described, member{name: "package/l", kind: tar.TypeSymlink,
			link: "/etc/passwd"}), "is not a regular file"},
		"hard link": {packed(t, described, member{name: "package/l", kind: tar.TypeLink,
			link: "package/package.json"}), "is not a regular file"},
		"device": {packed(t, described, member{name: "package/d", kind: tar.TypeBlock}),
			"is not a regular file"},
		"pipe": {packed(t, described, member{name: "package/p", kind: tar.TypeFifo}),
			"is not a regular file"},
		"twice": {packed(t, described, described), "is a duplicate"},
		"case": {packed(t, described, member{name: "package/Package.JSON", text: "{}"}),
			"where upper and lower case are the same"},
		"case of a dir": {packed(t, described, member{name: "package/a/x", text: "1"},
			member{name: "package/A/y", text: "1"}), "where upper and lower case are the same"},
		"file and dir": {packed(t, described, member{name: "package/package.json/x", text: "1"}),
			"is a file, and a directory"},
		"behind the tar":  {zipped(t, append(bytes.Clone(plain), bytes.Repeat([]byte("x"), 512)...)), "after the end"},
		"behind the gzip": {append(packed(t, described), 'x'), "after the end"},
		"second member":   {append(packed(t, described), packed(t, described)...), "after the end"},
		"cut":             {packed(t, described)[:60], "unexpected EOF"},
		"cut in the tar":  {zipped(t, plain[:530]), "EOF"},
		"checksum": {func() []byte {
			b := packed(t, described)
			b[len(b)-8] ^= 1
			return b
		}(), "gzip: invalid checksum"},
		"bomb": {bomb(t, zeros, MinBytes>>20+1), fmt.Sprintf("has more than %d bytes", MinBytes)},
		"bomb left out": {bombAt(t, "package/.DS_Store", zeros, MinBytes>>20+MaxFiles*512>>20+1),
			fmt.Sprintf("has more than %d bytes", MinBytes)},
		"bomb at the end": {zipped(t, append(bytes.Clone(plain), make([]byte, MinBytes+MaxFiles*512)...)),
			fmt.Sprintf("has more than %d bytes", MinBytes)},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := readTarball(t, c.b); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, expected one with %q", err, c.want)
			}
		})
	}
}

func bomb(t *testing.T, part string, n int) []byte { return bombAt(t, "package/zeros", part, n) }

// bombAt is a tarball with one file of n parts, which is packed well.
func bombAt(t *testing.T, path, part string, n int) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	err = w.WriteHeader(&tar.Header{Name: path, Size: int64(n * len(part)), Mode: 0o644})
	for range n {
		if err == nil {
			_, err = io.WriteString(w, part)
		}
	}
	if err = errors.Join(err, w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestTarballMany: what has no bytes is bounded too.
func TestTarballMany(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for range MaxFiles + 1 {
		if err := w.WriteHeader(&tar.Header{Name: "package/", Typeflag: tar.TypeDir, Mode: 0o755}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	_, err := readTarball(t, out.Bytes())
	if fault.CodeOf(err) != fault.Limit || !strings.HasSuffix(err.Error(), " files") {
		t.Error(err)
	}
}

// TestTarballSparse: a header of a few bytes that stands for a file of any length is refused, whichever way it is
// said.
func TestTarballSparse(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: "package/sparse", Size: 512, Mode: 0o644}), func() error {
		_, err := w.Write(make([]byte, 512))
		return err
	}(), w.Close()); err != nil {
		t.Fatal(err)
	}
	old := b.Bytes()
	old[156] = 'S'
	copy(old[257:], "ustar  \x00")
	for i := 386; i < 500; i++ {
		old[i] = 0
	}
	copy(old[386:], "00000000000\x0000000001000\x00")
	copy(old[483:], "00000001000\x00")
	copy(old[148:], "        ")
	sum := 0
	for _, c := range old[:512] {
		sum += int(c)
	}
	copy(old[148:], fmt.Sprintf("%06o\x00 ", sum))
	if _, err := readTarball(t, zipped(t, old)); err == nil ||
		!strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("GNU: %v", err)
	}
}

func FuzzTarball(f *testing.F) {
	f.Add(tarOf(f, described, member{name: "package/lib/a.js", text: "1"}))
	f.Add(tarOf(f, described, member{name: "package/../evil", text: "1"}))
	f.Add(tarOf(f, described, member{kind: tar.TypeXGlobalHeader, pax: map[string]string{"comment": "0123"}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		// What is inside the gzip is where the decisions are made; what holds for the frame is said with fixed cases.
		a, err := readTarball(t, zipped(t, b))
		if err == nil {
			contentsOf(t, a)
		}
	})
}
