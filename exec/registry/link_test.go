package registry_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry"
	"github.com/rye-build/rye/exec/registry/blobs"
	"github.com/rye-build/rye/exec/registry/rows"
)

// TestSignup: who can make an account where the configuration says what.
func TestSignup(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	ada := w.human("ada")
	signUp := func(name, address string) error {
		ask, err := w.AskSignUp(ctx, name)
		if err != nil {
			return err
		}
		answer, err := w.newDevice().Create([]byte(ask.Options))
		if err != nil {
			return err
		}
		secret, err := w.SignUp(ctx, ask.Ceremony, "", answer, address)
		if err == nil && w.personOf(secret).Account != name {
			t.Error("another account is signed in")
		}
		return err
	}
	invite := func(name string) (*registry.Link, error) {
		ceremony, answer := ada.answers(w.AskInvite(ctx, ada.person))
		return w.InviteNew(ctx, ada.person, name, ceremony, answer)
	}
	wants(t, signUp("eve", there), fault.NotFound, "host makes its accounts")
	_, err := w.SignUp(ctx, "", "", nil, there)
	wants(t, err, fault.NotFound, "host makes its accounts")
	_, err = invite("eve")
	wants(t, err, fault.Denied, "can't invite")

	w.signup(registry.SignupInvite)
	wants(t, signUp("eve", there), fault.NotFound, "host makes its accounts")
	_, err = invite("A-da")
	wants(t, err, fault.Conflict, "mistaken")
	_, err = invite("a/b")
	wants(t, err, fault.Validation, "")
	link, err := invite("eve")
	if err != nil {
		t.Fatal(err)
	}
	if link.By != "ada" || !link.New {
		t.Errorf("%+v", link)
	}
	if _, err := w.Invite(ctx, "eve"); fault.CodeOf(err) != fault.NotFound {
		t.Error("an invitation makes an account:", err)
	}
	secret, err := w.enrol(w.newDevice(), secretOf(link))
	if err != nil || w.personOf(secret).Account != "eve" {
		t.Fatal(err)
	}
	_, err = invite("eve")
	wants(t, err, fault.Conflict, "taken")
	for i := range 5 {
		if link, err = invite(fmt.Sprint("friend", i)); err != nil {
			t.Fatal(err)
		}
	}
	_, err = invite("friend5")
	wants(t, err, fault.Limit, "5 of your invitations")
	grace := w.human("grace")
	ceremony, answer := grace.answers(w.AskInvite(ctx, grace.person))
	_, err = w.InviteNew(ctx, grace.person, "friend4", ceremony, answer)
	wants(t, err, fault.Conflict, "someone else")
	// The name of an invitation may be taken before it is used.
	if _, err := w.AddAccount(ctx, "friend4"); err != nil {
		t.Fatal(err)
	}
	_, err = w.enrol(w.newDevice(), secretOf(link))
	wants(t, err, fault.Conflict, "taken")

	w.signup(registry.SignupOpen)
	wants(t, signUp("eve", there), fault.Conflict, "taken")
	wants(t, signUp("", there), fault.Validation, "")
	for i := range 5 {
		if err := signUp(fmt.Sprint("stranger", i), there); err != nil {
			t.Fatal(err)
		}
	}
	wants(t, signUp("stranger5", there), fault.RateLimited, "too many new accounts")
	if err := signUp("stranger5", "2001:db8::1"); err != nil {
		t.Error(err)
	}
	w.now = noon.Add(24 * time.Hour)
	if err := signUp("stranger6", there); err != nil {
		t.Error(err)
	}
	ask, err := w.AskSignUp(ctx, "late")
	if err != nil {
		t.Fatal(err)
	}
	made, err := w.newDevice().Create([]byte(ask.Options))
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.SignUp(ctx, ask.Ceremony, "\x00", made, "other")
	wants(t, err, fault.Validation, "")
	_, err = w.SignUp(ctx, "", "", made, "other")
	wants(t, err, fault.SessionExpired, "")
	if _, err := w.AddAccount(ctx, "late"); err != nil {
		t.Fatal(err)
	}
	_, err = w.SignUp(ctx, ask.Ceremony, "", made, "other")
	wants(t, err, fault.Conflict, "taken")
}

// TestSite: passkeys belong to the registry's name, over TLS.
func TestSite(t *testing.T) {
	dir := t.TempDir()
	files, err := blobs.OpenLocal(filepath.Join(dir, "files"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		name, url string
		site      string // "" is a refusal
	}{
		{"registry.example", "", "https://registry.example"},
		{"registry.example", "https://registry.example:8443/", "https://registry.example:8443"},
		{"localhost", "", "http://localhost:7338"},
		{"rye.localhost", "http://rye.localhost:1", "http://rye.localhost:1"},
		{"registry.example", "http://registry.example", ""}, {"registry.example", "https://other.example", ""},
		{"registry.example", "https://registry.example/path", ""}, {"registry.example", "registry.example", ""},
		{"registry.example", "https://a@registry.example", ""}, {"registry.example", ":", ""},
	} {
		w := newWorld(t)
		w.o.Name, w.o.URL = c.name, c.url
		if w.o.Rows, err = rows.OpenLocal(filepath.Join(dir, fmt.Sprint(i)), nil); err != nil {
			t.Fatal(err)
		}
		defer w.o.Rows.Close()
		w.o.Blobs = files
		if files, err = blobs.OpenLocal(filepath.Join(dir, fmt.Sprint("files", i)), nil); err != nil {
			t.Fatal(err)
		}
		w.o.Blobs = files
		r, err := registry.Open(t.Context(), w.o)
		if (err == nil) != (c.site != "") || err == nil && r.Site() != c.site {
			t.Errorf("%+v: %v", c, err)
		}
	}
	w := newWorld(t)
	w.o.Signup = "maybe"
	_, err = registry.Open(t.Context(), w.o)
	wants(t, err, fault.Config, `signup: "maybe"`)

	// A name that browsers take for no site has no pages for people.
	w = newWorld(t)
	w.o.Name, w.dir = "127.0.0.1", t.TempDir()
	w.signup(registry.SignupOpen)
	if _, err := w.AddAccount(t.Context(), "ada"); err != nil {
		t.Fatal(err)
	}
	for what, do := range map[string]func(context.Context) error{
		"invite":  func(ctx context.Context) error { _, err := w.Invite(ctx, "ada"); return err },
		"reset":   func(ctx context.Context) error { _, err := w.Reset(ctx, "ada"); return err },
		"sign in": func(ctx context.Context) error { _, err := w.AskSignIn(ctx); return err },
		"answer":  func(ctx context.Context) error { _, err := w.SignIn(ctx, "", nil); return err },
		"sign up": func(ctx context.Context) error { _, err := w.AskSignUp(ctx, "eve"); return err },
		"device":  func(ctx context.Context) error { _, err := w.RequestDevice(ctx, machine(), there); return err },
	} {
		if err := do(t.Context()); fault.CodeOf(err) != fault.Config {
			t.Errorf("%s: %v", what, err)
		}
	}
}
