package passkey_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry/passkey"
	"github.com/rye-build/rye/exec/registry/passkey/passkeytest"
)

const origin = "https://registry.example"

var (
	ada       = passkey.User{Handle: []byte("handle of ada"), Name: "ada"}
	eve       = passkey.User{Handle: []byte("handle of eve"), Name: "eve"}
	challenge = bytes.Repeat([]byte{7}, 32)
	another   = bytes.Repeat([]byte{8}, 32)
)

func newSite(t testing.TB) *passkey.Site {
	t.Helper()
	site, err := passkey.New("registry.example", origin)
	if err != nil {
		t.Fatal(err)
	}
	return site
}

func enrol(t testing.TB, site *passkey.Site, a *passkeytest.Authenticator, u passkey.User) (k *passkey.Key,
	answer []byte, err error) {
	t.Helper()
	options, err := site.CreateOptions(u, challenge, nil)
	if err != nil {
		t.Fatal(err)
	}
	if answer, err = a.Create(options); err != nil {
		t.Fatal(err)
	}
	k, err = site.Created(u, challenge, answer)
	return k, answer, err
}

func ask(t testing.TB, site *passkey.Site, a *passkeytest.Authenticator, keys ...*passkey.Key) []byte {
	t.Helper()
	options, err := site.GetOptions(challenge, keys)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := a.Get(options)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func keyOf(u passkey.User, k *passkey.Key) func([]byte) (*passkey.Key, []byte, error) {
	return func(id []byte) (*passkey.Key, []byte, error) {
		if !bytes.Equal(id, k.ID) {
			return nil, nil, errors.New("unknown passkey")
		}
		return k, u.Handle, nil
	}
}

func refuses(t testing.TB, what string, err error) {
	t.Helper()
	if fault.CodeOf(err) != fault.AuthFailed {
		t.Errorf("%s: %v", what, err)
	}
}

// TestPasskey: a passkey that was made signs in, with and without a list of keys.
func TestPasskey(t *testing.T) {
	site, device := newSite(t), &passkeytest.Authenticator{Origin: origin, Counts: true}
	k, _, err := enrol(t, site, device, ada)
	if err != nil {
		t.Fatal(err)
	}
	if k.Count != 1 || len(k.Transports) != 1 || k.Synced {
		t.Errorf("%+v", k)
	}
	now, err := site.Got(challenge, ask(t, site, device), keyOf(ada, k))
	if err != nil || now.Count != 2 {
		t.Fatalf("%+v, %v", now, err)
	}
	if now, err = site.Got(challenge, ask(t, site, device, k), keyOf(ada, now)); err != nil || now.Count != 3 {
		t.Errorf("%+v, %v", now, err)
	}
	options, err := site.CreateOptions(ada, challenge, []*passkey.Key{k})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := device.Create(options); err == nil {
		t.Error("a device makes a second passkey for one account")
	}
	if _, err := passkey.New("127.0.0.1", "http://127.0.0.1"); fault.CodeOf(err) != fault.Config {
		t.Error(err)
	}
}

// TestLies: an answer for another challenge, site, origin, ceremony or user counts nowhere, and neither does one of
// a person who wasn't verified.
func TestLies(t *testing.T) {
	site := newSite(t)
	for what, lie := range map[string]func(*passkeytest.Authenticator){
		"unverified":       func(a *passkeytest.Authenticator) { a.Unverified = true },
		"absent":           func(a *passkeytest.Authenticator) { a.Absent = true },
		"another site":     func(a *passkeytest.Authenticator) { a.Site = "evil.example" },
		"another origin":   func(a *passkeytest.Authenticator) { a.Origin = "https://evil.example" },
		"another port":     func(a *passkeytest.Authenticator) { a.Origin = origin + ":8443" },
		"without TLS":      func(a *passkeytest.Authenticator) { a.Origin = "http://registry.example" },
		"another ceremony": func(a *passkeytest.Authenticator) { a.Ceremony = "payment.get" },
	} {
		liar := &passkeytest.Authenticator{Origin: origin}
		lie(liar)
		_, _, err := enrol(t, site, liar, ada)
		refuses(t, "new: "+what, err)

		device := &passkeytest.Authenticator{Origin: origin}
		k, _, err := enrol(t, site, device, ada)
		if err != nil {
			t.Fatal(err)
		}
		lie(device)
		_, err = site.Got(challenge, ask(t, site, device), keyOf(ada, k))
		refuses(t, what, err)
	}
	device := &passkeytest.Authenticator{Origin: origin}
	k, made, err := enrol(t, site, device, ada)
	if err != nil {
		t.Fatal(err)
	}
	_, err = site.Created(ada, another, made)
	refuses(t, "new: another challenge", err)
	got := ask(t, site, device)
	_, err = site.Got(another, got, keyOf(ada, k))
	refuses(t, "another challenge", err)
	_, err = site.Got(challenge, made, keyOf(ada, k))
	refuses(t, "a new key's answer", err)
	_, err = site.Got(challenge, got, keyOf(eve, k))
	refuses(t, "another account's handle", err)
	second := &passkeytest.Authenticator{Origin: origin}
	other, _, err := enrol(t, site, second, eve)
	if err != nil {
		t.Fatal(err)
	}
	_, err = site.Got(challenge, ask(t, site, second), keyOf(ada, &passkey.Key{ID: other.ID, Public: k.Public}))
	refuses(t, "another handle", err)
	second.Handle = ada.Handle
	_, err = site.Got(challenge, ask(t, site, second), keyOf(ada, &passkey.Key{ID: other.ID, Public: k.Public}))
	refuses(t, "another key's signature", err)
	if _, err = site.Got(challenge, got, keyOf(ada, other)); err == nil || err.Error() != "unknown passkey" {
		t.Error(err)
	}
	for i := range got {
		bad := bytes.Clone(got)
		bad[i] ^= 1
		if _, err := site.Got(challenge, bad, keyOf(ada, k)); err == nil && !ignored(got, i) {
			t.Errorf("with another byte %d: %s", i, bad)
		}
	}
	long := bytes.Repeat([]byte{' '}, passkey.MaxAnswer+1)
	_, err = site.Created(ada, challenge, long)
	refuses(t, "too long", err)
	_, err = site.Got(challenge, long, keyOf(ada, k))
	refuses(t, "too long", err)
}

// ignored reports whether a byte belongs to what says nothing: how the device is attached, the name of a member that
// may be missing, or the last bits of base64.
func ignored(answer []byte, i int) bool {
	if i+1 < len(answer) && answer[i+1] == '"' {
		return true
	}
	for _, text := range []string{`"authenticatorAttachment":"platform"`, `"clientExtensionResults":{}`} {
		if at := bytes.Index(answer, []byte(text)); at >= 0 && i >= at && i < at+len(text) {
			return true
		}
	}
	return false
}

// TestCloned: of a key that exists twice, the one with the lower count is noticed.
func TestCloned(t *testing.T) {
	site, device := newSite(t), &passkeytest.Authenticator{Origin: origin, Counts: true}
	k, _, err := enrol(t, site, device, ada)
	if err != nil {
		t.Fatal(err)
	}
	copied := device.Clone()
	now, err := site.Got(challenge, ask(t, site, device), keyOf(ada, k))
	if err != nil {
		t.Fatal(err)
	}
	if k, err := site.Got(challenge, ask(t, site, copied), keyOf(ada, now)); !errors.Is(err, passkey.ErrCloned) ||
		k == nil {
		t.Errorf("%+v, %v", k, err)
	}
}

// FuzzAnswer: no answer of a stranger ends the program or is accepted.
func FuzzAnswer(f *testing.F) {
	site, device := newSite(f), &passkeytest.Authenticator{Origin: origin}
	k, made, err := enrol(f, site, device, ada)
	if err != nil {
		f.Fatal(err)
	}
	got := ask(f, site, device)
	for _, seed := range [][]byte{made, got, {}, []byte("{}"), []byte(`{"response":{}}`)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		if _, err := site.Created(ada, another, answer); err == nil {
			t.Error("a passkey is made without the challenge")
		}
		if _, err := site.Got(another, answer, keyOf(ada, k)); err == nil {
			t.Error("a passkey answers without the challenge")
		}
	})
}
