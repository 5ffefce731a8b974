package door_test

import (
	"bytes"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
)

const (
	secretValue = "Xk29fj2LmQ8sTz71" // made up
	secretText  = "DATABASE_PASSWORD=" + secretValue + "\n"
)

func keys(private key.Private) manifest.SignerKey {
	return manifest.SignerKey{Public: private.Public()}
}

// TestPreview: before it sends an archive, a publisher sees whether it is good, what looks like a secret in it, and
// what has changed since the newest version before it that isn't withdrawn.
func TestPreview(t *testing.T) {
	s := newSite(t)
	ctx := t.Context()
	ada := s.session("ada")
	if _, err := ada.Claim(ctx, "acme", client.Claim{}); err != nil {
		t.Fatal(err)
	}
	options := bundle.VerifyOptions{Now: noon}
	preview := func(b []byte) (*client.Preview, error) { return ada.Preview(ctx, bytes.NewReader(b), nil, options) }
	first := s.archive("acme/base", "1.0.0")
	p, err := preview(first)
	if err != nil || p.Last != "" || p.Changes != nil || p.Early() || p.Files != 1 || p.Archive != cas.Sum(first) ||
		p.Size != int64(len(first)) || p.Bundle != "acme/base" || len(p.Signers) != 1 || len(p.Secrets) != 0 {
		t.Fatalf("%+v, %v", p, err)
	}
	published, err := ada.Publish(ctx, bytes.NewReader(first), int64(len(first)))
	if err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]struct {
		last, least string
		early       bool
	}{"1.0.1": {"1.0.0", "1.0.1", false}, "0.9.0": {}, "1.0.1-rc.1": {"1.0.0", "1.0.1", true}} {
		p, err := preview(s.archive("acme/base", version))
		if err != nil || p.Last != want.last || p.Least != want.least || p.Early() != want.early {
			t.Errorf("%s: %+v, %v", version, p, err)
		}
	}
	for name, c := range map[string]struct {
		b    []byte
		code fault.Code
	}{
		"no archive":  {[]byte("no"), ""},
		"cut off":     {first[:len(first)-20], ""},
		"no key":      {s.archiveOf("acme/base", "1.0.1", "a.md", "text"), fault.Unsigned},
		"another key": {s.archiveOf("acme/base", "1.0.1", "a.md", "text", keys(keytest.Eve())), fault.Unsigned},
		"a secret":    {s.archiveOf("acme/base", "1.0.1", ".env", secretText, keys(keytest.Alice())), ""},
	} {
		p, err := preview(c.b)
		switch {
		case name == "a secret":
			if err != nil || len(p.Secrets) != 2 || p.Secrets[0].Path != ".env" ||
				strings.Contains(p.Secrets[1].Excerpt, secretValue) {
				t.Errorf("%s: %+v, %v", name, p, err)
			}
		case err == nil, c.code != "" && fault.CodeOf(err) != c.code:
			t.Errorf("%s: %v", name, err)
		}
	}
	// A version that is yanked is nothing to compare with, and neither is one that the registry lacks.
	second := s.archive("acme/base", "1.1.0")
	if _, err := ada.Publish(ctx, bytes.NewReader(second), int64(len(second))); err != nil {
		t.Fatal(err)
	}
	if _, err := ada.Withdraw(ctx, client.Withdrawal{Bundle: "acme/base", Version: "1.1.0"}); err != nil {
		t.Fatal(err)
	}
	if p, err := preview(s.archive("acme/base", "1.2.0")); err != nil || p.Last != "1.0.0" {
		t.Errorf("%+v, %v", p, err)
	}
	if err := s.files.Remove(ctx, client.ArchiveFile(published.Archive)); err != nil {
		t.Fatal(err)
	}
	if _, err := preview(s.archive("acme/base", "1.2.0")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the archive before is gone: %v", err)
	}
	if err := s.files.Create(ctx, client.ArchiveFile(published.Archive), bytes.NewReader(second[:published.Size]),
		published.Size); err != nil {
		t.Fatal(err)
	}
	if _, err := preview(s.archive("acme/base", "1.2.0")); fault.CodeOf(err) != fault.Registry {
		t.Errorf("the archive before is another one: %v", err)
	}
}
