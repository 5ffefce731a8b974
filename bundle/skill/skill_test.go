package skill

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle/foreign"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cas/portable"
)

const shapes = "testdata/shapes"

const greet = "---\nname: greet\ndescription: Greets\n---\nGreet.\n"

// An item of an archive.
type in struct {
	name, text string
	mode       fs.FileMode
}

func zipOf(t testing.TB, all ...in) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range all {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate}
		h.SetMode(max(f.mode, 0o644))
		to, err := w.CreateHeader(h)
		if err == nil {
			_, err = io.WriteString(to, f.text)
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

func tarOf(t testing.TB, all ...in) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, f := range all {
		h := &tar.Header{Name: f.name, Mode: int64(max(f.mode.Perm(), 0o644)), Typeflag: tar.TypeReg,
			Size: int64(len(f.text))}
		switch {
		case f.mode&fs.ModeSymlink != 0:
			h.Typeflag, h.Linkname, h.Size, f.text = tar.TypeSymlink, f.text, 0, ""
		case f.mode&fs.ModeDevice != 0:
			h.Typeflag, h.Size, f.text = tar.TypeChar, 0, ""
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, f.text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// tree reads a directory without us: the bytes and modes of its files.
func treeOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if runtime.GOOS != "windows" && fi.Mode()&0o100 != 0 {
			rel += " exec"
		}
		all[filepath.ToSlash(rel)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func writeTo(t *testing.T, dir string, skills []*Skill) {
	t.Helper()
	for _, s := range skills {
		if err := WriteDir(filepath.Join(dir, s.Name), s.Files); err != nil {
			t.Fatal(err)
		}
	}
}

// TestShapes: every shape that the format allows comes back byte for byte, from a directory, a zip and a tar.gz, and
// its items are valid.
func TestShapes(t *testing.T) {
	t.Parallel()
	want := treeOf(t, shapes)
	skills, err := ReadDir(shapes)
	if err != nil || len(skills) != 8 {
		t.Fatal(len(skills), err)
	}
	var all []in
	for _, s := range skills {
		for _, f := range s.Files {
			mode := fs.FileMode(0o644)
			if f.Exec {
				mode = 0o755
			}
			all = append(all, in{path.Join("repo-main", s.Path, f.Path), string(f.Bytes), mode})
		}
	}
	for name, read := range map[string]func() ([]*Skill, error){
		"dir": func() ([]*Skill, error) { return skills, nil },
		"zip": func() ([]*Skill, error) { return ReadArchive(zipOf(t, all...)) },
		"tar": func() ([]*Skill, error) { return ReadArchive(tarOf(t, all...)) },
	} {
		got, err := read()
		if err != nil {
			t.Fatal(name, err)
		}
		out := filepath.Join(t.TempDir(), "out")
		writeTo(t, out, got)
		if have := treeOf(t, out); !reflect.DeepEqual(have, want) {
			t.Errorf("%s: other files come out than went in", name)
		}
	}
	for _, s := range skills {
		tool, directive := In("acme").Refs(s.Name)
		for ref, text := range map[model.Ref][]byte{
			tool: s.ToolText(In("acme"), Origin{From: "https://skills.example/a.zip", Archive: cas.Sum(nil).String(),
				Path: s.Path, Files: cas.Sum(nil).String()}),
			directive: s.DirectiveText(In("acme")),
		} {
			for _, k := range model.Builtin() {
				if k.Name != ref.Kind {
					continue
				}
				m := k.Read(ref, k.Dir+"/"+ref.ID+map[string]string{"tool": ".yaml", "directive": ".md"}[ref.Kind],
					text)
				if !m.Marked || m.Invalid() || m.Ref != ref {
					t.Errorf("%s: %v\n%s", ref, m.Problems, text)
				}
				if m.Directive != nil && (m.Directive.Name != directive.Name() || Slug(directive) != s.Name &&
					s.Name != "3d" || len(m.Directive.Permissions) != 1 ||
					!strings.Contains(m.Body, strings.TrimSpace(strings.ReplaceAll(string(s.Body), "\r\n", "\n")))) {
					t.Errorf("%s: %+v\n%s", ref, m.Directive, m.Body)
				}
			}
		}
	}
}

// TestSweep: what a process that died has left goes with the next export, and nothing else.
func TestSweep(t *testing.T) {
	t.Parallel()
	dir, long := t.TempDir(), time.Now().Add(-2*osfile.UnfinishedAge)
	for _, name := range []string{unfinished + "OLD", unfinished + "NEW", "old"} {
		if err := os.MkdirAll(filepath.Join(dir, name, "scripts"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "scripts", "a"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if name != unfinished+"NEW" {
			if err := os.Chtimes(filepath.Join(dir, name), long, long); err != nil {
				t.Fatal(err)
			}
		}
	}
	file := filepath.Join(dir, unfinished+"FILE")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(file, long, long); err != nil {
		t.Fatal(err)
	}
	if err := WriteDir(filepath.Join(dir, "greet"), []File{{Path: Main, Bytes: []byte(greet)}}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{unfinished + "NEW/scripts/a": "", unfinished + "FILE": "", "old/scripts/a": "",
		"greet/SKILL.md": greet}
	if have := treeOf(t, dir); !reflect.DeepEqual(have, want) {
		t.Errorf("%q, want %q", have, want)
	}
}

// TestAnySkill: whatever the files of a skill are, they come back.
func TestAnySkill(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	names := []string{"a", "b.md", "scripts/x.py", "scripts/y", "references/c/d.md", "assets/e.bin", ".f", "_g/h",
		"i j.txt", "ü/k"}
	for range 40 {
		files := []in{{"s/SKILL.md", greet, 0o644}}
		for _, n := range names {
			if r.IntN(2) == 0 {
				continue
			}
			b := make([]byte, r.IntN(300))
			for i := range b {
				if b[i] = byte(r.IntN(256)); r.IntN(2) == 0 {
					b[i] = 0
				}
			}
			files = append(files, in{"s/" + n, string(b), []fs.FileMode{0o644, 0o755}[r.IntN(2)]})
		}
		a, errA := ReadArchive(zipOf(t, files...))
		b, errB := ReadArchive(tarOf(t, files...))
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if !reflect.DeepEqual(a[0].Files, b[0].Files) {
			t.Fatal("a zip and a tar of the same files differ")
		}
		dir := t.TempDir()
		writeTo(t, dir, a)
		want := map[string]string{}
		for _, f := range files {
			n := strings.TrimPrefix(f.name, "s/")
			if runtime.GOOS != "windows" && f.mode == 0o755 {
				n += " exec"
			}
			want[n] = f.text
		}
		if have := treeOf(t, filepath.Join(dir, "greet")); !reflect.DeepEqual(have, want) {
			t.Fatal("other files come out than went in")
		}
		again, err := ReadDir(dir)
		if err != nil || runtime.GOOS != "windows" && !reflect.DeepEqual(again[0].Files, a[0].Files) {
			t.Fatal("other files are read again", err)
		}
	}
}

func reasonOf(err error) (string, string) {
	f := fault.Of(err)
	reason, _ := f.Details["reason"].(string)
	file, _ := f.Details["file"].(string)
	return reason, file
}

// TestRefused: each is refused by name, with the reason.
func TestRefused(t *testing.T) {
	t.Parallel()
	main := in{"greet/SKILL.md", greet, 0o644}
	big := strings.Repeat("x", MaxFile+1)
	many := []in{main}
	for i := range MaxFiles {
		many = append(many, in{fmt.Sprint("greet/f", i), "", 0o644})
	}
	for _, c := range []struct {
		reason, file string
		files        []in
	}{
		{"link", "greet/a", []in{main, {"greet/a", "/etc/passwd", fs.ModeSymlink | 0o777}}},
		{"special", "greet/tty", []in{main, {"greet/tty", "", fs.ModeDevice | fs.ModeCharDevice | 0o644}}},
		{"path", "../evil", []in{main, {"../evil", "x", 0}}},
		{"path", "greet/../../evil", []in{main, {"greet/../../evil", "x", 0}}},
		{"path", "/etc/evil", []in{main, {"/etc/evil", "x", 0}}},
		{"path", `greet\..\evil`, []in{main, {`greet\..\evil`, "x", 0}}},
		{"character", "greet/c:d", []in{main, {"greet/c:d", "x", 0}}},
		{"device", "greet/aux.txt", []in{main, {"greet/aux.txt", "x", 0}}},
		{"short-name", "greet/git~1", []in{main, {"greet/git~1", "x", 0}}},
		{"trailing", "greet/a.", []in{main, {"greet/a.", "x", 0}}},
		{"ignorable", "greet/a\u200b", []in{main, {"greet/a\u200b", "x", 0}}},
		{"nfc", "greet/u\u0308", []in{main, {"greet/u\u0308", "x", 0}}},
		{"duplicate", "greet", []in{main, {"greet/A", "x", 0}, {"greet/a", "y", 0}}},
		{"duplicate", "greet/a", []in{main, {"greet/a", "x", 0}, {"greet/a", "y", 0}}},
		{"duplicate", "./greet/a", []in{main, {"greet/a", "x", 0}, {"./greet/a", "y", 0}}},
		{"prefix", "greet", []in{main, {"greet/a", "x", 0}, {"greet/a/b", "y", 0}}},
		{"size", "greet/big", []in{main, {"greet/big", big, 0}}},
		{"files", "greet", many},
		{"hidden", "greet/SKILL.md", []in{{"greet/SKILL.md", greet + "x\u200by", 0}}},
		{"hidden", "greet/SKILL.md", []in{{"greet/SKILL.md", greet + "x\x1b[8m", 0}}},
		{"hidden", "greet/a.md", []in{main, {"greet/a.md", "\U000e0049\U000e0047", 0}}},
		{"hidden", "greet/a.py", []in{main, {"greet/a.py", "a = '\u202e'", 0}}},
		{"nul", "greet/SKILL.md", []in{{"greet/SKILL.md", greet + "\x00", 0}}},
		{"utf8", "greet/SKILL.md", []in{{"greet/SKILL.md", greet + "\xff", 0}}},
		{"signature", "greet/a.py", []in{main, {"greet/a.py", "# rye:signed:v2:x", 0}}},
		{"signature", "greet/SKILL.md", []in{{"greet/SKILL.md", greet + "<!-- rye:signed:v2:x -->", 0}}},
		{"name", "skills/other/SKILL.md", []in{{"skills/other/SKILL.md", greet, 0}}},
		{"name", "b/greet/SKILL.md", []in{{"a/greet/SKILL.md", greet, 0}, {"b/greet/SKILL.md", greet, 0}}},
		{"name", "b/skill-3d/SKILL.md", []in{{"b/3d/SKILL.md", strings.Replace(greet, "greet", "3d", 1), 0},
			{"b/skill-3d/SKILL.md", strings.Replace(greet, "greet", "skill-3d", 1), 0}}},
		{"front-matter", "greet/SKILL.md", []in{{"greet/SKILL.md", "# no front matter", 0}}},
		{"prefix", "a", []in{{"a", "/tmp", fs.ModeSymlink | 0o777}, {"a/greet/SKILL.md", greet, 0}}},
		{"path-length", strings.Repeat("x/", 50) + "…", []in{main, {strings.Repeat("x/", 600) + "y", "", 0}}},
	} {
		for kind, b := range map[string][]byte{"zip": zipOf(t, c.files...), "tar": tarOf(t, c.files...)} {
			_, err := ReadArchive(b)
			if reason, file := reasonOf(err); reason != c.reason || file != c.file {
				t.Errorf("%s: %q %q, want %q %q: %v", kind, reason, file, c.reason, c.file, err)
			}
		}
	}
	for name, b := range map[string][]byte{
		"": nil, "zip": []byte("PK\x03\x04"), "gzip": {0x1f, 0x8b, 8}, "text": []byte("hello"),
	} {
		if _, err := ReadArchive(b); err == nil {
			t.Errorf("%q is taken for an archive", name)
		}
	}
	if _, err := ReadArchive(make([]byte, MaxArchive+1)); err == nil {
		t.Error("an archive may be larger than it may be")
	}
}

// TestDirRefused: so is what only a directory has.
func TestDirRefused(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		return // making links needs a right
	}
	for _, c := range []struct {
		reason string
		spoil  func(dir string) error
	}{
		{"link", func(dir string) error { return os.Symlink("/etc/passwd", filepath.Join(dir, "a")) }},
		{"link", func(dir string) error { return os.Symlink("..", filepath.Join(dir, "scripts")) }},
		{"device", func(dir string) error { return os.WriteFile(filepath.Join(dir, "nul.md"), nil, 0o600) }},
		{"size", func(dir string) error { return os.Truncate(filepath.Join(dir, "big"), MaxFile+1) }},
		{"name", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, Main), []byte(strings.Replace(greet, "greet", "other", 1)), 0o600)
		}},
	} {
		dir := filepath.Join(t.TempDir(), "greet")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{Main, "big"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(greet), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.spoil(dir); err != nil {
			t.Fatal(err)
		}
		_, err := ReadDir(filepath.Dir(dir))
		if reason, _ := reasonOf(err); reason != c.reason {
			t.Errorf("%q, want %q: %v", reason, c.reason, err)
		}
	}
	// Links elsewhere are no matter of the skill.
	dir := t.TempDir()
	if err := os.Symlink("/", filepath.Join(dir, "root")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "greet"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "greet", "skill.md"), []byte(greet), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadDir(dir); err == nil || !strings.Contains(fault.Of(err).Why[0], "greet/skill.md") {
		t.Errorf("what stands there under a similar name isn't said: %v", err)
	}
}

// TestZipHeaders: a zip that readers can read in two ways is refused.
func TestZipHeaders(t *testing.T) {
	t.Parallel()
	good := zipOf(t, in{"greet/SKILL.md", greet, 0}, in{"greet/a", "aaaa", 0})
	change := func(f func(b []byte) []byte) []byte { return f(bytes.Clone(good)) }
	central := bytes.Index(good, []byte("PK\x01\x02"))
	for name, b := range map[string][]byte{
		"behind":    change(func(b []byte) []byte { return append(b, 'x') }),
		"front":     change(func(b []byte) []byte { return append([]byte("x"), b...) }),
		"comment":   change(func(b []byte) []byte { binary.LittleEndian.PutUint16(b[len(b)-2:], 5); return b }),
		"encrypted": change(func(b []byte) []byte { b[central+8] |= 1; return b }),
		"method":    change(func(b []byte) []byte { b[central+10] = 99; return b }),
		"local": change(func(b []byte) []byte {
			return bytes.Replace(b, []byte("greet/a"), []byte("greet/b"), 1)
		}),
		"sum":    change(func(b []byte) []byte { b[central+16]++; return b }),
		"less":   change(func(b []byte) []byte { b[central+24]--; return b }),
		"more":   change(func(b []byte) []byte { b[central+24]++; return b }),
		"huge":   change(func(b []byte) []byte { binary.LittleEndian.PutUint32(b[central+24:], 1<<31); return b }),
		"offset": change(func(b []byte) []byte { binary.LittleEndian.PutUint32(b[central+42:], 3); return b }),
		"cut":    good[:len(good)-30],
	} {
		if _, err := ReadArchive(b); err == nil {
			t.Errorf("%s: is taken", name)
		}
	}
	if _, err := ReadArchive(good); err != nil {
		t.Error(err)
	}
	// A zip without descriptions behind the bytes: the headers in front of them have sum and sizes.
	raw := func(last zip.FileHeader, text string) []byte {
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		for _, f := range []struct {
			h    zip.FileHeader
			text string
		}{{zip.FileHeader{Name: "greet/SKILL.md"}, greet}, {last, text}} {
			f.h.CRC32, f.h.CompressedSize64, f.h.UncompressedSize64 = crc32.ChecksumIEEE([]byte(f.text)),
				uint64(len(f.text)), uint64(len(f.text))
			to, err := w.CreateRaw(&f.h)
			if err == nil {
				_, err = io.WriteString(to, f.text)
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
	unicodePath := func(name string) []byte {
		return append([]byte{0x75, 0x70, byte(5 + len(name)), 0, 1, 0, 0, 0, 0}, name...)
	}
	plain := raw(zip.FileHeader{Name: "greet/a", Extra: unicodePath("greet/a")}, "aaaa")
	if _, err := ReadArchive(plain); err != nil {
		t.Error(err)
	}
	spoil := func(at int, with byte) []byte { b := bytes.Clone(plain); b[at] = with; return b }
	// between puts bytes in front of the directory, or of the end, and counts them in the field of the end that would.
	between := func(sign string, field int, text string) []byte {
		at := bytes.Index(plain, []byte(sign))
		b := slices.Concat(plain[:at], []byte(text), plain[at:])
		n := b[len(b)-22+field:] // the end has 22 bytes
		binary.LittleEndian.PutUint32(n, binary.LittleEndian.Uint32(n)+uint32(len(text)))
		return b
	}
	evil := strings.Replace(string(plain[:bytes.Index(plain, []byte("PK\x01\x02"))]), "greet/a", "greet/b", 1)
	for name, b := range map[string][]byte{
		"flags": spoil(6, 1), "described": spoil(6, 8), "method": spoil(8, 8), "sum": spoil(14, 1),
		"packed size": spoil(18, 5), "size": spoil(22, 5),
		"between files and directory": between("PK\x01\x02", 16, "junk"),
		"a file that isn't listed":    between("PK\x01\x02", 16, evil),
		"between directory and end":   between("PK\x05\x06", 12, "junk"),
		"a directory with content": bytes.ReplaceAll(raw(zip.FileHeader{Name: "greet/scripts_"}, "aaaa"),
			[]byte("scripts_"), []byte("scripts/")),
		"another name in an extra field": raw(zip.FileHeader{Name: "greet/a", Extra: unicodePath("greet/b")},
			"aaaa"),
		"a link that DOS would have made": raw(zip.FileHeader{Name: "greet/a", ExternalAttrs: 0o120777 << 16},
			"/etc"),
		"a device that DOS would have":     raw(zip.FileHeader{Name: "greet/a", ExternalAttrs: 0o020666 << 16}, ""),
		"another description of the bytes": bytes.Replace(good, []byte("PK\x07\x08"), []byte("PK\x07\x09"), 1),
	} {
		if _, err := ReadArchive(b); err == nil {
			t.Errorf("%s: is taken", name)
		}
	}
}

// TestBombs: what unpacks to more than it may be isn't unpacked, whatever is promised.
func TestBombs(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	if err := w.WriteHeader(&tar.Header{Name: "greet/zeros", Typeflag: tar.TypeReg, Mode: 0o644,
		Size: foreign.MaxTotal + 1}); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if reason, file := reasonOf(second(ReadArchive(b.Bytes()))); reason != "size" || file != "greet/zeros" {
		t.Error(reason, file)
	}
	long := strings.Repeat("a/", portable.MaxPath/2-3)
	var names []in
	for i := range foreign.MaxNames / len(long) {
		names = append(names, in{fmt.Sprintf("%s%06d", long, i), "", 0})
	}
	if reason, file := reasonOf(second(ReadArchive(tarOf(t, names...)))); reason != "files" || file != "the archive" {
		t.Error(reason, file)
	}
	good := tarOf(t, in{"greet/SKILL.md", greet, 0})
	for name, b := range map[string][]byte{
		"behind": append(bytes.Clone(good), 0), "twice": append(bytes.Clone(good), good...), "cut": good[:len(good)-4],
	} {
		if _, err := ReadArchive(b); err == nil {
			t.Errorf("%s: is taken", name)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestFrontMatter: what is malformed is named with line and column.
func TestFrontMatter(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                                        "S:1:1: the first line must be ---",
		"---\nname: a\n":                                          "S:1:1: no second line --- closes it",
		"---\n---\n":                                              "S:2:1: expected fields: name and description",
		"---\n- a\n---\n":                                         "S:2:1: expected fields: name and description",
		"---\nname: a\n---\n":                                     "S:2:1: description is missing",
		"---\ndescription: a\n---\n":                              "S:2:1: name is missing",
		"---\nname: a\nname: b\n---\n":                            `S:3:1: `,
		"---\nname: a\n  x: [\n---\n":                             "S:3:",
		"---\ndescription: d\nname: A\n---":                       `S:3:1: the name "A" must have`,
		"---\ndescription: d\nname: a--b\n---":                    `S:3:1: the name "a--b" must have`,
		"---\nname: 12\ndescription: d\n---":                      "S:2:1: name must be a text, and is of type integer",
		"---\nname: a\ndescription: ' '\n---":                     "S:3:1: description is empty",
		"---\nname: a\ndescription: d\nlicense: [x]\n---":         "S:4:1: license must be a text",
		"---\nname: a\ndescription: d\nmetadata: x\n---":          "S:4:1: metadata must be a mapping",
		"---\nname: a\ndescription: d\nallowed-tools: 3\n---":     "S:4:1: allowed-tools must be a text",
		"---\nname: a\ndescription: d\nallowed-tools: [[x]]\n---": "S:4:17: a tool must be a text",
		"---\nname: a\ndescription: " + strings.Repeat("d",
			1025) + "\n---": "S:3:1: description has more than 1,024 characters",
		"---\nname: a\ndescription: d\ncompatibility: " + strings.Repeat("d",
			501) + "\n---": "S:4:1: compatibility has more than 500 characters",
	} {
		_, err := ParseText("S", []byte(text))
		if f := fault.Of(err); err == nil || len(f.Why) == 0 || !strings.HasPrefix(f.Why[0], want) {
			t.Errorf("%q: %v, want %q", text, f.Why, want)
		}
	}
	for text, want := range map[string]string{
		`"x\u202ey"`:                          "S:3:14: it contains the direction control U+202E",
		`"x\e[8my"`:                           "S:3:14: it contains an escape sequence, U+001B",
		"d\nmetadata: {a: [\"\\U000E0049\"]}": "S:4:16: it contains the tag character U+E0049",
		"d\n\"\\u200b\": x":                   "S:4:1: it contains the invisible character U+200B",
	} {
		_, err := ParseText("S", []byte("---\nname: a\ndescription: "+text+"\n---\n"))
		if f := fault.Of(err); err == nil || len(f.Why) == 0 || f.Why[0] != want {
			t.Errorf("%q: %v, want %q", text, f.Why, want)
		}
	}
	if _, err := ParseText("S", make([]byte, MaxText+1)); err == nil {
		t.Error("a text may be larger than it may be")
	}
}

// TestTouches: what a skill could touch is named.
func TestTouches(t *testing.T) {
	t.Parallel()
	skills, err := ReadDir(shapes)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range skills {
		got := s.Touches()
		var want Touches
		switch s.Name {
		case "full-1":
			want = Touches{Tools: []string{"Bash(git:*)", "Bash(jq:*)", "Read"},
				Scripts: []Script{{"scripts/go.sh", "bash", true}}, Hosts: []string{"full.example"},
				Paths: []string{"/tmp/x"}}
		case "listed":
			want = Touches{Tools: []string{"Read", "Bash(npm run *)"}}
		case "dashes":
			want = Touches{Scripts: []Script{{"tool", "deno", false}}}
		}
		if runtime.GOOS != "windows" && (!slices.Equal(got.Tools, want.Tools) ||
			!slices.Equal(got.Scripts, want.Scripts) || !slices.Equal(got.Hosts, want.Hosts) ||
			!slices.Equal(got.Paths, want.Paths) || len(got.Variables) > 0) {
			t.Errorf("%s: %+v, want %+v", s.Name, got, want)
		}
	}
}
