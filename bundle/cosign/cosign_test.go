package cosign_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/cosign"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/bundle/provenance"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/admission/admissiontest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/sign"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

const (
	home = ".ai/bundles/acme/a/"
	at   = home + "manifest.yaml"
)

var readme = []manifest.File{{Path: "README.md", Digest: cas.Sum([]byte("hello")), Size: 5, Mode: cas.File}}

// write writes a file below a directory.
func write(t *testing.T, dir, name string, text []byte) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, text, 0o644)); err != nil {
		t.Fatal(err)
	}
}

// project makes a project whose only bundle has a description and is signed by some keys.
func project(t *testing.T, dir, description string, keys ...key.Private) (body []byte, l *manifest.FileList) {
	t.Helper()
	body, l, err := manifest.AppendFileList(nil, &manifest.FileList{BundleID: "acme/a", Version: "1.0.0",
		Description: description}, readme)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		if err := l.Sign(k, now); err != nil {
			t.Fatal(err)
		}
	}
	write(t, dir, "README.md", []byte("hello"))
	write(t, dir, at, manifest.Join(nil, body, l.Signatures))
	return body, l
}

func noStore(bool) (*disk.Store, error) { return nil, fs.ErrNotExist }

// change finds the bundle of a project, which Bob is about to change where Alice is trusted.
func change(t *testing.T, dir string) *cosign.Change {
	t.Helper()
	f := &find.Finder{Dir: dir, Project: dir, Now: now, Keep: func(c io.Closer) { t.Cleanup(func() { c.Close() }) },
		Below: func(context.Context, string, []manifest.Require) ([]*ai.Space, []bundle.Need, error) {
			return []*ai.Space{find.LibrarySpace()}, nil, nil
		}}
	found, err := f.Find(t.Context(), "acme/a")
	if err != nil {
		t.Fatal(err)
	}
	return &cosign.Change{Bundle: found, Key: keytest.Bob(), Time: now, Store: noStore,
		Counted: func(r io.Reader) io.Reader { return r },
		Verify:  bundle.VerifyOptions{Trust: admissiontest.Trust(t, now, admissiontest.ByAlice), TempDir: t.TempDir()}}
}

func check(t *testing.T, c *cosign.Change) {
	t.Helper()
	if err := c.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// signers wants the keys that have signed the manifest in a project.
func signers(t *testing.T, dir string, keys ...key.Private) *bundle.Bundle {
	t.Helper()
	b, err := find.ReadManifest(dir, "acme/a")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, k := range keys {
		want = append(want, k.Public().Fingerprint().String())
	}
	got := b.SignedBy()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("signed by %q, want %q", got, want)
	}
	return b
}

func TestSign(t *testing.T) {
	dir := t.TempDir()
	_, l := project(t, dir, "", keytest.Alice())
	for _, want := range []bool{true, false} {
		c := change(t, dir)
		check(t, c)
		if changed, err := c.Sign(); err != nil || changed != want {
			t.Fatalf("%t, %v; want %t", changed, err, want)
		}
		if err := c.WriteSignatures(t.Context()); err != nil {
			t.Fatal(err)
		}
		if b := signers(t, dir, keytest.Alice(), keytest.Bob()); b.ID != l.ID {
			t.Error("the manifest is another one")
		}
	}
}

// Who has signed so far doesn't matter to those who add their signature; everything else does.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	project(t, dir, "", keytest.Eve())
	check(t, change(t, dir))
	write(t, dir, "README.md", []byte("jello"))
	before, _ := os.ReadFile(filepath.Join(dir, at))
	err := change(t, dir).Check(t.Context())
	if _, refused := errors.AsType[*install.RefusedError](err); !refused {
		t.Error(err)
	}
	if _, _, err := change(t, dir).Embed(t.Context(), "note.txt", "text/plain", []byte("x")); err == nil {
		t.Error("a document was embedded in a changed bundle")
	}
	if after, err := os.ReadFile(filepath.Join(dir, at)); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the manifest is another one, %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, home+"note.txt")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// What others write between the check and the change stays.
func TestMeanwhile(t *testing.T) {
	dir := t.TempDir()
	project(t, dir, "")
	c := change(t, dir)
	check(t, c)
	if _, err := c.Sign(); err != nil {
		t.Fatal(err)
	}
	project(t, dir, "", keytest.Alice())
	if err := c.WriteSignatures(t.Context()); err != nil {
		t.Fatal(err)
	}
	signers(t, dir, keytest.Alice(), keytest.Bob())

	_, other := project(t, dir, "another one", keytest.Alice())
	if err := c.WriteSignatures(t.Context()); fault.CodeOf(err) != fault.Conflict {
		t.Error(err)
	}
	if b := signers(t, dir, keytest.Alice()); b.ID != other.ID {
		t.Error("the newer manifest is gone")
	}
	if err := c.Check(t.Context()); fault.CodeOf(err) != fault.Conflict {
		t.Error(err) // what was read isn't what was verified
	}
}

// A document makes another manifest, which only its signer has signed.
func TestEmbed(t *testing.T) {
	dir := t.TempDir()
	_, l := project(t, dir, "", keytest.Alice(), keytest.Eve())
	for _, want := range []int{2, 0} {
		name, lost, err := change(t, dir).Embed(t.Context(), "note.txt", "text/plain", []byte("x"))
		if err != nil || name != home+"note.txt" || lost != want {
			t.Fatalf("%q, %d, %v; want %d", name, lost, err, want)
		}
		b := signers(t, dir, keytest.Bob())
		if b.ID == l.ID || len(b.Evidence) != 1 || b.Evidence[0].Digest != cas.Sum([]byte("x")) {
			t.Errorf("%v, %+v", b.ID, b.Evidence)
		}
		if text, err := os.ReadFile(filepath.Join(dir, home+"note.txt")); err != nil || string(text) != "x" {
			t.Errorf("%q, %v", text, err)
		}
	}
}

// The store's copy is signed, too, if it has one, and has the manifest with a document beside the one before.
func TestStore(t *testing.T) {
	dir := t.TempDir()
	s, err := disk.Open(filepath.Join(t.TempDir(), "store"), disk.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	body, l := project(t, dir, "", keytest.Alice())
	signed := func() *cosign.Change {
		c := change(t, dir)
		c.Store = func(bool) (*disk.Store, error) { return s, nil }
		check(t, c)
		if _, err := c.Sign(); err != nil {
			t.Fatal(err)
		}
		if err := c.WriteSignatures(t.Context()); err != nil {
			t.Fatal(err)
		}
		return c
	}
	signed()
	if _, err := s.Ref(install.Ref(l.ID)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the store got a bundle that it hadn't: %v", err)
	}
	if _, err := s.Put(t.Context(), cas.Blob, bytes.NewReader([]byte("hello"))); err != nil {
		t.Fatal(err)
	}
	if err := install.Keep(t.Context(), s, &bundle.Bundle{FileList: l, Files: readme}, body,
		bundle.VerifyOptions{}); err != nil {
		t.Fatal(err)
	}
	c := signed()
	stored, err := bundle.ReadStored(t.Context(), s, s, l.ID)
	if err != nil || len(stored.Signatures) != 2 {
		t.Fatalf("%+v, %v", stored, err)
	}
	if _, _, err := c.Embed(t.Context(), "note.txt", "text/plain", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if stored, err = bundle.ReadStored(t.Context(), s, s, c.Bundle.Bundle.ID); err != nil ||
		len(stored.Evidence) != 1 {
		t.Errorf("%+v, %v", stored, err)
	}
	gone := errors.New("gone")
	c.Store = func(bool) (*disk.Store, error) { return nil, gone }
	if err := c.WriteSignatures(t.Context()); !errors.Is(err, gone) {
		t.Error(err)
	}
}

// Strangers can't fill the manifest so that there is no room for one's own signature.
func TestSignBeside(t *testing.T) {
	_, l := project(t, t.TempDir(), "", keytest.Alice())
	var err error
	for seed := byte(10); err == nil; seed++ {
		err = l.Sign(keytest.Seeded(seed), now)
	}
	if !errors.Is(err, sign.ErrTooMany) {
		t.Fatal(err)
	}
	known := admissiontest.Trust(t, now, admissiontest.ByAlice).Find
	d := &l.Document
	if err := cosign.SignBeside(d, keytest.Eve(), known, now); err != nil {
		t.Fatal(err)
	}
	by := l.SignedBy()
	for _, k := range []key.Private{keytest.Alice(), keytest.Eve()} {
		if !slices.Contains(by, k.Public().Fingerprint().String()) {
			t.Errorf("%q has no %v", by, k.Public().Fingerprint())
		}
	}
}

// What can't be done leaves the manifest and its signatures as they are.
func TestRefused(t *testing.T) {
	failed := errors.New("failed")
	for name, test := range map[string]struct {
		document string
		change   func(*cosign.Change, string)
		want     error // nil: any
	}{
		"no spaces": {"note.txt", func(c *cosign.Change, dir string) {
			f := &find.Finder{Dir: dir, Project: dir, Below: func(context.Context, string,
				[]manifest.Require) ([]*ai.Space, []bundle.Need, error) {
				return nil, nil, failed
			}}
			c.Bundle, _ = f.Find(t.Context(), "acme/a")
		}, failed},
		"a name that is a path":   {"../note.txt", func(*cosign.Change, string) {}, nil},
		"the manifest's own name": {"Manifest.yaml", func(*cosign.Change, string) {}, nil},
		"no store": {"note.txt", func(c *cosign.Change, _ string) {
			c.Store = func(bool) (*disk.Store, error) { return nil, failed }
		}, failed},
		"a directory in its place": {"note.txt", func(_ *cosign.Change, dir string) {
			write(t, dir, home+"note.txt/x", nil)
		}, nil},
		"the manifest is gone meanwhile": {"note.txt", func(c *cosign.Change, dir string) {
			check(t, c)
			c.Verify.Progress = func(int64, int64) { os.Rename(filepath.Join(dir, at), filepath.Join(dir, "gone")) }
		}, fs.ErrNotExist},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			_, l := project(t, dir, "", keytest.Alice())
			c := change(t, dir)
			test.change(c, dir)
			_, _, err := c.Embed(t.Context(), test.document, "text/plain", []byte("x"))
			if err == nil || test.want != nil && !errors.Is(err, test.want) {
				t.Fatalf("%v, want %v", err, test.want)
			}
			if _, err := os.Stat(filepath.Join(dir, "gone")); err == nil {
				return
			}
			if b := signers(t, dir, keytest.Alice()); b.ID != l.ID {
				t.Error("the manifest is another one")
			}
		})
	}
}

// Signatures that were made elsewhere are added once. A forged one of a known key isn't, and signatures of another
// manifest are refused.
func TestTake(t *testing.T) {
	dir := t.TempDir()
	_, elsewhere := project(t, t.TempDir(), "", keytest.Alice())
	_, other := project(t, t.TempDir(), "another one", keytest.Alice())
	project(t, dir, "")
	forged := slices.Clone(elsewhere.Signatures)
	forged[0].Time = forged[0].Time.Add(time.Second)
	for _, take := range []struct {
		made    manifest.Signatures
		changed bool
		by      []key.Private
	}{
		{forged, false, nil},
		{elsewhere.Signatures, true, []key.Private{keytest.Alice()}},
		{elsewhere.Signatures, false, []key.Private{keytest.Alice()}},
	} {
		c := change(t, dir)
		c.Key = key.Private{}
		check(t, c)
		if changed, err := c.Take(t.Context(), take.made); err != nil || changed != take.changed {
			t.Errorf("%t, %v; want %t", changed, err, take.changed)
		}
		signers(t, dir, take.by...)
	}
	c := change(t, dir)
	check(t, c)
	if _, err := c.Take(t.Context(), other.Signatures); err == nil {
		t.Error("signatures of another manifest were taken")
	}
}

// A key confirms only a statement that a known key has signed, and only about this bundle; it signs it once.
func TestSignStatement(t *testing.T) {
	dir := t.TempDir()
	_, list := project(t, dir, "", keytest.Alice())
	_, other := project(t, t.TempDir(), "another one", keytest.Alice())
	attested := func(about *manifest.FileList, by ...key.Private) []byte {
		envelope, err := provenance.Attest(about, provenance.Beside,
			provenance.Build{Builder: "https://ci.example.com"}, by...)
		if err != nil {
			t.Fatal(err)
		}
		return envelope
	}
	c := change(t, dir)
	check(t, c)
	for name, envelope := range map[string][]byte{
		"a stranger's statement":       attested(list, keytest.Eve()),
		"a statement of another thing": attested(other, keytest.Alice()),
		"no statement":                 []byte("{}"),
	} {
		if statement, err := c.SignStatement(envelope); err == nil {
			t.Errorf("%s was signed: %+v", name, statement)
		}
	}
	once, err := c.SignStatement(attested(list, keytest.Alice()))
	if err != nil || !once.Changed || once.Signatures != 2 {
		t.Fatalf("%+v, %v", once, err)
	}
	if by, err := bundle.StatementSigners(c.Verify.Trust, once.Envelope, list.ID); err != nil || len(by) != 2 {
		t.Errorf("signed by %v, %v", by, err)
	}
	twice, err := c.SignStatement(once.Envelope)
	if err != nil || twice.Changed || twice.Signatures != 2 || !bytes.Equal(twice.Envelope, once.Envelope) {
		t.Errorf("%+v, %v", twice, err)
	}
}

// A plugin carries the public keys of those who signed it: the new signer's is added, and others' stay.
func TestPluginKeys(t *testing.T) {
	dir := t.TempDir()
	about := []byte(`{"name": "a", "version": "1.0.0"}`)
	body, list, err := manifest.AppendFileList(nil, &manifest.FileList{BundleID: "acme/a", Version: "1.0.0",
		Plugin: plugin.Version}, []manifest.File{{Path: plugin.ManifestFile, Digest: cas.Sum(about),
		Size: int64(len(about)), Mode: cas.File}})
	if err != nil {
		t.Fatal(err)
	}
	if err := list.Sign(keytest.Alice(), now); err != nil {
		t.Fatal(err)
	}
	signer := func(k key.Private) manifest.SignerKey { return manifest.SignerKey{Public: k.Public()} }
	had, err := manifest.AppendSigners(nil, []manifest.SignerKey{signer(keytest.Alice()), signer(keytest.Eve())})
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, plugin.ManifestFile, about)
	write(t, dir, bundle.PluginKeys, had)
	write(t, dir, bundle.PluginManifest, manifest.Join(nil, body, list.Signatures))
	c := change(t, dir)
	c.Keys = func(manifest.Signatures) []manifest.SignerKey { return nil }
	check(t, c)
	if _, err := c.Sign(); err != nil {
		t.Fatal(err)
	}
	if err := c.WriteSignatures(t.Context()); err != nil {
		t.Fatal(err)
	}
	signers(t, dir, keytest.Alice(), keytest.Bob())
	text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(bundle.PluginKeys)))
	if err != nil {
		t.Fatal(err)
	}
	got, err := manifest.ReadSigners(bytes.NewReader(text))
	if err != nil || len(got) != 2 || bytes.Contains(text, []byte(keytest.Eve().Public().String())) {
		t.Errorf("%v: %s", err, text)
	}
}
