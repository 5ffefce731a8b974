package registry_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry"
	"github.com/rye-build/rye/exec/registry/passkey/passkeytest"
)

// TestUnreadablePeople lets each read of what people do fail once: the error is returned, and the same can be done
// again.
func TestUnreadablePeople(t *testing.T) {
	w := newWorld(t)
	w.signup(registry.SignupOpen)
	ctx := t.Context()
	device := &passkeytest.Authenticator{Origin: "https://registry.example"} // without a counter: it may answer again
	if _, err := w.AddAccount(ctx, "ada"); err != nil {
		t.Fatal(err)
	}
	first, err := w.Invite(ctx, "ada")
	if err != nil {
		t.Fatal(err)
	}
	secret, err := w.enrol(device, secretOf(first))
	if err != nil {
		t.Fatal(err)
	}
	ada := &human{world: w, device: device, secret: secret, person: w.personOf(secret)}
	w.now = w.now.Add(time.Second) // so that the first passkey stays the first
	var n int
	for name, do := range map[string]func(r *registry.Registry, fails func(error) bool){
		"sign in": func(r *registry.Registry, fails func(error) bool) {
			ceremony, answer := ada.answers(w.AskSignIn(ctx))
			_, err := r.SignIn(ctx, ceremony, answer)
			fails(err)
		},
		"ask":    func(r *registry.Registry, fails func(error) bool) { _, err := r.AskSignIn(ctx); fails(err) },
		"person": func(r *registry.Registry, fails func(error) bool) { _, err := r.Person(ctx, secret); fails(err) },
		"passkeys": func(r *registry.Registry, fails func(error) bool) {
			_, err := r.Passkeys(ctx, "ada")
			fails(err)
		},
		"invite": func(r *registry.Registry, fails func(error) bool) { _, err := r.Invite(ctx, "ada"); fails(err) },
		"confirm": func(r *registry.Registry, fails func(error) bool) {
			_, err := r.AskNewPasskey(ctx, ada.person)
			fails(err)
		},
		"add": func(r *registry.Registry, fails func(error) bool) {
			ceremony, answer := ada.answers(w.AskNewPasskey(ctx, ada.person))
			ask, err := r.NewPasskey(ctx, ada.person, ceremony, answer)
			if fails(err) {
				return
			}
			answer, err = w.newDevice().Create([]byte(ask.Options))
			if err != nil {
				t.Fatal(err)
			}
			if err := r.AddPasskey(ctx, ada.person, ask.Ceremony, "x", answer); !fails(err) {
				w.prune(ada)
			}
		},
		"remove": func(r *registry.Registry, fails func(error) bool) {
			id := w.secondPasskey(ada)
			ceremony, answer := ada.answers(w.AskRemovePasskey(ctx, ada.person, id))
			if fails(r.RemovePasskey(ctx, ada.person, id, ceremony, answer)) {
				w.prune(ada)
			}
		},
		"enrol": func(r *registry.Registry, fails func(error) bool) {
			link, err := w.Invite(ctx, "ada")
			if err != nil {
				t.Fatal(err)
			}
			_, ask, err := r.OpenLink(ctx, secretOf(link))
			if fails(err) {
				return
			}
			answer, err := w.newDevice().Create([]byte(ask.Options))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Enrol(ctx, secretOf(link), ask.Ceremony, "x", answer); !fails(err) {
				w.prune(ada)
			}
		},
		"invite new": func(r *registry.Registry, fails func(error) bool) {
			ceremony, answer := ada.answers(w.AskInvite(ctx, ada.person))
			_, err := r.InviteNew(ctx, ada.person, "friend", ceremony, answer)
			fails(err)
		},
		"sign up": func(r *registry.Registry, fails func(error) bool) {
			n++
			ask, err := r.AskSignUp(ctx, fmt.Sprint("stranger", n))
			if fails(err) {
				return
			}
			answer, err := w.newDevice().Create([]byte(ask.Options))
			if err != nil {
				t.Fatal(err)
			}
			_, err = r.SignUp(ctx, ask.Ceremony, "x", answer, fmt.Sprint(n))
			fails(err)
		},
		"device": func(r *registry.Registry, fails func(error) bool) {
			n++
			grant, err := r.RequestDevice(ctx, machine(), fmt.Sprint(n))
			if fails(err) {
				return
			}
			found, ask, err := r.FindDevice(ctx, ada.person, grant.Code, there)
			if fails(err) {
				return
			}
			ceremony, answer := ada.answers(ask, nil)
			if fails(r.AllowDevice(ctx, ada.person, found.ID, ceremony, answer)) {
				return
			}
			_, _, err = r.Poll(ctx, grant.Secret)
			fails(err)
		},
		"wrong code": func(r *registry.Registry, fails func(error) bool) {
			h := w.personIn(ada)
			_, _, err := r.FindDevice(ctx, h, "BCDF-GHJK", there)
			if fault.CodeOf(err) == fault.AuthFailed {
				err = nil
			}
			fails(err)
		},
		"deny": func(r *registry.Registry, fails func(error) bool) {
			_, found := w.typed(ada)
			if fails(r.DenyDevice(ctx, ada.person, found.ID)) {
				if err := w.DenyDevice(ctx, ada.person, found.ID); err != nil {
					t.Fatal(err)
				}
			}
			w.now = w.now.Add(16 * time.Minute) // for the next device
			ada.person = w.personIn(ada)
		},
	} {
		for left := 0; ; left++ {
			o := w.o
			store := &faulty{w.o.Rows, 1 << 30}
			o.Rows = store
			r, err := registry.Open(ctx, o)
			if err != nil {
				t.Fatal(err)
			}
			if left > 200 {
				t.Fatalf("%s reads without end", name)
			}
			failed := false
			store.left = left
			do(r, func(err error) bool {
				if err != nil && !failed {
					failed = true
					if !errors.Is(err, errStopped) {
						t.Errorf("%s, read %d: %v", name, left, err)
					}
				}
				return err != nil
			})
			if !failed {
				if left == 0 {
					t.Errorf("%s reads nothing", name)
				}
				break
			}
		}
	}
}

// personIn signs a human in anew.
func (w *world) personIn(h *human) *registry.Person {
	w.Helper()
	secret, err := h.signIn()
	if err != nil {
		w.Fatal(err)
	}
	return w.personOf(secret)
}

// secondPasskey adds a passkey of another device to a human's account, and returns its id.
func (w *world) secondPasskey(h *human) string {
	w.Helper()
	w.now = w.now.Add(time.Second)
	link, err := w.Invite(w.Context(), h.person.Account)
	if err == nil {
		_, err = w.enrol(w.newDevice(), secretOf(link))
	}
	all, err2 := w.Passkeys(w.Context(), h.person.Account)
	if err := errors.Join(err, err2); err != nil {
		w.Fatal(err)
	}
	return all[len(all)-1].ID
}

// prune removes all passkeys of a human but the first.
func (w *world) prune(h *human) {
	w.Helper()
	all, err := w.Passkeys(w.Context(), h.person.Account)
	if err != nil {
		w.Fatal(err)
	}
	for _, k := range all[1:] {
		ceremony, answer := h.answers(w.AskRemovePasskey(w.Context(), h.person, k.ID))
		if err := w.RemovePasskey(w.Context(), h.person, k.ID, ceremony, answer); err != nil {
			w.Fatal(err)
		}
	}
}
