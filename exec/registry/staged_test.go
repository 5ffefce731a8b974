package registry_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/tlog"
)

// council makes a namespace that demands approvals of its owners.
func council(t *testing.T, approvals int, owners ...string) (*world, map[string]*registry.Caller) {
	t.Helper()
	w := newWorld(t)
	all := map[string]*registry.Caller{}
	for _, name := range owners {
		all[name] = w.caller(name)
	}
	w.claim(all[owners[0]], "acme")
	for _, name := range owners[1:] {
		if _, err := w.Change(t.Context(), all[owners[0]], "acme", adding(name)); err != nil {
			t.Fatal(err)
		}
	}
	if approvals > 0 {
		if _, err := w.Change(t.Context(), all[owners[0]], "acme", demanding(approvals)); err != nil {
			t.Fatal(err)
		}
	}
	return w, all
}

func demanding(k int) client.Change { return client.Change{Settings: &client.Settings{Approvals: &k}} }

func (w *world) stage(by *registry.Caller, id string, p pack) *registry.Staged {
	w.Helper()
	s, err := w.Stage(w.Context(), by, id, bytes.NewReader(w.archive(p)))
	if err != nil {
		w.Fatal(err)
	}
	return s
}

func (w *world) approve(by *registry.Caller, s *registry.Staged) *registry.Staged {
	w.Helper()
	s, err := w.Approve(w.Context(), by, s.ID, s.Digest)
	if err != nil {
		w.Fatal(err)
	}
	return s
}

// public lists the archives that clients can read.
func (w *world) public() (names []string) {
	w.Helper()
	for info, err := range w.files.List(w.Context(), "archives/") {
		if err != nil {
			w.Fatal(err)
		}
		names = append(names, info.Name)
	}
	return names
}

// entries returns the entries of the log.
func (w *world) entries() (all []*tlog.Entry) {
	w.Helper()
	checkpoint, err := tlog.Open(w.read("log/checkpoint"), w.Registry.Log())
	if err == nil {
		err = tlog.NewTree(checkpoint, registry.LogFiles{Store: w.files}).Entries(w.Context(), 0,
			func(_ int64, b []byte) error {
				e, err := tlog.ParseEntry(b)
				all = append(all, e)
				return err
			})
	}
	if err != nil {
		w.Fatal(err)
	}
	return all
}

// TestApprovals: where two others must approve, nothing is public before the second has, and then all of it at once.
func TestApprovals(t *testing.T) {
	w, by := council(t, 2, "ada", "grace", "alan")
	ctx := t.Context()
	_, err := w.Publish(ctx, by["ada"], bytes.NewReader(w.archive(pack{id: "acme/base", version: "1.0.0"})))
	wants(t, err, fault.Approval, "needs the approval of other owners (2)")
	s := w.stage(by["ada"], "", pack{id: "acme/base", version: "1.0.0"})
	s = w.stage(by["ada"], s.ID, pack{id: "acme/tools", version: "1.0.0"})
	if len(s.Versions) != 2 || s.Needs != 2 || len(w.public()) > 0 {
		t.Fatalf("%+v; %v", s, w.public())
	}
	_, err = w.Approve(ctx, by["ada"], s.ID, s.Digest)
	wants(t, err, fault.Denied, "whose approval doesn't count")
	s = w.approve(by["grace"], s)
	if again := w.approve(by["grace"], s); again.Done || len(again.Approvals) != 1 {
		t.Errorf("one owner counts twice: %+v", again)
	}
	if _, err := w.Versions(ctx, nil, "acme/base"); fault.CodeOf(err) != fault.NotFound || len(w.public()) > 0 {
		t.Errorf("public after one approval of two: %v, %v", err, w.public())
	}
	s = w.approve(by["alan"], s)
	if !s.Done || len(w.index("acme/base").Entries) != 1 || len(w.index("acme/tools").Entries) != 1 {
		t.Errorf("%+v", s)
	}
	last := w.entries()[len(w.entries())-1]
	if last.Kind != tlog.Group || len(last.Releases) != 2 || last.By != "ada" ||
		s.Versions[0].Leaf != s.Versions[1].Leaf {
		t.Errorf("%+v", last)
	}
	before := len(w.entries())
	if again := w.approve(by["alan"], s); !again.Done || len(w.entries()) != before {
		t.Errorf("the answer that was lost: %+v", again)
	}
	for info, err := range w.files.List(ctx, "staged/") {
		t.Errorf("%s is left, %v", info.Name, err)
	}
	if check, err := w.Verify(ctx); err != nil || len(check.Wrong) > 0 {
		t.Errorf("%+v, %v", check, err)
	}
	if all, err := w.AllStaged(ctx, by["ada"]); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
}

// TestBound: an approval is of the bytes that were seen. What is staged anew begins anew.
func TestBound(t *testing.T) {
	w, by := council(t, 2, "ada", "grace", "alan", "joan")
	ctx := t.Context()
	first := w.stage(by["ada"], "", pack{id: "acme/base", version: "1.0.0"})
	w.approve(by["grace"], first)
	second := w.stage(by["ada"], first.ID, pack{id: "acme/base", version: "1.0.0", text: "evil"})
	if len(second.Versions) != 1 || second.Digest == first.Digest {
		t.Fatalf("%+v", second)
	}
	_, err := w.Approve(ctx, by["alan"], first.ID, first.Digest)
	wants(t, err, fault.Conflict, "has changed since you have seen it")
	if s := w.approve(by["alan"], second); s.Done {
		t.Error("the approval of other bytes counts")
	}
	if s := w.approve(by["joan"], second); !s.Done ||
		w.index("acme/base").Entries[0].Manifest != second.Versions[0].Manifest {
		t.Errorf("%+v", s)
	}
	_, err = w.Stage(ctx, by["ada"], first.ID, bytes.NewReader(w.archive(pack{id: "acme/more", version: "1.0.0"})))
	wants(t, err, fault.NotFound, "is staged")
	third := w.archive(pack{id: "acme/base", version: "1.0.0", text: "x"})
	_, err = w.Stage(ctx, by["ada"], "", bytes.NewReader(third))
	wants(t, err, fault.Conflict, "never changes")
}

// TestLowering: what could lower the number of approvals needs as many.
func TestLowering(t *testing.T) {
	w, by := council(t, 1, "ada", "grace", "alan")
	ctx := t.Context()
	for name, change := range map[string]client.Change{"add": adding("eve"), "remove": removing("grace"),
		"transfer": giving("eve"), "k": demanding(0)} {
		w.caller("eve")
		before, _ := w.Space(ctx, nil, "acme")
		changed, err := w.Change(ctx, by["ada"], "acme", change)
		if err != nil || changed.Staged == nil || changed.Staged.Needs != 1 {
			t.Fatalf("%s: %+v, %v", name, changed, err)
		}
		if now, err := w.Space(ctx, nil, "acme"); err != nil || !slices.Equal(now.Owners, before.Owners) ||
			now.Approvals != 1 {
			t.Errorf("%s: %+v, %v", name, now, err)
		}
		_, err = w.Approve(ctx, by["ada"], changed.Staged.ID, changed.Staged.Digest)
		wants(t, err, fault.Denied, "doesn't count")
		more := w.archive(pack{id: "acme/a", version: "1.0.0"})
		_, err = w.Stage(ctx, by["ada"], changed.Staged.ID, bytes.NewReader(more))
		wants(t, err, fault.Conflict, "is a change of a namespace")
		if err := w.Reject(ctx, by["ada"], changed.Staged.ID); err != nil {
			t.Error(err)
		}
	}
	changed, err := w.Change(ctx, by["ada"], "acme", removing("grace"))
	if err != nil {
		t.Fatal(err)
	}
	if s := w.approve(by["alan"], changed.Staged); !s.Done {
		t.Errorf("%+v", s)
	}
	if now, err := w.Space(ctx, nil, "acme"); err != nil || !slices.Equal(now.Owners, []string{"ada", "alan"}) {
		t.Errorf("%+v, %v", now, err)
	}
	if last := w.entries()[len(w.entries())-1]; last.Kind != tlog.Owner || last.By != "ada" {
		t.Errorf("%+v", last)
	}
	// Someone who was removed doesn't count, nor is there an approval that no one could give.
	s := w.stage(by["ada"], "", pack{id: "acme/base", version: "1.0.0"})
	_, err = w.Approve(ctx, by["grace"], s.ID, s.Digest)
	wants(t, err, fault.NotFound, "is staged")
	_, err = w.Change(ctx, by["ada"], "acme", removing("alan"))
	wants(t, err, fault.Conflict, "would need 1 approvals and have 1 owner")
	_, err = w.Change(ctx, by["ada"], "acme", demanding(2))
	wants(t, err, fault.Conflict, "would need 2 approvals and have 2 owners")
	_, err = w.Change(ctx, by["ada"], "acme", demanding(-1))
	wants(t, err, fault.Validation, "below 0")
	_, err = w.Change(ctx, by["ada"], "acme", client.Change{})
	wants(t, err, fault.Validation, "of the owners, of the settings or of a publisher")
}

// TestRemovedLater: an approval counts only as long as its account owns the namespace and isn't disabled.
func TestRemovedLater(t *testing.T) {
	w, by := council(t, 2, "ada", "grace", "alan", "joan")
	s := w.stage(by["ada"], "", pack{id: "acme/base", version: "1.0.0"})
	w.approve(by["grace"], s)
	if err := w.Disable(t.Context(), "grace", true); err != nil {
		t.Fatal(err)
	}
	if got := w.approve(by["alan"], s); got.Done {
		t.Error("the approval of a disabled account counts")
	}
	if got := w.approve(by["joan"], s); !got.Done {
		t.Error("two owners have approved it")
	}
}

// TestLeft: who owns a namespace no more approves nothing in it, not even what they staged while they did; and
// one whose approval doesn't count learns whose would.
func TestLeft(t *testing.T) {
	w, by := council(t, 0, "ada", "grace", "alan")
	ctx := t.Context()
	s := w.stage(by["grace"], "", pack{id: "acme/base", version: "1.0.0"})
	if _, err := w.Change(ctx, by["ada"], "acme", removing("grace")); err != nil {
		t.Fatal(err)
	}
	_, err := w.Approve(ctx, by["grace"], s.ID, s.Digest)
	wants(t, err, fault.Denied, "doesn't own")
	if len(w.public()) > 0 {
		t.Errorf("%q", w.public())
	}
	if _, err := w.Change(ctx, by["ada"], "acme", demanding(1)); err != nil {
		t.Fatal(err)
	}
	s = w.stage(by["ada"], "", pack{id: "acme/base", version: "1.0.0"})
	_, err = w.Approve(ctx, by["ada"], s.ID, s.Digest)
	wants(t, err, fault.Denied, "doesn't count")
	if why := fault.Of(err).Why; len(why) != 1 || !strings.HasSuffix(why[0], "of other owners: alan") {
		t.Errorf("%q", why)
	}
}

// TestStagedAlone: without a rule of the namespace, a pipeline's token stages and its account approves with a token
// that may publish.
func TestStagedAlone(t *testing.T) {
	w, by := council(t, 0, "ada", "grace")
	ctx := t.Context()
	pipeline := w.caller("ada", registry.ScopeStage)
	_, err := w.Publish(ctx, pipeline, bytes.NewReader(w.archive(pack{id: "acme/base", version: "1.0.0"})))
	wants(t, err, fault.Denied, "no scope publish")
	s := w.stage(pipeline, "", pack{id: "acme/base", version: "1.0.0"})
	_, err = w.Approve(ctx, pipeline, s.ID, s.Digest)
	wants(t, err, fault.Denied, "no scope publish")
	if s = w.approve(by["ada"], s); !s.Done || len(w.index("acme/base").Entries) != 1 {
		t.Errorf("%+v", s)
	}
	if last := w.entries()[len(w.entries())-1]; last.Kind != tlog.Publish {
		t.Errorf("%+v", last)
	}
}

// TestHidden: what is staged is seen by its owners and by who staged it, and by no one else.
func TestHidden(t *testing.T) {
	w, by := council(t, 1, "ada", "grace")
	ctx := t.Context()
	eve := w.caller("eve")
	narrow := w.callerFor(registry.Token{Account: "grace", Label: "narrow", Names: []string{"acme/other"},
		Scopes: registry.Scopes})
	s := w.stage(by["ada"], "", pack{id: "acme/base", version: "1.0.0"})
	archive := s.Versions[0].Archive
	for name, caller := range map[string]*registry.Caller{"a stranger": eve, "a token for another name": narrow} {
		_, err := w.Staged(ctx, caller, s.ID)
		wants(t, err, fault.NotFound, "is staged")
		_, err = w.StagedArchive(ctx, caller, s.ID, archive)
		wants(t, err, fault.NotFound, "is staged")
		_, err = w.Approve(ctx, caller, s.ID, s.Digest)
		wants(t, err, fault.NotFound, "is staged")
		_, err = w.Cosign(ctx, caller, s.ID, nil)
		wants(t, err, fault.NotFound, "is staged")
		wants(t, w.Reject(ctx, caller, s.ID), fault.NotFound, "is staged")
		if all, err := w.AllStaged(ctx, caller); err != nil || len(all) > 0 {
			t.Errorf("%s: %v, %v", name, all, err)
		}
	}
	_, err := w.Staged(ctx, nil, s.ID)
	wants(t, err, fault.AuthRequired, "")
	_, err = w.AllStaged(ctx, nil)
	wants(t, err, fault.AuthRequired, "")
	_, err = w.Stage(ctx, nil, "", nil)
	wants(t, err, fault.AuthRequired, "")
	wants(t, w.Reject(ctx, nil, s.ID), fault.AuthRequired, "")
	for _, id := range []string{"", "none", "../log/public", strings.Repeat("a", 99)} {
		_, err := w.Staged(ctx, by["ada"], id)
		wants(t, err, fault.NotFound, "is staged")
	}
	file, err := w.StagedArchive(ctx, by["grace"], s.ID, archive)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(file)
	file.Close()
	if err != nil || cas.Sum(b) != archive {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	_, err = w.StagedArchive(ctx, by["grace"], s.ID, cas.Sum(nil))
	wants(t, err, fault.NotFound, "no such archive")
	if all, err := w.AllStaged(ctx, by["grace"]); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
	for _, account := range []string{"grace", "ada"} { // who staged it among them
		reader := w.caller(account, registry.ScopeRead)
		wants(t, w.Reject(ctx, reader, s.ID), fault.Denied, "no scope publish")
	}
	wants(t, w.Reject(ctx, w.caller("grace", registry.ScopeStage), s.ID), fault.Denied, "no scope publish")
	mine := w.caller("ada", registry.ScopeStage)
	if err := w.Reject(ctx, mine, w.stage(mine, "", pack{id: "acme/x", version: "1.0.0"}).ID); err != nil {
		t.Error(err)
	}
	if err := w.Reject(ctx, by["grace"], s.ID); err != nil {
		t.Error(err)
	}
	name := "staged/" + strings.TrimPrefix(archive.String(), "blake3:") + ".tar.zst"
	if _, err := w.files.Open(ctx, name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a rejected archive is left: %v", err)
	}
}

// TestCosigned: an approver adds a signature to the same manifest, and to nothing else.
func TestCosigned(t *testing.T) {
	w, by := council(t, 1, "ada", "grace", "alan")
	ctx := t.Context()
	one := pack{id: "acme/base", version: "1.0.0"}
	s := w.stage(by["ada"], "", one)
	both := one
	both.also = keytest.Eve()
	w.approve(by["grace"], w.stage(by["ada"], "", pack{id: "acme/x", version: "1.0.0"})) // another one is done
	for name, c := range map[string]struct {
		p    pack
		says string
	}{
		"other bytes":   {pack{id: "acme/base", version: "1.0.0", text: "evil"}, "no version with the manifest"},
		"other version": {pack{id: "acme/base", version: "1.0.1"}, "no version with the manifest"},
		"less":          {pack{id: "acme/base", version: "1.0.0", signer: keytest.Eve()}, "lacks a signature"},
	} {
		_, err := w.Cosign(ctx, by["grace"], s.ID, bytes.NewReader(w.archive(c.p)))
		if fault.CodeOf(err) != fault.Conflict || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	signed, err := w.Cosign(ctx, by["grace"], s.ID, bytes.NewReader(w.archive(both)))
	if err != nil {
		t.Fatal(err)
	}
	if signed.Digest == s.Digest || signed.Versions[0].Manifest != s.Versions[0].Manifest ||
		len(signed.Versions[0].Signers) != 2 {
		t.Errorf("%+v", signed.Versions[0])
	}
	_, err = w.Approve(ctx, by["alan"], s.ID, s.Digest)
	wants(t, err, fault.Conflict, "has changed")
	if done := w.approve(by["grace"], signed); !done.Done ||
		w.index("acme/base").Entries[0].Logged.Digest != signed.Versions[0].Archive {
		t.Errorf("%+v", done)
	}
	_, err = w.Cosign(ctx, by["grace"], s.ID, bytes.NewReader(w.archive(both)))
	wants(t, err, fault.NotFound, "is staged")
}

// TestWaitsNoLonger: what no one approves ends, and its archive goes.
func TestWaitsNoLonger(t *testing.T) {
	w, by := council(t, 1, "ada", "grace")
	old := w.stage(by["ada"], "", pack{id: "acme/base", version: "1.0.0"})
	w.now = w.now.Add(31 * 24 * time.Hour)
	_, err := w.Approve(t.Context(), by["grace"], old.ID, old.Digest)
	wants(t, err, fault.NotFound, "is staged")
	w.stage(by["ada"], "", pack{id: "acme/base", version: "1.1.0"})
	left := 0
	for _, err := range w.files.List(t.Context(), "staged/") {
		if left++; err != nil {
			t.Error(err)
		}
	}
	if left != 1 {
		t.Errorf("%d archives are staged", left)
	}
}

// TestStagedLimits: an account can't fill the registry with what no one approves.
func TestStagedLimits(t *testing.T) {
	w, by := council(t, 1, "ada", "grace")
	ctx := t.Context()
	for range 100 {
		if _, err := w.Change(ctx, by["ada"], "acme", demanding(0)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := w.Change(ctx, by["ada"], "acme", demanding(0))
	wants(t, err, fault.Limit, "too much")
	w.claim(by["ada"], "other")
	s := w.stage(by["grace"], "", pack{id: "acme/base", version: "1.0.0"})
	_, err = w.Stage(ctx, by["ada"], s.ID, bytes.NewReader(w.archive(pack{id: "acme/x", version: "1.0.0"})))
	wants(t, err, fault.NotFound, "is staged")
	w.claim(by["grace"], "hers")
	_, err = w.Stage(ctx, by["grace"], s.ID, bytes.NewReader(w.archive(pack{id: "hers/x", version: "1.0.0"})))
	wants(t, err, fault.Validation, `is of the namespace "acme"`)
}

// TestApproveRace: the last two approvals at once release the versions exactly once.
func TestApproveRace(t *testing.T) {
	w, by := council(t, 1, "ada", "grace", "alan")
	second := newWorldAt(t, w.dir)
	s := w.stage(by["ada"], "", pack{id: "acme/base", version: "1.0.0"})
	var all sync.WaitGroup
	for i, name := range []string{"grace", "alan", "grace", "alan"} {
		on := []*world{w, second}[i%2]
		all.Go(func() {
			got, err := on.Approve(t.Context(), by[name], s.ID, s.Digest)
			if err != nil || !got.Done {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	all.Wait()
	published := 0
	for _, e := range w.entries() {
		if e.Kind == tlog.Publish {
			published++
		}
	}
	if published != 1 || len(w.index("acme/base").Entries) != 1 {
		t.Errorf("published %d times", published)
	}
}
