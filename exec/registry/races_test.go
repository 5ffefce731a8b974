package registry_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rye-build/rye/exec/registry"
	client "github.com/rye-build/rye/lock/registry"
)

// TestOnceForAll: of many requests at once, to two processes, one spends what counts once.
func TestOnceForAll(t *testing.T) {
	w := withRuns(t, runs{"one": release})
	ctx := t.Context()
	ada := w.uncounted("ada")
	by := w.caller("ada")
	w.claim(by, "acme")
	w.bind(by, "acme/base", theBinding())
	second := &world{TB: t, dir: w.dir, now: noon, o: w.o}
	second.o.Now = func() time.Time { return noon }
	second.open()

	link, err := w.Invite(ctx, "ada")
	if err != nil {
		t.Fatal(err)
	}
	signIn, signed := ada.answers(w.AskSignIn(ctx))
	grant, found := w.typed(ada)
	allow, allowed := ada.answers(found.ask, nil)
	once := func(what string, do func(r *registry.Registry) error) {
		t.Helper()
		var done atomic.Int32
		var all sync.WaitGroup
		for i := range 8 {
			on := []*world{w, second}[i%2]
			all.Go(func() {
				if do(on.Registry) == nil {
					done.Add(1)
				}
			})
		}
		if all.Wait(); done.Load() != 1 {
			t.Errorf("%s: %d requests of 8", what, done.Load())
		}
	}
	once("a link", func(r *registry.Registry) error {
		_, ask, err := r.OpenLink(ctx, secretOf(link))
		if err != nil {
			return err
		}
		answer, err := w.newDevice().Create([]byte(ask.Options))
		if err != nil {
			return err
		}
		_, err = r.Enrol(ctx, secretOf(link), ask.Ceremony, "x", answer)
		return err
	})
	once("an answer", func(r *registry.Registry) error { _, err := r.SignIn(ctx, signIn, signed); return err })
	once("a confirmation", func(r *registry.Registry) error {
		return r.AllowDevice(ctx, ada.person, found.ID, allow, allowed)
	})
	once("a device code", func(r *registry.Registry) error { _, _, err := r.Poll(ctx, grant.Secret); return err })
	once("a pipeline's token", func(r *registry.Registry) error {
		_, _, err := r.Trust(ctx, client.Exchange{Bundle: "acme/base", Token: "one"})
		return err
	})
}
