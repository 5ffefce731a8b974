package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/cosign"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/bundles"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/signs"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/sign"
	"github.com/rye-build/rye/manifest/signing"
	"github.com/rye-build/rye/manifest/trust"
)

// A bundleHome is a project, a home, and a clock.
type bundleHome struct {
	t    *testing.T
	dir  string
	home string
	now  time.Time
}

func newBundleHome(t *testing.T) *bundleHome {
	t.Helper()
	h := &bundleHome{t, t.TempDir(), t.TempDir(), time.Now()}
	if real, err := filepath.EvalSymlinks(h.dir); err == nil {
		h.dir = real
	}
	h.write(".git/HEAD", "x")
	h.write(".ai/tools/acme/x.py", itemText("x"))
	h.rye(fault.ExitDone, "key", "new", "--owner", "Me")
	return h
}

func (h *bundleHome) write(name, text string) {
	h.t.Helper()
	path := filepath.Join(h.dir, filepath.FromSlash(name))
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
		os.WriteFile(path, []byte(text), 0o644)); err != nil {
		h.t.Fatal(err)
	}
}

// rye runs a command line in the project, wants its exit status, and returns all it says.
func (h *bundleHome) rye(want int, args ...string) string {
	h.t.Helper()
	host, stdout, stderr := testHost("HOME="+h.home, "USERPROFILE="+h.home, "LOCALAPPDATA="+h.home)
	host.Getwd, host.Now = func() (string, error) { return h.dir, nil }, func() time.Time { return h.now }
	got := cli.Run(host, commands(), args)
	if got != want {
		h.t.Fatalf("%q: exit %d, want %d\n%s%s", args, got, want, stdout, stderr)
	}
	return stdout.String() + stderr.String()
}

// TestBundleExpired: an expired bundle is refused wherever it is, in the same words.
func TestBundleExpired(t *testing.T) {
	h := newBundleHome(t)
	old, next := filepath.Join(h.home, "old.tar.zst"), filepath.Join(h.home, "new.tar.zst")
	h.write("bundle.yaml", "id: acme\nversion: 1.0.0\nexpires: \""+h.now.Add(48*time.Hour).UTC().Format(time.DateOnly)+
		"\"\n")
	h.rye(fault.ExitDone, "bundle", "create", "--sign", "tool:acme/x")
	h.rye(fault.ExitDone, "bundle", "export", "-o", old)
	h.rye(fault.ExitDone, "bundle", "install", old)
	h.write("bundle.yaml", "id: acme\nversion: 2.0.0\n")
	h.rye(fault.ExitDone, "bundle", "create")
	h.rye(fault.ExitDone, "bundle", "export", "-o", next)
	h.rye(fault.ExitDone, "bundle", "install", next)
	h.now = h.now.Add(96 * time.Hour)
	for _, args := range [][]string{{"verify", old}, {"import", old}, {"install", old},
		{"rollback", "acme", "--yes"}} {
		want := fault.ExitRefused
		if args[0] == "verify" {
			want = fault.ExitNo
		}
		if out := h.rye(want, append([]string{"--json", "bundle"}, args...)...); !strings.Contains(out,
			`"code":"EXPIRED"`) {
			t.Errorf("%q: %s", args, out)
		}
	}
	h.rye(fault.ExitDone, "bundle", "verify", next)
	if out := h.rye(fault.ExitDone, "bundle", "list", "--all"); !strings.Contains(out, ", expired ") {
		t.Errorf("%s", out)
	}
	h.rye(fault.ExitDone, "bundle", "remove", "acme", "--yes")
	h.now = h.now.Add(-96 * time.Hour)
	h.rye(fault.ExitRefused, "bundle", "install", old) // it is remembered
}

// TestBundleRequires: what a bundle requires is below it if it is installed, and told if it isn't.
func TestBundleRequires(t *testing.T) {
	h := newBundleHome(t)
	h.write("bundle.yaml", "id: acme\nversion: 1.0.0\n")
	h.rye(fault.ExitDone, "bundle", "create", "--sign", "tool:acme/x")
	h.write("bundle.yaml", "id: top\nversion: 1.0.0\nassets: [\"*.txt\"]\nrequires:\n  acme: \"^1.0.0\"\n")
	h.write("a.txt", "a\n")
	if out := h.rye(fault.ExitDone, "bundle", "create"); !strings.Contains(out,
		`"acme", which "top" requires, is not installed`) {
		t.Errorf("%s", out)
	}
	archive := filepath.Join(h.home, "top.tar.zst")
	h.rye(fault.ExitDone, "bundle", "export", "-o", archive)
	h.rye(fault.ExitDone, "bundle", "install", "acme")
	for _, args := range [][]string{{"create"}, {"verify", "--allow-extra"}, {"verify", archive}, {"import", archive},
		{"install", archive}, {"inspect", archive}} {
		if out := h.rye(fault.ExitDone, append([]string{"bundle"}, args...)...); strings.Contains(out, "requires,") {
			t.Errorf("%q: %s", args, out)
		}
	}
	h.write("bundle.yaml", "id: top\nversion: 1.1.0\nassets: [\"*.txt\"]\nrequires:\n  acme: \"^2.0.0\"\n")
	if out := h.rye(fault.ExitDone, "bundle", "create"); !strings.Contains(out,
		`"top" requires "acme" ^2.0.0, but 1.0.0 is installed`) {
		t.Errorf("%s", out)
	}
}

// TestBundleRevoked: what is revoked is refused in every bundle, the library's too.
func TestBundleRevoked(t *testing.T) {
	h := newBundleHome(t)
	h.write("bundle.yaml", "id: acme\nversion: 1.0.0\nassets: [\"*.txt\"]\n")
	h.write("a.txt", "a\n")
	h.rye(fault.ExitDone, "bundle", "create", "--sign", "tool:acme/x")
	h.rye(fault.ExitDone, "bundle", "install", "acme")
	h.rye(fault.ExitDone, "bundle", "verify", find.LibraryID)
	_, files, err := std.Files()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Ref == "tool:rye/core/primitives/subprocess" {
			h.rye(fault.ExitDone, "trust", "revoke", f.Digest.String(), "--reason", "bad", "--yes")
		}
	}
	if out := h.rye(fault.ExitNo, "--json", "bundle", "verify", find.LibraryID); !strings.Contains(out,
		`"ref":"tool:rye/core/primitives/subprocess"`) {
		t.Errorf("%s", out)
	}
	h.rye(fault.ExitDone, "trust", "revoke", cas.Sum([]byte("a\n")).String(), "--reason", "bad", "--yes")
	for _, args := range [][]string{{"verify"}, {"cosign"}, {"install", "acme"}, {"attest", "--embed"}} {
		want := fault.ExitRefused
		if args[0] == "verify" {
			want = fault.ExitNo
		}
		if out := h.rye(want, append([]string{"bundle"}, args...)...); !strings.Contains(out, "revoked") {
			t.Errorf("%q: %s", args, out)
		}
	}
}

// TestBundleV1Item: an item with a v1 signature is bundled only if a manifest that the policy
// admits lists its bytes.
func TestBundleV1Item(t *testing.T) {
	h := newBundleHome(t)
	path := filepath.Join(h.home, ".ai", trust.File)
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, bytes.Replace(b, []byte("keys: [default]"),
			[]byte("keys: [default], accept: [v1, v2]"), 1), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	h.rye(fault.ExitDone, "sign", "tool:acme/x", "--format", "v1")
	if out := h.rye(fault.ExitRefused, "bundle", "create", "acme"); !strings.Contains(out, "POLICY_DENIED") &&
		!strings.Contains(out, "v1") {
		t.Errorf("%s", out)
	}
	signed, err := os.ReadFile(filepath.Join(h.dir, ".ai", "tools", "acme", "x.py"))
	if err != nil {
		t.Fatal(err)
	}
	h.write("docs/x.py", string(signed))
	h.write("bundle.yaml", "id: listing\nversion: 1.0.0\nassets: [\"docs/*\"]\n")
	h.rye(fault.ExitDone, "bundle", "create")
	h.write("bundle.yaml", "id: acme\nversion: 1.0.0\n")
	h.rye(fault.ExitDone, "bundle", "create")
	h.rye(fault.ExitDone, "bundle", "verify", "acme")
}

// TestBundleElsewhere: without a store, without a project, and with what is no store.
func TestBundleElsewhere(t *testing.T) {
	h := newBundleHome(t)
	h.rye(fault.ExitDone, "bundle", "create", "acme", "--sign", "tool:acme/x")
	for _, args := range [][]string{{"__complete", "--", "bundle", "create", "--key", ""},
		{"__complete", "--", "bundle", "attest", "--key", ""}} {
		if out := h.rye(fault.ExitDone, args...); !strings.Contains(out, "default") {
			t.Errorf("%q: %s", args, out)
		}
	}
	// A store that isn't there, or is a file.
	none := filepath.Join(h.home, "none")
	h.rye(fault.ExitDone, "bundle", "cosign", "--store", none)
	h.rye(fault.ExitDone, "bundle", "sbom", "--embed", "--store", none)
	h.rye(fault.ExitMissing, "bundle", "inspect", "--store", none, "blake3:"+strings.Repeat("0", 64))
	if _, err := os.Stat(none); err == nil {
		t.Error("a store was made for nothing")
	}
	h.write("store", "x")
	h.rye(fault.ExitNo, "bundle", "create", "acme", "--store", filepath.Join(h.dir, "store"))
	h.rye(fault.ExitUsage, "bundle", "create", "a b")
	h.rye(fault.ExitMissing, "bundle", "create", "acme", "--sign", "tool:acme/none")
	h.rye(fault.ExitDone, "bundle", "install", "acme")
	h.dir = t.TempDir()
	if out := h.rye(fault.ExitDone, "doctor", "--store", none); !strings.Contains(out, "acme: ") {
		t.Errorf("%s", out)
	}
	if out := h.rye(fault.ExitDone, "ls", "--store", none); !strings.Contains(out,
		"cannot read the files of installed bundles") {
		t.Errorf("%s", out)
	}
	h.rye(fault.ExitDone, "bundle", "cosign", "acme")
	h.rye(fault.ExitMissing, "bundle", "import", h.dir)
	h.rye(fault.ExitDone, "cache", "ls")
	h.rye(fault.ExitDone, "cache", "clear", "bundles")
}

// TestBundleChangedMeanwhile: when the manifest changes between reading and writing, no signature is lost, and only
// the manifest that was verified gets signed.
func TestBundleChangedMeanwhile(t *testing.T) {
	h := newBundleHome(t)
	h.write("bundle.yaml", "id: acme\nversion: 1.0.0\n")
	h.rye(fault.ExitDone, "bundle", "create", "--sign", "tool:acme/x")
	read, err := find.ReadManifest(h.dir, "acme")
	if err != nil {
		t.Fatal(err)
	}
	host, _, _ := testHost("HOME="+h.home, "USERPROFILE="+h.home, "LOCALAPPDATA="+h.home)
	host.Getwd, host.Now = func() (string, error) { return h.dir, nil }, time.Now
	a, err := cli.NewApp(host, host.Terminal(true), cli.Globals{}, commands())
	if err != nil {
		t.Fatal(err)
	}
	b, err := paths.OpenWorkspace(a)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	v, err := spaces.OpenVouching(a)
	if err != nil {
		t.Fatal(err)
	}
	l, err := b.Find(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	l.Bundle = read
	change := &cosign.Change{Bundle: l, Verify: v.Options, Key: keytest.Eve(), Store: b.OpenStore}
	if err := change.WriteSignatures(t.Context()); err != nil {
		t.Error(err)
	}
	if err := change.Check(t.Context()); err != nil {
		t.Error(err)
	}
	h.write("bundle.yaml", "id: acme\nversion: 1.0.1\n")
	h.rye(fault.ExitDone, "bundle", "create")
	if err := change.Check(t.Context()); fault.Of(err).Code != fault.Conflict {
		t.Errorf("what was read isn't what was verified: %v", err)
	}
	if err := change.WriteSignatures(t.Context()); fault.Of(err).Code != fault.Conflict {
		t.Errorf("%v", err)
	}
}

// TestBundleCosignInstalled: cosign doesn't claim to have signed an installed bundle when only its copy in the store
// could be signed. The commands of the hint sign it, although the store has dropped the bundle's name.
func TestBundleCosignInstalled(t *testing.T) {
	h := newBundleHome(t)
	h.rye(fault.ExitDone, "key", "new", "second")
	h.write("bundle.yaml", "id: acme\nversion: 1.0.0\n")
	h.rye(fault.ExitDone, "bundle", "create", "--sign", "tool:acme/x")
	read, err := find.ReadManifest(h.dir, "acme")
	if err != nil {
		t.Fatal(err)
	}
	id := read.ID.String()
	h.rye(fault.ExitDone, "bundle", "install", "acme")
	h.rye(fault.ExitDone, "bundle", "remove", id, "--yes")
	if err := os.RemoveAll(filepath.Join(h.dir, ".ai")); err != nil {
		t.Fatal(err)
	}
	out := h.rye(fault.ExitRefused, "bundle", "cosign", "acme", "--key", "second")
	if want := fmt.Sprintf("hint: rye bundle cosign %s --key second\n      rye bundle install %s\n", id,
		id); !strings.Contains(out, want) {
		t.Errorf("%s, want %s", out, want)
	}
	h.rye(fault.ExitDone, "bundle", "cosign", id, "--key", "second")
	h.rye(fault.ExitDone, "bundle", "install", id)
	at, err := os.ReadFile(filepath.Join(h.home, ".ai", "bundles", "acme", "manifest.yaml"))
	if err != nil || bytes.Count(at, []byte("# rye:signed:v2:")) != 2 {
		t.Errorf("%v: %s", err, at)
	}
}

// TestBundleTwoSigners: of two users who sign one bundle at once, neither loses the signature.
func TestBundleTwoSigners(t *testing.T) {
	h := newBundleHome(t)
	h.rye(fault.ExitDone, "key", "new", "second")
	h.write("second.pem", h.rye(fault.ExitDone, "key", "export", "second"))
	h.rye(fault.ExitDone, "trust", "add", filepath.Join(h.dir, "second.pem"), "--name", "second", "--owner", "You",
		"--names", "bundle:**", "--yes")
	h.rye(fault.ExitDone, "trust", "add", "default", "--names", "bundle:**", "--yes")
	h.write("bundle.yaml", "id: acme\nversion: 1.0.0\n")
	h.rye(fault.ExitDone, "bundle", "create", "--sign", "tool:acme/x")
	file := filepath.Join(h.dir, ".ai", "bundles", "acme", "manifest.yaml")
	one, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for round := range 12 {
		// No manifest yet; then one made by another; then both cosign it.
		verb := []string{"create", "create", "cosign"}[round%3]
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if round%3 > 0 {
			h.write(".ai/bundles/acme/manifest.yaml", string(one))
		}
		var both sync.WaitGroup
		for _, k := range []string{"default", "second"} {
			both.Go(func() {
				host, stdout, stderr := testHost("HOME="+h.home, "USERPROFILE="+h.home, "LOCALAPPDATA="+h.home)
				host.Getwd, host.Now = func() (string, error) { return h.dir, nil }, func() time.Time { return h.now }
				if got := cli.Run(host, commands(), []string{"bundle", verb, "--key", k}); got != fault.ExitDone {
					t.Errorf("%s by %s: exit %d\n%s%s", verb, k, got, stdout, stderr)
				}
			})
		}
		both.Wait()
		read, err := find.ReadManifest(h.dir, "acme")
		if err != nil || len(read.Signatures) != 2 {
			t.Fatalf("round %d, %s: %d signatures, want 2, %v", round, verb, len(read.Signatures), err)
		}
	}
}

// TestBundleStrangersSignatures: lines that anybody can write leave room for ours.
func TestBundleStrangersSignatures(t *testing.T) {
	h := newBundleHome(t)
	h.write("bundle.yaml", "id: acme\nversion: 1.0.0\n")
	h.rye(fault.ExitDone, "bundle", "create", "--sign", "tool:acme/x")
	good, err := find.ReadManifest(h.dir, "acme")
	if err != nil {
		t.Fatal(err)
	}
	body, err := good.Body()
	if err != nil {
		t.Fatal(err)
	}
	var lines manifest.Signatures
	for i := range sign.MaxLines {
		line := good.Signatures[0]
		if err := line.Key.UnmarshalText(fmt.Appendf(nil, "%064x", i+1)); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	for _, verb := range []string{"create", "cosign"} {
		h.write(".ai/bundles/acme/manifest.yaml", string(manifest.Join(nil, body, lines)))
		h.rye(fault.ExitNo, "bundle", "verify")
		if out := h.rye(fault.ExitDone, "bundle", verb, "--json"); verb == "cosign" &&
			!strings.Contains(out, `"signatures":16,"changed":true,"allowed":true`) {
			t.Errorf("%s: %s", verb, out)
		}
		h.rye(fault.ExitDone, "bundle", "verify")
	}
}

func TestChangedLines(t *testing.T) {
	long := strings.Repeat("x\n", 40)
	for _, c := range []struct{ was, is, want string }{
		{"a\nb\nc\n", "a\nB\nc\n", "from line 2: 1 line before, 1 now|- b|+ B"},
		{"a\nb\n", "a\nb\nc\n", "from line 3: 0 lines before, 1 now|+ c"},
		{"a\na\n", "a\n", "from line 2: 1 line before, 0 now|- a"},
		{"", long, "from line 1: 0 lines before, 40 now|" + strings.Repeat("+ x|",
			signs.MostChanged) + "and 28 lines more"},
	} {
		if got := strings.Join(signs.ChangedLines([]byte(c.was), []byte(c.is)), "|"); got != c.want {
			t.Errorf("%q, %q: %s\nwant %s", c.was, c.is, got, c.want)
		}
	}
}

func TestManifestOf(t *testing.T) {
	for path, want := range map[string]string{
		"/a/.ai/bundles/x/manifest.yaml":     "/a x",
		"/a/.ai/bundles/x/y/manifest.yaml":   "/a x/y",
		"/a/.ai/bundles/manifest.yaml":       "",
		"/a/.ai/bundles/x/other.yaml":        "",
		"/a/.ai/bundles/x y/manifest.yaml":   "",
		"/a/manifest.yaml":                   "",
		"/a/.ai/bundles/x/../manifest.yaml":  "",
		"/a/.ai/bundles/x/.ai/manifest.yaml": "",
	} {
		got := ""
		if dir, id, ok := find.ManifestOf(filepath.FromSlash(path)); ok {
			got = filepath.ToSlash(dir) + " " + id
		}
		if got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// TestBundleErrors: a bundle with many failures lists the first of them.
func TestBundleErrors(t *testing.T) {
	many := &bundle.Report{Bundle: &bundle.Bundle{FileList: &manifest.FileList{BundleID: "a", Version: "1.0.0"}}}
	for i := range fault.MaxLines + 2 {
		many.Failures = append(many.Failures, &bundle.Failure{Check: bundle.CheckDigest, Path: fmt.Sprint(i),
			OnlyLineEndings: true})
	}
	f := fault.Of(&install.RefusedError{Report: many})
	if f.Code != fault.Integrity || !slices.Contains(f.Why, "and 2 more") ||
		f.Text != `the bundle "a@1.0.0" is refused: 12 failures` {
		t.Errorf("%s, %q, %q", f.Code, f.Text, f.Why)
	}
	if hints := (&find.Found{Where: find.InProject, ID: "a"}).Hints(many.Failures, true); len(hints) != 2 {
		t.Errorf("%q", hints)
	}
}

// TestBundleText writes what has parts that a good bundle doesn't have.
func TestBundleText(t *testing.T) {
	h, stdout, _ := testHost()
	term := h.Terminal(true)
	signer := keytest.Seeded(1).Public().Fingerprint()
	(&bundles.BundleReport{Bundle: "a", Version: "1.0.0", Allowed: true, Expires: "2090-01-01", Extra: true, Items: 1,
		Signers: []signing.SignerLine{{Key: strings.Repeat("a", 64), Owner: "O", Verdict: "expired"},
			{Key: strings.Repeat("b", 64), Name: "n", Verdict: "admitted"}},
		Evidence: []bundle.Attested{{Evidence: manifest.Evidence{Name: "e", Type: "t"},
			Signers: []key.Fingerprint{signer}}}}).Text(term)
	bundles.PrintMentions(term, "hosts", []bundle.Mention{{What: "x", Paths: []string{"1", "2", "3", "4"}}})
	term.Data.Flush()
	for _, want := range []string{"aaaaaaaaaaaa, O: does not count, expired", `"n" bbbbbbbbbbbb`,
		"e (t), signed by " + paths.Short(signer.String()), "2090-01-01", "1, 2, 3 and 1 more"} {
		if !bytes.Contains(stdout.Bytes(), []byte(want)) {
			t.Errorf("no %q in %s", want, stdout)
		}
	}
}
