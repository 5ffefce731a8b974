package registry_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	client "github.com/rye-build/rye/lock/registry"
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
