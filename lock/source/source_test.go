package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rye-build/rye/ai/semver"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/journal"
	"github.com/rye-build/rye/lock/index"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/resolve"
	"github.com/rye-build/rye/lock/web"
	"github.com/rye-build/rye/manifest/rollback"
)

// versions are the versions of a bundle and what they require, as text.
func versions(t testing.TB, s *Sources, id string) (all []string) {
	t.Helper()
	found, err := s.Versions(t.Context(), id)
	if err != nil {
		t.Fatalf("%s: %v", id, err)
	}
	for _, c := range found {
		text := c.Version
		for id, r := range c.Requires {
			text += fmt.Sprintf(" %s %s", id, r)
		}
		all = append(all, text)
	}
	return all
}

func same(t testing.TB, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// bring brings a bundle by what Manifest says of it.
func (w *world) bring(s *Sources, id, version string) (*bundle.Bundle, error) {
	w.t.Helper()
	digest, src, err := s.Manifest(w.t.Context(), id, version)
	if err != nil {
		return nil, err
	}
	return s.Bring(w.t.Context(), (&pack{list: listOf(id, version, digest)}).want(src), library)
}

// An index is the same in a directory and on a server, and a resolution goes through it.
func TestIndex(t *testing.T) {
	for _, where := range []string{"directory", "server"} {
		t.Run(where, func(t *testing.T) {
			w := newWorld(t)
			web1, web2 := newPack(t, "acme/web", "1.0.0", []string{"acme/base ^2.1"}, alice),
				newPack(t, "acme/web", "1.1.0", []string{"acme/base ^2.1"}, alice)
			base := newPack(t, "acme/base", "2.1.4", nil, alice)
			x := signed(t, index.Index{Label: "acme/all", Counter: 1,
				Entries: []index.Entry{web1.entry("old/web 1.rye"), web2.entry("web2.rye"), base.entry("base.rye")}},
				alice)
			src := project.Source{Index: true, Where: "../list"}
			put := func(name string, b []byte) { write(t, filepath.Join(w.dir, "..", "list", name), b) }
			if where == "server" {
				src = w.at("/list/index.yaml", true)
				put = func(name string, b []byte) { w.put("/list/"+name, b) }
			}
			put("index.yaml", x)
			put("old/web 1.rye", web1.archive())
			put("web2.rye", web2.archive())
			put("base.rye", base.archive())

			s := w.sources("acme/web", src)
			same(t, "web", versions(t, s, "acme/web"), []string{"1.0.0 acme/base ^2.1", "1.1.0 acme/base ^2.1"})
			same(t, "base", versions(t, s, "acme/base"), []string{"2.1.4"})
			every, err := semver.Parse("^1")
			if err != nil {
				t.Fatal(err)
			}
			r, err := resolve.Resolve(t.Context(), s,
				resolve.Request{Requires: map[string]semver.Range{"acme/web": every}})
			if err != nil || !slices.Equal(r.Bundles, []resolve.Bundle{{ID: "acme/base", Version: "2.1.4"},
				{ID: "acme/web", Version: "1.0.0"}}) {
				t.Fatal(r, err)
			}
			var read int64
			w.options.Progress = func(n int64) { read += n }
			s = w.sources("acme/web", src)
			for _, p := range []*pack{web1, base} {
				b, err := w.bring(s, p.list.BundleID, p.list.Version)
				if err != nil || b.ID != p.list.ID || len(b.Signatures) != 1 {
					t.Fatal(b, err)
				}
				w.whole(p)
			}
			if all := int64(len(web1.archive()) + len(base.archive())); read != all {
				t.Errorf("%d bytes were told of, of %d", read, all)
			}
			if _, err := w.store.Ref(install.Ref(web2.list.ID)); !errors.Is(err, fs.ErrNotExist) {
				t.Error("a version that wasn't asked for is there")
			}
			if n := w.requests("/list/index.yaml"); where == "server" && n != 2 {
				t.Errorf("two commands have read the index %d times", n)
			}
			// What is there is not brought again, wherever it is gone from.
			if os.RemoveAll(filepath.Join(w.dir, "..", "list")); where == "server" {
				w.offline()
			}
			s = w.sources("acme/web", src)
			if _, err := s.Bring(t.Context(), base.want(src), nil); err != nil {
				t.Error(err)
			}
			_, err = s.Bring(t.Context(), web2.want(src), nil)
			switch offline, ok := errors.AsType[*OfflineError](err); {
			case where == "directory" && !errors.Is(err, fs.ErrNotExist):
				t.Errorf("from a directory that is gone: %v", err)
			case where == "server" && (!ok || offline.Address != src.Where || offline.ID != "acme/web" ||
				offline.Version != "1.1.0" || len(offline.Missing) != 1):
				t.Errorf("offline: %v", err)
			}
		})
	}
}

// Each command reads an index once, however many ask, and who gives up doesn't spoil it for the others.
func TestOnce(t *testing.T) {
	w := newWorld(t)
	base := newPack(t, "acme/base", "2.1.4", nil, alice)
	w.put("/index.yaml", signed(t, index.Index{Label: "all", Counter: 1,
		Entries: []index.Entry{base.entry("base.rye")}}, alice))
	s := w.sources("acme/base", w.at("/index.yaml", true))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errStopped)
	if _, err := s.Versions(ctx, "acme/base"); !errors.Is(err, errStopped) {
		t.Fatal(err)
	}
	before := w.requests("/index.yaml")
	var wait sync.WaitGroup
	for i := range 20 {
		id := "acme/base"
		if i%2 == 1 {
			id = "acme/none"
		}
		wait.Go(func() {
			if _, err := s.Versions(t.Context(), id); errors.Is(err, fs.ErrNotExist) != (id == "acme/none") {
				t.Errorf("%s: %v", id, err)
			}
		})
	}
	wait.Wait()
	if n := w.requests("/index.yaml") - before; n != 1 {
		t.Errorf("%d requests", n)
	}
}

// One who waits for another may give up.
func TestWaiting(t *testing.T) {
	var m memo[int, int]
	begun, end := make(chan struct{}), make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		m.get(t.Context(), 1, func() (int, error) { close(begun); <-end; return 7, nil })
	})
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.get(ctx, 1, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(end)
	wait.Wait()
	if v, err := m.get(t.Context(), 1, nil); v != 7 || err != nil {
		t.Error(v, err)
	}
	if all := m.found(func(key int) bool { return key == 1 }); !slices.Equal(all, []int{7}) {
		t.Error(all)
	}
	if all := m.found(func(key int) bool { return key == 2 }); all != nil {
		t.Error(all)
	}
}

// Bundles that rye.yaml names come from there alone, others from the one index that lists them.
func TestWhichSource(t *testing.T) {
	w := newWorld(t)
	named := newPack(t, "acme/notes", "0.3.0", []string{"acme/base ^2"}, alice)
	named.dir(filepath.Join(w.dir, "..", "notes"))
	other := newPack(t, "acme/notes", "9.0.0", nil, alice)
	base := newPack(t, "acme/base", "2.1.4", nil, alice)
	shared := newPack(t, "acme/shared", "1.0.0", nil, alice)
	lists := map[string][]index.Entry{
		"one": {other.entry("x"), base.entry("y"), shared.entry("z")},
		"two": {shared.entry("z"), newPack(t, "acme/two", "1.0.0", nil, alice).entry("t")},
	}
	for name, entries := range lists {
		write(t, filepath.Join(w.dir, name, "index.yaml"),
			signed(t, index.Index{Label: name, Counter: 1, Entries: entries}, alice))
	}
	one, two := project.Source{Index: true, Where: "one"}, project.Source{Index: true, Where: "two"}
	s := w.sources("acme/notes", project.Source{Where: "../notes"}, "acme/one", one, "acme/two", two, "acme/two-b",
		two)
	same(t, "notes", versions(t, s, "acme/notes"), []string{"0.3.0 acme/base ^2"})
	same(t, "base", versions(t, s, "acme/base"), []string{"2.1.4"})
	if _, src, err := s.Manifest(t.Context(), "acme/base", "2.1.4"); err != nil || src != one {
		t.Error(src, err)
	}

	for id, want := range map[string]string{
		"acme/shared": `"acme/shared" is in several indexes, and rye.yaml selects none: "one", "two"`,
		"acme/none":   `"acme/none" is not in the index "one" or "two"`,
		"acme/one":    `"acme/one" is not in the index "one"`,
	} {
		_, err := s.Versions(t.Context(), id)
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", id, err, want)
		}
		if ambiguous := fault.CodeOf(err) == fault.Ambiguous; ambiguous == errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %T", id, err)
		}
		if _, _, again := s.Manifest(t.Context(), id, "1.0.0"); again == nil {
			t.Errorf("%s: a manifest without versions", id)
		}
	}
	for _, c := range []struct{ id, version, want string }{
		{"acme/base", "2.1.5", `"acme/base" 2.1.5 is not in the index "one"`},
		{"acme/notes", "9.0.0",
			`"acme/notes" 9.0.0 from "../notes": not the expected bundle: expected version 9.0.0, found 0.3.0`},
	} {
		if _, _, err := s.Manifest(t.Context(), c.id, c.version); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	// The named source decides.
	s = w.sources("acme/one", one, "acme/two", two, "acme/shared", two)
	same(t, "shared", versions(t, s, "acme/shared"), []string{"1.0.0"})
	s = w.sources("acme/notes", project.Source{Where: "../notes"})
	if _, err := s.Versions(t.Context(), "acme/base"); err == nil ||
		err.Error() != `rye.yaml names neither a source for "acme/base" nor an index` ||
		!errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// A bundle that has a source of its own: a directory, a file, an address.
func TestFrom(t *testing.T) {
	for _, where := range []string{"directory", "file", "address"} {
		t.Run(where, func(t *testing.T) {
			w := newWorld(t)
			p := newPack(t, "acme/deploy", "1.4.2", []string{"acme/base ^2.1"}, alice)
			var src project.Source
			switch where {
			case "directory":
				src.Where = "../deploy"
				p.dir(filepath.Join(w.dir, "..", "deploy"))
				write(t, filepath.Join(w.dir, "..", "deploy", ".ai", "knowledge", "more.md"),
					[]byte("not of the bundle"))
			case "file":
				src.Where = "vendor/deploy.rye"
				write(t, filepath.Join(w.dir, "vendor", "deploy.rye"), p.archive())
			default:
				src = w.at("/deploy.rye", false)
				w.put("/deploy.rye", p.archive())
			}
			s := w.sources("acme/deploy", src)
			same(t, "deploy", versions(t, s, "acme/deploy"), []string{"1.4.2 acme/base ^2.1"})
			w.empty("only its head was read", p)
			b, err := w.bring(s, "acme/deploy", "1.4.2")
			if err != nil || b.ID != p.list.ID {
				t.Fatal(err)
			}
			w.whole(p)
			// It need not come again.
			if where == "address" {
				w.offline()
			} else if err := os.RemoveAll(filepath.Join(w.dir, filepath.FromSlash(src.Where))); err != nil {
				t.Fatal(err)
			}
			s = w.sources("acme/deploy", src)
			if _, err := s.Bring(t.Context(), p.want(src), nil); err != nil {
				t.Error(err)
			}
			if where == "address" {
				same(t, "kept", versions(t, s, "acme/deploy"), []string{"1.4.2 acme/base ^2.1"})
				return
			}
			if _, err := s.Versions(t.Context(), "acme/deploy"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("what is gone: %v", err)
			}
		})
	}
}

// What was never fetched is unavailable offline, and what was is verified as if it had come now.
func TestOffline(t *testing.T) {
	w := newWorld(t)
	base := newPack(t, "acme/base", "2.1.4", nil, alice)
	x := index.Index{Label: "all", Counter: 1, Expires: noon.AddDate(0, 0, 1),
		Entries: []index.Entry{base.entry("base.rye")}}
	src, from := w.at("/index.yaml", true), w.at("/deploy.rye", false)
	w.put("/index.yaml", signed(t, x, alice))
	w.put("/base.rye", base.archive())
	online := w.options.Fetch
	w.offline()
	s := w.sources("acme/base", src, "acme/deploy", from)
	for id, want := range map[string]string{
		"acme/base":   fmt.Sprintf("the index %q is not in the store, and rye is offline", src.Where),
		"acme/deploy": fmt.Sprintf(`"acme/deploy" from %q is not in the store, and rye is offline`, from.Where),
	} {
		if _, err := s.Versions(t.Context(), id); err == nil || err.Error() != want || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want %s", id, err, want)
		}
	}
	_, err := s.Bring(t.Context(), base.want(src), nil)
	if want := fmt.Sprintf(`"acme/base" 2.1.4 from %q is not in the store, and rye is offline: missing %s`, src.Where,
		cas.ID{Kind: cas.Document, Digest: base.list.ID}); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	// The manifest alone is not the bundle.
	if err := install.Keep(t.Context(), w.store, &bundle.Bundle{FileList: base.list}, base.body,
		w.options.Verify); err != nil {
		t.Fatal(err)
	}
	_, err = s.Bring(t.Context(), base.want(src), nil)
	if o, ok := errors.AsType[*OfflineError](err); !ok || len(o.Missing) != 4 ||
		!strings.Contains(err.Error(), "rye is offline: missing blob blake3:") {
		t.Errorf("%v", err)
	}

	w.options.Fetch = online
	s = w.sources("acme/base", src)
	same(t, "base", versions(t, s, "acme/base"), []string{"2.1.4"})
	w.offline()
	s = w.sources("acme/base", src)
	same(t, "kept", versions(t, s, "acme/base"), []string{"2.1.4"})
	if _, err := s.Bring(t.Context(), base.want(src), nil); err == nil {
		t.Error("brought without network")
	}
	w.options.Verify.Trust.Now = noon.AddDate(0, 0, 2)
	s = w.sources("acme/base", src)
	if _, err := s.Versions(t.Context(), "acme/base"); err == nil ||
		!strings.Contains(err.Error(), `"index:all" expired at`) {
		t.Errorf("past its end: %v", err)
	}
	// Online, what is kept is no help.
	w.options.Verify.Trust.Now = noon
	w.options.Fetch = online
	w.mu.Lock()
	delete(w.served, "/index.yaml")
	w.mu.Unlock()
	s = w.sources("acme/base", src)
	_, err = s.Versions(t.Context(), "acme/base")
	if status, ok := errors.AsType[*web.StatusError](err); !ok || status.Status != 404 {
		t.Errorf("a server without it: %v", err)
	}
}

// Objects that came one by one are verified as a whole before they count, and a manifest that lacks signatures gets
// those that the source has.
func TestAlreadyThere(t *testing.T) {
	w := newWorld(t)
	p := newPack(t, "acme/base", "2.1.4", nil, alice)
	src := project.Source{Where: "base.rye"}
	write(t, filepath.Join(w.dir, "base.rye"), p.archive())
	root := cas.ID{Kind: cas.Document, Digest: p.list.ID}
	if _, err := w.store.Put(t.Context(), cas.Document, strings.NewReader(string(p.body))); err != nil {
		t.Fatal(err)
	}
	for _, b := range p.files {
		if _, err := w.store.Put(t.Context(), cas.Blob, strings.NewReader(string(b))); err != nil {
			t.Fatal(err)
		}
	}
	s := w.sources("acme/base", src)
	if _, err := s.Bring(t.Context(), p.want(src), library); err != nil {
		t.Fatal(err)
	}
	w.whole(p)
	// Named away, it is verified where it is.
	if err := w.store.SetRef(t.Context(), install.Ref(p.list.ID), root, cas.ID{}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(w.dir, "base.rye")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Bring(t.Context(), p.want(src), library); err != nil {
		t.Fatal(err)
	}
	if id, err := w.store.Ref(install.Ref(p.list.ID)); id != root || err != nil {
		t.Error(id, err)
	}
	// The policy is asked each time.
	w.options.Verify.Trust = trusting(t, fmt.Sprintf("\nrevoked:\n  %q: {reason: \"bad\", date: \"2026-11-20\"}\n",
		p.list.ID))
	remote := w.at("/base.rye", false)
	w.offline()
	_, err := w.sources("acme/base", remote).Bring(t.Context(), p.want(remote), library)
	if _, ok := errors.AsType[*bundle.NotAdmittedError](err); !ok {
		t.Errorf("revoked: %v", err)
	}
}

// The journal keeps a source from going back and from changing what it has said.
func TestRollback(t *testing.T) {
	w := newWorld(t)
	p, q := newPack(t, "acme/base", "2.1.4", nil, alice),
		newPack(t, "acme/base", "2.1.4", []string{"acme/more *"}, alice)
	issue := func(label string, counter int64, packs ...*pack) []byte {
		x := index.Index{Label: label, Counter: counter}
		for _, p := range packs {
			x.Entries = append(x.Entries, p.entry("base.rye"))
		}
		return signed(t, x, alice)
	}
	src := project.Source{Index: true, Where: "list"}
	ask := func() error {
		_, err := w.sources("acme/base", src).Versions(t.Context(), "acme/base")
		return err
	}
	put := func(b []byte) { write(t, filepath.Join(w.dir, "list", "index.yaml"), b) }
	put(issue("all", 2, p))
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(w.dir, "list", "base.rye"), p.archive())
	if _, err := w.bring(w.sources("acme/base", src), "acme/base", "2.1.4"); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		b      []byte
		reason string
	}{
		"older": {issue("all", 1, p), rollback.Older}, "another of the same count": {issue("all", 2), rollback.Other},
	} {
		put(c.b)
		if back, ok := errors.AsType[*rollback.Error](ask()); !ok || back.Reason() != c.reason {
			t.Errorf("%s: %v", name, ask())
		}
	}
	put(issue("all-2", 3, p))
	if f := fault.Of(ask()); f.Code != fault.Rollback || f.Details["expected"] != "index:all" ||
		f.Details["found"] != "index:all-2" || !strings.HasSuffix(f.Text,
		`the index was "index:all" before and is "index:all-2" now`) {
		t.Errorf("another name: %v", ask())
	}
	// A version that has become another bundle.
	put(issue("all", 3, q))
	if _, _, err := w.sources("acme/base", src).Manifest(t.Context(), "acme/base", "2.1.4"); !isRollback(err,
		rollback.Other) {
		t.Errorf("another bundle of one version: %v", err)
	}
	if _, err := w.sources("acme/base", src).Bring(t.Context(), q.want(src), nil); !isRollback(err, rollback.Other) {
		t.Errorf("brought: %v", err)
	}
	// What was seen in one place says nothing of another.
	write(t, filepath.Join(w.dir, "list-2", "index.yaml"), issue("all", 1, q))
	if _, _, err := w.sources("acme/base", project.Source{Index: true, Where: "list-2"}).Manifest(t.Context(),
		"acme/base", "2.1.4"); err != nil {
		t.Error(err)
	}
	// A directory of "from" is where people work.
	for _, made := range []*pack{p, q} {
		made.dir(filepath.Join(w.dir, "base"))
		if _, err := w.bring(w.sources("acme/base", project.Source{Where: "base"}), "acme/base", "2.1.4"); err != nil {
			t.Error(err)
		}
	}
	// An address isn't.
	at := w.at("/base.rye", false)
	w.put("/base.rye", p.archive())
	if _, err := w.bring(w.sources("acme/base", at), "acme/base", "2.1.4"); err != nil {
		t.Error(err)
	}
	w.put("/base.rye", q.archive())
	if _, err := w.bring(w.sources("acme/base", at), "acme/base", "2.1.4"); !isRollback(err, rollback.Other) {
		t.Errorf("an archive that was exchanged: %v", err)
	}
	// A memory that is damaged is no empty one.
	if err := os.WriteFile(w.options.Journal.Path, []byte("rye journal rollback/2\nx\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	put(issue("all", 9, p))
	if _, ok := errors.AsType[*journal.DamagedError](ask()); !ok {
		t.Errorf("without a memory: %v", ask())
	}
}

func isRollback(err error, reason string) bool {
	back, ok := errors.AsType[*rollback.Error](err)
	return ok && back.Reason() == reason
}

// What a bundle needs is read from the store if it is there, else from its source, and only for the right bundle.
func TestRequires(t *testing.T) {
	w := newWorld(t)
	p, q := newPack(t, "acme/web", "1.0.0", []string{"acme/base ^2.1"}, alice),
		newPack(t, "acme/web", "1.0.0", nil, alice)
	write(t, filepath.Join(w.dir, "list", "index.yaml"),
		signed(t, index.Index{Label: "all", Counter: 1, Entries: []index.Entry{p.entry("web.rye")}}, alice))
	write(t, filepath.Join(w.dir, "web.rye"), p.archive())
	for _, src := range []project.Source{{Index: true, Where: "list"}, {Where: "web.rye"}} {
		s := w.sources("acme/web", src)
		needs, err := s.Requires(t.Context(), p.want(src))
		if err != nil || len(needs) != 1 || needs[0].BundleID != "acme/base" || needs[0].Version != "^2.1" {
			t.Errorf("%v: %v, %v", src, needs, err)
		}
		_, err = s.Requires(t.Context(), q.want(src))
		if other := fault.Of(err).Details; other["what"] != "manifest" || other["found"] != p.list.ID.String() {
			t.Errorf("%v: of another bundle: %v", src, err)
		}
	}
	none := project.Source{Index: true, Where: "none"}
	if _, err := w.sources().Requires(t.Context(), p.want(none)); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := w.sources().Requires(t.Context(), p.want(project.Source{Where: "none"})); !errors.Is(err,
		fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := w.sources().Requires(t.Context(),
		newPack(t, "acme/other", "1.0.0", nil, alice).want(project.Source{Index: true,
			Where: "list"})); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	at := project.Source{Where: "web.rye"}
	if _, err := w.sources().Bring(t.Context(), p.want(at), library); err != nil {
		t.Fatal(err)
	}
	if needs, err := w.sources().Requires(t.Context(), p.want(none)); err != nil || len(needs) != 1 {
		t.Errorf("of what the store has: %v, %v", needs, err)
	}
}

// Of the issues of an index the store keeps the last, with its signatures, and nothing of the others.
func TestKeepsOneIssue(t *testing.T) {
	w := newWorld(t)
	src := w.at("/index.yaml", true)
	p := newPack(t, "acme/base", "2.1.4", nil, alice)
	for counter := range int64(3) {
		w.put("/index.yaml", signed(t, index.Index{Label: "all", Counter: counter + 1,
			Entries: []index.Entry{p.entry("base.rye")}}, alice))
		for range 2 {
			same(t, "base", versions(t, w.sources("acme/base", src), "acme/base"), []string{"2.1.4"})
		}
	}
	refs, err := w.store.Refs()
	if err != nil || len(refs) != 2 || !strings.HasPrefix(refs[0].Name, "indexes/") ||
		!strings.HasPrefix(refs[1].Name, "signatures/") {
		t.Errorf("%v, %v", refs, err)
	}
}

// Several goroutines bring bundles at once, some the same.
func TestTogether(t *testing.T) {
	w := newWorld(t)
	var packs []*pack
	x := index.Index{Label: "all", Counter: 1}
	for i := range 4 {
		p := newPack(t, fmt.Sprintf("acme/b%d", i), "1.0.0", nil, alice)
		packs = append(packs, p)
		x.Entries = append(x.Entries, p.entry(fmt.Sprintf("b%d.rye", i)))
		w.put(fmt.Sprintf("/b%d.rye", i), p.archive())
	}
	w.put("/index.yaml", signed(t, x, alice))
	src := w.at("/index.yaml", true)
	s := w.sources("acme/b0", src)
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			p := packs[i%4]
			if b, err := w.bring(s, p.list.BundleID, "1.0.0"); err != nil || b.ID != p.list.ID {
				t.Errorf("%s: %v", p.list.BundleID, err)
			}
		})
	}
	wait.Wait()
	for _, p := range packs {
		w.whole(p)
	}
	if n := w.requests("/index.yaml"); n != 1 {
		t.Errorf("the index was read %d times", n)
	}
}
