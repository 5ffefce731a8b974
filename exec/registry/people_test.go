package registry_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry"
	"github.com/rye-build/rye/exec/registry/blobs"
	"github.com/rye-build/rye/exec/registry/passkey/passkeytest"
)

const there = "203.0.113.7"

// signup opens the registry anew with a way to make accounts.
func (w *world) signup(s registry.Signup) {
	w.Helper()
	w.o.Signup = s
	w.open()
}

// A human has an account, a device with a passkey, and a browser that is signed in.
type human struct {
	*world
	device *passkeytest.Authenticator
	person *registry.Person
	secret string // of the session
}

func (w *world) newDevice() *passkeytest.Authenticator {
	return &passkeytest.Authenticator{Origin: "https://registry.example", Counts: true}
}

// secretOf returns what stands behind the # of a link.
func secretOf(l *registry.Link) string {
	_, secret, _ := strings.Cut(l.URL, "/enrol#")
	return secret
}

// human makes an account, and enrols a passkey with a link.
func (w *world) human(account string) *human {
	w.Helper()
	if _, err := w.AddAccount(w.Context(), account); err != nil {
		w.Fatal(err)
	}
	link, err := w.Invite(w.Context(), account)
	if err != nil {
		w.Fatal(err)
	}
	h := &human{world: w, device: w.newDevice()}
	if h.secret, err = w.enrol(h.device, secretOf(link)); err != nil {
		w.Fatal(err)
	}
	h.person = w.personOf(h.secret)
	return h
}

func (w *world) personOf(secret string) *registry.Person {
	w.Helper()
	p, err := w.Person(w.Context(), secret)
	if err != nil {
		w.Fatal(err)
	}
	return p
}

// enrol uses a link with a device.
func (w *world) enrol(device *passkeytest.Authenticator, secret string) (session string, err error) {
	_, ask, err := w.OpenLink(w.Context(), secret)
	if err != nil {
		return "", err
	}
	answer, err := device.Create([]byte(ask.Options))
	if err != nil {
		return "", err
	}
	return w.Enrol(w.Context(), secret, ask.Ceremony, "laptop", answer)
}

// answers returns what the device answers, and fails the test if it can't.
func (h *human) answers(ask *registry.Ask, err error) (ceremony string, answer []byte) {
	h.Helper()
	if err == nil {
		answer, err = h.device.Get([]byte(ask.Options))
	}
	if err != nil {
		h.Fatal(err)
	}
	return ask.Ceremony, answer
}

// signIn signs in anew.
func (h *human) signIn() (string, error) {
	h.Helper()
	ceremony, answer := h.answers(h.AskSignIn(h.Context()))
	return h.SignIn(h.Context(), ceremony, answer)
}

// TestPasskeys: a link makes a passkey, which signs in; another one is added and removed; the last one stays.
func TestPasskeys(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	ada := w.human("ada")
	if ada.person.Account != "ada" {
		t.Errorf("%+v", ada.person)
	}
	secret, err := ada.signIn()
	if err != nil {
		t.Fatal(err)
	}
	second := w.personOf(secret)
	if !second.Sent(second.FormToken()) || second.Sent(ada.person.FormToken()) || second.Sent("") {
		t.Error("a form counts in another session")
	}
	all, err := w.Passkeys(ctx, "ada")
	if err != nil || len(all) != 1 || all[0].Label != "laptop" || all[0].Used.IsZero() {
		t.Fatalf("%+v, %v", all, err)
	}
	ceremony, answer := ada.answers(w.AskRemovePasskey(ctx, ada.person, all[0].ID))
	wants(t, w.RemovePasskey(ctx, ada.person, all[0].ID, ceremony, answer), fault.Conflict, "last passkey")

	ceremony, answer = ada.answers(w.AskNewPasskey(ctx, ada.person))
	ask, err := w.NewPasskey(ctx, ada.person, ceremony, answer)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ada.device.Create([]byte(ask.Options)); err == nil {
		t.Error("one device makes two passkeys for one account")
	}
	phone := w.newDevice()
	made, err := phone.Create([]byte(ask.Options))
	if err != nil {
		t.Fatal(err)
	}
	wants(t, w.AddPasskey(ctx, second, ask.Ceremony, "phone", made), fault.SessionExpired, "")
	wants(t, w.AddPasskey(ctx, ada.person, ask.Ceremony, "a\u202eb", made), fault.Validation, "name")
	w.now = noon.Add(time.Second)
	if err := w.AddPasskey(ctx, ada.person, ask.Ceremony, "", made); err != nil {
		t.Fatal(err)
	}
	wants(t, w.AddPasskey(ctx, ada.person, ask.Ceremony, "", made), fault.SessionExpired, "used already")
	if all, err = w.Passkeys(ctx, "ada"); err != nil || len(all) != 2 || all[1].Label != "passkey" {
		t.Fatalf("%+v, %v", all, err)
	}
	ceremony, answer = ada.answers(w.AskRemovePasskey(ctx, ada.person, all[1].ID))
	wants(t, w.RemovePasskey(ctx, ada.person, all[0].ID, ceremony, answer), fault.SessionExpired, "")
	if err := w.RemovePasskey(ctx, ada.person, all[1].ID, ceremony, answer); err != nil {
		t.Fatal(err)
	}
	gone := human{world: w, device: phone}
	_, err = gone.signIn()
	wants(t, err, fault.AuthFailed, "belongs to no account")
	ceremony, answer = ada.answers(w.AskRemovePasskey(ctx, ada.person, "none"))
	wants(t, w.RemovePasskey(ctx, ada.person, "none", ceremony, answer), fault.NotFound, "none")

	if err := w.SignOut(ctx, second); err != nil {
		t.Fatal(err)
	}
	_, err = w.Person(ctx, secret)
	wants(t, err, fault.SessionExpired, "not signed in")
	ceremony, answer = ada.answers(w.AskNewPasskey(ctx, second))
	_, err = w.NewPasskey(ctx, second, ceremony, answer)
	wants(t, err, fault.SessionExpired, "")
}

// TestManyPasskeys: an account has a bounded number of them.
func TestManyPasskeys(t *testing.T) {
	w := newWorld(t)
	w.human("ada")
	for n := 2; ; n++ {
		link, err := w.Invite(t.Context(), "ada")
		if err != nil {
			t.Fatal(err)
		}
		if _, err = w.enrol(w.newDevice(), secretOf(link)); err != nil {
			wants(t, err, fault.Limit, "at most 20")
			if n != 21 {
				t.Error(n)
			}
			return
		}
	}
}

// TestBadPasskeys: an answer that is guessed, replayed, late, for something else or of another account counts nowhere.
func TestBadPasskeys(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	ada, eve := w.human("ada"), w.human("eve")

	thief := &human{world: w, device: ada.device.Clone()}
	ceremony, answer := ada.answers(w.AskSignIn(ctx))
	if _, err := w.SignIn(ctx, ceremony, answer); err != nil {
		t.Fatal(err)
	}
	_, err := w.SignIn(ctx, ceremony, answer)
	wants(t, err, fault.SessionExpired, "used already")
	_, err = thief.signIn()
	wants(t, err, fault.AuthFailed, "copied") // its counter is that of the first time
	all, err := w.Passkeys(ctx, "ada")
	if err != nil || !all[0].Copied {
		t.Fatalf("%+v, %v", all, err)
	}
	_, err = ada.signIn()
	wants(t, err, fault.AuthFailed, "belongs to no account")

	eve.device.Counts, eve.device.Count = false, 0 // as synced passkeys do, from the start
	grace := w.human("grace")
	grace.device.Counts = false
	link, err := w.Reset(ctx, "grace")
	if err != nil {
		t.Fatal(err)
	}
	grace.device = &passkeytest.Authenticator{Origin: "https://registry.example"}
	if grace.secret, err = w.enrol(grace.device, secretOf(link)); err != nil {
		t.Fatal(err)
	}
	grace.person = w.personOf(grace.secret)
	ceremony, answer = grace.answers(w.AskSignIn(ctx))
	if _, err := w.SignIn(ctx, ceremony, answer); err != nil {
		t.Fatal(err)
	}
	_, err = w.SignIn(ctx, ceremony, answer)
	wants(t, err, fault.SessionExpired, "used already")

	ceremony, answer = grace.answers(w.AskSignIn(ctx))
	w.now = noon.Add(5 * time.Minute)
	_, err = w.SignIn(ctx, ceremony, answer)
	wants(t, err, fault.SessionExpired, "too old")
	w.now = noon
	for _, bad := range []string{"", ".", ceremony + "A", "A" + ceremony, strings.ToUpper(ceremony),
		strings.Replace(ceremony, ".", "", 1)} {
		_, err = w.SignIn(ctx, bad, answer)
		wants(t, err, fault.SessionExpired, "")
	}
	other, _ := grace.answers(w.AskSignIn(ctx))
	_, err = w.SignIn(ctx, other, answer)
	wants(t, err, fault.AuthFailed, "not accepted")
	other, _ = grace.answers(w.AskNewPasskey(ctx, grace.person))
	_, err = w.SignIn(ctx, other, answer)
	wants(t, err, fault.SessionExpired, "")
	_, err = w.SignIn(ctx, ceremony, []byte("{}"))
	wants(t, err, fault.AuthFailed, "not accepted")

	// What another account confirms.
	hugo := w.human("hugo")
	ask, err := w.AskNewPasskey(ctx, grace.person)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hugo.device.Get([]byte(ask.Options)); err == nil {
		t.Error("a passkey of another account is asked")
	}
	ceremony, answer = hugo.answers(w.AskNewPasskey(ctx, hugo.person))
	_, err = w.NewPasskey(ctx, grace.person, ceremony, answer)
	wants(t, err, fault.SessionExpired, "")
	_, err = w.NewPasskey(ctx, grace.person, ask.Ceremony, answer)
	wants(t, err, fault.AuthFailed, "")

	// Sessions: guessed, and over.
	for _, guess := range []string{"", grace.secret + "x", grace.secret[1:], grace.person.FormToken()} {
		_, err := w.Person(ctx, guess)
		wants(t, err, fault.SessionExpired, "")
	}
	w.now = noon.Add(12 * time.Hour)
	_, err = w.Person(ctx, grace.secret)
	wants(t, err, fault.SessionExpired, "")
	w.now = noon
	if err := w.Disable(ctx, "grace", true); err != nil {
		t.Fatal(err)
	}
	_, err = w.Person(ctx, grace.secret)
	wants(t, err, fault.SessionExpired, "")
	_, err = grace.signIn()
	wants(t, err, fault.AuthFailed, "belongs to no account")
}

// TestLinks: a link counts once, for an hour, until there is a newer one, and for its account alone.
func TestLinks(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	_, err := w.Invite(ctx, "ada")
	wants(t, err, fault.NotFound, "ada")
	_, err = w.Reset(ctx, "a/b")
	wants(t, err, fault.NotFound, "a/b")
	for _, name := range []string{"ada", "eve"} {
		if _, err := w.AddAccount(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	invite := func(name string) *registry.Link {
		t.Helper()
		l, err := w.Invite(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	old, fresh, other := invite("ada"), invite("ada"), invite("eve")
	if !strings.HasPrefix(fresh.URL, "https://registry.example/enrol#ryer_l_") ||
		!fresh.Expires.Equal(noon.Add(time.Hour)) {
		t.Errorf("%+v", fresh)
	}
	for _, guess := range []string{"", secretOf(old), secretOf(fresh) + "x", "ryer_l_"} {
		_, _, err = w.OpenLink(ctx, guess)
		wants(t, err, fault.AuthFailed, "the link is unknown")
	}
	w.now = noon.Add(time.Hour)
	_, err = w.enrol(w.newDevice(), secretOf(fresh))
	wants(t, err, fault.AuthFailed, "the link is unknown")
	w.now = noon
	// The ceremony of one link, and another link.
	_, ask, err := w.OpenLink(ctx, secretOf(fresh))
	if err != nil {
		t.Fatal(err)
	}
	made, err := w.newDevice().Create([]byte(ask.Options))
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Enrol(ctx, secretOf(other), ask.Ceremony, "x", made)
	wants(t, err, fault.SessionExpired, "")
	_, err = w.Enrol(ctx, secretOf(fresh), ask.Ceremony, strings.Repeat("x", 101), made)
	wants(t, err, fault.Validation, "")
	_, err = w.Enrol(ctx, secretOf(fresh), "no ceremony", "x", made)
	wants(t, err, fault.SessionExpired, "")
	if _, err = w.Enrol(ctx, secretOf(fresh), ask.Ceremony, "x", made); err != nil {
		t.Fatal(err)
	}
	_, err = w.Enrol(ctx, secretOf(fresh), ask.Ceremony, "x", made)
	wants(t, err, fault.AuthFailed, "the link is unknown")
	_, _, err = w.OpenLink(ctx, secretOf(fresh))
	wants(t, err, fault.AuthFailed, "the link is unknown")
	// One device's answer is no second account's passkey.
	_, ask, err = w.OpenLink(ctx, secretOf(other))
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Enrol(ctx, secretOf(other), ask.Ceremony, "x", made)
	wants(t, err, fault.AuthFailed, "not accepted")
	if err := w.Disable(ctx, "eve", true); err != nil {
		t.Fatal(err)
	}
	_, err = w.enrol(w.newDevice(), secretOf(other))
	wants(t, err, fault.AuthFailed, "")
}

// TestReset: nothing that could act for the account does afterwards.
func TestReset(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	ada, eve := w.human("ada"), w.human("eve")
	token := w.login(ada)
	first, err := w.Invite(ctx, "ada")
	if err != nil {
		t.Fatal(err)
	}
	grant, found := w.typed(ada)
	ceremony, answer := ada.answers(found.ask, nil)
	if err := w.AllowDevice(ctx, ada.person, found.ID, ceremony, answer); err != nil {
		t.Fatal(err)
	}
	w.claim(w.caller("ada"), "acme")
	w.bind(w.caller("ada"), "acme/base", theBinding())
	w.claim(w.caller("eve"), "other")
	w.bind(w.caller("eve"), "other/base", theBinding())
	link, err := w.Reset(ctx, "ada")
	if err != nil {
		t.Fatal(err)
	}
	for bundle, want := range map[string]int{"acme/base": 0, "other/base": 1} {
		if all, err := w.Publishers(ctx, nil, bundle); err != nil || len(all) != want {
			t.Errorf("pipelines of %s: %v, %v", bundle, all, err)
		}
	}
	_, err = w.Caller(ctx, token)
	wants(t, err, fault.AuthFailed, "")
	_, err = w.Person(ctx, ada.secret)
	wants(t, err, fault.SessionExpired, "")
	_, err = ada.signIn()
	wants(t, err, fault.AuthFailed, "")
	_, err = w.enrol(w.newDevice(), secretOf(first))
	wants(t, err, fault.AuthFailed, "")
	if _, _, err := w.Poll(ctx, grant.Secret); err != registry.DeviceUnknown {
		t.Error(err)
	}
	if _, err := eve.signIn(); err != nil {
		t.Error("another account:", err)
	}
	if _, err := w.enrol(w.newDevice(), secretOf(link)); err != nil {
		t.Error(err)
	}
}

// TestRestoredPeople: after a restore passkeys sign in, and no session, link or code of the backup counts again.
func TestRestoredPeople(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	ada := w.human("ada")
	link, err := w.Invite(ctx, "ada")
	if err != nil {
		t.Fatal(err)
	}
	grant, _ := w.typed(ada)
	to, err := blobs.OpenLocal(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	w.backup(to)
	restore, other := w.another(to)
	other.restored(restore)
	_, err = other.Person(ctx, ada.secret)
	wants(t, err, fault.SessionExpired, "")
	_, _, err = other.OpenLink(ctx, secretOf(link))
	wants(t, err, fault.AuthFailed, "the link is unknown")
	if _, _, err := other.Poll(ctx, grant.Secret); err != registry.DeviceUnknown {
		t.Error(err)
	}
	again := human{world: other, device: ada.device}
	if _, err := again.signIn(); err != nil {
		t.Error(err)
	}
}
