package registry_test

import (
	"bytes"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry"
	"github.com/rye-build/rye/exec/registry/rows"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest/key/keytest"
)

// archives lists the archives of a private namespace.
func (w *world) archives(space string) (names []string) {
	w.Helper()
	for info, err := range w.files.List(w.Context(), "private/"+space+"/archives/") {
		if err != nil {
			w.Fatal(err)
		}
		names = append(names, info.Name)
	}
	return names
}

// TestPrivateRefusals: the rules of publishing hold in a private namespace, by its own log, and nothing that they
// refuse stays stored.
func TestPrivateRefusals(t *testing.T) {
	w, ada, _ := secluded(t)
	ctx := t.Context()
	if err := w.o.Rows.Update(ctx, func(in rows.Writer) error {
		for i := range 70 {
			in.Put(fmt.Sprintf("private/version/acme/full@0.0.%d", i), fmt.Appendf(nil,
				`{"bundle":"acme/full","version":"0.0.%d","unpublished":1,"about":"%s"}`, i, strings.Repeat("a", 250_000)))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	full := pack{id: "acme/full", version: "1.0.0"}
	_, err := w.Publish(ctx, ada, bytes.NewReader(w.archive(full)))
	wants(t, err, fault.Limit, "the index of \"acme/full\" would have more than")
	s := w.stage(ada, "", full)
	_, err = w.Approve(ctx, ada, s.ID, s.Digest)
	wants(t, err, fault.Limit, "the index of \"acme/full\" would have more than")
	one := pack{id: "acme/base", version: "1.0.0"}
	w.publish(ada, one)
	if _, err := w.Withdraw(ctx, ada, "acme/base", "1.0.0", true); err != nil {
		t.Fatal(err)
	}
	_, err = w.Publish(ctx, ada, bytes.NewReader(w.archive(one)))
	wants(t, err, fault.Conflict, "is published already")
	if all := w.archives("acme"); len(all) > 0 || len(w.public()) != 1 {
		t.Errorf("%v and %v are stored", all, w.public())
	}
	one.version = "2.0.0"
	w.publish(ada, one)
	w.publish(ada, one) // again: the answer was lost
	if all := w.archives("acme"); len(all) != 1 {
		t.Errorf("%v are stored", all)
	}
}

// TestTurnedApproval: what is approved while the namespace becomes private or public stays nowhere, waits, and can be
// approved again.
func TestTurnedApproval(t *testing.T) {
	for _, to := range []client.Visibility{client.Private, client.Public} {
		w, ada, _ := secluded(t)
		name := "acme"
		if to == client.Private {
			name = "early"
			w.claim(ada, name)
		}
		s := w.stage(ada, "", pack{id: name + "/base", version: "1.0.0"})
		s = w.stage(ada, s.ID, pack{id: name + "/more", version: "1.0.0"})
		o := w.o
		o.Rows = &turning{w.o.Rows, func() {
			if len(w.public())+len(w.archives(name)) != 3 {
				t.Errorf("%s: before the release there are %v, %v", to, w.public(), w.archives(name))
			}
			if _, err := w.Change(t.Context(), ada, name, showing(to)); err != nil {
				t.Error(err)
			}
		}, 2}
		other, err := registry.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		_, err = other.Approve(t.Context(), ada, s.ID, s.Digest)
		wants(t, err, fault.Busy, "approve it again")
		if len(w.public()) != 1 || len(w.archives(name)) > 0 || len(w.staged()) != 2 {
			t.Errorf("%s: %v, %v, there wait %v", to, w.public(), w.archives(name), w.staged())
		}
		s = w.approve(ada, s)
		public, private := 3, 0
		if to == client.Private {
			public, private = 1, 2
		}
		if !s.Done || len(w.public()) != public || len(w.archives(name)) != private || len(w.staged()) > 0 {
			t.Errorf("%s: %+v, %v, %v, there wait %v", to, s, w.public(), w.archives(name), w.staged())
		}
		w.good()
	}
}

// TestFormerPrivate: the bindings of an owner who leaves a private namespace end in its own log.
func TestFormerPrivate(t *testing.T) {
	w, ada, _ := secluded(t)
	ctx := t.Context()
	eve := w.caller("eve")
	if _, err := w.Change(ctx, ada, "acme", adding("eve")); err != nil {
		t.Fatal(err)
	}
	before := w.outside()
	for _, who := range []*registry.Caller{ada, eve} {
		add := client.PublisherChange{Add: theBinding()}
		if _, err := w.SetPublisher(ctx, eve, "acme/base", add); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Change(ctx, who, "acme", removing("eve")); err != nil {
			t.Fatal(err)
		}
		if left, err := w.Publishers(ctx, registry.Host, "acme/base"); err != nil || len(left) > 0 {
			t.Errorf("there is %+v, %v", left, err)
		}
		if _, err := w.Change(ctx, ada, "acme", adding("eve")); err != nil {
			t.Fatal(err)
		}
	}
	if !maps.Equal(w.outside(), before) {
		t.Error("the public files have changed")
	}
	events, err := w.Audit(ctx, registry.Filter{Name: "acme"})
	bound := 0
	for _, e := range events {
		if e.What == "trusted-publisher" && e.Private {
			bound++
		}
	}
	if err != nil || bound != 4 {
		t.Errorf("%d entries of bindings, %v", bound, err)
	}
	w.good()
}

// TestPrivateRotate: when the key of the public log is replaced, the private logs go on with theirs, and their readers
// notice nothing. A process that still has the old key signs nothing in them either.
func TestPrivateRotate(t *testing.T) {
	w, ada, reader := secluded(t)
	ctx := t.Context()
	w.publish(ada, pack{id: "acme/base", version: "1.0.0"})
	c := w.clientOf("acme")
	w.taken(c, "acme/base")
	private := func() map[string]string {
		files, outside := w.all(), w.outside()
		maps.DeleteFunc(files, func(name, _ string) bool { _, public := outside[name]; return public })
		return files
	}
	before, running, next := private(), w.Registry, keytest.Seeded(7)
	if _, err := w.Rotate(ctx, next); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Claim(ctx, ada, "between", client.Private); err != nil {
		t.Fatal(err)
	}
	w.publish(ada, pack{id: "between/base", version: "1.0.0"})
	between := w.clientOf("between")
	w.taken(between, "between/base")
	w.o.LogKey = next
	w.open()
	for name, text := range before {
		if private()[name] != text {
			t.Errorf("%s has changed", name)
		}
	}
	b := w.archive(pack{id: "acme/base", version: "1.1.0"})
	_, err := running.Publish(ctx, ada, bytes.NewReader(b))
	wants(t, err, fault.Conflict, "another key than this process")
	w.publish(ada, pack{id: "acme/base", version: "2.0.0"})
	w.publish(ada, pack{id: "between/base", version: "2.0.0"})
	if got := w.taken(c, "acme/base"); len(got) != 3 {
		t.Errorf("%q", got)
	}
	if got := w.taken(between, "between/base"); len(got) != 2 {
		t.Errorf("%q", got)
	}
	if hits, err := w.Search(ctx, reader, "acme", "acme"); err != nil || len(hits) != 1 {
		t.Errorf("%+v, %v", hits, err)
	}
	w.good()
	if _, err := w.Change(ctx, ada, "acme", showing(client.Public)); err != nil {
		t.Fatal(err)
	}
	if list := w.index("acme/base"); len(list.Entries) != 3 {
		t.Errorf("%+v", list)
	}
	w.good()
}
