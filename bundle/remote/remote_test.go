package remote

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci"
	"github.com/rye-build/rye/cas/oci/format"
	"github.com/rye-build/rye/cas/oci/ocitest"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/rollback"
	"github.com/rye-build/rye/manifest/sign"
	"github.com/rye-build/rye/manifest/tlog"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// A made is a bundle that was made.
type made struct {
	*bundle.Bundle
	files  cas.Memory
	proofs []*tlog.Proof
}

// newBundle makes a bundle of some files, with a bill of materials, signed by keys.
func newBundle(t *testing.T, version, text string, keys ...key.Private) *made {
	t.Helper()
	m := new(made)
	put := func(b []byte) cas.Info {
		info, err := m.files.Put(t.Context(), cas.Blob, bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	var files []manifest.File
	for _, f := range []struct{ path, text string }{{"README.md", "# " + text}, {"data", strings.Repeat(text, 100)},
		{"empty", ""}, {"twice", "# " + text}} {
		info := put([]byte(f.text))
		files = append(files, manifest.File{Path: f.path, Digest: info.Digest, Size: info.Size, Mode: cas.File})
	}
	sbom := put([]byte("{}"))
	l := &manifest.FileList{BundleID: "acme/deploy", Version: version,
		Evidence: []manifest.Evidence{{Name: "sbom.json", Digest: sbom.Digest, Size: sbom.Size,
			Type: "application/spdx+json"}}}
	body, _, err := manifest.AppendFileList(nil, l, files)
	if err != nil {
		t.Fatal(err)
	}
	if m.Bundle, err = bundle.Parse(body); err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		if err := m.Sign(k, noon); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func (m *made) push(t *testing.T, p *oci.Place, tag string) *oci.Pushed {
	t.Helper()
	done, err := Push(t.Context(), p, tag, m.Bundle, &m.files, nil, noon, m.proofs,
		manifest.SignerKey{Public: keytest.Alice().Public(), Owner: "Alice"})
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// A user has a store, and believes some keys.
type user struct {
	t *testing.T
	Pull
	place *oci.Place
}

func newUser(t *testing.T, p *oci.Place, threshold int, keys ...key.Private) *user {
	t.Helper()
	dir := t.TempDir()
	s, err := disk.Open(filepath.Join(dir, "store"), disk.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	u := &user{t, Pull{Store: s, Spool: filepath.Join(dir, "spool"),
		Verify:  bundle.VerifyOptions{Threshold: threshold, Now: noon},
		Journal: &rollback.Journal{Path: filepath.Join(dir, "rollback")}, Now: func() time.Time { return noon }}, p}
	for _, k := range keys {
		u.Verify.Signers = append(u.Verify.Signers, k.Public())
	}
	return u
}

// pull pulls by a tag or a digest.
func (u *user) pull(name string) (*Remote, error) {
	r, err := Open(u.t.Context(), u.place, name, u.Verify)
	if err != nil {
		return nil, err
	}
	if format.ValidDigest(name) {
		name = ""
	}
	_, err = r.Take(u.t.Context(), name, u.Pull)
	return r, err
}

// has reports whether a bundle is in the store by its name.
func (u *user) has(id cas.Digest) bool {
	_, err := bundle.ReadStored(u.t.Context(), u.Store, u.Store, id)
	return err == nil
}

func place(t *testing.T) (*ocitest.Registry, *oci.Place) {
	d := ocitest.New(t)
	p, err := oci.Open(oci.Reference{Host: d.Host(), Name: "acme/deploy"}, oci.Options{Transport: new(http.Transport)})
	if err != nil {
		t.Fatal(err)
	}
	return d, p
}

// TestPull: what was pushed arrives verified, with its signatures; who signs later is found under the same digest.
func TestPull(t *testing.T) {
	t.Parallel()
	_, p := place(t)
	b := newBundle(t, "1.0.0", "text", keytest.Alice())
	first := b.push(t, p, "1.0.0")
	if err := b.Sign(keytest.Bob(), noon); err != nil {
		t.Fatal(err)
	}
	two := newUser(t, p, 2, keytest.Alice(), keytest.Bob())
	if _, err := two.pull("1.0.0"); err == nil || two.has(b.ID) {
		t.Errorf("one signature of two is enough: %v", err)
	}
	alice := keytest.Alice().Public().Fingerprint()
	// what the second signer has
	b.Signatures = slices.DeleteFunc(b.Signatures, func(l sign.Line) bool { return l.Key == alice })
	if again := b.push(t, p, "1.0.0"); again.Digest != first.Digest {
		t.Errorf("signing makes %s of %s", again.Digest, first.Digest)
	}
	r, err := two.pull("1.0.0")
	if err != nil || !two.has(b.ID) || len(r.Signatures) != 2 || r.Image.Digest != first.Digest {
		t.Fatalf("%v, %d signatures", err, len(r.Signatures))
	}
	stored, err := bundle.ReadStored(t.Context(), two.Store, two.Store, b.ID)
	if err != nil || len(stored.Signatures) != 2 {
		t.Errorf("%v", err)
	}
	var found []*format.Attachment
	left, err := r.Image.Attached(t.Context(), "application/spdx+json", func(a *format.Attachment) error {
		found = append(found, a)
		return nil
	})
	if err != nil || len(left) > 0 || len(found) != 1 || found[0].Parts[0].Name != "sbom.json" {
		t.Errorf("%+v, %v", found, err)
	}
	if _, err := two.pull(first.Digest); err != nil {
		t.Error(err)
	}
}

// proof makes the proof that a log with one entry has a version of the bundle.
func (m *made) proof(t *testing.T, log, version string) *tlog.Proof {
	t.Helper()
	k, err := tlog.NewKey(log, keytest.Seeded(1).Public())
	if err != nil {
		t.Fatal(err)
	}
	entry, err := tlog.AppendEntry(nil, &tlog.Entry{Kind: tlog.Publish, By: "ada", Time: noon, Release: tlog.Release{
		Bundle: m.BundleID, Version: version, Manifest: m.ID, Archive: cas.Sum([]byte("archive")), Size: 7}})
	if err != nil {
		t.Fatal(err)
	}
	var tail tlog.Tail
	if _, err := tail.Add(entry); err != nil {
		t.Fatal(err)
	}
	checkpoint, err := tlog.Sign(k, keytest.Seeded(1), tail.Size(), tail.Root())
	if err != nil {
		t.Fatal(err)
	}
	return &tlog.Proof{Entry: entry, Checkpoint: checkpoint}
}

// TestProofs: proofs go along with a push and come back with a pull, one of each log, and none that is about something
// else or known to be false.
func TestProofs(t *testing.T) {
	t.Parallel()
	_, p := place(t)
	b := newBundle(t, "1.0.0", "text", keytest.Alice())
	b.proofs = []*tlog.Proof{b.proof(t, "one.example/log", "1.0.0"), b.proof(t, "two.example/log", "1.0.0"),
		b.proof(t, "three.example/log", "2.0.0"),
		{Entry: []byte("no entry"), Checkpoint: []byte("four.example/log\n")}}
	b.push(t, p, "1.0.0")
	kept := func(u *user) (logs []string) {
		t.Helper()
		for _, log := range []string{"one", "two", "three", "four"} {
			proof, err := bundle.ReadProof(t.Context(), u.Store, u.Store, b.ID, log+".example/log")
			if err == nil && proof.Origin() == log+".example/log" {
				logs = append(logs, log)
			}
		}
		return logs
	}
	u := newUser(t, p, 1, keytest.Alice())
	r, err := u.pull("1.0.0")
	if err != nil || !slices.Equal(kept(u), []string{"one", "two"}) || len(r.Left) != 2 {
		t.Errorf("%v, kept %q, left %q", err, kept(u), r.Left)
	}
	if !strings.Contains(strings.Join(r.Left, "\n"), "a proof of something else than acme/deploy@1.0.0") {
		t.Errorf("left %q", r.Left)
	}

	// What is known to be false isn't taken, and what is there isn't replaced.
	doubting := newUser(t, p, 1, keytest.Alice())
	doubting.Proof = func(_ context.Context, proof *tlog.Proof, of tlog.Release) error {
		if of.Key() != "acme/deploy@1.0.0" || of.Manifest != b.ID {
			t.Errorf("asked about %+v", of)
		}
		if proof.Origin() == "one.example/log" {
			return errors.New("forged")
		}
		return nil
	}
	r, err = doubting.pull("1.0.0")
	if err != nil || !slices.Equal(kept(doubting), []string{"two"}) || len(r.Left) != 3 {
		t.Errorf("%v, kept %q, left %q", err, kept(doubting), r.Left)
	}
	mine := b.proof(t, "two.example/log", "1.0.0")
	mine.Index = 5
	if err := install.KeepProof(t.Context(), u.Store, b.ID, mine); err != nil {
		t.Fatal(err)
	}
	if _, err := u.pull("1.0.0"); err != nil {
		t.Fatal(err)
	}
	proof, err := bundle.ReadProof(t.Context(), u.Store, u.Store, b.ID, "two.example/log")
	if err != nil || proof.Index != 5 {
		t.Errorf("%+v, %v", proof, err)
	}
}

// TestNotRemembered: a bundle whose version can't be remembered gets no name in the store: a registry could give a
// user other bytes under the same version later, and nothing would notice.
func TestNotRemembered(t *testing.T) {
	t.Parallel()
	_, p := place(t)
	b := newBundle(t, "1.0.0", "text", keytest.Alice())
	b.push(t, p, "1.0.0")
	u := newUser(t, p, 1, keytest.Alice())
	nowhere := filepath.Join(t.TempDir(), "books")
	if err := os.Symlink("none", nowhere); err != nil { // where nothing can be written
		t.Fatal(err)
	}
	written := u.Journal
	u.Journal = &rollback.Journal{Path: filepath.Join(nowhere, "rollback")}
	if err := u.Journal.Check(); err != nil {
		t.Fatal(err) // it is only empty
	}
	if _, err := u.pull("1.0.0"); err == nil || u.has(b.ID) {
		t.Errorf("%v, named: %t", err, u.has(b.ID))
	}
	u.Journal = written
	if _, err := u.pull("1.0.0"); err != nil || !u.has(b.ID) {
		t.Error(err)
	}
}

// TestStranger: a bundle with an unknown signer is turned away with what the registry claims, before its files are
// read.
func TestStranger(t *testing.T) {
	t.Parallel()
	d, p := place(t)
	b := newBundle(t, "1.0.0", "text", keytest.Alice())
	b.push(t, p, "1.0.0")
	u := newUser(t, p, 1, keytest.Eve())
	d.Sent = 0
	_, err := u.pull("1.0.0")
	no, ok := errors.AsType[*bundle.NotAdmittedError](err)
	if !ok || len(no.Keys) != 1 || no.Keys[0].Owner != "Alice" || !strings.HasPrefix(no.From,
		"oci://"+d.Host()+"/acme/deploy@sha256:") || len(no.Signatures) != 1 {
		t.Fatalf("%+v, %v", no, err)
	}
	if u.has(b.ID) || d.Sent > 2000 {
		t.Errorf("%d bytes were read", d.Sent)
	}
}

// TestLeft: signatures that can't be read, or whose keys can't, don't count, and are named with the reason; the
// others do.
func TestLeft(t *testing.T) {
	t.Parallel()
	_, p := place(t)
	b := newBundle(t, "1.0.0", "text", keytest.Alice())
	body, err := b.Body()
	if err != nil {
		t.Fatal(err)
	}
	junk := format.Attachment{Type: format.SignaturesType, Parts: []format.Part{{Type: format.SignaturesType,
		Bytes: []byte("# junk\n")}}}
	if _, err := p.Push(t.Context(), oci.Content{Document: body, Objects: objects(b.Bundle), Source: &b.files,
		Attachments: []format.Attachment{junk}}, "junk"); err != nil {
		t.Fatal(err)
	}
	u := newUser(t, p, 1, keytest.Alice())
	_, err = u.pull("junk")
	if f := fault.Of(err); f.Code != fault.Unsigned || len(f.Why) != 1 ||
		!strings.HasPrefix(f.Why[0], "signatures left out: sha256:") ||
		!strings.Contains(f.Why[0], "line 1 is not a signature line") {
		t.Errorf("%s %s %q", f.Code, f.Text, f.Why)
	}
	lines := format.Attachment{Type: format.SignaturesType, Parts: []format.Part{{Type: format.SignaturesType,
		Bytes: b.Signatures.Append(nil)}}}
	keys := format.Attachment{Type: format.SignaturesType, Parts: append(lines.Parts[:1:1],
		format.Part{Type: format.KeysType, Bytes: []byte("junk\n")})}
	if _, err := p.Push(t.Context(), oci.Content{Document: body, Objects: objects(b.Bundle), Source: &b.files,
		Attachments: []format.Attachment{keys}}, "junk"); err != nil {
		t.Fatal(err)
	}
	_, err = u.pull("junk")
	if f := fault.Of(err); f.Code != fault.Unsigned || len(f.Why) != 2 {
		t.Errorf("%s %s %q", f.Code, f.Text, f.Why)
	}
	if _, err := p.Push(t.Context(), oci.Content{Document: body, Objects: objects(b.Bundle), Source: &b.files,
		Attachments: []format.Attachment{lines}}, "junk"); err != nil {
		t.Fatal(err)
	}
	if r, err := u.pull("junk"); err != nil || len(r.Left) != 2 || len(r.Signatures) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestMoves: a tag goes on and never back, a version stays what it is, and a digest is asked for by itself.
func TestMoves(t *testing.T) {
	t.Parallel()
	d, p := place(t)
	old, next := newBundle(t, "1.0.0", "old", keytest.Alice()), newBundle(t, "1.1.0", "next", keytest.Alice())
	first := old.push(t, p, "1.0.0")
	old.push(t, p, "stable")
	u := newUser(t, p, 1, keytest.Alice())
	if _, err := u.pull("stable"); err != nil {
		t.Fatal(err)
	}
	next.push(t, p, "stable")
	if _, err := u.pull("stable"); err != nil {
		t.Fatal(err)
	}
	old.push(t, p, "stable")
	reason := func(err error) string {
		if e, ok := errors.AsType[*rollback.Error](err); ok {
			return e.Reason()
		}
		return ""
	}
	if _, err := u.pull("stable"); reason(err) != rollback.Older {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"1.0.0", first.Digest} {
		if _, err := u.pull(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A tag that is a version names no other.
	if _, err := Push(t.Context(), p, "1.2.0", next.Bundle, &next.files, nil,
		noon, nil); fault.CodeOf(err) != fault.Integrity {
		t.Errorf("a push as another version: %v", err)
	}
	d.Mu.Lock()
	d.Tags["1.2.0"] = d.Tags["stable"]
	d.Mu.Unlock()
	if _, err := u.pull("1.2.0"); fault.CodeOf(err) != fault.Integrity ||
		!strings.Contains(err.Error(), "acme/deploy:1.2.0: the tag is a version, "+
			"and the bundle is acme/deploy@1.0.0") {
		t.Errorf("a pull of another version: %v", err)
	}
	// Nor does a version change.
	other := newBundle(t, "1.0.0", "another", keytest.Alice())
	if _, err := Push(t.Context(), p, "1.0.0", other.Bundle, &other.files, nil,
		noon, nil); fault.CodeOf(err) != fault.Conflict ||
		d.Tags["1.0.0"] != first.Digest {
		t.Errorf("a push of another bundle: %v", err)
	}
	done := other.push(t, p, "other")
	d.Mu.Lock()
	d.Tags["1.0.0"] = done.Digest
	d.Mu.Unlock()
	if _, err := u.pull("1.0.0"); reason(err) != rollback.Other || u.has(other.ID) {
		t.Errorf("%v", err)
	}
}

// TestForeign: what isn't a bundle stays under its tag, whatever that is called; the error says what it is and how to
// go on.
func TestForeign(t *testing.T) {
	t.Parallel()
	d, p := place(t)
	b := newBundle(t, "1.0.0", "first", keytest.Alice())
	b.push(t, p, "old")
	image := []byte(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",` +
		`"config":{"mediaType":"application/vnd.oci.image.config.v1+json"}}`)
	at := format.Sum(image)
	d.Mu.Lock()
	d.Manifests[at], d.Tags["latest"], d.Tags["1.0.0"] = image, at, at
	d.Mu.Unlock()
	for tag, hint := range map[string]string{"latest": "rye bundle push acme/deploy oci://" + d.Host() +
		"/acme/deploy", "1.0.0": "rye docs oci"} {
		_, err := Push(t.Context(), p, tag, b.Bundle, &b.files, nil, noon, nil)
		if err == nil {
			t.Fatalf("%s was replaced", tag)
		}
		f := fault.Of(err)
		if f.Code != fault.Conflict || !strings.Contains(f.Text,
			":"+tag+": the tag names something else already: a container image, not a bundle") ||
			len(f.Hint) == 0 || f.Hint[0] != hint || f.Details["digest"] != at || d.Tags[tag] != at {
			t.Errorf("%s: %+v, the tag names %s", tag, f, d.Tags[tag])
		}
	}
}

// TestNewest: the newest version that is no prerelease.
func TestNewest(t *testing.T) {
	t.Parallel()
	d, p := place(t)
	if _, err := Newest(t.Context(), p); !errors.Is(err, fs.ErrNotExist) && err == nil {
		t.Errorf("%v", err)
	}
	for _, c := range []struct{ tag, want string }{
		{"latest", ""}, {"2.0.0-rc.1", "2.0.0-rc.1"}, {"1.2.0", "1.2.0"}, {"1.10.0", "1.10.0"}, {"1.9.0", "1.10.0"},
		{"v3", "1.10.0"}, {"3.0.0-a", "1.10.0"}, {"1.11.0_b-c", "1.11.0_b-c"},
		{"1.12", "1.11.0_b-c"}, {"1.12.0-b", "1.11.0_b-c"},
	} {
		d.Mu.Lock()
		d.Tags[c.tag] = "sha256:" + strings.Repeat("0", 64)
		d.Mu.Unlock()
		got, err := Newest(t.Context(), p)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("with %s: %q, %v", c.tag, got, err)
		}
	}
	if Tag("1.0.0+b") != "1.0.0_b" {
		t.Error(Tag("1.0.0+b"))
	}
}

// TestDocument: a document that is none, or that isn't stripped.
func TestDocument(t *testing.T) {
	t.Parallel()
	_, p := place(t)
	b := newBundle(t, "1.0.0", "text", keytest.Alice())
	body, err := b.Body()
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"no document": "", string(b.Signatures.Append(nil)) + string(body): "signature lines", string(body) + "x": "",
	} {
		if _, err := p.Push(t.Context(), oci.Content{Document: []byte(text)}, "bad"); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), p, "bad", bundle.VerifyOptions{}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	// What a push lacks.
	if _, err := Push(t.Context(), p, "lost", b.Bundle, new(cas.Memory), nil, noon, nil); !errors.Is(err,
		fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if _, err := Push(t.Context(), p, "a b", b.Bundle, &b.files, nil, noon, nil); err == nil {
		t.Error("a tag with a space")
	}
}
