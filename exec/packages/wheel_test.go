package packages

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
)

// TestWheel: what is in a wheel stands where an import looks for it, and what is for an installer doesn't.
func TestWheel(t *testing.T) {
	b := wheelOf{
		files: map[string]string{
			"demo/": "", "demo/__init__.py": "x = 1\n", "demo/data.txt": "", "demo/again.txt": "",
			"demo.pth":                      "import os",
			"demo-1.0.data/purelib/pure.py": "p = 1\n", "demo-1.0.data/platlib/plat.so": "\x7fELF",
			"demo-1.0.data/scripts/run":    "#!python",
			"demo-1.0.data/headers/demo.h": "", "demo-1.0.data/data/share/x": "y",
			"demo/__pycache__/x.pyc": "bytecode", ".DS_Store": "z",
			"demo/node_modules/a/index.js": "1",
		},
		header: func(h *zip.FileHeader) {
			if strings.HasSuffix(h.Name, ".so") {
				h.SetMode(0o755)
			}
			if strings.HasSuffix(h.Name, ".txt") {
				h.Method = zip.Store
			}
		},
	}.bytes(t)
	a, err := readWheel(t, plainWheel, b)
	if err != nil {
		t.Fatal(err)
	}
	got := contentsOf(t, a)
	for path := range got {
		if strings.HasPrefix(path, "demo-1.0.dist-info/") {
			delete(got, path)
		}
	}
	want := map[string]string{
		"demo/__init__.py": "file x = 1\n", "demo/data.txt": "file ", "demo/again.txt": "file ",
		"demo.pth": "file import os",
		"pure.py":  "file p = 1\n", "plat.so": "exec \x7fELF", "demo/node_modules/a/index.js": "file 1",
	}
	if !maps.Equal(got, want) {
		t.Errorf("unpacked %q, expected %q", got, want)
	}
	if len(a.Files) != len(want)+2 {
		t.Errorf("%d files with RECORD and WHEEL, expected %d", len(a.Files), len(want)+2)
	}
	if _, err := (Shelf{a}).Get(t.Context(), cas.ID{Kind: cas.Blob,
		Digest: cas.Sum([]byte("#!python"))}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was left out: %v", err)
	}
	if err := (Shelf{a}).Visit(t.Context(), []cas.ID{{Kind: cas.Blob}}, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("visiting what isn't there: %v", err)
	}
	if _, err := a.from.open("demo-1.0.data/scripts/run"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opening what was left out: %v", err)
	}
}

// TestWheelVersion: the version in a wheel may be spelt in another way than in its name.
func TestWheelVersion(t *testing.T) {
	for file, info := range map[string]string{plainWheel: "demo-1.0.0.dist-info",
		"demo-1.0_cpu-py3-none-any.whl": "Demo-1.0+CPU.dist-info"} {
		a, err := readWheel(t, file, wheelOf{info: info, files: map[string]string{"demo.py": "x"}}.bytes(t))
		if err != nil || contentsOf(t, a)["demo.py"] != "file x" {
			t.Errorf("%s with %s: %v", file, info, err)
		}
	}
}

// TestWheelRecordKinds: longer digests do, a length needn't be said, and signatures have no digest.
func TestWheelRecordKinds(t *testing.T) {
	const text = "x"
	for name, sum := range map[string]string{
		"384": "sha384=15LsyaXg1k_NEIZglXUKxNDFLMSRVfJhB8jR3sHnc77Rpvk4b3k3tlEGyAmw6JqE",
		"512": "sha512=pKvYRbmpMBrlZQAnxHXDyDrgDWoD1S_bCIbdpK-OlEHtCU9AeknU2t5EuLBdmnN8R0lLPUtBj5Fzf7SyC7cGfQ",
	} {
		record := func(s string) string {
			var out []string
			for line := range strings.Lines(s) {
				if strings.HasPrefix(line, "demo.py,") {
					line = "demo.py," + sum + ",\n"
				}
				out = append(out, line)
			}
			return strings.Join(out, "") + "demo-1.0.dist-info/RECORD.jws,,\n"
		}
		_, err := readWheel(t, plainWheel, wheelOf{files: map[string]string{"demo.py": text}, record: record}.bytes(t))
		// The digests above are of another text: what counts is that they were compared.
		no := fault.Of(err)
		if no.Code != fault.Integrity || !strings.Contains(no.Text, "sha"+name+"=") ||
			no.Details["path"] != "demo.py" {
			t.Errorf("sha%s: %v", name, err)
			continue
		}
		found := no.Text[strings.LastIndex(no.Text, " ")+1:]
		good := sum
		sum = "sha" + name + "=" + found
		if _, err := readWheel(t, plainWheel, wheelOf{files: map[string]string{"demo.py": text},
			record: record}.bytes(t)); err != nil {
			t.Errorf("%s in place of %s: %v", found, good, err)
		}
	}
}

func TestWheelRefused(t *testing.T) {
	files := map[string]string{"demo/__init__.py": "x = 1\n"}
	with := func(path, text string) map[string]string {
		all := maps.Clone(files)
		all[path] = text
		return all
	}
	mode := func(path string, m fs.FileMode) func(*zip.FileHeader) {
		return func(h *zip.FileHeader) {
			if h.Name == path {
				h.SetMode(m)
			}
		}
	}
	replaced := func(old, new string) func(string) string {
		return func(s string) string { return strings.Replace(s, old, new, 1) }
	}
	for name, c := range map[string]struct {
		of   wheelOf
		file string
		want string
	}{
		"up": {of: wheelOf{files: with("../evil.py", "")},
			want: `"../evil.py": path "../evil.py": ".." is not a name`},
		"absolute":   {of: wheelOf{files: with("/evil.py", "")}, want: "is absolute"},
		"backslash":  {of: wheelOf{files: with(`demo\evil.py`, "")}, want: `has '\\' in it`},
		"drive":      {of: wheelOf{files: with("C:evil.py", "")}, want: "has ':' in it"},
		"up in data": {of: wheelOf{files: with("demo-1.0.data/purelib/../x", "")}, want: ".."},
		"data":       {of: wheelOf{files: with("demo-1.0.data/bin/x", "")}, want: `unknown part "bin" of a wheel`},
		"data alone": {of: wheelOf{files: with("demo-1.0.data/purelib", "")}, want: "path"},
		"link": {of: wheelOf{files: with("demo/link", "/etc"),
			header: mode("demo/link", fs.ModeSymlink|0o777)}, want: "is not a regular file"},
		"device": {of: wheelOf{files: with("demo/dev", ""), header: mode("demo/dev", fs.ModeDevice|0o666)},
			want: "is not a regular file"},
		"pipe": {of: wheelOf{files: with("demo/pipe", ""),
			header: mode("demo/pipe", fs.ModeNamedPipe|0o666)}, want: "is not a regular file"},
		"case": {of: wheelOf{files: with("Demo/__init__.py", "")},
			want: "where upper and lower case are the same"},
		"file and dir": {of: wheelOf{files: with("demo/__init__.py/x", "")}, want: "is a file, and a directory"},
		"twice": {of: wheelOf{files: files, order: []string{"demo/__init__.py", "demo/__init__.py",
			"demo-1.0.dist-info/WHEEL", "demo-1.0.dist-info/RECORD"}}, want: "appears twice"},
		"twice by data": {of: wheelOf{files: with("demo-1.0.data/purelib/demo/__init__.py", "x = 1\n")},
			want: "is a duplicate"},
		"method": {of: wheelOf{files: files, header: func(h *zip.FileHeader) {
			h.Flags |= 1
		}}, want: "is encrypted"},
		"no WHEEL": {of: wheelOf{about: "none", files: with("demo-1.0.dist-info/METADATA", "")},
			want: `"demo-1.0.dist-info/WHEEL": file does not exist`},
		"version 2":  {of: wheelOf{about: "Wheel-Version: 2.0\n"}, want: `expected Wheel-Version 1, found "2.0"`},
		"no version": {of: wheelOf{about: "Generator: me\n"}, want: `found ""`},
		"another": {of: wheelOf{info: "other-1.0.dist-info"},
			want: "the directory demo-1.0.dist-info is missing"},
		"its version": {of: wheelOf{info: "demo-1.1.dist-info"},
			want: "the directory demo-1.0.dist-info is missing"},
		"of no version": {of: wheelOf{info: "demo.dist-info"}, want: "the directory demo-1.0.dist-info is missing"},
		"none":          {of: wheelOf{info: "dist"}, want: "the directory demo-1.0.dist-info is missing"},
		"two": {of: wheelOf{files: with("other-1.0.dist-info/x", "")},
			want: "is a second .dist-info directory"},
		"no RECORD": {of: wheelOf{files: files, record: func(string) string {
			return "none"
		}}, want: `RECORD": file does not exist`},
		"no CSV": {of: wheelOf{files: files, record: func(string) string {
			return "a,\"b\n"
		}}, want: "RECORD"},
		"two columns": {of: wheelOf{files: files, record: func(string) string {
			return "a,b\n"
		}}, want: "wrong number of fields"},
		"unlisted": {of: wheelOf{files: files, record: func(string) string {
			return ""
		}}, want: `is not listed in RECORD`},
		"unlisted data": {of: wheelOf{files: with("demo-1.0.data/scripts/x", ""),
			record: replaced("demo-1.0.data/scripts/x", "demo/y")}, want: `is not listed in RECORD`},
		"listed only": {of: wheelOf{files: files, record: func(s string) string {
			return s + "demo/gone.py,sha256=x,1\n"
		}}, want: `"demo/gone.py" is listed in RECORD but missing`},
		"listed twice": {of: wheelOf{files: files, record: func(s string) string {
			return s + s
		}}, want: "is listed twice in RECORD"},
		"no digest": {of: wheelOf{files: files, record: replaced("demo/__init__.py,sha256=",
			"demo/__init__.py,md5=")}, want: "has no supported digest in RECORD"},
		"other digest": {of: wheelOf{files: files, record: replaced("demo/__init__.py,sha256=",
			"demo/__init__.py,sha256=A")}, want: "does not match RECORD: expected sha256=A"},
		"other length": {of: wheelOf{files: files, record: replaced(",6\n", ",7\n")},
			want: "expected 7 bytes, found 6"},
		"file of source": {of: wheelOf{files: files}, file: "demo-1.0.tar.gz", want: "is not the name of a wheel"},
		"name of others": {of: wheelOf{files: files}, file: "demos-1.0-py3-none-any.whl",
			want: "the directory demos-1.0.dist-info is missing"},
		"bomb": {of: wheelOf{files: with("demo/zeros", strings.Repeat("\x00", MinBytes+1))},
			want: fmt.Sprintf("has more than %d bytes", MinBytes)},
	} {
		t.Run(name, func(t *testing.T) {
			file := c.file
			if file == "" {
				file = plainWheel
			}
			_, err := readWheel(t, file, c.of.bytes(t))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, expected one with %q", err, c.want)
			}
		})
	}
}

// TestWheelFrame: a wheel is a zip archive and nothing else, and its parts are no larger than they say.
func TestWheelFrame(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	good := wheelOf{files: map[string]string{"demo.py": strings.Repeat("y = 2\n", 100)}}.bytes(t)
	at := bytes.LastIndex(good, []byte("PK\x05\x06"))
	edit := func(do func(b []byte) []byte) []byte { return do(bytes.Clone(good)) }
	directory := bytes.Index(good, []byte("PK\x01\x02"))
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"empty":      {nil, "is not a zip archive"},
		"cut":        {good[:len(good)-30], "is not a zip archive"},
		"cut at end": {good[:len(good)-1], "is not a zip archive"},
		"before it":  {append([]byte("#!/bin/sh\n"), good...), "not part of the zip archive"},
		"behind it":  {append(bytes.Clone(good), 'x'), "not part of the zip archive"},
		"64 bits": {edit(func(b []byte) []byte {
			binary.LittleEndian.PutUint16(b[at+10:], 0xffff)
			return b
		}), "zip64"},
		// Go reads the 64-bit form only where the other one says so. Who reads it always would see another archive.
		"its locator": {edit(func(b []byte) []byte {
			b = slices.Insert(b, at, append([]byte("PK\x06\x07"), make([]byte, 16)...)...)
			end := b[at+20:]
			binary.LittleEndian.PutUint32(end[12:], binary.LittleEndian.Uint32(end[12:])+20)
			return b
		}), "zip64"},
		"another count": {edit(func(b []byte) []byte {
			binary.LittleEndian.PutUint16(b[at+10:], 9)
			return b
		}), "unexpected EOF"},
		"not its begin": {edit(func(b []byte) []byte { b[0] = 'p'; return b }), "does not begin as a zip archive"},
		"crc":           {edit(func(b []byte) []byte { b[directory+16] ^= 1; return b }), "checksum error"},
		"method":        {edit(func(b []byte) []byte { b[directory+10] = 12; return b }), "compression method 12"},
		"longer":        {edit(func(b []byte) []byte { b[directory+24]++; return b }), "demo"},
		"shorter":       {edit(func(b []byte) []byte { b[directory+24]--; return b }), "demo"},
		"data":          {edit(func(b []byte) []byte { b[60] ^= 0xff; return b }), "demo"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := readWheel(t, plainWheel, c.b); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, expected one with %q", err, c.want)
			}
		})
	}
	// A directory that is larger than any needs is not even looked at.
	large := make([]byte, MaxDirectory+1+26)
	copy(large, "PK\x03\x04")
	end := large[len(large)-22:]
	copy(end, "PK\x05\x06")
	binary.LittleEndian.PutUint32(end[12:], MaxDirectory+1)
	binary.LittleEndian.PutUint32(end[16:], 4)
	_, err := readWheel(t, plainWheel, large)
	if fault.CodeOf(err) != fault.Limit || !strings.Contains(err.Error(), strconv.Itoa(MaxDirectory)) {
		t.Errorf("a directory of %d bytes: %v", MaxDirectory+1, err)
	}
}

func TestStops(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	b := wheelOf{files: map[string]string{"demo.py": "y"}}.bytes(t)
	if _, err := Wheel(ctx, plainWheel, bytes.NewReader(b), int64(len(b))); !errors.Is(err, gone) {
		t.Error(err)
	}
	a, err := readWheel(t, plainWheel, b)
	if err != nil {
		t.Fatal(err)
	}
	if err := (Shelf{a}).Visit(ctx, []cas.ID{{Kind: cas.Blob, Digest: a.Files[0].Digest}}, nil); !errors.Is(err,
		gone) {
		t.Error(err)
	}
}

func FuzzWheel(f *testing.F) {
	good := wheelOf{files: map[string]string{"demo/__init__.py": "x = 1\n",
		"demo-1.0.data/purelib/a.py": "a"}}.bytes(f)
	f.Add(good)
	f.Add(wheelOf{files: map[string]string{"../x": "1"}}.bytes(f))
	f.Add(good[:len(good)/2])
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := readWheel(t, plainWheel, b)
		if err == nil {
			contentsOf(t, a)
		}
	})
}
