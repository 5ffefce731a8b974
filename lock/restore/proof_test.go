package restore_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/restore"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/lock/workspace/projecttest"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/tlog"
)

// A vendoring is a project with a bundle of a registry in .ai/vendor, with its proof.
type vendoring struct {
	*projecttest.Logged
	t *testing.T
}

func vendoredProof(t *testing.T) *vendoring {
	t.Helper()
	p := &vendoring{projecttest.NewLogged(t), t}
	l := p.Lock()
	p.Import(l, p.Proof())
	p.vendor(l, "")
	return p
}

// vendor vendors, which must end in a code.
func (p *vendoring) vendor(l *workspace.Lock, code fault.Code) *restore.VendorResult {
	p.t.Helper()
	result, err := restore.Vendor(p.t.Context(), l, restore.FetchResult{})
	if fault.CodeOf(err) != code {
		p.t.Errorf("vendor: %v", err)
	}
	return result
}

// check checks what is vendored, with a code and words in the problems.
func (p *vendoring) check(name string, code fault.Code, says string) {
	p.t.Helper()
	result, err := restore.CheckVendor(p.t.Context(), p.Unopened())
	if fault.CodeOf(err) != code {
		p.t.Errorf("%s: %v (%s), want %s", name, err, fault.CodeOf(err), code)
		return
	}
	if says != "" && !strings.Contains(strings.Join(result.Problems, "\n"), says) {
		p.t.Errorf("%s: %q", name, result.Problems)
	}
}

// loaded is the lock with its set, as before a call.
func (p *vendoring) loaded() *workspace.Lock {
	p.t.Helper()
	l := p.Unopened()
	if _, err := l.Set(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
	return l
}

// file is the vendored proof.
func (p *vendoring) file() string {
	name := strings.TrimPrefix(p.Release.Manifest.String(), "blake3:") + ".tlog-proof"
	return ".ai/vendor/" + name
}

// forged is the proof with another account in its entry.
func (p *vendoring) forged() string {
	proof := p.Proof()
	proof.Entry = bytes.Replace(proof.Entry, []byte("ada"), []byte("eve"), 1)
	return string(proof.Append(nil))
}

// TestVendoredProof: the proof of a bundle lies beside it, counts without a store, and is found out if it doesn't.
func TestVendoredProof(t *testing.T) {
	p := vendoredProof(t)
	good := string(p.Proof().Append(nil))
	if p.Read(p.file()) != good {
		t.Errorf("vendored %q", p.Read(p.file()))
	}
	p.check("as it was vendored", "", "")
	if r := p.vendor(p.Lock(), ""); r.Written+r.Removed != 0 {
		t.Errorf("vendoring again: %+v", r)
	}
	for name, l := range map[string]*workspace.Lock{"loaded": p.loaded(), "not vendored": p.Unopened()} {
		if err := restore.Proven(t.Context(), l); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}

	// A clone has no store: the proof comes along with the bundle.
	p.ForgetStore()
	l := p.Lock()
	if _, err := restore.Fetch(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	kept, err := bundle.ReadProof(t.Context(), l.DiskStore(), l.DiskStore(), p.Release.Manifest, p.Log.Name)
	if err != nil || string(kept.Append(nil)) != good {
		t.Errorf("%+v, %v", kept, err)
	}
	if _, err := restore.Fetch(t.Context(), p.Lock()); err != nil {
		t.Error(err)
	}

	for name, text := range map[string]string{"forged": p.forged(), "no proof": "x",
		"of another log":  strings.Replace(good, "registry.example", "registry.exampls", 2),
		"of another leaf": strings.Replace(good, "index 1", "index 0", 1)} {
		p.Write(p.file(), text)
		code := fault.Integrity
		if name == "no proof" {
			code = fault.Parsing
		}
		p.check(name, code, "the proof of acme/base@1.0.0 in")
		if _, err := restore.Fetch(t.Context(), p.Lock()); err != nil { // the store has a good one
			t.Errorf("%s: %v", name, err)
		}
		if r := p.vendor(p.Lock(), ""); r.Written != 1 || p.Read(p.file()) != good {
			t.Errorf("%s: %+v", name, r)
		}
		// Without a good one nothing is taken, and nothing runs.
		p.Write(p.file(), text)
		if err := restore.Proven(t.Context(), p.loaded()); fault.CodeOf(err) != code {
			t.Errorf("%s: %v", name, err)
		}
		p.ForgetStore()
		_, err := restore.Fetch(t.Context(), p.Lock())
		if fault.CodeOf(err) != code || !strings.Contains(err.Error(), "the proof of acme/base@1.0.0 in") {
			t.Errorf("%s: %v", name, err)
		}
		if r := p.vendor(p.Lock(), fault.Offline); r == nil {
			t.Errorf("%s: no result", name)
		}
		p.Write(p.file(), good)
		if _, err := restore.Fetch(t.Context(), p.Lock()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}

	p.Remove(p.file())
	p.check("no proof", fault.LockMismatch,
		"missing: the proof that the log \"registry.example/log\" has acme/base@1.0.0")
	p.vendor(p.Lock(), "")
	other := ".ai/vendor/" + strings.Repeat("0", 64) + ".tlog-proof"
	p.Write(other, good)
	p.check("a proof of nothing", fault.LockMismatch, "not needed: the proof of blake3:0000")
	if r := p.vendor(p.Lock(), ""); r.Removed != 1 || p.Read(other) != "" {
		t.Errorf("%+v", r)
	}

	// Another proof that counts, too, stays: each has other bytes.
	checkpoint, err := tlog.Open(p.Proof().Checkpoint, p.Log)
	if err != nil {
		t.Fatal(err)
	}
	w, err := tlog.NewWitnessKey("w", keytest.Seeded(7).Public())
	if err != nil {
		t.Fatal(err)
	}
	cosigned := p.Proof()
	if cosigned.Checkpoint, err = tlog.Cosign(checkpoint, w, keytest.Seeded(7), projecttest.Noon); err != nil {
		t.Fatal(err)
	}
	p.Write(p.file(), string(cosigned.Append(nil)))
	p.check("another proof", "", "")
	p.vendor(p.Lock(), "")
	if p.Read(p.file()) != string(cosigned.Append(nil)) {
		t.Error("a proof that counts was replaced")
	}

	// A policy that demands the witness.
	p.Write(".ai/logs.policy", "witness w "+w.String()+"\nquorum w\n")
	p.check("cosigned", "", "")
	p.Write(p.file(), good)
	p.check("not cosigned", fault.BelowThreshold, "too few witnesses")
	p.Write(".ai/logs.policy", "nonsense")
	if _, err := restore.CheckVendor(t.Context(), p.Unopened()); fault.CodeOf(err) != fault.Parsing {
		t.Error(err)
	}
}

// TestUnprovenVendor: a store without the proof vendors the bundle all the same, and a log whose key isn't known is
// left alone.
func TestUnprovenVendor(t *testing.T) {
	p := &vendoring{projecttest.NewLogged(t), t}
	l := p.Lock()
	p.Import(l, nil)
	p.vendor(l, "")
	if p.Read(p.file()) != "" {
		t.Error("a proof of nowhere")
	}
	p.check("no proof", fault.LockMismatch, "missing: the proof")

	unknown := p.Line
	unknown.Log = "other.example/log"
	p.WriteLock(unknown)
	p.check("a log without a key", "", "")
	p.Write(p.file(), "anything")
	p.vendor(p.Lock(), "")
	if p.Read(p.file()) != "anything" {
		t.Error("the proof of an unknown log was touched")
	}
	p.check("a log without a key", "", "")

	// No link is followed.
	p.WriteLock(p.Line)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, p.Proof().Append(nil), 0o600); err != nil {
		t.Fatal(err)
	}
	p.Remove(p.file())
	if err := os.Symlink(secret, p.At(p.file())); err != nil {
		t.Fatal(err)
	}
	if _, err := restore.CheckVendor(t.Context(), p.Unopened()); err == nil {
		t.Error("a link was read")
	}
}
