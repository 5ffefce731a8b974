package registry_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry"
	"github.com/rye-build/rye/exec/registry/rows"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest/key/keytest"
)

func showing(v client.Visibility) client.Change {
	return client.Change{Settings: &client.Settings{Visibility: v}}
}

// TestBecomesPublic: each version gets a new entry in the public log, and what was withdrawn stays so. The private log
// stays for those who have its address; takedowns reach both.
func TestBecomesPublic(t *testing.T) {
	w, ada, reader := secluded(t)
	ctx := t.Context()
	first := w.publish(ada, pack{id: "acme/base", version: "1.0.0"})
	w.publish(ada, pack{id: "acme/base", version: "1.1.0"})
	w.publish(ada, pack{id: "acme/more", version: "1.0.0"})
	if _, err := w.Withdraw(ctx, ada, "acme/base", "1.0.0", false); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Withdraw(ctx, ada, "acme/more", "1.0.0", true); err != nil {
		t.Fatal(err)
	}
	if _, err := w.SetPublisher(ctx, ada, "acme/base", client.PublisherChange{Add: theBinding()}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"", ""} {
		if _, err := w.Advise(ctx, draft(id, "acme/base", "1.1.0")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.WithdrawAdvisory(ctx, "acme", "RYE-2026-0002"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Advise(ctx, draft("", "open/base", "2.0.0")); err != nil { // it has the same id
		t.Fatal(err)
	}
	c := w.clientOf("acme")
	w.taken(c, "acme/base")
	w.halt()
	before := w.outside()
	_, err := w.Change(ctx, ada, "acme", showing(client.Public))
	wants(t, err, fault.Unavailable, "signs nothing yet")
	if !maps.Equal(w.outside(), before) {
		t.Error("what the public log refuses is public")
	}
	if err := w.o.Rows.Update(ctx, func(in rows.Writer) error { in.Delete("halt/public"); return nil }); err != nil {
		t.Fatal(err)
	}
	w.now = noon.Add(time.Hour)
	changed, err := w.Change(ctx, ada, "acme", showing(client.Public))
	if err != nil || changed.Private {
		t.Fatalf("%+v, %v", changed, err)
	}
	var kinds []string
	for _, e := range w.entries()[3:] {
		kinds = append(kinds, string(e.Kind)+" "+e.Bundle)
	}
	if !slices.Equal(kinds, []string{"owner acme", "trusted-publisher acme/base", "publish acme/base",
		"yank acme/base", "publish acme/base", "advisory acme/base"}) {
		t.Errorf("%q", kinds)
	}
	list := w.index("acme/base")
	if len(list.Entries) != 2 || list.Entries[0].Logged.Yanked == 0 || list.Entries[1].Logged.Yanked != 0 ||
		!list.Entries[0].Logged.Time.Equal(w.now) || list.Entries[0].Logged.By != "ada" {
		t.Errorf("%+v", list.Entries)
	}
	if _, err := w.files.Open(ctx, client.IndexFile("acme/more")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was unpublished before: %v", err)
	}
	_, err = w.Publish(ctx, ada, bytes.NewReader(w.archive(pack{id: "acme/more", version: "1.0.0"})))
	wants(t, err, fault.Conflict, "is published already")
	var ids []string
	for _, e := range w.list().Entries {
		ids = append(ids, e.ID+" "+e.Bundle)
	}
	if !slices.Equal(ids, []string{"RYE-2026-0001 open/base", "RYE-2026-0002 acme/base"}) {
		t.Errorf("%q", ids)
	}
	if all, err := w.Versions(ctx, nil, "acme/base"); err != nil || len(all) != 2 || all[0].Private {
		t.Errorf("%+v, %v", all, err)
	}
	if hits, err := w.Search(ctx, nil, "acme", ""); err != nil || len(hits) != 1 || hits[0].Private {
		t.Errorf("%+v, %v", hits, err)
	}
	w.good()

	// The same client goes on; a new version isn't there for it, and a takedown is.
	w.publish(ada, pack{id: "acme/base", version: "2.0.0"})
	if got := w.taken(c, "acme/base"); !slices.Equal(got, []string{"1.0.0-", "1.1.0"}) {
		t.Errorf("%q", got)
	}
	if sees, err := w.Sees(ctx, reader, "acme"); err != nil || !sees {
		t.Errorf("%v, %v", sees, err)
	}
	if _, err := w.Takedown(ctx, "acme/base", "1.0.0", registry.Secrets, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Withdraw(ctx, ada, "acme/base", "1.1.0", false); err != nil {
		t.Fatal(err)
	}
	if got := w.taken(c, "acme/base"); !slices.Equal(got, []string{"1.1.0-"}) {
		t.Errorf("%q", got)
	}
	for name := range w.all() {
		if strings.HasSuffix(name, client.ArchiveFile(first.Archive)) {
			t.Errorf("%s is there", name)
		}
	}
	if list := w.index("acme/base"); len(list.Entries) != 2 {
		t.Errorf("%+v", list.Entries)
	}
	w.good()
	_, err = w.Change(ctx, ada, "acme", showing(client.Private))
	wants(t, err, fault.Conflict, "can't become private")
}

// TestBecomesPrivate: a namespace becomes private as long as the public log has no version of it.
func TestBecomesPrivate(t *testing.T) {
	w, ada, _ := secluded(t)
	ctx := t.Context()
	w.claim(ada, "early")
	before := w.outside()
	if _, err := w.Change(ctx, ada, "early", showing(client.Private)); err != nil {
		t.Fatal(err)
	}
	w.publish(ada, pack{id: "early/base", version: "1.0.0"})
	if after := w.outside(); !maps.Equal(after, before) {
		t.Error("the public files have changed")
	}
	if got := w.taken(w.clientOf("early"), "early/base"); len(got) != 1 {
		t.Errorf("%q", got)
	}
	for _, unpublish := range []bool{false, true} {
		_, err := w.Change(ctx, ada, "open", showing(client.Private))
		wants(t, err, fault.Conflict, "has published versions")
		if _, err := w.Withdraw(ctx, ada, "open/base", "1.0.0", true); err != nil && !unpublish {
			t.Fatal(err)
		}
	}
	_, err := w.Change(ctx, ada, "early", showing("secret"))
	wants(t, err, fault.Validation, "unknown visibility")
	_, err = w.Claim(ctx, ada, "other", "secret")
	wants(t, err, fault.Validation, "unknown visibility")
	_, err = w.Claim(ctx, ada, strings.Repeat("x", 190), client.Private)
	wants(t, err, fault.Validation, "too long a name")
	_, err = w.Claim(ctx, ada, "early", client.Public)
	wants(t, err, fault.Conflict, "is yours already")
	if again, err := w.Claim(ctx, ada, "early", ""); err != nil || !again.Private {
		t.Errorf("%+v, %v", again, err)
	}
	_, err = w.Claim(ctx, ada, "private", "")
	wants(t, err, fault.Denied, "reserved")
}

// TestPrivateApprovals: where others must approve, visibility is a change like any other, and a release goes to the
// private log.
func TestPrivateApprovals(t *testing.T) {
	w, by := council(t, 0, "ada", "grace")
	ctx := t.Context()
	one := 1
	for _, change := range []client.Change{showing(client.Private), {Settings: &client.Settings{Approvals: &one}}} {
		if _, err := w.Change(ctx, by["ada"], "acme", change); err != nil {
			t.Fatal(err)
		}
	}
	s := w.stage(by["ada"], "", pack{id: "acme/base", version: "1.0.0"})
	if s = w.approve(by["grace"], s); !s.Done || !s.Versions[0].Private || len(w.public()) > 0 {
		t.Fatalf("%+v, %v", s, w.public())
	}
	staged, err := w.Change(ctx, by["ada"], "acme", showing(client.Public))
	if err != nil || staged.Staged == nil || !strings.Contains(staged.Staged.Change.String(), "visibility public") {
		t.Fatalf("%+v, %v", staged, err)
	}
	if len(w.public()) > 0 {
		t.Fatal("it is public before the approval")
	}
	_, err = w.Approve(ctx, by["ada"], staged.Staged.ID, staged.Staged.Digest)
	wants(t, err, fault.Denied, "whose approval doesn't count")
	if s := w.approve(by["grace"], staged.Staged); !s.Done || len(w.public()) != 1 {
		t.Errorf("%+v, %v", s, w.public())
	}
	if list := w.index("acme/base"); len(list.Entries) != 1 {
		t.Errorf("%+v", list)
	}
	w.good()
}

// TestInterruptedShow stops a change to public at each write of a file: nothing of it is public before it is decided,
// and the next process completes it.
func TestInterruptedShow(t *testing.T) {
	for n := 0; ; n++ {
		w, ada, _ := secluded(t)
		w.publish(ada, pack{id: "acme/base", version: "1.0.0"})
		if _, err := w.Advise(t.Context(), draft("", "acme/base", "2.0.0")); err != nil {
			t.Fatal(err)
		}
		before := w.outside()
		o := w.o
		o.Blobs = &stopping{w.files, n}
		other, err := registry.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		_, err = other.Change(t.Context(), ada, "acme", showing(client.Public))
		space, failed := w.Space(t.Context(), registry.Host, "acme")
		if failed != nil {
			t.Fatal(failed)
		}
		if space.Private && !maps.Equal(w.outside(), before) {
			t.Errorf("after %d writes: public without the change", n)
		}
		w.now = w.now.Add(time.Minute) // a lease that is left ends
		w.open()
		w.good()
		if !space.Private && len(w.index("acme/base").Entries) != 1 {
			t.Errorf("after %d writes: not completed", n)
		}
		if err == nil {
			if n < 5 {
				t.Errorf("the change has %d writes", n)
			}
			return
		}
	}
}

// turning makes a namespace private or public after an archive was stored for it, before its version is.
type turning struct {
	rows.Store
	turn func()
	left int // updates before it
}

// Update implements rows.Store.
func (s *turning) Update(ctx context.Context, change func(rows.Writer) error) error {
	if s.left--; s.left == 0 {
		s.turn()
	}
	return s.Store.Update(ctx, change)
}

// TestTurned: an archive that was stored for a public namespace isn't left there when that becomes private meanwhile.
func TestTurned(t *testing.T) {
	w, ada, _ := secluded(t)
	w.claim(ada, "early")
	o := w.o
	o.Rows = &turning{w.o.Rows, func() {
		if _, err := w.Change(t.Context(), ada, "early", showing(client.Private)); err != nil {
			t.Error(err)
		}
	}, 1}
	other, err := registry.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	b := w.archive(pack{id: "early/base", version: "1.0.0"})
	_, err = other.Publish(t.Context(), ada, bytes.NewReader(b))
	wants(t, err, fault.Busy, "publish again")
	if len(w.public()) != 1 {
		t.Errorf("%v", w.public())
	}
	if v, err := other.Publish(t.Context(), ada, bytes.NewReader(b)); err != nil || !v.Private {
		t.Errorf("%+v, %v", v, err)
	}
	w.good()
}

// TestRestorePrivate: a backup has the private logs. Each stays halted until a checkpoint of its own was seen; for a
// new log, each begins anew.
func TestRestorePrivate(t *testing.T) {
	w, ada, reader := secluded(t)
	ctx := t.Context()
	w.publish(ada, pack{id: "acme/base", version: "1.0.0"})
	if _, err := w.Claim(ctx, ada, "later", client.Private); err != nil {
		t.Fatal(err)
	}
	w.publish(ada, pack{id: "later/base", version: "1.0.0"})
	if _, err := w.Change(ctx, ada, "later", showing(client.Public)); err != nil {
		t.Fatal(err)
	}
	c := w.clientOf("acme")
	w.taken(c, "acme/base")
	to := folder(t)
	if done := w.backup(to); len(done.Wrong) > 0 || done.Archives != 3 {
		t.Fatalf("%+v", done)
	}
	restore, other := w.another(to)
	if done := other.restored(restore); len(done.Wrong) > 0 || done.Private != 2 {
		t.Fatalf("%+v", done)
	}
	other.good()
	want, got := w.all(), other.all()
	for name := range want {
		if strings.Contains(name, "proofs/") || strings.Contains(name, ".p/") && got[name] == "" {
			delete(want, name)
			delete(got, name)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("%q\n%q", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	if stopped, err := other.Stopped(ctx); err != nil || !slices.Equal(stopped, []string{"acme", "later"}) {
		t.Errorf("%q, %v", stopped, err)
	}
	b := w.archive(pack{id: "acme/base", version: "2.0.0"})
	private := w.read("private/acme/log/checkpoint")
	if sighting, err := other.Resume(ctx, w.read("log/checkpoint")); err != nil || !sighting.Signing {
		t.Fatalf("%+v, %v", sighting, err)
	}
	other.publish(ada, pack{id: "open/base", version: "2.0.0"})
	if _, err := other.Withdraw(ctx, ada, "later/base", "1.0.0", false); err != nil {
		t.Errorf("the log that it had while it was private keeps it from a yank: %v", err)
	}
	if _, err := other.Takedown(ctx, "later/base", "1.0.0", registry.Malware, ""); err != nil {
		t.Error(err)
	}
	_, err := other.Publish(ctx, ada, bytes.NewReader(b))
	wants(t, err, fault.Unavailable, `the private namespace "acme" was restored from a backup`)
	other.o.Witness = new(notary) // which never sees a private log
	other.open()
	_, err = other.Publish(ctx, ada, bytes.NewReader(b))
	wants(t, err, fault.Unavailable, "signs nothing yet")
	if !bytes.Equal(other.read("private/acme/log/checkpoint"), private) {
		t.Error("it has signed a checkpoint")
	}
	if sighting, err := other.Seen(ctx, reader, private); err != nil || sighting.Private != "acme" ||
		sighting.Signing {
		t.Errorf("%+v, %v", sighting, err)
	}
	_, err = other.Seen(ctx, nil, private)
	wants(t, err, fault.CodeOf(err), "")
	if err == nil {
		t.Error("a stranger learns of a private log")
	}
	if sighting, err := other.Resume(ctx, private); err != nil || !sighting.Signing {
		t.Fatalf("%+v, %v", sighting, err)
	}
	if v := other.publish(ada, pack{id: "acme/base", version: "2.0.0"}); !v.Private {
		t.Errorf("%+v", v)
	}
	c.Fetch = mirrored{copied{other.files}, "private/acme/"}
	if got := other.taken(c, "acme/base"); len(got) != 2 {
		t.Errorf("%q", got)
	}

	// The checkpoint of one log says nothing about another.
	half, partly := w.another(to)
	half.Seen = [][]byte{w.read("log/checkpoint")}
	partly.restored(half)
	if stopped, err := partly.Stopped(ctx); err != nil || !slices.Equal(stopped, []string{"acme", "later"}) {
		t.Errorf("%q, %v", stopped, err)
	}
	swapped, _ := w.another(to)
	swapped.Backup.Private["acme"] = registry.BackupLog{Log: w.clientOf("later").At.Log.String()}
	_, err = swapped.Run(ctx)
	wants(t, err, fault.Conflict, "the keys are not those of the private namespace")
	swapped, _ = w.another(to)
	delete(swapped.Backup.Private, "acme")
	_, err = swapped.Run(ctx)
	wants(t, err, fault.Registry, "entry/private/acme/000000000000")

	// What was published after the backup is lost with it, and a checkpoint of it stops that log alone.
	w.publish(ada, pack{id: "acme/base", version: "3.0.0"})
	w.publish(ada, pack{id: "acme/base", version: "3.1.0"})
	newest := w.read("private/acme/log/checkpoint")
	again, lost := w.another(to)
	again.Seen = [][]byte{newest}
	_, err = again.Run(ctx)
	wants(t, err, fault.Rollback, "that the backup doesn't continue")
	again.Seen = [][]byte{w.read("log/checkpoint"), private}
	lost.restored(again)
	_, err = lost.Seen(ctx, reader, newest)
	wants(t, err, fault.Rollback, "4 entries")
	_, err = lost.Publish(ctx, ada, bytes.NewReader(b))
	wants(t, err, fault.Rollback, "has lost entries")
	lost.publish(ada, pack{id: "open/base", version: "2.0.0"})

	fresh, anew := w.another(to)
	anew.o.Name, anew.o.LogKey = "registry2.example", keytest.Seeded(7)
	fresh.To, fresh.NewLog = anew.o, true
	if done := anew.restored(fresh); done.Private != 2 {
		t.Errorf("%+v", done)
	}
	anew.publish(ada, pack{id: "acme/base", version: "2.0.0"})
	text, _, _ := strings.Cut(string(anew.read("private/acme/log/checkpoint")), "\n")
	if text != "registry2.example/private/acme" {
		t.Error(text)
	}
	anew.good()
}

// TestUnreadablePrivate lets each read of what is done with a private namespace fail once: the error is returned, and
// the same can be done again.
func TestUnreadablePrivate(t *testing.T) {
	w, ada, reader := secluded(t)
	ctx := t.Context()
	w.publish(ada, pack{id: "acme/base", version: "1.0.0"})
	b := w.archive(pack{id: "acme/base", version: "2.0.0"})
	for _, c := range []struct {
		name string
		do   func(r *registry.Registry) error
	}{
		{"claim", func(r *registry.Registry) error {
			_, err := r.Claim(ctx, ada, "fresh", client.Private)
			return err
		}},
		{"publish", func(r *registry.Registry) error {
			_, err := r.Publish(ctx, ada, bytes.NewReader(b))
			return err
		}},
		{"advise", func(r *registry.Registry) error {
			_, err := r.Advise(ctx, draft("", "acme/base", "2.0.0"))
			return err
		}},
		{"sees", func(r *registry.Registry) error { _, err := r.Sees(ctx, reader, "acme"); return err }},
		{"search", func(r *registry.Registry) error { _, err := r.Search(ctx, reader, "acme", "acme"); return err }},
		{"versions", func(r *registry.Registry) error { _, err := r.Versions(ctx, reader, "acme/base"); return err }},
		{"publishers", func(r *registry.Registry) error {
			_, err := r.Publishers(ctx, reader, "acme/base")
			return err
		}},
		{"seen", func(r *registry.Registry) error {
			_, err := r.Seen(ctx, reader, w.read("private/acme/log/checkpoint"))
			return err
		}},
		{"show", func(r *registry.Registry) error {
			_, err := r.Change(ctx, ada, "acme", showing(client.Public))
			return err
		}},
		{"takedown", func(r *registry.Registry) error {
			_, err := r.Takedown(ctx, "acme/base", "1.0.0", registry.Malware, "")
			return err
		}},
		{"yank", func(r *registry.Registry) error {
			_, err := r.Withdraw(ctx, ada, "acme/base", "2.0.0", false)
			return err
		}},
		{"verify", func(r *registry.Registry) error { _, err := r.Verify(ctx); return err }},
		{"audit", func(r *registry.Registry) error { _, err := r.Audit(ctx, registry.Filter{}); return err }},
		{"metrics", func(r *registry.Registry) error { _, err := r.Metrics(ctx); return err }},
		{"stopped", func(r *registry.Registry) error { _, err := r.Stopped(ctx); return err }},
		{"backup", func(r *registry.Registry) error { _, err := r.Backup(ctx, folder(t), nil); return err }},
	} {
		for n := 0; ; n++ {
			o := w.o
			store := &faulty{w.o.Rows, 1 << 30}
			o.Rows = store
			w.now = w.now.Add(time.Minute) // a lease that is left ends
			r, err := registry.Open(ctx, o)
			if err != nil {
				t.Fatal(err)
			}
			store.left = n
			if err = c.do(r); err == nil {
				if n == 0 {
					t.Errorf("%s reads nothing", c.name)
				}
				break
			}
			if !errors.Is(err, errStopped) {
				t.Errorf("%s, read %d: %v", c.name, n, err)
				break
			}
		}
	}
	w.open()
	w.good()
}
