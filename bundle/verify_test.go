package bundle_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/sign"
)

func TestVerify(t *testing.T) {
	p := newPack(t)
	p.signItems(alice)
	p.prove("sbom.cdx.json", bundle.TypeCycloneDX,
		partsOf(p.make(manifest.FileList{Entrypoint: "tool:acme/hello"}).list.Subject))
	p.make(manifest.FileList{Entrypoint: "tool:acme/hello"}, alice, eve)
	for name, src := range p.sources() {
		o := p.options()
		o.Require = []string{bundle.SBOM}
		r := verify(t, src, o)
		failures(t, name, r)
		if r.Name != "bundle:acme/demo@1.0.0" || r.Good != 9 || r.Read != r.Bytes || len(r.Evidence) != 1 ||
			r.Manifest.Decision.Reason() == "" {
			t.Errorf("%s: %+v", name, r)
		}
		if len(r.Vouched) != 3 || r.Vouched[0].Ref != "knowledge:acme/note" ||
			r.Vouched[2].Ref != "tool:acme/multi/multi" ||
			r.Vouched[2].Files != 2 || r.Vouched[2].Tree.IsZero() ||
			r.Vouched[1].Signers[0].Key.Fingerprint() != alice.Public().Fingerprint() {
			t.Errorf("%s: %+v", name, r.Vouched)
		}
	}
}

// TestVerifyManifest is about who vouches for all of it.
func TestVerifyManifest(t *testing.T) {
	sound := func(l manifest.FileList, keys ...key.Private) *pack {
		p := newPack(t)
		p.signItems(alice)
		return p.make(l, keys...)
	}
	named := func(l manifest.FileList) manifest.FileList {
		l.BundleID, l.Version = "acme/demo", "1.0.0"
		return l
	}
	two := "  \"bundle:acme/*\": {keys: [alice, bob], threshold: 2}\n"
	for name, c := range map[string]struct {
		p    *pack
		more string
		want []string
	}{
		"stranger":        {sound(manifest.FileList{}, eve), "", []string{`signatures: "bundle:acme/demo@1.0.0" `}},
		"below threshold": {sound(manifest.FileList{}, alice), two, []string{`signatures: "bundle:acme/demo@1.0.0" `}},
		"threshold":       {sound(manifest.FileList{}, alice, bob), two, nil},
		"expired": {sound(named(manifest.FileList{Expires: noon}), alice), "",
			[]string{
				`expired: "bundle:acme/demo@1.0.0" expired at 2026-11-20T12:00:00Z; the clock says 2026-11-20T12:00:00Z`}},
		"entrypoint": {sound(named(manifest.FileList{Entrypoint: "tool:acme/gone"}), alice), "",
			[]string{"manifest: expected tool:acme/gone, found none: the entrypoint is not an item of the bundle"}},
	} {
		for where, src := range c.p.sources() {
			o := c.p.options()
			o.Trust = trusting(t, c.more)
			failures(t, name+" in "+where, verify(t, src, o), c.want...)
		}
	}
	unsigned := sound(manifest.FileList{})
	failures(t, "unsigned", verify(t, bundle.InStore(&unsigned.store, unsigned, unsigned.list.ID), unsigned.options()),
		`signatures: "bundle:acme/demo@1.0.0" `)
	failures(t, "unsigned", verify(t, bundle.InDir(unsigned.dir(), "acme/demo"), unsigned.options()),
		`signatures: "bundle:acme/demo@1.0.0" `)

	// A signature that was made for another document.
	forged := sound(manifest.FileList{}, alice)
	forged.list.Signatures[0].Sig[5] ^= 1
	failures(t, "forged", verify(t, bundle.InArchive(bytes.NewReader(forged.archive())), forged.options()),
		"signatures: ")
}

func TestVerifySigners(t *testing.T) {
	p := newPack(t)
	p.signItems(alice)
	p.make(manifest.FileList{}, alice, bob)
	src := bundle.InStore(&p.store, p, p.list.ID)
	o := bundle.VerifyOptions{Signers: []key.Public{alice.Public(), bob.Public()}, Threshold: 2, Now: noon,
		Below: []*ai.Space{library()}}
	failures(t, "two", verify(t, src, o))
	o.Signers = []key.Public{alice.Public(), eve.Public()}
	failures(t, "one of two", verify(t, src, o), "signatures: ")
	o.Threshold = 0
	failures(t, "one", verify(t, src, o))
	o.Signers = []key.Public{bob.Public()}
	if r := verify(t, src, o); len(r.Failures) != 3 || r.Failures[0].Check != bundle.CheckItem {
		t.Errorf("items that another one signed: %q", lines(r.Failures))
	}
	o.Threshold = 2
	if _, err := bundle.Verify(t.Context(), src, o); err == nil {
		t.Error("a threshold that can't be reached was taken")
	}
	if _, err := bundle.Verify(t.Context(), src, bundle.VerifyOptions{}); err != bundle.ErrNoTrust {
		t.Errorf("without trust: %v", err)
	}
	b, err := bundle.ReadStored(t.Context(), &p.store, p, p.list.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (&bundle.VerifyOptions{}).Admit(b); err != bundle.ErrNoTrust {
		t.Errorf("admitted: %v", err)
	}
	if e, err := (&bundle.VerifyOptions{Signers: []key.Public{bob.Public()}, Now: noon}).Admit(b); err != nil ||
		!e.Decision.Allowed {
		t.Errorf("not admitted: %v", err)
	}
}

// TestVerifyDirectory changes what stands in a directory.
func TestVerifyDirectory(t *testing.T) {
	p := newPack(t)
	p.signItems(alice)
	p.make(manifest.FileList{}, alice)
	const (
		helloAt = ".ai/tools/acme/hello.sh"
		multiAt = ".ai/tools/acme/multi/multi.py"
	)
	broken := fmt.Sprintf("%q: item: ", multiAt)
	for name, c := range map[string]struct {
		change func(dir string) error
		want   []string
	}{
		"nothing": {func(string) error { return nil }, nil},
		"missing": {func(d string) error {
			return os.Remove(d + "/README.md")
		}, []string{`"README.md": missing: expected blake3:`}},
		"changed": {func(d string) error {
			return os.WriteFile(d+"/README.md", []byte("# demo!\n"), 0o644)
		}, []string{`"README.md": digest: expected blake3:`}},
		"longer": {func(d string) error {
			return os.WriteFile(d+"/README.md", []byte("# demo and more\n"), 0o644)
		}, []string{`"README.md": size: expected 8, found 16`}},
		"LF": {func(d string) error {
			return os.WriteFile(d+"/README.md", []byte("# demo\n"), 0o644)
		}, []string{`"README.md": size: expected 8, found 7 (only line endings differ)`}},
		"CR LF": {func(d string) error {
			return os.WriteFile(d+"/docs/guide.txt", []byte("guide\r\nof lines\r\n"), 0o644)
		},
			[]string{`"docs/guide.txt": size: expected 15, found 17 (only line endings differ)`}},
		"CR": {func(d string) error {
			return os.WriteFile(d+"/docs/guide.txt", []byte("guide\rof lines\r"), 0o644)
		}, []string{`"docs/guide.txt": digest: expected blake3:`}},
		"mode": {func(d string) error {
			return os.Chmod(d+"/README.md", 0o755)
		}, []string{`"README.md": mode: expected file, found exec`}},
		"item's mode": {func(d string) error { return os.Chmod(filepath.Join(d, helloAt), 0o644) },
			[]string{`".ai/tools/acme/hello.sh": mode: expected exec, found file`}},
		"item": {func(d string) error {
			return os.WriteFile(filepath.Join(d, helloAt), []byte(hello), 0o755)
		}, []string{`".ai/tools/acme/hello.sh": size: expected `}},
		"helper": {func(d string) error {
			return os.WriteFile(d+"/.ai/tools/acme/multi/helper.py", []byte("x = 2\n"), 0o644)
		},
			[]string{`".ai/tools/acme/multi/helper.py": digest: expected blake3:`, broken}},
		"link": {func(d string) error {
			return errors.Join(os.Rename(d+"/README.md", d+"/away"), os.Symlink("away", d+"/README.md"))
		}, []string{`"README.md": type: expected a file, found a symbolic link`}},
		"directory": {func(d string) error {
			return errors.Join(os.Remove(d+"/README.md"), os.Mkdir(d+"/README.md", 0o755))
		},
			[]string{`"README.md": type: expected a file, found a directory`}},
		"linked directory": {func(d string) error {
			return errors.Join(os.Rename(d+"/docs", d+"/away"), os.Symlink("away", d+"/docs"))
		}, []string{`"docs": read: `, `"docs/guide.txt": read: `, `"docs/run.sh": read: `}},
		"extra asset": {func(d string) error {
			return os.WriteFile(d+"/docs/more", nil, 0o644)
		}, []string{`"docs/more": extra: expected none, found a file`}},
		"extra elsewhere": {func(d string) error { return os.WriteFile(d+"/more", nil, 0o644) }, nil},
		"extra item": {func(d string) error {
			return errors.Join(os.MkdirAll(d+"/.ai/config/deep", 0o755),
				os.WriteFile(d+"/.ai/config/deep/x.yaml", nil, 0o644))
		}, []string{`".ai/config/deep/x.yaml": extra: expected none, found a file`}},
		"extra link": {func(d string) error {
			return os.Symlink("nowhere", d+"/.ai/tools/x.py")
		}, []string{`".ai/tools/x.py": extra: expected none, found a symbolic link`}},
		"droppings": {func(d string) error {
			return errors.Join(os.WriteFile(d+"/docs/.DS_Store", nil, 0o644),
				os.MkdirAll(d+"/.ai/tools/__pycache__/__pycache__", 0o755))
		}, nil},
		"empty manifest": {func(d string) error {
			return os.WriteFile(d+"/.ai/bundles/acme/demo/manifest.yaml", nil, 0o644)
		}, []string{`".ai/bundles/acme/demo/manifest.yaml": manifest: `}},
	} {
		dir := p.dir()
		if err := c.change(dir); err != nil {
			t.Fatal(err)
		}
		r := verify(t, bundle.InDir(dir, "acme/demo"), p.options())
		failures(t, name, r, c.want...)
		if want := map[string][]string{"droppings": {".ai/tools/__pycache__",
			"docs/.DS_Store"}}[name]; !slices.Equal(r.Never, want) {
			t.Errorf("%s: of no bundle %q, want %q", name, r.Never, want)
		}
		o := p.options()
		o.AllowExtra = true
		if r := verify(t, bundle.InDir(dir, "acme/demo"), o); strings.HasPrefix(name, "extra") && !r.OK() {
			t.Errorf("%s, allowed: %q", name, lines(r.Failures))
		}
	}
	if _, err := bundle.Verify(t.Context(), bundle.InDir(p.dir(), "acme/other"), p.options()); !errors.Is(err,
		fs.ErrNotExist) {
		t.Errorf("a bundle that isn't there: %v", err)
	}
	if _, err := bundle.Verify(t.Context(), bundle.InDir(p.dir()+"x", "acme/demo"), p.options()); !errors.Is(err,
		fs.ErrNotExist) {
		t.Errorf("a directory that isn't there: %v", err)
	}
	if _, err := bundle.Verify(t.Context(), bundle.InDir(p.dir(), "../x"), p.options()); err == nil {
		t.Error("an id that is none was taken")
	}
	dir := p.dir()
	if err := os.Rename(dir+"/.ai/bundles/acme/demo", dir+"/.ai/bundles/acme/fake"); err != nil {
		t.Fatal(err)
	}
	failures(t, "another id", verify(t, bundle.InDir(dir, "acme/fake"), p.options()),
		`".ai/bundles/acme/fake/manifest.yaml": manifest: expected acme/fake, found acme/demo`)
}

// TestVerifyItems is about what a manifest says of items, in a bundle whose bytes are all right.
// TestVerifyCopies: of several files with one content only the damaged one is refused, whichever is read for an item.
func TestVerifyCopies(t *testing.T) {
	const item = ".ai/knowledge/acme/note.md"
	copies := []string{"a/note.md", item, "docs/note.md"}
	p := newPack(t)
	p.signItems(alice)
	for _, name := range copies {
		p.files[name] = &fstest.MapFile{Data: p.files[item].Data, Mode: 0o644}
	}
	p.make(manifest.FileList{}, alice)
	for _, name := range copies {
		for what, damage := range map[string]func(file string) error{
			"changed": func(file string) error { return os.WriteFile(file, []byte("x"), 0o644) },
			"removed": os.Remove,
		} {
			dir := p.dir()
			if err := damage(filepath.Join(dir, filepath.FromSlash(name))); err != nil {
				t.Fatal(err)
			}
			r := verify(t, bundle.InDir(dir, "acme/demo"), p.options())
			if len(r.Failures) != 1 || r.Failures[0].Path != name || r.Failures[0].Check == bundle.CheckItem {
				t.Errorf("%s: %s: %v", name, what, r.Failures)
			}
		}
	}
}

func TestVerifyItems(t *testing.T) {
	const helloAt, noteAt = ".ai/tools/acme/hello.sh", ".ai/knowledge/acme/note.md"
	for name, c := range map[string]struct {
		change func(p *pack)
		more   string
		want   []string
	}{
		"unsigned": {func(p *pack) {
			p.files[helloAt].Data = []byte(hello)
		}, "", []string{`".ai/tools/acme/hello.sh": item: "tool:acme/hello" `}},
		"changed": {func(p *pack) {
			p.files[helloAt].Data = append(p.files[helloAt].Data, '#')
		}, "", []string{`".ai/tools/acme/hello.sh": item: `}},
		"tree": {func(p *pack) {
			p.files[".ai/tools/acme/multi/helper.py"].Data = []byte("x = 3\n")
		}, "", []string{`".ai/tools/acme/multi/multi.py": item: `}},
		"tree's mode": {func(p *pack) {
			p.files[".ai/tools/acme/multi/helper.py"].Mode = 0o755
		}, "", []string{`".ai/tools/acme/multi/multi.py": item: `}},
		"grown tree": {func(p *pack) {
			p.files[".ai/tools/acme/multi/more.json"] = &fstest.MapFile{Data: []byte("{}"), Mode: 0o644}
		}, "", []string{`".ai/tools/acme/multi/multi.py": item: `}},
		"no ref": {func(p *pack) {
			delete(p.refs, noteAt)
		}, "", []string{`".ai/knowledge/acme/note.md": ref: expected knowledge:acme/note, found none`}},
		"other ref": {func(p *pack) {
			p.refs[noteAt] = "knowledge:acme/other 2.0.0"
		}, "", []string{
			`".ai/knowledge/acme/note.md": ref: expected knowledge:acme/note, found knowledge:acme/other`}},
		"asset's ref": {func(p *pack) {
			p.refs["docs/guide.txt"] = "knowledge:acme/guide"
		}, "", []string{`"docs/guide.txt": ref: expected an asset, found knowledge:acme/guide`}},
		"no version": {func(p *pack) {
			p.refs[noteAt] = "knowledge:acme/note"
		}, "", []string{`".ai/knowledge/acme/note.md": version: expected 2.0.0, found none`}},
		"odd version": {func(p *pack) {
			b, err := sign.Sign([]byte(strings.Replace(note, "2.0.0", "'2'", 1)), sign.Angle,
				sign.Claim{Domain: sign.Item, Name: "knowledge:acme/note"}, alice, noon, nil)
			if err != nil {
				t.Fatal(err)
			}
			p.files[noteAt].Data, p.refs[noteAt] = b, "knowledge:acme/note"
		}, "", nil},
		"version": {func(p *pack) {
			p.refs[noteAt] = "knowledge:acme/note 2.0.1"
		}, "", []string{`".ai/knowledge/acme/note.md": version: expected 2.0.0, found 2.0.1`}},
		"revoked": {func(p *pack) {}, "\nrevoked:\n  \"DIGEST\": {reason: bad}\n",
			[]string{`".ai/tools/acme/multi/helper.py": revoked: `,
				`".ai/tools/acme/multi/multi.py": item: "tool:acme/multi/multi" `}},
		"not for bundle": {func(p *pack) {}, "  \"tool:acme/hello\": {keys: [bob]}\n",
			[]string{`".ai/tools/acme/hello.sh": item: "tool:acme/hello" `}},
	} {
		p := newPack(t)
		p.signItems(alice)
		c.change(p)
		p.make(manifest.FileList{}, alice)
		for where, src := range p.sources() {
			o := p.options()
			o.Trust = trusting(t, strings.ReplaceAll(c.more, "DIGEST", cas.Sum([]byte("x = 1\n")).String()))
			failures(t, name+" in "+where, verify(t, src, o), c.want...)
		}
	}
}

// TestVerifyV1: a v1 signature is enough beside a manifest that is admitted, and only there.
func TestVerifyV1(t *testing.T) {
	const noteAt = ".ai/knowledge/acme/note.md"
	p := newPack(t)
	p.signItems(alice)
	b, err := sign.SignV1([]byte(note), sign.Angle|sign.V1Knowledge, alice, noon)
	if err != nil {
		t.Fatal(err)
	}
	p.files[noteAt].Data = b
	p.make(manifest.FileList{}, alice)
	o := p.options()
	accept := "  \"knowledge:**\": {keys: [alice], accept: [v1, v2]}\n"
	for where, src := range p.sources() {
		failures(t, "not accepted in "+where, verify(t, src, o),
			`".ai/knowledge/acme/note.md": item: "knowledge:acme/note" `)
	}
	o.Trust = trusting(t, accept)
	for where, src := range p.sources() {
		r := verify(t, src, o)
		failures(t, "accepted in "+where, r)
		if len(r.Vouched) == 0 || r.Vouched[0].Format != sign.V1 || !r.Vouched[0].Listed {
			t.Errorf("%+v", r.Vouched)
		}
	}
	p.make(manifest.FileList{}, eve)
	for where, src := range p.sources() {
		failures(t, "a stranger's list in "+where, verify(t, src, o), "signatures: ",
			`".ai/knowledge/acme/note.md": item: "knowledge:acme/note" `)
	}
}

func TestVerifyStore(t *testing.T) {
	p := newPack(t)
	p.signItems(alice)
	p.prove("sbom.cdx.json", bundle.TypeCycloneDX, []byte("{}"))
	p.make(manifest.FileList{}, alice)
	readme, sbom := cas.Sum(p.files["README.md"].Data), cas.Sum([]byte("{}"))
	if err := p.store.Delete(t.Context(), cas.ID{Kind: cas.Blob, Digest: readme},
		cas.ID{Kind: cas.Blob, Digest: sbom}); err != nil {
		t.Fatal(err)
	}
	src := bundle.InStore(&p.store, p, p.list.ID)
	failures(t, "missing", verify(t, src, p.options()), `"README.md": missing: expected `+readme.String(),
		`"sbom.cdx.json": missing: expected `+sbom.String())

	if _, err := bundle.Verify(t.Context(), bundle.InStore(&p.store, p, readme), p.options()); !errors.Is(err,
		fs.ErrNotExist) {
		t.Errorf("a document that isn't there: %v", err)
	}
	p.names[bundle.SignaturesRef(p.list.ID)] = cas.ID{Kind: cas.Blob, Digest: p.put([]byte("no signatures"))}
	failures(t, "signatures", verify(t, src, p.options()), "manifest: ")
	joined, err := p.store.Put(t.Context(), cas.Document,
		bytes.NewReader(manifest.Join(nil, p.body, p.list.Signatures)))
	if err != nil {
		t.Fatal(err)
	}
	failures(t, "joined", verify(t, bundle.InStore(&p.store, p, joined.Digest), p.options()), "manifest: ")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, src := range newPack(t).make(manifest.FileList{}, alice).sources() {
		if _, err := bundle.Verify(ctx, src, p.options()); err != context.Canceled {
			t.Errorf("%s, cancelled: %v", name, err)
		}
		if _, err := bundle.Inspect(ctx, src, nil, ""); err != context.Canceled {
			t.Errorf("%s, inspecting, cancelled: %v", name, err)
		}
	}
}

// An ordered store shows many objects in its own order, up to the first that it lacks, and counts the others that it
// is asked for.
type ordered struct {
	cas.Getter
	got atomic.Int64
}

func (o *ordered) Get(ctx context.Context, id cas.ID) (cas.Object, error) {
	o.got.Add(1)
	return o.Getter.Get(ctx, id)
}

func (o *ordered) Visit(ctx context.Context, ids []cas.ID, visit func(i int, o cas.Object) error) error {
	for i, id := range slices.Backward(ids) {
		found, err := o.Getter.Get(ctx, id)
		if err == nil {
			err = visit(i, found)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// TestVerifyOrder: files are read in the order of the store, and not at all if they have just been put; items are read
// all the same.
func TestVerifyOrder(t *testing.T) {
	p := newPack(t)
	clear(p.files)
	clear(p.refs)
	fresh := map[cas.Digest]bool{}
	for i := range 20 {
		text := fmt.Sprintf("text %d", i)
		p.files[fmt.Sprintf("%02d.txt", i)] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
		fresh[cas.Sum([]byte(text))] = i != 3
	}
	p.make(manifest.FileList{}, alice)
	store := &ordered{Getter: &p.store}
	list, err := bundle.ReadStored(t.Context(), &p.store, p, p.list.ID)
	if err != nil {
		t.Fatal(err)
	}
	report := verify(t, bundle.Given(list, store), p.options())
	failures(t, "as it is", report)
	if store.got.Load() != 0 || report.Good != 20 {
		t.Errorf("%d of %d files are asked for one by one", store.got.Load(), report.Good)
	}
	lost := cas.ID{Kind: cas.Blob, Digest: cas.Sum([]byte("text 3"))}
	if err := p.store.Delete(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	failures(t, "missing", verify(t, bundle.Given(list, store), p.options()), `"03.txt": missing: `)
	failures(t, "fresh", verify(t, bundle.Fresh(list, new(cas.Memory), fresh), p.options()), `"03.txt": missing: `)
}

// TestVerifyArchive changes the bytes in an archive.
func TestVerifyArchive(t *testing.T) {
	p := newPack(t)
	p.signItems(alice)
	p.prove("sbom.cdx.json", bundle.TypeCycloneDX, []byte("{'x'}"))
	p.make(manifest.FileList{}, alice)
	edit := func(old, new string) []byte { return repack(t, p.archive(), old, new) }
	failures(t, "an asset", verify(t, bundle.InArchive(bytes.NewReader(edit("# demo", "# dome"))), p.options()),
		`"README.md": digest: expected blake3:`)
	failures(t, "evidence", verify(t, bundle.InArchive(bytes.NewReader(edit("{'x'}", "{'y'}"))), p.options()),
		`"sbom.cdx.json": digest: expected blake3:`)
	failures(t, "an item", verify(t, bundle.InArchive(bytes.NewReader(edit("echo hello", "echo help!"))), p.options()),
		`".ai/tools/acme/hello.sh": digest: expected blake3:`)
	failures(t, "a helper", verify(t, bundle.InArchive(bytes.NewReader(edit("x = 1", "x = 2"))), p.options()),
		`".ai/tools/acme/multi/helper.py": digest: expected blake3:`, `".ai/tools/acme/multi/multi.py": item: `)
	failures(t, "a mode", verify(t, bundle.InArchive(bytes.NewReader(edit("files/docs/run.sh", "files/docs/Run.sh"))),
		p.options()),
		"archive: corrupt archive: ", `"docs/run.sh": missing: expected `, `"sbom.cdx.json": missing: `)
	b := p.archive()
	r := verify(t, bundle.InArchive(bytes.NewReader(append(b, 0))), p.options())
	failures(t, "a byte behind", r, fmt.Sprintf("archive: corrupt archive: byte %d: trailing bytes after the end",
		len(b)))
	r = verify(t, bundle.InArchive(strings.NewReader("")), p.options())
	failures(t, "nothing", r, "archive: corrupt archive: byte 0: unexpected EOF")
	if r.Bundle != nil || r.Manifest != nil {
		t.Errorf("out of nothing: %+v", r)
	}
	for n := 0; n < len(b); n += 7 {
		if r := verify(t, bundle.InArchive(bytes.NewReader(b[:n])), p.options()); r.OK() {
			t.Fatalf("the first %d bytes are enough", n)
		}
	}

	// More than is kept in memory.
	large := newPack(t)
	large.files[".ai/tools/acme/multi/data.bin"] = &fstest.MapFile{Data: bytes.Repeat([]byte("0123456789abcdef"),
		400_000), Mode: 0o644}
	large.signItems(alice)
	large.make(manifest.FileList{}, alice)
	o := large.options()
	failures(t, "large", verify(t, bundle.InArchive(bytes.NewReader(large.archive())), o))
	if left, err := os.ReadDir(o.TempDir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	o.TempDir += "/gone"
	if _, err := bundle.Verify(t.Context(), bundle.InArchive(bytes.NewReader(large.archive())), o); !errors.Is(err,
		fs.ErrNotExist) {
		t.Errorf("without a place to keep it: %v", err)
	}
	failures(t, "large and changed", verify(t, bundle.InArchive(bytes.NewReader(repack(t, large.archive(), "x = 1",
		"x = 2"))), large.options()),
		`".ai/tools/acme/multi/helper.py": digest: `, `".ai/tools/acme/multi/multi.py": item: `)
}
