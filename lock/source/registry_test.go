package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/index"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/tlog"
)

// A hosted is a registry of static files, as a mirror of one is.
type hosted struct {
	*world
	tail    tlog.Tail
	log     tlog.Key
	url     string
	entries map[string][]index.Entry // by bundle

	sent map[string][]string // statuses of the answers for a path
}

// host makes the server of the world a registry, which rye.yaml names for acme/**.
func (w *world) host() *hosted {
	w.t.Helper()
	log, err := tlog.NewKey("registry.example/log", keytest.Seeded(1).Public())
	if err != nil {
		w.t.Fatal(err)
	}
	h := &hosted{world: w, log: log, url: w.url(), entries: map[string][]index.Entry{}, sent: map[string][]string{}}
	p, err := project.Parse(fmt.Appendf(nil,
		"registries:\n  %q:\n    names: [\"acme/**\"]\n    log: %q\n    key: %q\n", h.url, log.String(),
		keytest.Seeded(2).Public().String()), "0.1.0")
	if err != nil {
		w.t.Fatal(err)
	}
	w.options.Registries = p.Registries
	return h
}

// put makes the server have a file, with an ETag.
func (h *hosted) put(name string, b []byte) {
	tag := fmt.Sprintf("%q", cas.Sum(b).String()[:20])
	h.answer("/"+name, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("ETag", tag)
		status := "200"
		if r.Header.Get("If-None-Match") == tag {
			status = "304"
		}
		h.mu.Lock()
		h.sent[name] = append(h.sent[name], status)
		h.mu.Unlock()
		http.ServeContent(rw, r, "", time.Time{}, bytes.NewReader(b))
	})
}

// statuses returns what the answers for a file were since it was last asked for.
func (h *hosted) statuses(name string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := strings.Join(h.sent[name], " ")
	delete(h.sent, name)
	return all
}

// publish adds a bundle to the log, and shows it.
func (h *hosted) publish(p *pack, at time.Time) *index.Entry {
	h.t.Helper()
	b := p.archive()
	e := p.entry(registry.ArchiveFile(cas.Sum(b)))
	e.Logged = &index.Logged{Digest: cas.Sum(b), By: "ada", Time: at}
	text, err := tlog.AppendEntry(nil, registry.LogEntry(&e))
	if err != nil {
		h.t.Fatal(err)
	}
	e.Logged.Leaf = h.tail.Size()
	if _, err := h.tail.Add(text); err != nil {
		h.t.Fatal(err)
	}
	h.put(e.Archive, b)
	h.entries[e.ID] = append(h.entries[e.ID], e)
	h.show(e.ID)
	return &e
}

// show signs the log and the index of a bundle.
func (h *hosted) show(id string) {
	h.t.Helper()
	for _, f := range h.tail.Partial() {
		h.put("log/"+f.Name, bytes.Clone(f.Data))
	}
	checkpoint, err := tlog.Sign(h.log, keytest.Seeded(1), h.tail.Size(), h.tail.Root())
	if err != nil {
		h.t.Fatal(err)
	}
	h.put("log/checkpoint", checkpoint)
	h.put(registry.IndexFile(id), signed(h.t, index.Index{Label: registry.IndexLabel("registry.example", id),
		Counter: h.tail.Size(), Entries: h.entries[id]}, keytest.Seeded(2)))
}

// from is the source of bundles in the registry.
func (h *hosted) from() project.Source { return project.RegistryAt(h.url) }

// pin is what a lock says of a version.
func (h *hosted) pin(p *pack, e *index.Entry) file.Bundle {
	want := p.want(h.from())
	want.Log, want.Leaf = h.log.Name, e.Logged.Leaf
	return want
}

// lock makes the project have a lock with one bundle.
func (h *hosted) lock(b file.Bundle) {
	h.options.Locked = func(id string) *file.Bundle {
		if id != b.ID {
			return nil
		}
		return &b
	}
}

// newStore replaces the store by an empty one.
func (h *hosted) newStore() {
	h.t.Helper()
	store, err := disk.Open(h.t.TempDir(), disk.Options{Create: true})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { store.Close() })
	h.store, h.options.Store = store, store
}

func wantFault(t testing.TB, name string, err error, code fault.Code, says string) {
	t.Helper()
	if fault.CodeOf(err) != code || code != "" && !strings.Contains(err.Error(), says) {
		t.Errorf("%s: %v (%s), want %s, %q", name, err, fault.CodeOf(err), code, says)
	}
}

// TestRegistryOffline: a bundle that was taken from a registry brings its proof into the store, and from then on
// neither needs the registry.
func TestRegistryOffline(t *testing.T) {
	w := newWorld(t)
	h := w.host()
	base := newPack(t, "acme/base", "1.0.0", nil, alice)
	e := h.publish(base, noon.Add(-time.Hour))
	ctx := t.Context()

	s := h.sources("acme/base", h.from())
	if all, err := s.Versions(ctx, "acme/base"); err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	id, from, err := s.Manifest(ctx, "acme/base", "1.0.0")
	if err != nil || id != base.list.ID || from != h.from() {
		t.Fatalf("%s from %v, %v", id, from, err)
	}
	want := h.pin(base, e)
	if log, leaf, err := s.Logged(ctx, "acme/base", "1.0.0", from); err != nil || log != want.Log || leaf != 0 {
		t.Errorf("%s, %d, %v", log, leaf, err)
	}
	if _, err := s.Bring(ctx, want, library); err != nil {
		t.Fatal(err)
	}
	proof, err := bundle.ReadProof(ctx, h.store, h.store, base.list.ID, h.log.Name)
	if err != nil || proof.Index != 0 || proof.Origin() != h.log.Name {
		t.Fatalf("%+v, %v", proof, err)
	}
	kept, err := install.Proofs(ctx, h.store, base.list.ID)
	if err != nil || len(kept) != 1 {
		t.Errorf("%+v, %v", kept, err)
	}

	online := h.options.Fetch
	h.offline()
	offline := func(name string) {
		t.Helper()
		s := h.sources("acme/base", h.from())
		if all, err := s.Versions(ctx, "acme/base"); err != nil || len(all) != 1 || all[0].Version != "1.0.0" {
			t.Errorf("%s: %+v, %v", name, all, err)
		}
		if id, _, err := s.Manifest(ctx, "acme/base", "1.0.0"); err != nil || id != base.list.ID {
			t.Errorf("%s: %s, %v", name, id, err)
		}
		log, leaf, err := s.Logged(ctx, "acme/base", "1.0.0", h.from())
		if err != nil || log != want.Log || leaf != 0 {
			t.Errorf("%s: %s, %d, %v", name, log, leaf, err)
		}
		if _, err := s.Bring(ctx, want, library); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	offline("with a proof")
	if again, err := h.sources().Proof(ctx, want); err != nil || again.Index != 0 {
		t.Errorf("%+v, %v", again, err)
	}

	// Without the proof the lock suffices, if it says the same as the index.
	if err := h.store.SetRef(ctx, bundle.ProofRef(base.list.ID, h.log.Name), refOf(t, h, bundle.ProofRef(base.list.ID,
		h.log.Name)), cas.ID{}); err != nil {
		t.Fatal(err)
	}
	_, _, err = h.sources("acme/base", h.from()).Manifest(ctx, "acme/base", "1.0.0")
	wantFault(t, "neither proof nor lock", err, fault.Offline, "the proof of \"acme/base\" 1.0.0")
	if hint := fault.Of(err).Hint; len(hint) != 1 || hint[0] != "rye update acme/base" {
		t.Errorf("hint %q", hint)
	}
	_, err = h.sources().Proof(ctx, want)
	wantFault(t, "no proof", err, fault.Offline, "the proof of")
	h.lock(want)
	offline("with a lock")
	other := want
	other.Manifest = cas.Sum(nil)
	h.lock(other)
	_, _, err = h.sources("acme/base", h.from()).Manifest(ctx, "acme/base", "1.0.0")
	wantFault(t, "another manifest in the lock", err, fault.Integrity, "expected manifest")
	other = want
	other.Leaf = 7
	h.lock(other)
	_, _, err = h.sources("acme/base", h.from()).Manifest(ctx, "acme/base", "1.0.0")
	wantFault(t, "another leaf in the lock", err, fault.Integrity, "is entry 7 of the log in rye.lock")
	for name, change := range map[string]func(*file.Bundle){
		"another log":     func(b *file.Bundle) { b.Log = "other.example/log" },
		"another source":  func(b *file.Bundle) { b.Source = project.RegistryAt("https://other.example") },
		"another version": func(b *file.Bundle) { b.Version = "0.9.0" },
	} {
		other := want
		change(&other)
		h.lock(other)
		_, _, err = h.sources("acme/base", h.from()).Manifest(ctx, "acme/base", "1.0.0")
		wantFault(t, name, err, fault.Offline, "the proof of")
	}

	// Online a new proof is made and kept.
	h.lock(want)
	h.options.Fetch = online
	if again, err := h.sources().Proof(ctx, want); err != nil || again.Index != 0 {
		t.Errorf("%+v, %v", again, err)
	}
	h.offline()
	if _, err := h.sources().Proof(ctx, want); err != nil {
		t.Error(err)
	}
	_, err = h.sources().Proof(ctx, other)
	wantFault(t, "the proof of another leaf", err, fault.Offline, "the proof of")

	// A kept proof that doesn't show what the index says.
	h.options.Locked = nil
	forged := *proof
	forged.Entry = bytes.Replace(proof.Entry, []byte("ada"), []byte("eve"), 1)
	if err := install.KeepProof(ctx, h.store, base.list.ID, &forged); err != nil {
		t.Fatal(err)
	}
	_, _, err = h.sources("acme/base", h.from()).Manifest(ctx, "acme/base", "1.0.0")
	wantFault(t, "a forged proof", err, fault.Integrity, "does not have this entry")
	_, err = h.sources().Proof(ctx, want)
	wantFault(t, "a forged proof", err, fault.Integrity, "does not have this entry")

	// A store that has the bundle from elsewhere, and never saw the registry.
	h.newStore()
	if _, err := install.Import(ctx, h.store, bytes.NewReader(base.archive()), h.options.Verify); err != nil {
		t.Fatal(err)
	}
	_, err = h.sources("acme/base", h.from()).Versions(ctx, "acme/base")
	wantFault(t, "no index", err, fault.Offline, "the index")
	h.lock(want)
	offline("with the lock alone")
}

func refOf(t testing.TB, h *hosted, name string) cas.ID {
	t.Helper()
	id, err := h.store.Ref(name)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestRegistryUnchanged: an index that hasn't changed costs one conditional request and no bytes, and not even the log
// is read.
func TestRegistryUnchanged(t *testing.T) {
	w := newWorld(t)
	h := w.host()
	ctx := t.Context()
	h.publish(newPack(t, "acme/base", "1.0.0", nil, alice), noon.Add(-2*time.Hour))
	versions := func(want int, index, log string) {
		t.Helper()
		all, err := h.sources("acme/base", h.from()).Versions(ctx, "acme/base")
		if err != nil || len(all) != want {
			t.Errorf("%+v, %v", all, err)
		}
		if got := h.statuses("index/acme/base.yaml"); got != index {
			t.Errorf("answers for the index: %q, want %q", got, index)
		}
		if got := h.statuses("log/checkpoint"); got != log {
			t.Errorf("answers for the log: %q, want %q", got, log)
		}
	}
	versions(1, "200", "200")
	versions(1, "304", "")
	versions(1, "304", "")
	h.publish(newPack(t, "acme/base", "1.1.0", nil, alice), noon.Add(-time.Hour))
	versions(2, "200", "200")
	versions(2, "304", "")

	// Locking reads the log in any case; its checkpoint is kept when it was believed.
	for _, log := range []string{"200", "304"} {
		if _, _, err := h.sources("acme/base", h.from()).Manifest(ctx, "acme/base", "1.0.0"); err != nil {
			t.Fatal(err)
		}
		if got := h.statuses("log/checkpoint"); got != log {
			t.Errorf("answers for the log: %q, want %q", got, log)
		}
	}
	h.statuses("index/acme/base.yaml")

	// The server says that nothing has changed, to a client that has nothing.
	h.answer("/index/acme/base.yaml", func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(304) })
	h.newStore()
	_, err := h.sources("acme/base", h.from()).Versions(ctx, "acme/base")
	wantFault(t, "304 for nothing", err, fault.Registry, "304")

	// What is kept under the address isn't what was kept.
	batch, err := h.store.Batch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Close()
	blob, err := batch.PutBytes(ctx, cas.Blob, []byte("no line"))
	if err == nil {
		err = batch.Commit(ctx)
	}
	if err == nil {
		err = h.store.SetRef(ctx, fetchedRef(h.url+"/index/acme/base.yaml"), cas.ID{},
			cas.ID{Kind: cas.Blob, Digest: blob})
	}
	if err != nil {
		t.Fatal(err)
	}
	h.offline()
	_, err = h.sources("acme/base", h.from()).Versions(ctx, "acme/base")
	wantFault(t, "a damaged answer", err, fault.Integrity, "has no ETag line")
}

// TestRegistryRefused: what a registry can't do.
func TestRegistryRefused(t *testing.T) {
	w := newWorld(t)
	h := w.host()
	ctx := t.Context()
	base := newPack(t, "acme/base", "1.0.0", nil, alice)
	e := h.publish(base, noon.Add(-2*time.Hour))
	s := h.sources("acme/base", h.from())
	_, err := s.Versions(ctx, "acme/none")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	_, _, err = s.Manifest(ctx, "acme/base", "9.0.0")
	wantFault(t, "no such version", err, fault.NotFound, "has no acme/base@9.0.0")
	other := h.pin(base, e)
	other.Leaf = 3
	_, err = h.sources().Bring(ctx, other, library)
	wantFault(t, "another leaf", err, fault.Integrity, "is entry 3 of the log in rye.lock, and 0 in the registry")
	other = h.pin(base, e)
	other.Source = project.RegistryAt("https://unnamed.example")
	_, err = h.sources().Bring(ctx, other, library)
	wantFault(t, "a registry that rye.yaml doesn't name", err, fault.NotFound, "doesn't name the registry")
	if _, err := h.sources().Proof(ctx, other); fault.CodeOf(err) != fault.NotFound {
		t.Error(err)
	}

	// A yanked version and one that is too new are for locks that have them.
	h.entries["acme/base"][0].Logged.Yanked = 1
	late := newPack(t, "acme/base", "1.1.0", nil, alice)
	h.publish(late, noon)
	h.options.Before, h.options.Young = noon.Add(-time.Hour), func(string, string, time.Time) {}
	_, err = h.sources("acme/base", h.from()).Versions(ctx, "acme/base")
	wantFault(t, "all too new", err, fault.NotFound, "has no acme/base from before")
	h.lock(h.pin(base, e))
	if all, err := h.sources("acme/base", h.from()).Versions(ctx, "acme/base"); err != nil || len(all) != 1 ||
		all[0].Version != "1.0.0" {
		t.Errorf("%+v, %v", all, err)
	}
	h.options.Locked, h.options.Before = nil, time.Time{}
	if all, err := h.sources("acme/base", h.from()).Versions(ctx, "acme/base"); err != nil || len(all) != 1 ||
		all[0].Version != "1.1.0" {
		t.Errorf("%+v, %v", all, err)
	}
	h.entries["acme/base"] = h.entries["acme/base"][:1]
	h.publish(newPack(t, "acme/other", "1.0.0", nil, alice), noon)
	h.show("acme/base")
	_, err = h.sources("acme/base", h.from()).Versions(ctx, "acme/base")
	wantFault(t, "all yanked", err, fault.NotFound, "has no acme/base")

	// A log that is away, or that contradicts itself.
	h.entries["acme/base"][0].Logged.Yanked = 0
	h.show("acme/base")
	h.put("log/checkpoint", []byte("no checkpoint"))
	_, err = h.sources("acme/base", h.from()).Versions(ctx, "acme/base")
	wantFault(t, "no checkpoint", err, fault.Parsing, "checkpoint of the log")
	h.answer("/log/checkpoint", http.NotFound)
	_, err = h.sources("acme/base", h.from()).Versions(ctx, "acme/base")
	if fault.CodeOf(err) == fault.NotFound && strings.Contains(err.Error(), "has no acme/base") {
		t.Errorf("a missing log: %v", err)
	}
	if err == nil {
		t.Error("a missing log was believed")
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := h.sources("acme/base", h.from()).Versions(cancelled, "acme/base"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}

	// What its index says that the bundle requires, and what the bundle requires.
	h = newWorld(t).host()
	needy := newPack(t, "acme/needy", "1.0.0", []string{"acme/base ^1.0"}, alice)
	e = h.publish(needy, noon.Add(-time.Hour))
	h.entries["acme/needy"][0].Requires = nil
	h.show("acme/needy")
	_, err = h.sources().Bring(ctx, h.pin(needy, e), library)
	wantFault(t, "other requirements", err, fault.Integrity, "expected requires []")
}

// TestRegistryOnlyLocked: without a kept index, what a locked version requires comes from its manifest.
func TestRegistryOnlyLocked(t *testing.T) {
	w := newWorld(t)
	h := w.host()
	h.offline()
	ctx := t.Context()
	needy := newPack(t, "acme/needy", "1.0.0", []string{"acme/base ^1.0"}, alice)
	want := h.pin(needy, &index.Entry{Logged: &index.Logged{Leaf: 5}})
	h.lock(want)
	_, err := h.sources("acme/needy", h.from()).Versions(ctx, "acme/needy")
	wantFault(t, "a bundle that isn't there", err, fault.Offline, "the index")
	if _, err := install.Import(ctx, h.store, bytes.NewReader(needy.archive()), h.options.Verify); err != nil {
		t.Fatal(err)
	}
	s := h.sources("acme/needy", h.from())
	all, err := s.Versions(ctx, "acme/needy")
	if err != nil || len(all) != 1 || len(all[0].Requires) != 1 || !all[0].Requires["acme/base"].Contains("1.2.0") {
		t.Fatalf("%+v, %v", all, err)
	}
	if log, leaf, err := s.Logged(ctx, "acme/needy", "1.0.0", h.from()); err != nil || log != want.Log || leaf != 5 {
		t.Errorf("%s, %d, %v", log, leaf, err)
	}
	if _, err := s.Bring(ctx, want, library); err != nil {
		t.Error(err)
	}
}
