package signing_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/admission/admissiontest"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/sign"
	"github.com/rye-build/rye/manifest/signing"
	"github.com/rye-build/rye/manifest/trust"
)

var now = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// trusting is a policy that knows alice and bob, with one rule for all names.
func trusting(t *testing.T, rule string) *trust.Trust {
	t.Helper()
	side := admissiontest.Trust(t, now, "  \"**\": {"+rule+"}\n").Root
	return &trust.Trust{Root: &trust.Authority{Side: side, Path: "policy.yaml", Origin: "user"}, Now: now}
}

func subject(t *testing.T, file, name string) signing.Subject {
	t.Helper()
	s, err := signing.NewSubject(file, name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSubject(t *testing.T) {
	for _, name := range []string{"", "tool", ":a", "tool:"} {
		if _, err := signing.NewSubject("a.py", name); fault.CodeOf(err) != fault.Validation {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// A file goes through all that can be said of it, each refusal with the commands that help.
func TestSignAndVerify(t *testing.T) {
	s := subject(t, "a b.py", "tool:t")
	alice := &signing.Signer{Key: keytest.Alice(), At: now, Now: now}
	plain := []byte("print(1)\n")
	for _, c := range []struct {
		name, rule string
		signers    []*signing.Signer
		edit       string
		code       fault.Code
		trust      string
		hint       string
	}{
		{name: "unsigned", rule: "keys: [alice]", code: fault.Unsigned, trust: "unsigned", hint: "less 'a b.py'"},
		{name: "signed", rule: "keys: [alice]", signers: []*signing.Signer{alice}, trust: "signed"},
		{name: "too few", rule: "keys: [alice, bob], threshold: 2", signers: []*signing.Signer{alice},
			code: fault.BelowThreshold, trust: "refused",
			hint: "rye sign 'a b.py' --as tool:t --key OTHER"},
		{name: "excepted", rule: "keys: [alice], except: [t]", signers: []*signing.Signer{alice}, code: fault.Policy,
			trust: "refused", hint: "rye trust check tool:t"},
		{name: "of a stranger", rule: "keys: [bob]", signers: []*signing.Signer{{Key: keytest.Eve(), At: now,
			Now: now}}, code: fault.UntrustedKey, trust: "refused",
			hint: "rye docs keys"},
		{name: "v1", rule: "keys: [alice]", signers: []*signing.Signer{{Key: keytest.Alice(), V1: true, At: now,
			Now: now}}, code: fault.Policy, trust: "refused",
			hint: "rye trust add alice --names '**' --accept v1"},
		{name: "v1 that is accepted", rule: "keys: [alice], accept: [v1, v2]",
			signers: []*signing.Signer{{Key: keytest.Alice(), V1: true, At: now, Now: now}},
			code:    fault.Policy, trust: "refused", hint: "rye sign --upgrade --all"},
		{name: "changed", rule: "keys: [alice]", signers: []*signing.Signer{alice}, edit: "print(2)",
			code: fault.Integrity, trust: "refused", hint: "rye sign 'a b.py' --as tool:t"},
	} {
		tr := trusting(t, c.rule)
		file := plain
		for _, k := range c.signers {
			one := *k
			one.Trust = tr
			l, err := one.Sign(s, file)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if (l.Refusal == nil) != (c.code == "" || c.edit != "") || l.Allowed == (l.Refusal != nil) || !l.Changed {
				t.Errorf("%s: after signing: %+v", c.name, l)
			}
			if again, err := one.Sign(s, l.Bytes); err != nil || again.Changed {
				t.Errorf("%s: signed again: %+v, %v", c.name, again, err)
			}
			file = l.Bytes
		}
		if c.edit != "" {
			file = bytes.Replace(file, []byte("print(1)"), []byte(c.edit), 1)
		}
		v, f := signing.Verify(tr, trust.Lists{}, s, bytes.NewReader(file))
		if v.Code != c.code || v.Trust != c.trust || v.Allowed != (f == nil) || f != nil &&
			(f.Code != c.code || !slices.Contains(f.Hint, c.hint)) {
			t.Errorf("%s: %+v, %+v", c.name, v, f)
		}
	}
}

// A v1 signature becomes one of v2 where the policy accepts it.
func TestUpgrade(t *testing.T) {
	s := subject(t, "t.py", "tool:t")
	v1 := &signing.Signer{Key: keytest.Alice(), V1: true, At: now, Now: now}
	first, err := v1.Sign(s, []byte("print(1)\n"))
	if err != nil {
		t.Fatal(err)
	}
	sign := func(k *signing.Signer) (*signing.Signed, error) { return k.Sign(s, first.Bytes) }
	if _, err := sign(&signing.Signer{Key: keytest.Bob(), At: now, Now: now}); fault.CodeOf(err) != fault.Validation ||
		!strings.Contains(fault.Of(err).Hint[0], "--upgrade") {
		t.Errorf("signed in v2 without upgrade: %v", err)
	}
	if _, err := sign(&signing.Signer{Key: keytest.Alice(), Upgrade: true, At: now,
		Now: now}); fault.CodeOf(err) != fault.Policy {
		t.Errorf("without a policy: %v", err)
	}
	if _, err := sign(&signing.Signer{Key: keytest.Alice(), Upgrade: true, At: now, Now: now,
		Trust: trusting(t, "keys: [alice]")}); fault.CodeOf(err) != fault.Policy {
		t.Errorf("a policy that accepts v2 alone: %v", err)
	}
	if _, err := sign(&signing.Signer{Key: keytest.Alice(), Upgrade: true, At: now, Now: now,
		Trust: trusting(t, "keys: [bob], accept: [v1, v2]")}); fault.CodeOf(err) != fault.Policy {
		t.Errorf("of a key without a rule: %v", err)
	}
	up, err := sign(&signing.Signer{Key: keytest.Alice(), Upgrade: true, At: now, Now: now,
		Trust: trusting(t, "keys: [alice], accept: [v1, v2]")})
	if err != nil || !up.Allowed || up.Format != "v2" || up.Replaced != 0 {
		t.Fatalf("%+v, %v", up, err)
	}
	if _, err := v1.Sign(s, up.Bytes); fault.CodeOf(err) != fault.Validation {
		t.Errorf("v1 beside v2: %v", err)
	}
	if _, err := v1.Sign(s, make([]byte, signing.MaxSigned+1)); fault.CodeOf(err) != fault.Limit {
		t.Errorf("too large: %v", err)
	}
}

// A file that was replaced while it was signed is kept.
func TestSignFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.py")
	write := func(text string) {
		t.Helper()
		if err := osfile.WriteFile(path, 0o600, false, osfile.BytesOf([]byte(text))); err != nil {
			t.Fatal(err)
		}
	}
	write("print(1)\n")
	k := &signing.Signer{Key: keytest.Alice(), At: now, Now: now}
	s := signing.Subject{Subject: admission.Subject{Name: "tool:t", Style: sign.Hash}, File: path}
	file, err := osfile.OpenRegular(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	write("print(2)\n")
	if _, err = k.SignFile(s, file, false); !errors.Is(err, sign.ErrChanged) || fault.CodeOf(err) != fault.Conflict {
		t.Errorf("%v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "print(2)\n" {
		t.Errorf("%q, %v", b, err)
	}
	again, err := osfile.OpenRegular(path)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	l, err := k.SignFile(s, again, true)
	if b, _ := os.ReadFile(path); err != nil || !l.Changed || string(b) != "print(2)\n" {
		t.Errorf("a dry run: %+v, %v, %q", l, err, b)
	}
	if _, err := again.Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	l, err = k.SignFile(s, again, false)
	if b, _ := os.ReadFile(path); err != nil || !bytes.Equal(b, l.Bytes) {
		t.Errorf("%+v, %v, %q", l, err, b)
	}
	s.Name = "transcript:t"
	if _, err := k.SignFile(s, again, false); fault.CodeOf(err) != fault.Validation {
		t.Errorf("a transcript: %v", err)
	}
}

// The code of many refusals is the gravest.
func TestReport(t *testing.T) {
	for _, c := range []struct {
		codes []fault.Code
		want  fault.Code
	}{
		{[]fault.Code{fault.Unsigned, fault.UntrustedKey}, fault.Unsigned},
		{[]fault.Code{fault.Unsigned, fault.Policy}, fault.Policy},
		{[]fault.Code{fault.Policy, fault.Revoked, fault.SignatureInvalid}, fault.SignatureInvalid},
		{[]fault.Code{fault.Revoked, fault.Integrity, fault.Unsigned}, fault.Integrity},
	} {
		files := []*signing.Evidence{{Allowed: true}}
		for _, one := range c.codes {
			files = append(files, &signing.Evidence{Code: one, Space: "project", Hint: []string{"rye fetch"}})
		}
		r, err := signing.NewReport(files, nil)
		f := fault.Of(err)
		if want := fmt.Sprintf("%d of %d items refused", len(c.codes), len(files)); f.Code != c.want ||
			f.Text != want || f.Line().Exit != fault.ExitNo || r.Refused != len(c.codes) {
			t.Errorf("%q: %s, %q", c.codes, f.Code, f.Text)
		}
	}
	if r, err := signing.NewReport([]*signing.Evidence{{Allowed: true}}, nil); err != nil || r.Allowed != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	one := fault.New(fault.Unsigned, "x")
	if _, err := signing.NewReport([]*signing.Evidence{{}}, one); err != one {
		t.Errorf("%v", err)
	}
	v, f := signing.Refused(trusting(t, "keys: [alice]"), "tool:t", "t.py", "project", sign.ErrUnsigned)
	if v.Code != fault.Unsigned || v.Reason != "unsigned" || f.Code != fault.Unsigned {
		t.Errorf("%+v, %v", v, f)
	}
}
