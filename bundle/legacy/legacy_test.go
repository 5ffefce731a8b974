package legacy

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/admission/admissiontest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/sign"
)

var noon = time.Date(2026, 2, 15, 5, 39, 45, 0, time.UTC)

var alice, eve = keytest.Alice(), keytest.Eve()

const accept = "  \"bundle:**\": {keys: [alice], accept: [v1, v2]}\n  \"tool:**\": {keys: [alice], accept: [v1, v2]}\n" +
	"  \"directive:**\": {keys: [alice], accept: [v1, v2]}\n  \"knowledge:**\": {keys: [alice], accept: [v1, v2]}\n"

func trusting(t testing.TB, names string) *admission.Trust {
	return admissiontest.Trust(t, noon, admissiontest.ByAlice+names)
}

const (
	tool   = "__version__ = \"1.0.0\"\n__tool_type__ = \"python\"\n__executor_id__ = \"rye/core/runtimes/python_script_runtime\"\n__category__ = \"rye/core\"\n__tool_description__ = \"runs\"\n"
	note   = "---\nid: note\ntitle: Note\nversion: 1.0.0\nentry_type: reference\n---\nText.\n"
	deploy = "# Deploy\n\n```xml\n<directive name=\"deploy\" version=\"1.0.0\">\n<metadata><description>Deploys</description><category>rye/core</category><author>a</author></metadata>\n</directive>\n```\n\nDo it.\n"
)

// A world is a directory with a v1 bundle.
type world struct {
	testing.TB
	dir   string
	files map[string]string
}

func newWorld(t testing.TB) *world {
	w := &world{t, t.TempDir(), map[string]string{
		".ai/tools/rye/core/run.py":         signed(t, tool, sign.Hash|sign.V1Tool, alice),
		".ai/knowledge/rye/core/note.md":    signed(t, note, sign.Angle|sign.V1Knowledge, alice),
		".ai/directives/rye/core/deploy.md": signed(t, deploy, sign.Angle|sign.V1Directive, alice),
		".ai/tools/rye/core/_template.py":   "# rye:signed:PLACEHOLDER\n",
		".ai/tools/rye/core/data.txt":       "# rye:signed: is only text here\n",
		".ai/tools/rye/core/asset.yaml":     "# rye:signed: and here\na: b\n",
		"plans/a.json":                      "{}\n",
	}}
	w.make(alice)
	return w
}

func signed(t testing.TB, text string, style sign.Style, k key.Private) string {
	t.Helper()
	b, err := sign.SignV1([]byte(text), style, k, noon)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func (w *world) write(name, text string) {
	w.Helper()
	at := filepath.Join(w.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
		w.Fatal(err)
	}
}

const at = ".ai/bundles/rye-core/manifest.yaml"

// make writes the files and the manifest, as it was done then.
func (w *world) make(k key.Private) {
	w.Helper()
	for name, text := range w.files {
		w.write(name, text)
	}
	w.write(at, signed(w, w.text(), sign.Hash|sign.V1Tool, k))
}

func (w *world) text() string {
	var b strings.Builder
	b.WriteString(
		"bundle:\n  id: rye-core\n  version: 0.1.0\n  entrypoint: ''\n  description: ''\n  created_at: '2026-02-15T05:39:45Z'\n  type: package\nfiles:\n")
	var names []string
	for name := range w.files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		text := w.files[name]
		fmt.Fprintf(&b, "  %s:\n    sha256: %x\n    inline_signed: %v\n", name, sha256.Sum256([]byte(text)),
			strings.Contains(text, " rye:signed:"))
	}
	return b.String()
}

func library() []*ai.Space {
	return []*ai.Space{{Label: "system:rye/std", FS: std.FS(), Builtin: true}}
}

// open is the directory, where no link is followed.
func (w *world) open() fs.FS {
	w.Helper()
	root, err := ai.OpenDir(w.dir, "x", ai.Project)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { root.Close() })
	return root.FS
}

func (w *world) verify(names string) *Report {
	w.Helper()
	r, err := Verify(w.Context(), w.open(), "rye-core", Options{Trust: trusting(w, names), Below: library()})
	if err != nil {
		w.Fatal(err)
	}
	return r
}

func failures(r *Report) (all []string) {
	for _, f := range r.Failures {
		text := f.Error()
		if f.Path != "" {
			text = string(f.Check) + " " + text
		}
		all = append(all, text)
	}
	return all
}

// The bytes of a manifest as they were written then.
func TestVector(t *testing.T) {
	w := newWorld(t)
	got, err := os.ReadFile(filepath.Join(w.dir, filepath.FromSlash(at)))
	if err != nil {
		t.Fatal(err)
	}
	want := goldentest.File(t, filepath.Join("testdata", "manifest.yaml"), got)
	m, err := Parse(want)
	if err != nil {
		t.Fatal(err)
	}
	if m.Name() != "bundle:rye-core@0.1.0" || m.Created != "2026-02-15T05:39:45Z" || m.Type != "package" ||
		len(m.Files) != 7 || !m.Files[0].Signed || m.Files[6].Signed || !IsV1(want) {
		t.Errorf("%+v", m)
	}
}

func TestVerify(t *testing.T) {
	w := newWorld(t)
	r := w.verify(accept)
	if !r.OK() || len(r.Good) != 7 || r.Read == 0 || len(r.Vouched) != 3 {
		t.Fatalf("%v, %+v", failures(r), r)
	}
	for _, v := range r.Vouched {
		if v.Format != sign.V1 || !v.Listed || len(v.Signers) != 1 {
			t.Errorf("%+v", v)
		}
	}
	for name, text := range w.files {
		if !r.Listed(cas.Sum([]byte(text))) {
			t.Errorf("%s is not listed", name)
		}
	}
	if r.Listed(cas.Sum([]byte("another"))) {
		t.Error("what is no file of it is listed")
	}
}

func TestVerifyRefuses(t *testing.T) {
	const run = ".ai/tools/rye/core/run.py"
	for name, c := range map[string]struct {
		names  string
		change func(*world)
		want   []string
		good   int
	}{
		"no v1": {"", func(*world) {}, []string{
			`signatures: "bundle:rye-core@0.1.0" `, `item ".ai/directives/rye/core/deploy.md": `,
			`item ".ai/knowledge/rye/core/note.md": `, `item ".ai/tools/rye/core/run.py": `}, 7},
		"v1 for items only": {"  \"tool:**\": {keys: [alice], accept: [v1, v2]}\n", func(*world) {}, []string{
			`signatures: "bundle:rye-core@0.1.0" `, `item ".ai/directives/rye/core/deploy.md": `,
			`item ".ai/knowledge/rye/core/note.md": `, `item ".ai/tools/rye/core/run.py": `}, 7},
		"v1 for the bundle only": {"  \"bundle:**\": {keys: [alice], accept: [v1, v2]}\n", func(*world) {}, []string{
			`item ".ai/directives/rye/core/deploy.md": `, `item ".ai/knowledge/rye/core/note.md": `,
			`item ".ai/tools/rye/core/run.py": `}, 7},
		"a stranger's": {accept, func(w *world) { w.make(eve) }, []string{
			`signatures: "bundle:rye-core@0.1.0" `, `item ".ai/directives/rye/core/deploy.md": `,
			`item ".ai/knowledge/rye/core/note.md": `, `item ".ai/tools/rye/core/run.py": `}, 7},
		"unsigned": {accept, func(w *world) { w.write(at, w.text()) }, []string{
			`signatures: "bundle:rye-core@0.1.0" `, `item ".ai/directives/rye/core/deploy.md": `,
			`item ".ai/knowledge/rye/core/note.md": `, `item ".ai/tools/rye/core/run.py": `}, 7},
		"a changed manifest": {accept, func(w *world) {
			b, _ := os.ReadFile(filepath.Join(w.dir, at))
			w.write(at, strings.Replace(string(b), "entrypoint: ''", "entrypoint: 'x'", 1))
		}, []string{`signatures: `, `item ".ai/directives/rye/core/deploy.md": `,
			`item ".ai/knowledge/rye/core/note.md": `, `item ".ai/tools/rye/core/run.py": `}, 7},
		"a changed file": {accept, func(w *world) {
			w.write("plans/a.json", "[]\n")
		}, []string{`digest "plans/a.json": `}, 6},
		"a changed item": {accept, func(w *world) {
			w.write(run, w.files[run]+"import os\n")
		}, []string{`digest ".ai/tools/rye/core/run.py": `}, 6},
		"a missing file": {accept, func(w *world) {
			os.Remove(filepath.Join(w.dir, "plans/a.json"))
		}, []string{`missing "plans/a.json": `}, 6},
		"a directory": {accept, func(w *world) {
			os.Remove(filepath.Join(w.dir, "plans/a.json"))
			w.write("plans/a.json/x", "")
		}, []string{`type "plans/a.json": `}, 6},
		"an item of a stranger": {accept, func(w *world) {
			w.files[run] = signed(w, tool, sign.Hash|sign.V1Tool, eve)
			w.make(alice)
		}, []string{`item ".ai/tools/rye/core/run.py": `}, 7},
		"an item with a bad signature": {accept, func(w *world) {
			w.files[run] = strings.Replace(w.files[run], "runs", "ruins", 1)
			w.make(alice)
		}, []string{`item ".ai/tools/rye/core/run.py": `}, 7},
		"not YAML": {accept, func(w *world) { w.write(at, "bundle: [\n") }, []string{"manifest: "}, 0},
		"another bundle": {accept, func(w *world) {
			w.write(at, signed(w, strings.Replace(w.text(), "rye-core", "rye-more", 1), sign.Hash|sign.V1Tool, alice))
		}, []string{"manifest: "}, 0},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			w := newWorld(t)
			c.change(w)
			r := w.verify(c.names)
			got := failures(r)
			ok := len(got) == len(c.want)
			for i := range min(len(got), len(c.want)) {
				ok = ok && strings.HasPrefix(got[i], c.want[i])
			}
			if !ok || r.OK() || len(r.Good) != c.good {
				t.Errorf("%d good and\n%s\nwant %d and\n%s", len(r.Good), strings.Join(got, "\n"), c.good,
					strings.Join(c.want, "\n"))
			}
			if strings.HasPrefix(c.want[0], "signatures") || strings.HasPrefix(c.want[0], "manifest") {
				for _, text := range w.files {
					if r.Listed(cas.Sum([]byte(text))) {
						t.Error("a manifest that isn't admitted lists something")
					}
				}
			}
		})
	}
}

// A tool of several files: what its signature leaves open, the manifest lists.
func TestVerifyTree(t *testing.T) {
	w := newWorld(t)
	w.files[".ai/tools/rye/many/many.py"] = signed(t, strings.ReplaceAll(tool, "rye/core\"", "rye/many\""), sign.Hash|
		sign.V1Tool, alice)
	w.files[".ai/tools/rye/many/__init__.py"] = "\n"
	w.files[".ai/tools/rye/many/lib.py"] = "x = 1\n"
	w.make(alice)
	r := w.verify(accept)
	if !r.OK() || len(r.Vouched) != 4 || r.Vouched[3].Ref != "tool:rye/many/many" || r.Vouched[3].Files != 2 ||
		!r.Vouched[3].Listed {
		t.Errorf("%v, %+v", failures(r), r.Vouched)
	}
}

func TestVerifyErrors(t *testing.T) {
	w := newWorld(t)
	o := Options{Trust: trusting(t, accept)}
	if _, err := Verify(t.Context(), w.open(), "rye-core", Options{}); err != bundle.ErrNoTrust {
		t.Error(err)
	}
	if _, err := Verify(t.Context(), w.open(), "../x", o); err == nil {
		t.Error("an id that leads out")
	}
	if _, err := Verify(t.Context(), w.open(), "acme/none", o); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := Verify(t.Context(), os.DirFS(filepath.Join(w.dir, "none")), "rye-core", o); !errors.Is(err,
		fs.ErrNotExist) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Verify(ctx, w.open(), "rye-core", o); err != context.Canceled {
		t.Error(err)
	}
	twice := &ai.Space{Label: "x", FS: std.FS()}
	if _, err := Verify(t.Context(), w.open(), "rye-core",
		Options{Trust: o.Trust, Below: []*ai.Space{twice, twice}}); err == nil {
		t.Error("two spaces of one name")
	}
}

// A v1 bundle is shown and compared as a v2 bundle.
func TestBundle(t *testing.T) {
	w := newWorld(t)
	w.write("plans/a.json", "[]\n")
	c, err := Read(t.Context(), w.open(), "rye-core")
	if err != nil || len(c.Good) != 6 || len(c.Failures) != 1 || c.Document.IsZero() {
		t.Fatalf("%+v, %v", c, err)
	}
	if sum := cas.Sum([]byte(w.text())); c.Document != sum {
		t.Errorf("the document is %s, want that of the text without its signature, %s", c.Document, sum)
	}
	b, err := c.Bundle(t.Context(), library())
	if err != nil {
		t.Fatal(err)
	}
	var refs []string
	for _, f := range b.Files {
		if f.Ref != "" {
			refs = append(refs, f.Ref+" "+f.Version)
		}
	}
	if want := []string{"directive:rye/core/deploy 1.0.0", "knowledge:rye/core/note 1.0.0",
		"tool:rye/core/run 1.0.0"}; !slices.Equal(refs, want) {
		t.Errorf("items are %q, want %q", refs, want)
	}
	if b.ID != c.Document || b.BundleID != "rye-core" || b.Name != "bundle:rye-core@0.1.0" || b.FileList.Files != 6 ||
		b.Bytes != c.Read {
		t.Errorf("%+v", b.FileList)
	}
	n, err := bundle.Inspect(t.Context(), bundle.Given(b, c), library(), "")
	if err != nil || len(n.Items) != 3 || len(n.Failures) != 0 {
		t.Errorf("%+v, %v", n, err)
	}
	twice := library()[0]
	if _, err := c.Bundle(t.Context(), []*ai.Space{twice, twice}); err == nil {
		t.Error("two spaces of one name")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Bundle(ctx, library()); err != context.Canceled {
		t.Error(err)
	}
}

// A list without items is asked what it lists, and hears of every file.
func TestList(t *testing.T) {
	w := newWorld(t)
	var files, size int64
	o := Options{Trust: trusting(t, accept), Progress: func(n, bytes int64) { files, size = n, bytes }}
	r, err := List(t.Context(), w.open(), "rye-core", o)
	if err != nil || !r.OK() || len(r.Vouched) != 0 || files != 7 || size != r.Read {
		t.Errorf("%d files, %d bytes, %+v, %v", files, size, r, err)
	}
	if !r.Listed(cas.Sum([]byte("{}\n"))) {
		t.Error("a file of it isn't listed")
	}
}

// A getter that hands out files hashes them again.
func TestGet(t *testing.T) {
	w := newWorld(t)
	v := &Content{fs: w.open(), at: map[cas.Digest]string{cas.Sum([]byte("{}\n")): "plans/a.json",
		cas.Sum(nil): "plans/none"}}
	for _, c := range []struct {
		id  cas.ID
		bad bool
	}{{cas.ID{Kind: cas.Blob, Digest: cas.Sum([]byte("{}\n"))}, false},
		{cas.ID{Kind: cas.Document, Digest: cas.Sum([]byte("{}\n"))}, true},
		{cas.ID{Kind: cas.Blob, Digest: cas.Sum(nil)}, true},
		{cas.ID{Kind: cas.Blob, Digest: cas.Sum([]byte("x"))}, true}} {
		o, err := v.Get(t.Context(), c.id)
		if (err != nil) != c.bad {
			t.Errorf("%s: %v", c.id, err)
		}
		if err == nil {
			o.Close()
		}
	}
}

func TestParse(t *testing.T) {
	const good = "bundle: {id: a, version: 1.0.0}\nfiles:\n  b: {sha256: " + zeros +
		", inline_signed: false, item_type: tool}\n  a: {sha256: " + zeros + ", inline_signed: true}\n"
	m, err := Parse([]byte(good))
	if err != nil || m.Files[0].Path != "a" || !m.Files[0].Signed || m.Files[1].Signed {
		t.Fatalf("%+v, %v", m, err)
	}
	for text, want := range map[string]string{
		"":                             `"the manifest" must be a mapping`,
		"bundle: {}\n":                 `id: `,
		"[]\n":                         `"the manifest" must be a mapping`,
		"a: b\n":                       `"the manifest": unknown key "a"`,
		"bundle: {id: a}\nfiles: {}\n": `version: `,
		"bundle: {id: ../a, version: 1.0.0}\nfiles: {}\n":      `id: `,
		"bundle: {id: [a], version: 1.0.0}\n":                  `id must be text`,
		"bundle: {id: a, version: 1.0.0, x: y}\n":              `"bundle": unknown key "x"`,
		"bundle: {id: a, version: 1.0.0}\n":                    `"files" must be a mapping`,
		"bundle: {id: a, version: 1.0.0}\nfiles: {}\n":         `files: empty`,
		"bundle: {id: a, version: 1.0.0}\nfiles: {a: b}\n":     `"a" must be a mapping`,
		"bundle: {id: a, version: 1.0.0}\nfiles: {a: {}}\n":    `"a": sha256 is not 64 hexadecimal digits`,
		strings.Replace(good, zeros, zeros[:63], 1):            `"b": sha256 is not 64 hexadecimal digits`,
		strings.Replace(good, zeros, zeros[:63]+"F", 1):        `"b": sha256 is not 64 hexadecimal digits`,
		strings.Replace(good, zeros, zeros+"00", 1):            `"b": sha256 is not 64 hexadecimal digits`,
		strings.Replace(good, "false", "no way", 1):            `"b": inline_signed must be true or false`,
		strings.Replace(good, ", inline_signed: false", "", 1): `"b": inline_signed must be true or false`,
		strings.Replace(good, "item_type", "mode", 1):          `"b": unknown key "mode"`,
		strings.Replace(good, "  b:", "  ../b:", 1):            `files: `,
		strings.Replace(good, "  b:", "  A:", 1):               `files: `,
		strings.Replace(good, "  b:", "  a:", 1):               ``,
		good + "# rye:signed:x\n":                              `signature line after line 1`,
		good + "x: &a\n":                                       ``,
		"# \xff\n" + good:                                      ``,
		"#" + strings.Repeat("x", MaxBytes) + "\n" + good:      `larger than 1048576 bytes`,
	} {
		_, err := Parse([]byte(text))
		if err == nil || fault.CodeOf(err) != fault.Parsing || !strings.HasPrefix(errors.Unwrap(err).Error(), want) ||
			!strings.HasPrefix(err.Error(), "v1 manifest: ") {
			t.Errorf("%.80q: %v, want %s", text, err, want)
		}
	}
	if _, err := Parse([]byte(strings.Replace(good, "  b:", "  ../b:", 1))); !isPortable(err) {
		t.Errorf("%v says nothing of the path", err)
	}
	if err := invalid(3, 4, errors.New("x")).Error(); err != "v1 manifest: line 3, column 4: x" {
		t.Error(err)
	}
	if err := invalid(3, 0, errors.New("x")).Error(); err != "v1 manifest: line 3: x" {
		t.Error(err)
	}
}

const zeros = "000000000000000000000000000000000000000000000000000000000000000a"

func isPortable(err error) bool {
	_, ok := errors.AsType[*portable.Error](err)
	return ok
}

func TestIsV1(t *testing.T) {
	for text, want := range map[string]bool{
		"bundle:\n  id: a\n":                       true,
		"# rye:signed:x\n---\n\nbundle: \n":        true,
		"files: {}\nbundle: {}\n":                  true,
		"rye: \"manifest/2\"\nid: \"a\"\n":         false,
		"# rye:signed:v2:…\nrye: \"manifest/2\"\n": false,
		"":           false,
		"bundles:\n": false,
	} {
		if IsV1([]byte(text)) != want {
			t.Errorf("%q: not %v", text, want)
		}
	}
}

func TestIdentify(t *testing.T) {
	w := newWorld(t)
	if i, err := Identify(strings.NewReader(w.text())); err != nil || i.Name != "bundle:rye-core@0.1.0" {
		t.Errorf("%+v, %v", i, err)
	}
	if _, err := Identify(strings.NewReader("x")); err == nil {
		t.Error("no manifest is one")
	}
	if _, err := Identify(failing{}); err != errDisk {
		t.Error(err)
	}
}

var errDisk = errors.New("disk")

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errDisk }

// What is read has one order, portable paths and no surprises.
func FuzzParse(f *testing.F) {
	f.Add([]byte("bundle: {id: a, version: 1.0.0}\nfiles:\n  a: {sha256: " + zeros + ", inline_signed: true}\n"))
	f.Add([]byte("# rye:signed:x\nbundle:\n  id: a/b\n  version: '1.0.0'\nfiles:\n  .ai/tools/x.py:\n    sha256: " +
		zeros + "\n    inline_signed: false\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Parse(b)
		if err != nil {
			return
		}
		if portable.CheckID(m.ID) != nil || len(m.Files) == 0 || portable.CheckSet(m.paths()) != nil ||
			!slices.IsSortedFunc(m.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) }) {
			t.Fatalf("%q is read as %+v", b, m)
		}
		var text strings.Builder
		fmt.Fprintf(&text, "bundle: {id: %q, version: %q}\nfiles:\n", m.ID, m.Version)
		for _, x := range m.Files {
			fmt.Fprintf(&text, "  %q: {sha256: \"%x\", inline_signed: %v}\n", x.Path, x.SHA256, x.Signed)
		}
		again, err := Parse([]byte(text.String()))
		if err != nil || again.Name() != m.Name() || !slices.Equal(again.Files, m.Files) {
			t.Fatalf("%q is read as %+v and then %+v, %v", b, m, again, err)
		}
	})
}
