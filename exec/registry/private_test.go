package registry_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry"
	"github.com/rye-build/rye/lock/project"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/rollback"
	"github.com/rye-build/rye/manifest/tlog"
)

// secluded returns a registry with a public and a private namespace, their owner, and its caller that may read.
func secluded(t testing.TB) (w *world, ada, reader *registry.Caller) {
	t.Helper()
	w = newWorld(t)
	ada = w.caller("ada")
	reader = w.caller("ada", registry.ScopeRead)
	w.claim(ada, "open")
	w.publish(ada, pack{id: "open/base", version: "1.0.0"})
	if _, err := w.Claim(t.Context(), ada, "acme", client.Private); err != nil {
		t.Fatal(err)
	}
	return w, ada, reader
}

// mirrored serves the files of a private namespace as the registry would.
type mirrored struct {
	copied
	dir string
}

// Get implements client.Fetcher.
func (m mirrored) Get(ctx context.Context, address string, limit int64) (io.ReadCloser, int64, error) {
	name := strings.TrimPrefix(address, "https://registry.example/")
	if !strings.HasPrefix(name, m.dir) {
		return nil, 0, errors.New("asked for " + address)
	}
	return m.copied.Get(ctx, "https://mirror.example/"+name, limit)
}

// GetIf implements client.Fetcher.
func (m mirrored) GetIf(ctx context.Context, address string, limit int64, _ string) (io.ReadCloser, string, error) {
	r, _, err := m.Get(ctx, address, limit)
	return r, "", err
}

// clientOf returns a client that has just met the registry of a private namespace.
func (w *world) clientOf(space string) *client.Client {
	w.Helper()
	url := "https://registry.example" + client.PrivatePath(space)
	fetch := mirrored{copied{w.files}, "private/" + space + "/"}
	met, err := client.ReadDescription(w.Context(), fetch, url)
	if err != nil || met.Name != "registry.example/private/"+space || met.Log.Name != met.Name ||
		met.Log.Public() == w.Registry.Log().Public() || met.Key == w.KeyOf() || met.Key == met.Log.Public() {
		w.Fatalf("%+v, %v", met, err)
	}
	return &client.Client{At: project.Registry{URL: url, Log: met.Log, Key: met.Key}, Fetch: fetch,
		Journal: &rollback.Journal{Path: filepath.Join(w.TempDir(), "rollback")},
		Now:     func() time.Time { return w.now }}
}

// taken returns the versions of a bundle that a client of a private namespace believes, those that are yanked with a
// "-", after it has read their archives.
func (w *world) taken(c *client.Client, id string) (versions []string) {
	w.Helper()
	ctx := w.Context()
	view, err := c.View(ctx)
	if err != nil {
		w.Fatal(err)
	}
	list, err := c.Index(ctx, id, func() error { return nil })
	if err != nil {
		w.Fatal(err)
	}
	for i := range list.Entries {
		e := &list.Entries[i]
		proof, err := c.Prove(ctx, view, e)
		if err != nil {
			w.Fatal(err)
		}
		if _, _, err := proof.Verify(c.At.Log); err != nil {
			w.Error(err)
		}
		body, err := c.Archive(ctx, e)
		if err == nil {
			_, err = io.Copy(io.Discard, body)
			body.Close()
		}
		if err != nil {
			w.Error(err)
		}
		version := e.Version
		if e.Logged.Yanked > 0 {
			version += "-"
		}
		versions = append(versions, version)
	}
	return versions
}

// outside returns the files that aren't those of private namespaces, with their bytes.
func (w *world) outside() map[string]string {
	w.Helper()
	all := w.all()
	maps.DeleteFunc(all, func(name, _ string) bool { return strings.HasPrefix(name, "private/") })
	return all
}

// TestPrivate: what happens in a private namespace leaves nothing outside of its own files, and those are a registry
// that clients verify as any other.
func TestPrivate(t *testing.T) {
	w, ada, reader := secluded(t)
	ctx := t.Context()
	before := w.outside()
	v := w.publish(ada, pack{id: "acme/base", version: "1.0.0"})
	w.publish(ada, pack{id: "acme/base", version: "1.1.0", requires: []manifest.Require{
		{BundleID: "open/base", Version: "^1"}}})
	gone := w.publish(ada, pack{id: "acme/more", version: "1.0.0"})
	if !v.Private || v.Leaf != 1 {
		t.Errorf("%+v", v)
	}
	if _, err := w.Withdraw(ctx, ada, "acme/base", "1.0.0", false); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Withdraw(ctx, ada, "acme/more", gone.Version, true); err != nil {
		t.Fatal(err)
	}
	if _, err := w.SetPublisher(ctx, ada, "acme/base", client.PublisherChange{Add: theBinding()}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Advise(ctx, draft("", "acme/base", "1.1.0")); err != nil {
		t.Fatal(err)
	}
	if after := w.outside(); !maps.Equal(after, before) {
		t.Errorf("outside: %q, before %q", slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before)))
	}
	c := w.clientOf("acme")
	if got := w.taken(c, "acme/base"); !slices.Equal(got, []string{"1.0.0-", "1.1.0"}) {
		t.Errorf("%q", got)
	}
	if got := w.taken(c, "acme/more"); len(got) != 0 {
		t.Errorf("%q", got)
	}
	kept := &client.Kept{Dir: t.TempDir(), Journal: c.Journal, Now: c.Now}
	if feed, _, err := kept.Update(ctx, c); err != nil || len(feed.Entries) != 1 {
		t.Errorf("%+v, %v", feed, err)
	}
	w.good()

	// A public bundle can be unpublished, whatever a private namespace requires.
	if _, err := w.Withdraw(ctx, ada, "open/base", "1.0.0", true); err != nil {
		t.Error(err)
	}

	to := folder(t)
	if _, err := w.Mirror(ctx, to); err != nil {
		t.Fatal(err)
	}
	for info, err := range to.List(ctx, "") {
		if err != nil || strings.HasPrefix(info.Name, "private/") {
			t.Errorf("in the mirror: %s, %v", info.Name, err)
		}
	}
	text, err := w.Metrics(ctx)
	if err != nil || strings.Contains(string(text), "acme") ||
		!strings.Contains(string(text), "\nryed_private_logs 1\nryed_private_log_entries 8\n") &&
			!strings.Contains(string(text), "\nryed_private_log_entries 8\n") {
		t.Errorf("%s, %v", text, err)
	}
	events, err := w.Audit(ctx, registry.Filter{Name: "acme"})
	if err != nil || len(events) != 8 || !events[0].Private || events[0].What != "owner" ||
		!strings.Contains(string(events[0].Document), `"private":true`) {
		t.Errorf("%+v, %v", events, err)
	}
	if hits, err := w.Search(ctx, reader, "base", ""); err != nil || len(hits) != 1 || !hits[0].Private ||
		hits[0].Version != "1.1.0" {
		t.Errorf("%+v, %v", hits, err)
	}
	if hits, err := w.Search(ctx, reader, "base", "other"); err != nil || len(hits) != 0 {
		t.Errorf("%+v, %v", hits, err)
	}
	if newest, _, err := w.Newest(ctx); err != nil || len(newest) != 0 {
		t.Errorf("%+v, %v", newest, err)
	}
}

// TestSees: only a token of an owner, with the scope read and for the whole namespace, opens it.
func TestSees(t *testing.T) {
	w, ada, reader := secluded(t)
	ctx := t.Context()
	w.publish(ada, pack{id: "acme/base", version: "1.0.0"})
	token := func(account string, names ...string) *registry.Caller {
		return w.callerFor(registry.Token{Account: account, Label: "t", Names: names,
			Scopes: []registry.Scope{registry.ScopeRead}})
	}
	for name, c := range map[string]struct {
		by   *registry.Caller
		sees bool
	}{
		"its owner":               {reader, true},
		"the namespace's glob":    {token("ada", "acme/**"), true},
		"one glob of several":     {token("ada", "open/**", "acme/**"), true},
		"all names":               {token("ada", "**"), true},
		"the host":                {registry.Host, true},
		"no token":                {nil, false},
		"without the scope read":  {ada, false},
		"of another account":      {token("eve"), false},
		"of another, for it":      {token("eve", "acme/**"), false},
		"for another namespace":   {token("ada", "open/**"), false},
		"for one bundle":          {token("ada", "acme/base"), false},
		"for a part":              {token("ada", "acme/tools/**"), false},
		"for a longer name":       {token("ada", "acme2/**"), false},
		"for direct bundles only": {token("ada", "acme/*"), false},
	} {
		sees, err := w.Sees(ctx, c.by, "acme")
		if err != nil || sees != c.sees {
			t.Errorf("%s: %v, %v", name, sees, err)
		}
		_, err = w.Versions(ctx, c.by, "acme/base")
		if c.sees != (err == nil) || err != nil && fault.CodeOf(err) != fault.NotFound {
			t.Errorf("%s: versions: %v", name, err)
		}
		_, err = w.Space(ctx, c.by, "acme")
		if c.sees != (err == nil) || err != nil && fault.CodeOf(err) != fault.NotFound {
			t.Errorf("%s: the namespace: %v", name, err)
		}
		if hits, err := w.Search(ctx, c.by, "acme", ""); err != nil || c.sees != (len(hits) == 1) {
			t.Errorf("%s: %+v, %v", name, hits, err)
		}
		for _, other := range []string{"none", "a/b", "../acme", "ACME"} {
			if sees, err := w.Sees(ctx, c.by, other); err != nil || sees {
				t.Errorf("%s sees %q: %v", name, other, err)
			}
		}
	}
	// An owner who is one no more.
	if _, err := w.Change(ctx, ada, "acme", adding("eve")); err != nil {
		t.Fatal(err)
	}
	eve := token("eve")
	if sees, err := w.Sees(ctx, eve, "acme"); err != nil || !sees {
		t.Error("a new owner doesn't see it", err)
	}
	remove := client.Change{Owner: &client.OwnerChange{Account: "eve", Action: client.RemoveOwner}}
	if _, err := w.Change(ctx, ada, "acme", remove); err != nil {
		t.Fatal(err)
	}
	if sees, err := w.Sees(ctx, eve, "acme"); err != nil || sees {
		t.Error("an owner that was removed sees it", err)
	}
}

// TestHiddenName: a private name is to others as a name that no one has, or where something would be claimed, as one
// that is reserved.
func TestHiddenName(t *testing.T) {
	w, ada, _ := secluded(t)
	ctx := t.Context()
	w.publish(ada, pack{id: "acme/base", version: "1.0.0"})
	eve := w.callerFor(registry.Token{Account: "eve", Label: "all", Scopes: registry.Scopes})
	joining := client.Change{Owner: &client.OwnerChange{Account: "eve", Action: client.AddOwner}}
	if _, err := w.SetPublisher(ctx, ada, "acme/base", client.PublisherChange{Add: theBinding()}); err != nil {
		t.Fatal(err)
	}
	bound, err := w.Publishers(ctx, registry.Host, "acme/base")
	if err != nil || len(bound) != 1 {
		t.Fatalf("%v, %v", bound, err)
	}
	ask := map[string]func(name string) error{
		"publish": func(name string) error {
			_, err := w.Publish(ctx, eve, bytes.NewReader(w.archive(pack{id: name + "/base", version: "2.0.0"})))
			return err
		},
		"publish the same": func(name string) error {
			_, err := w.Publish(ctx, eve, bytes.NewReader(w.archive(pack{id: name + "/base", version: "1.0.0"})))
			return err
		},
		"stage": func(name string) error {
			_, err := w.Stage(ctx, eve, "", bytes.NewReader(w.archive(pack{id: name + "/base", version: "2.0.0"})))
			return err
		},
		"yank": func(name string) error {
			_, err := w.Withdraw(ctx, eve, name+"/base", "1.0.0", false)
			return err
		},
		"unpublish": func(name string) error {
			_, err := w.Withdraw(ctx, eve, name+"/base", "1.0.0", true)
			return err
		},
		"change":   func(name string) error { _, err := w.Change(ctx, eve, name, joining); return err },
		"space":    func(name string) error { _, err := w.Space(ctx, eve, name); return err },
		"versions": func(name string) error { _, err := w.Versions(ctx, eve, name+"/base"); return err },
		"publishers": func(name string) error {
			all, err := w.Publishers(ctx, eve, name+"/base")
			if all != nil {
				t.Errorf("%v", all)
			}
			return err
		},
		"end a publisher": func(name string) error {
			_, err := w.SetPublisher(ctx, eve, name+"/base", client.PublisherChange{Remove: bound[0].ID})
			return err
		},
		"visibility": func(name string) error {
			_, err := w.Change(ctx, eve, name, showing(client.Public))
			return err
		},
		"seen": func(name string) error {
			_, err := w.Seen(ctx, eve, []byte("registry.example/private/"+name+"\n1\nAAAA\n"))
			return err
		},
	}
	for what, do := range ask {
		hidden, none := do("acme"), do("none")
		if strings.ReplaceAll(said(hidden), "acme", "none") != said(none) {
			t.Errorf("%s:\n%s\n%s", what, said(hidden), said(none))
		}
	}
	claims := map[string]func(name string) error{
		"claim":         func(name string) error { _, err := w.Claim(ctx, eve, name, ""); return err },
		"claim private": func(name string) error { _, err := w.Claim(ctx, eve, name, client.Private); return err },
		"bind": func(name string) error {
			_, err := w.SetPublisher(ctx, eve, name+"/base", client.PublisherChange{Add: theBinding()})
			return err
		},
	}
	if _, err := w.Claim(ctx, ada, "secretive", client.Private); err != nil {
		t.Fatal(err)
	}
	for what, do := range claims {
		for private, reserved := range map[string]string{"acme": "admin", "a-cme": "ad-min", "secretiv": "admin",
			"secretive": "admin"} {
			got, want := said(do(private)), said(do(reserved))
			if strings.ReplaceAll(got, private, reserved) != want || !strings.Contains(got, "is reserved") {
				t.Errorf("%s %s:\n%s\n%s", what, private, got, want)
			}
		}
	}
}

// said returns all that an error tells.
func said(err error) string {
	if err == nil {
		return "no error"
	}
	f := fault.Of(err)
	return string(f.Code) + ": " + f.Error() + "\n" + strings.Join(f.Why, "\n") + "\n" + strings.Join(f.Hint, "\n")
}

// TestPrivateKeys: two processes have the same private log, because its keys come from that of the indexes, whatever
// the public log's key is; other keys are refused.
func TestPrivateKeys(t *testing.T) {
	w, ada, _ := secluded(t)
	w.publish(ada, pack{id: "acme/base", version: "1.0.0"})
	second := newWorldAt(t, w.dir)
	second.publish(ada, pack{id: "acme/base", version: "1.1.0"})
	w.publish(ada, pack{id: "acme/base", version: "1.2.0"})
	if got := w.taken(w.clientOf("acme"), "acme/base"); len(got) != 3 {
		t.Errorf("%q", got)
	}
	other := &world{TB: t, dir: t.TempDir(), now: noon, o: w.o}
	other.o.LogKey = keytest.Seeded(8)
	other.open()
	if _, err := other.AddAccount(t.Context(), "ada"); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Claim(t.Context(), ada, "acme", client.Private); err != nil {
		t.Fatal(err)
	}
	if a, b := w.clientOf("acme").At, other.clientOf("acme").At; a.Log != b.Log || a.Key != b.Key {
		t.Errorf("%s and %s", a.Log, b.Log)
	}
	forged, err := tlog.Sign(w.clientOf("acme").At.Log, keytest.Seeded(1), 9, tlog.Hash{1})
	if err == nil {
		_, err = w.Seen(t.Context(), registry.Host, forged)
	}
	if err == nil {
		t.Error("the key of the public log has signed for a private one")
	}
	if sighting, err := w.Seen(t.Context(), registry.Host, w.read("private/acme/log/checkpoint")); err != nil ||
		sighting.Seen != 4 {
		t.Errorf("%+v, %v", sighting, err)
	}
}

// TestVerifyPrivate damages the files of a private namespace: each is named.
func TestVerifyPrivate(t *testing.T) {
	w, ada, _ := secluded(t)
	v := w.publish(ada, pack{id: "acme/base", version: "1.0.0"})
	for _, name := range []string{client.ArchiveFile(v.Archive), client.ProofFile(v.Archive),
		client.IndexFile("acme/base"), "log/checkpoint", "log/tile/0/000.p/2", client.AdvisoriesFile} {
		name = "private/acme/" + name
		good := w.read(name)
		if err := w.files.Remove(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if check, err := w.Verify(t.Context()); err != nil || len(check.Wrong) != 1 {
			t.Errorf("%s: %+v, %v", name, check, err)
		}
		if err := w.files.Replace(t.Context(), name, good); err != nil {
			t.Fatal(err)
		}
	}
	w.good()
}
