package registry_test

import (
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry/passkey/passkeytest"
	client "github.com/rye-build/rye/lock/registry"
)

// uncounted makes an account whose passkey counts no signatures, as those that are synced between devices.
func (w *world) uncounted(account string) *human {
	w.Helper()
	if _, err := w.AddAccount(w.Context(), account); err != nil {
		w.Fatal(err)
	}
	link, err := w.Invite(w.Context(), account)
	if err != nil {
		w.Fatal(err)
	}
	h := &human{world: w, device: &passkeytest.Authenticator{Origin: "https://registry.example"}}
	if h.secret, err = w.enrol(h.device, secretOf(link)); err != nil {
		w.Fatal(err)
	}
	h.person = w.personOf(h.secret)
	return h
}

// TestUsedByBoth: people and pipelines both do things that count once, and neither makes the registry forget what the
// other has done.
func TestUsedByBoth(t *testing.T) {
	w := withRuns(t, runs{"one": release, "two": release})
	ctx := t.Context()
	ada := w.uncounted("ada")
	by := w.caller("ada")
	w.claim(by, "acme")
	w.bind(by, "acme/base", theBinding())

	w.run("one", "acme/base")
	ceremony, answer := ada.answers(w.AskSignIn(ctx))
	if _, err := w.SignIn(ctx, ceremony, answer); err != nil {
		t.Fatal(err)
	}
	_, _, err := w.Trust(ctx, client.Exchange{Bundle: "acme/base", Token: "one"})
	wants(t, err, fault.AuthFailed, "was used before")
	w.run("two", "acme/base")
	_, err = w.SignIn(ctx, ceremony, answer)
	wants(t, err, fault.SessionExpired, "used already")
}

// TestSentTwice: a form that a browser sends again, as after a reload, is refused. It doesn't look like a copied
// passkey, whose counter doesn't grow either.
func TestSentTwice(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	ada := w.human("ada")
	ceremony, answer := ada.answers(w.AskSignIn(ctx))
	if _, err := w.SignIn(ctx, ceremony, answer); err != nil {
		t.Fatal(err)
	}
	_, err := w.SignIn(ctx, ceremony, answer)
	wants(t, err, fault.SessionExpired, "used already")
	ceremony, answer = ada.answers(w.AskNewPasskey(ctx, ada.person))
	if _, err := w.NewPasskey(ctx, ada.person, ceremony, answer); err != nil {
		t.Fatal(err)
	}
	_, err = w.NewPasskey(ctx, ada.person, ceremony, answer)
	wants(t, err, fault.SessionExpired, "used already")
	if _, err := ada.signIn(); err != nil {
		t.Errorf("the passkey counts no more: %v", err)
	}
}
