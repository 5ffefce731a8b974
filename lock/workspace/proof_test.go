package workspace_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/lock/workspace/projecttest"
	"github.com/rye-build/rye/manifest/tlog"
)

func wantFault(t testing.TB, name string, err error, code fault.Code, says string) {
	t.Helper()
	if fault.CodeOf(err) != code || code != "" && !strings.Contains(err.Error(), says) {
		t.Errorf("%s: %v (%s), want %s, %q", name, err, fault.CodeOf(err), code, says)
	}
}

// TestProof: which proof of a bundle is checked, and what is said where none can be.
func TestProof(t *testing.T) {
	p := projecttest.NewLogged(t)
	ctx := t.Context()
	work := func() *workspace.Workspace { return p.Workspace(workspace.Options{Offline: true}) }
	path := filepath.Join(t.TempDir(), "base.tar.zst")
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put(path, string(p.Archive))
	alone := p.Release
	alone.Archive, alone.Size = cas.Digest{}, 0

	// None at all.
	for _, archive := range []string{"", path} {
		if got, err := work().Proof(ctx, p.Release, archive); got != nil || err != nil {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if proof, err := work().Beside(ctx, path); proof != nil || err != nil {
		t.Errorf("%+v, %v", proof, err)
	}

	// Beside the archive.
	good := string(p.Proof().Append(nil))
	put(path+".tlog-proof", good)
	got, err := work().Proof(ctx, p.Release, path)
	if err != nil || got.Proven == nil || got.Entry != 1 || got.By != "ada" || got.Unchecked != "" {
		t.Fatalf("%+v, %v", got, err)
	}
	beside, err := work().Beside(ctx, path)
	if err != nil || beside == nil {
		t.Fatalf("%+v, %v", beside, err)
	}
	other := p.Release
	other.Version = "1.1.0"
	_, err = work().Proof(ctx, other, path)
	wantFault(t, "another version", err, fault.Integrity, "base.tar.zst.tlog-proof\": the proof is of another version")
	put(path+".tlog-proof", "no proof")
	_, err = work().Proof(ctx, p.Release, path)
	wantFault(t, "no proof", err, fault.Parsing, "base.tar.zst.tlog-proof\": proof of inclusion")
	_, err = work().Beside(ctx, path)
	wantFault(t, "no proof", err, fault.Parsing, "proof of inclusion")
	put(path+".tlog-proof", good)
	more := filepath.Join(t.TempDir(), "more.tar.zst")
	put(more, string(p.Archive)+"x")
	put(more+".tlog-proof", good)
	_, err = work().Beside(ctx, more)
	wantFault(t, "other bytes", err, fault.Integrity, "another archive")
	put(more, "no archive")
	if proof, err := work().Beside(ctx, more); proof != nil || err != nil {
		t.Errorf("no archive: %+v, %v", proof, err)
	}
	if err := os.Remove(more); err != nil {
		t.Fatal(err)
	}
	if _, err = work().Beside(ctx, more); err == nil {
		t.Error("a proof beside nothing")
	}

	// Kept with the bundle.
	if err := work().TakeProof(ctx, p.Release, beside); err != nil {
		t.Fatal(err)
	}
	for name, of := range map[string]tlog.Release{"the bundle": alone, "the archive": p.Release} {
		if got, err := work().Proof(ctx, of, ""); err != nil || got.Proven == nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if all, err := work().Proofs(ctx, of); err != nil || len(all) != 1 {
			t.Errorf("%s: %+v, %v", name, all, err)
		}
	}
	signed := p.Release
	signed.Archive = cas.Sum([]byte("with another signature"))
	got, err = work().Proof(ctx, signed, "")
	if err != nil || got.Proven != nil || got.Unchecked != "the kept proof is of another archive of this bundle" {
		t.Errorf("%+v, %v", got, err)
	}
	if all, err := work().Proofs(ctx, signed); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}

	// A forged one isn't taken, and one that is there isn't replaced.
	forged := p.Proof()
	forged.Entry = bytes.Replace(forged.Entry, []byte("ada"), []byte("eve"), 1)
	w := work()
	wantFault(t, "a forged proof", w.TakeProof(ctx, p.Release, forged), fault.Integrity, "does not have this entry")
	store, err := w.OpenStore(false)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := bundle.ReadProof(ctx, store, store, p.Release.Manifest, p.Log.Name)
	if err != nil || string(kept.Append(nil)) != good {
		t.Errorf("%+v, %v", kept, err)
	}
	if err := install.KeepProof(ctx, store, p.Release.Manifest, forged); err != nil {
		t.Fatal(err)
	}
	_, err = work().Proof(ctx, alone, "")
	wantFault(t, "a forged proof", err, fault.Integrity, "does not have this entry")
	if all, err := work().Proofs(ctx, alone); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	if err := work().TakeProof(ctx, p.Release, p.Proof()); err != nil {
		t.Error(err)
	}
	if got, err := work().Proof(ctx, alone, ""); err != nil || got.Proven == nil {
		t.Errorf("after a good one was taken: %+v, %v", got, err)
	}

	// A log that the project doesn't take the bundle from, and one whose key stands nowhere.
	elsewhere := p.Proof()
	elsewhere.Checkpoint = bytes.Replace(elsewhere.Checkpoint, []byte("registry.example"),
		[]byte("elsewhere.example"), 1)
	if err := install.KeepProof(ctx, store, p.Release.Manifest, elsewhere); err != nil {
		t.Fatal(err)
	}
	if err := install.KeepProof(ctx, store, p.Release.Manifest, p.Proof()); err != nil {
		t.Fatal(err)
	}
	if got, err := work().Proof(ctx, alone, ""); err != nil || got.Proven == nil {
		t.Errorf("%+v, %v", got, err)
	}
	put(path+".tlog-proof", string(elsewhere.Append(nil)))
	_, err = work().Proof(ctx, p.Release, path)
	wantFault(t, "another log", err, fault.Integrity, "rye.yaml takes acme/base from a registry with the log")
	p.Write(workspace.MarkerFile, "")
	for _, archive := range []string{"", path} {
		got, err := work().Proof(ctx, p.Release, archive)
		if err != nil || got.Proven != nil || !strings.HasPrefix(got.Unchecked, "no key of the log \"") {
			t.Errorf("%+v, %v", got, err)
		}
	}

	// What the policies of witnesses and rye.yaml say must be readable.
	p.Write(".ai/"+workspace.WitnessFile, "nonsense")
	_, err = work().Proof(ctx, alone, "")
	wantFault(t, "a policy that is none", err, fault.Parsing, "log policy: line 1")
	_, err = work().Proofs(ctx, alone)
	wantFault(t, "a policy that is none", err, fault.Parsing, "log policy: line 1")
	_, err = work().Beside(ctx, path)
	wantFault(t, "a policy that is none", err, fault.Parsing, "log policy: line 1")
}

// TestVendoredProof: a vendored proof counts like one in the store.
func TestVendoredProof(t *testing.T) {
	p := projecttest.NewLogged(t)
	ctx := t.Context()
	alone := tlog.Release{Bundle: p.Release.Bundle, Version: p.Release.Version, Manifest: p.Release.Manifest}
	file := ".ai/vendor/" + strings.TrimPrefix(p.Release.Manifest.String(), "blake3:") + ".tlog-proof"
	p.Write(file, string(p.Proof().Append(nil)))
	w := p.Workspace(workspace.Options{Offline: true})
	if got, err := w.Proof(ctx, alone, ""); err != nil || got.Proven == nil {
		t.Errorf("%+v, %v", got, err)
	}
	p.Write(file, "no proof")
	_, err := w.Proof(ctx, alone, "")
	wantFault(t, "no proof", err, fault.Parsing, "proof of inclusion")
	if _, err := w.Proofs(ctx, alone); err == nil {
		t.Error("no proof")
	}
	p.Remove(".ai/vendor")
	p.Write(".ai/vendor", "a file")
	if _, err := w.Proof(ctx, alone, ""); err == nil {
		t.Error("a file in the place of .ai/vendor")
	}
	p.Remove(".ai/vendor")
	// Without a store there is nothing, and one that can't be read is no reason to stop.
	if got, err := w.Proof(ctx, alone, ""); got != nil || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if err := os.WriteFile(p.Store(), []byte("no store"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := w.Proof(ctx, alone, ""); got != nil || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if err := w.TakeProof(ctx, p.Release, p.Proof()); err == nil {
		t.Error("kept in no store")
	}
	p.Write(workspace.MarkerFile, "nonsense")
	if _, err := w.Logs(); err == nil {
		t.Error("a rye.yaml that is none")
	}
}
