package trust_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/trust"
)

// TestHandoverRule: without --rule a key is replaced in the only rule that names it. A key that isn't expired or
// revoked yet signs its own replacement, whatever has become of other keys; one that can't any more is replaced as
// long as the other keys reach the threshold.
func TestHandoverRule(t *testing.T) {
	alice, bob := keytest.Alice().Public(), keytest.Bob().Public()
	revoked := func(keys ...key.Public) string {
		text := "revoked:\n"
		for _, k := range keys {
			text += fmt.Sprintf("  \"key:%s\": {}\n", k.Fingerprint())
		}
		return text
	}
	one := fmt.Sprintf("rye: policy/2\n\nkeys:\n  alice: {key: %q, owner: Alice}\n  bob: {key: %q, owner: Bob}\n\n"+
		"names:\n  \"acme/**\": {keys: [alice, bob]}\n", alice, bob)
	for name, c := range map[string]struct {
		policy string
		expire time.Time // of alice
		old    key.Public
		code   fault.Code
		others int
	}{
		"its only rule":         {one, time.Time{}, bob, "", 0},
		"expires later":         {one, nine.Add(time.Second), alice, "", 0},
		"expires now":           {one, nine, alice, "", 1},
		"another is revoked":    {one + revoked(bob), time.Time{}, alice, "", 0},
		"revoked, with another": {one + revoked(alice), time.Time{}, alice, "", 1},
		"revoked, of two": {strings.Replace(one, "bob]", "bob], threshold: 2", 1) + revoked(alice), time.Time{}, alice,
			fault.Revoked, 0},
		"in no rule": {strings.Replace(one, "[alice, bob]", "[bob]", 1), time.Time{}, alice, fault.NotFound, 0},
	} {
		p, err := policy.Parse([]byte(c.policy))
		if err == nil && !c.expire.IsZero() {
			p, err = p.SetDates("alice", time.Time{}, c.expire)
		}
		if err != nil {
			t.Fatal(err)
		}
		step, others, err := trust.Handover{Old: c.old, Kept: "default"}.Plan(policy.Side{Policy: p}, nil, nine)
		if codeOf(err) != c.code || err == nil && (others != c.others || step.Rule != "acme/**" ||
			step.Retire != c.old.Fingerprint() || len(step.Before) != 2) {
			t.Errorf("%s: %+v, %d others, %v", name, step, others, err)
		}
	}
}

// TestHandoverName: the new key's name is the first that neither the policy nor the user's directory has: a key that
// is there isn't written over.
func TestHandoverName(t *testing.T) {
	p, err := twoKeys(t, "").AddKey(policy.Key{Name: "default-2", Owner: "Eve", Public: keytest.Eve().Public()}, false)
	if err != nil {
		t.Fatal(err)
	}
	for want, entries := range map[string][]key.Entry{"default-3": {{Name: "default"}},
		"default-4": {{Name: "x"}, {Name: "default-3"}}} {
		step, _, err := trust.Handover{Old: keytest.Bob().Public(), Kept: "default"}.Plan(policy.Side{Policy: p},
			entries, nine)
		if err != nil || step.Key.Name != want {
			t.Errorf("%q, %v, want %s", step.Key.Name, err, want)
		}
	}
}

// A rotationWorld is a policy file in which alice and bob sign for acme, and a rotation of alice's key to eve's.
type rotationWorld struct {
	*testing.T
	path   string
	before []byte
	keep   trust.Lists
}

func newRotationWorld(t *testing.T) *rotationWorld {
	dir, now := t.TempDir(), func() time.Time { return nine }
	w := &rotationWorld{t, filepath.Join(dir, trust.File), twoKeys(t, "").Format(),
		trust.Lists{Dir: filepath.Join(dir, "state"), Clock: now, Now: now}}
	w.write(w.before)
	return w
}

func (w *rotationWorld) write(policy []byte) {
	w.Helper()
	if err := os.WriteFile(w.path, policy, 0o600); err != nil {
		w.Fatal(err)
	}
}

// document is the rotation, signed by these keys beside the old and the new one.
func (w *rotationWorld) document(others ...key.Private) *manifest.Rotation {
	w.Helper()
	h := trust.Handover{Old: keytest.Alice().Public(), Kept: "alice", Rule: "acme/**", To: "eve"}
	step, _, err := h.Plan(policy.Side{Policy: twoKeys(w.T, "")}, nil, nine)
	if err != nil {
		w.Fatal(err)
	}
	file, _, err := h.Document(step, keytest.Alice(), keytest.Eve(), nine)
	if err != nil {
		w.Fatal(err)
	}
	doc, err := manifest.ReadRotation(bytes.NewReader(file))
	if err != nil {
		w.Fatal(err)
	}
	for _, k := range others {
		if err := doc.Sign(k, nine); err != nil {
			w.Fatal(err)
		}
	}
	return doc
}

// apply applies a rotation to the policy at a path.
func (w *rotationWorld) apply(doc *manifest.Rotation, path string) error {
	edit := w.keep.Rotation(w.Context(), doc, path, "the file.yaml")
	edit.Approve = agree
	_, err := edit.Apply(w.Context(), path, "user", nine)
	return err
}

// keys are those of the rule in the policy file.
func (w *rotationWorld) keys() []string {
	w.Helper()
	au, err := trust.Read(w.path, "user")
	if err != nil {
		w.Fatal(err)
	}
	r, _ := au.Side.Policy.RuleOf("tool:acme/x")
	return slices.Sorted(slices.Values(r.Keys))
}

// TestRotationOnce: a rotation that the rule's threshold has signed is applied a single time, whatever path leads to
// the policy: a user who has returned to the old key after a mistake doesn't lose it again to a stale document.
func TestRotationOnce(t *testing.T) {
	w := newRotationWorld(t)
	err := w.apply(w.document(), w.path)
	if codeOf(err) != fault.BelowThreshold || !slices.Equal(w.keys(), []string{"alice", "bob"}) ||
		!slices.Equal(fault.Of(err).Hint, []string{"rye sign 'the file.yaml' --as 'rotation:acme/**' --key OTHER"}) {
		t.Fatalf("one of two keys: %v, %q, hint %q", err, w.keys(), fault.Of(err).Hint)
	}
	whole := w.document(keytest.Bob())
	if err := w.apply(whole, w.path); err != nil || !slices.Equal(w.keys(), []string{"bob", "eve"}) {
		t.Fatalf("%v, %q", err, w.keys())
	}
	if err := w.apply(whole, w.path); err == nil || strings.Contains(fmt.Sprint(fault.Of(err).Hint), "rye sign") {
		t.Errorf("applied to keys that it doesn't begin with: %v", err) // no signature helps
	}
	w.write(w.before)
	link := filepath.Join(t.TempDir(), trust.File)
	if err := os.Symlink(w.path, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{w.path, link} {
		edit := w.keep.Rotation(t.Context(), whole, path, "file")
		edit.Approve = func(c trust.Change) error {
			t.Errorf("the user is asked about %+v", c)
			return nil
		}
		if _, err := edit.Apply(t.Context(), path, "user", nine); codeOf(err) != fault.Rollback ||
			!slices.Equal(w.keys(), []string{"alice", "bob"}) {
			t.Errorf("again, by %s: %v, %q", path, err, w.keys())
		}
	}
	// Another policy applies it once for itself.
	other := newRotationWorld(t)
	other.keep = w.keep
	if err := other.apply(whole, other.path); err != nil || !slices.Equal(other.keys(), []string{"bob", "eve"}) {
		t.Errorf("another policy: %v, %q", err, other.keys())
	}
}

// TestRotationRemembered: a rotation that can't be remembered isn't applied, or it could be applied again.
func TestRotationRemembered(t *testing.T) {
	for name, spoil := range map[string]func(*rotationWorld){
		"no state directory":        func(w *rotationWorld) { w.keep.Err = os.ErrPermission },
		"a journal that is no file": func(w *rotationWorld) { w.spoil(os.MkdirAll(filepath.Join(w.keep.Dir, "rollback"), 0o700)) },
		"a file for the directory":  func(w *rotationWorld) { w.spoil(os.WriteFile(w.keep.Dir, nil, 0o600)) },
	} {
		w := newRotationWorld(t)
		spoil(w)
		if err := w.apply(w.document(keytest.Bob()), w.path); err == nil ||
			!slices.Equal(w.keys(), []string{"alice", "bob"}) {
			t.Errorf("%s: %v, %q", name, err, w.keys())
		}
	}
	// The journal breaks between the question and the answer.
	w := newRotationWorld(t)
	edit := w.keep.Rotation(t.Context(), w.document(keytest.Bob()), w.path, "file")
	edit.Approve = func(trust.Change) error { return os.WriteFile(w.keep.Dir, nil, 0o600) }
	if _, err := edit.Apply(t.Context(), w.path, "user", nine); err == nil ||
		!slices.Equal(w.keys(), []string{"alice", "bob"}) {
		t.Errorf("%v, %q", err, w.keys())
	}
}

func (w *rotationWorld) spoil(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}
