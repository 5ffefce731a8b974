package registry_test

import (
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest/tlog"
)

// TestFormerOwner: what an owner has staged can't be approved once the account owns the namespace no more, or is
// disabled: with it, one owner alone would decide where two must.
func TestFormerOwner(t *testing.T) {
	w, by := council(t, 1, "ada", "grace", "alan")
	ctx := t.Context()
	w.caller("eve")
	version := w.stage(by["ada"], "", pack{id: "acme/base", version: "1.0.0"})
	change, err := w.Change(ctx, by["ada"], "acme", adding("eve"))
	if err != nil {
		t.Fatal(err)
	}
	disabled := w.stage(by["alan"], "", pack{id: "acme/other", version: "1.0.0"})
	removal, err := w.Change(ctx, by["grace"], "acme", removing("ada"))
	if err != nil {
		t.Fatal(err)
	}
	w.approve(by["alan"], removal.Staged)
	if err := w.Disable(ctx, "alan", true); err != nil {
		t.Fatal(err)
	}
	for what, s := range map[string]struct{ id, by string }{"a release": {version.ID, "ada"},
		"a change": {change.Staged.ID, "ada"}, "of one who is disabled": {disabled.ID, "alan"}} {
		seen, err := w.Staged(ctx, by["grace"], s.id)
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.Approve(ctx, by["grace"], s.id, seen.Digest)
		wants(t, err, fault.Denied, "was staged by \""+s.by+"\", who doesn't own")
		if err := w.Reject(ctx, by["grace"], s.id); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if file, err := w.files.Open(ctx, client.IndexFile("acme/base")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is published: %v, %v", file, err)
	}
}

// TestFormerBinding: a binding ends with the ownership of who made it, in the log as well, and stays ended when the
// account owns the namespace again.
func TestFormerBinding(t *testing.T) {
	w := withRuns(t, runs{"one": release, "two": release})
	ctx := t.Context()
	ada, eve := w.caller("ada"), w.caller("eve")
	w.claim(ada, "acme")
	w.claim(eve, "evely")
	if _, err := w.Change(ctx, ada, "acme", adding("eve")); err != nil {
		t.Fatal(err)
	}
	kept := w.bind(eve, "evely/base", theBinding())
	w.bind(eve, "acme/base", theBinding())
	run := w.run("one", "acme/base")
	for _, change := range []client.Change{removing("eve"), adding("eve")} {
		if _, err := w.Change(ctx, ada, "acme", change); err != nil {
			t.Fatal(err)
		}
	}
	_, _, err := w.Trust(ctx, client.Exchange{Bundle: "acme/base", Token: "two"})
	wants(t, err, fault.Denied, "no binding")
	all, err := w.Tokens(ctx, "eve")
	for _, token := range all {
		if err != nil || token.ID == run.Token.ID {
			t.Errorf("the token of a run is left: %+v, %v", token, err)
		}
	}
	bound := 0
	for _, e := range w.entries() {
		if e.Kind == tlog.TrustedPublisher && e.Bundle == "acme/base" {
			bound++
		}
	}
	if bound != 2 {
		t.Errorf("the log has %d entries of the binding, want its making and its end", bound)
	}
	if left, err := w.Publishers(ctx, nil, "evely/base"); err != nil || len(left) != 1 || left[0].ID != kept.ID {
		t.Errorf("another namespace's: %+v, %v", left, err)
	}
}

// TestFormerPending: a binding that has waited in vain for the first version of its bundle has ended, also when the
// bundle gets a version later. One whose bundle got its first version in time goes on.
func TestFormerPending(t *testing.T) {
	w := withRuns(t, runs{"one": release, "two": release})
	ada := w.caller("ada")
	w.claim(ada, "acme")
	w.bind(ada, "acme/base", theBinding())
	w.bind(ada, "acme/early", theBinding())
	w.publish(ada, pack{id: "acme/early", version: "1.0.0"})
	w.now = noon.Add(31 * 24 * time.Hour)
	w.publish(ada, pack{id: "acme/base", version: "1.0.0"})
	_, _, err := w.Trust(t.Context(), client.Exchange{Bundle: "acme/base", Token: "one"})
	wants(t, err, fault.Denied, "no binding")
	w.run("two", "acme/early")
}

// TestPendingOfTwo: a stranger who has bound a pipeline before its owner gets nothing of what it publishes.
func TestPendingOfTwo(t *testing.T) {
	w := withRuns(t, runs{"one": release})
	ctx := t.Context()
	ada, eve := w.caller("ada"), w.caller("eve")
	w.bind(eve, "fresh/base", theBinding())
	w.now = noon.Add(time.Second)
	w.bind(ada, "fresh/base", theBinding())
	_, _, err := w.Trust(ctx, client.Exchange{Bundle: "fresh/base", Token: "one"})
	wants(t, err, fault.Conflict, "\"eve\" and \"ada\" have both bound this pipeline")
	w.claim(ada, "fresh")
	if run := w.run("one", "fresh/base"); run.Account != "ada" {
		t.Errorf("it publishes for %q", run.Account)
	}
}

// TestResetStaged: what a thief of an account has staged or approved ends with its reset.
func TestResetStaged(t *testing.T) {
	w, by := council(t, 2, "ada", "grace", "alan", "joan")
	ctx := t.Context()
	approved := w.stage(by["ada"], "", pack{id: "acme/base", version: "1.0.0"})
	w.approve(by["grace"], approved)
	staged := w.stage(by["grace"], "", pack{id: "acme/other", version: "1.0.0"})
	if _, err := w.Reset(ctx, "grace"); err != nil {
		t.Fatal(err)
	}
	if s := w.approve(by["alan"], approved); s.Done || len(s.Approvals) != 1 {
		t.Errorf("the approval of an account counts after its reset: %+v", s)
	}
	_, err := w.Approve(ctx, by["alan"], staged.ID, staged.Digest)
	wants(t, err, fault.NotFound, "is staged")
	if all := w.staged(); len(all) != 1 {
		t.Errorf("there wait %v", all)
	}
	if s := w.approve(by["joan"], approved); !s.Done {
		t.Errorf("%+v", s)
	}
}

// TestMixedRelease: a version that a person adds to the release of a pipeline doesn't become the pipeline's. A bundle
// that only pipelines publish by the time of the approval doesn't take it.
func TestMixedRelease(t *testing.T) {
	w := withRuns(t, runs{"one": release})
	ctx := t.Context()
	ada := w.caller("ada")
	w.claim(ada, "acme")
	w.bind(ada, "acme/base", theBinding())
	s := w.stage(w.run("one", "acme/base"), "", pack{id: "acme/base", version: "1.0.0"})
	s = w.stage(ada, s.ID, pack{id: "acme/other", version: "1.0.0"})
	if _, err := w.Change(ctx, ada, "acme", client.Change{Settings: &client.Settings{
		TrustedOnly: map[string]bool{"acme/other": true}}}); err != nil {
		t.Fatal(err)
	}
	_, err := w.Approve(ctx, ada, s.ID, s.Digest)
	wants(t, err, fault.Denied, "only its pipelines")
	if all := w.public(); len(all) > 0 {
		t.Errorf("public: %v", all)
	}
}
