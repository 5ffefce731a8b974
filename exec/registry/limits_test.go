package registry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry"
	"github.com/rye-build/rye/exec/registry/blobs"
	"github.com/rye-build/rye/exec/registry/rows"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key/keytest"
)

// TestEvidenceLimits: evidence counts as the files do.
func TestEvidenceLimits(t *testing.T) {
	for name, limits := range map[string]registry.Limits{
		"larger than":       {},
		"have more":         {Unpacked: 1 << 20},
		"more than 1 files": {Files: 1},
	} {
		w := newWorld(t)
		w.o.Limits = limits
		w.open()
		ada := w.caller("ada")
		w.claim(ada, "acme")
		_, err := w.Publish(t.Context(), ada, bytes.NewReader(w.archive(pack{id: "acme/base", version: "1.0.0",
			evidence: strings.Repeat("a", 20<<20)})))
		wants(t, err, fault.Limit, name)
	}
}

// TestIndexLimits: a version that no index can have is refused before the log has it. Otherwise the log's files could
// never be written again.
func TestIndexLimits(t *testing.T) {
	w := newWorld(t)
	ada := w.caller("ada")
	w.claim(ada, "acme")
	var many []manifest.Require
	for i := range 400 {
		many = append(many, manifest.Require{BundleID: fmt.Sprintf("acme/%0180d", i), Version: "^1.0.0"})
	}
	heavy := w.archive(pack{id: "acme/heavy", version: "1.0.0", requires: many})
	_, err := w.Publish(t.Context(), ada, bytes.NewReader(heavy))
	wants(t, err, fault.Validation, "can't be in an index")
	_, err = w.Stage(t.Context(), ada, "", bytes.NewReader(heavy))
	wants(t, err, fault.Validation, "can't be in an index")

	// As many versions of a bundle as fill an index.
	if err := w.o.Rows.Update(t.Context(), func(in rows.Writer) error {
		for i := range 70 {
			in.Put(fmt.Sprintf("version/acme/full@0.0.%d", i), fmt.Appendf(nil,
				`{"bundle":"acme/full","version":"0.0.%d","unpublished":1,"about":"%s"}`, i, strings.Repeat("a", 250_000)))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	_, err = w.Publish(t.Context(), ada, bytes.NewReader(w.archive(pack{id: "acme/full", version: "1.0.0"})))
	wants(t, err, fault.Limit, "the index of \"acme/full\" would have more than")
	w.publish(ada, pack{id: "acme/base", version: "1.0.0"})
}

// staged lists the archives that wait.
func (w *world) staged() (names []string) {
	w.Helper()
	for info, err := range w.files.List(w.Context(), "staged/") {
		if err != nil {
			w.Fatal(err)
		}
		names = append(names, info.Name)
	}
	return names
}

// TestRefusedArchives: nothing is left of an archive that is refused after it has arrived. One that was unpublished
// doesn't come back.
func TestRefusedArchives(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	ada := w.caller("ada")
	w.claim(ada, "acme")
	one := pack{id: "acme/base", version: "1.0.0"}
	first := w.archive(one)
	w.publish(ada, one)
	one.text = "other"
	_, err := w.Publish(ctx, ada, bytes.NewReader(w.archive(one)))
	wants(t, err, fault.Conflict, "never changes")
	if all := w.public(); len(all) != 1 {
		t.Errorf("the archive of a refused version is public: %v", all)
	}
	if _, err := w.Withdraw(ctx, ada, "acme/base", "1.0.0", true); err != nil {
		t.Fatal(err)
	}
	_, err = w.Publish(ctx, ada, bytes.NewReader(first))
	wants(t, err, fault.Conflict, "is published already")
	if all := w.public(); len(all) > 0 {
		t.Errorf("an unpublished archive is public again: %v", all)
	}
	_, err = w.Stage(ctx, ada, "none", bytes.NewReader(w.archive(pack{id: "acme/base", version: "2.0.0"})))
	wants(t, err, fault.NotFound, "is staged")
	if all := w.staged(); len(all) > 0 {
		t.Errorf("the archive of nothing waits: %v", all)
	}

	var requests sync.WaitGroup
	for i := range 8 {
		b := w.archive(pack{id: "acme/base", version: "3.0.0", text: fmt.Sprint(i)})
		requests.Go(func() { _, _ = w.Publish(ctx, ada, bytes.NewReader(b)) })
	}
	requests.Wait()
	if all := w.public(); len(all) != 1 || len(w.index("acme/base").Entries) != 1 {
		t.Errorf("one version has the archives %v", all)
	}
}

// TestStagedSpace: what waits takes the space of what can be approved, and no more than the account's.
func TestStagedSpace(t *testing.T) {
	w, by := council(t, 1, "ada", "grace")
	ctx := t.Context()
	one := pack{id: "acme/base", version: "1.0.0"}
	s := w.stage(by["ada"], "", one)
	one.text = "better"
	s = w.stage(by["ada"], s.ID, one)
	one.also = keytest.Eve()
	s, err := w.Cosign(ctx, by["grace"], s.ID, bytes.NewReader(w.archive(one)))
	if err != nil || len(w.staged()) != 1 {
		t.Errorf("%v; there wait %v", err, w.staged())
	}

	w.o.Limits.Account = s.Versions[0].Size * 3 / 2
	w.open()
	other := w.archive(pack{id: "acme/other", version: "1.0.0"})
	for _, id := range []string{"", s.ID} {
		_, err = w.Stage(ctx, by["ada"], id, bytes.NewReader(other))
		wants(t, err, fault.Limit, "too much of the account \"ada\" waits")
	}
	if all := w.staged(); len(all) != 1 {
		t.Errorf("there wait %v", all)
	}

	if err := w.files.Remove(ctx, w.staged()[0]); err != nil {
		t.Fatal(err)
	}
	_, err = w.Approve(ctx, by["grace"], s.ID, s.Digest)
	wants(t, err, fault.Conflict, "the archive of acme/base@1.0.0 is gone")
}

// TestVersionsADay: an account publishes so many versions in a day, those of a release included.
func TestVersionsADay(t *testing.T) {
	w := newWorld(t)
	w.o.Limits.Versions = 3
	w.open()
	ctx := t.Context()
	ada, eve := w.caller("ada"), w.caller("eve")
	w.claim(ada, "acme")
	w.claim(eve, "other")
	one := pack{id: "acme/base", version: "1.0.0"}
	w.publish(ada, one)
	s := w.stage(ada, "", pack{id: "acme/a", version: "1.0.0"})
	s = w.stage(ada, s.ID, pack{id: "acme/b", version: "1.0.0"})
	larger := w.stage(ada, "", pack{id: "acme/c", version: "1.0.0"})
	for _, id := range []string{"acme/d", "acme/e"} {
		larger = w.stage(ada, larger.ID, pack{id: id, version: "1.0.0"})
	}
	_, err := w.Approve(ctx, ada, larger.ID, larger.Digest)
	wants(t, err, fault.RateLimited, "too many new versions")
	w.approve(ada, s)
	_, err = w.Publish(ctx, ada, bytes.NewReader(w.archive(pack{id: "acme/base", version: "1.1.0"})))
	wants(t, err, fault.RateLimited, "too many new versions")
	if len(w.public()) != 3 {
		t.Errorf("public: %v", w.public())
	}
	w.publish(ada, one) // again: the answer was lost
	w.publish(eve, pack{id: "other/x", version: "1.0.0"})
	w.now = noon.Add(24 * time.Hour)
	w.approve(ada, larger)
}

// TestManyTokens: tokens that have expired take no space, and an account has a limited number of others.
func TestManyTokens(t *testing.T) {
	w := withRuns(t, runs{"one": release, "two": release})
	ctx := t.Context()
	ada := w.caller("ada")
	w.claim(ada, "acme")
	w.bind(ada, "acme/base", theBinding())
	run := w.run("one", "acme/base")
	w.now = noon.Add(16 * time.Minute)
	w.run("two", "acme/base")
	all, err := w.Tokens(ctx, "ada")
	for _, token := range all {
		if err != nil || len(all) != 2 || token.ID == run.Token.ID {
			t.Errorf("%+v of %d, %v", token, len(all), err)
		}
	}
	if err := w.o.Rows.Update(ctx, func(in rows.Writer) error {
		for i := range 998 {
			in.Put(fmt.Sprintf("token/%064x", i), []byte(`{"id":"x","account":"ada","label":"x","scopes":["read"],`+
				`"expires":"2026-12-01T00:00:00Z"}`))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	token := registry.Token{Account: "ada", Label: "more", Scopes: registry.Scopes}
	_, _, err = w.AddToken(ctx, token)
	wants(t, err, fault.Limit, `the account "ada" has 1000 tokens`)
	w.caller("eve")
	w.now = noon.AddDate(0, 1, 0)
	if _, _, err := w.AddToken(ctx, token); err != nil {
		t.Error(err)
	}
}

// TestUnread: of a token that may not publish anything no archive is read.
func TestUnread(t *testing.T) {
	w := newWorld(t)
	reader := w.caller("ada", registry.ScopeRead)
	body := bytes.NewReader(w.archive(pack{id: "acme/base", version: "1.0.0"}))
	size := body.Len()
	_, err := w.Publish(t.Context(), reader, body)
	wants(t, err, fault.Denied, "no scope publish")
	_, err = w.Stage(t.Context(), reader, "", body)
	wants(t, err, fault.Denied, "no scope stage")
	if body.Len() != size {
		t.Errorf("%d bytes were read", size-body.Len())
	}
}

// A vanishing store has another request's archive, which that request removes as soon as it was seen.
type vanishing struct{ blobs.Store }

// Create implements blobs.Store.
func (v vanishing) Create(ctx context.Context, name string, r io.Reader, size int64) error {
	err := v.Store.Create(ctx, name, r, size)
	if fault.CodeOf(err) == fault.Conflict {
		return errors.Join(err, v.Remove(ctx, name))
	}
	return err
}

// TestVanished: a version whose archive was there already, and went meanwhile, is published with it.
func TestVanished(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	one := pack{id: "acme/base", version: "1.0.0"}
	b := w.archive(one)
	for _, name := range []string{client.ArchiveFile(cas.Sum(b)), "staged/" + cas.Sum(b).String()[7:] + ".tar.zst"} {
		if err := w.files.Create(ctx, name, bytes.NewReader(b), int64(len(b))); err != nil {
			t.Fatal(err)
		}
	}
	w.o.Blobs = vanishing{w.files}
	var err error
	if w.Registry, err = registry.Open(ctx, w.o); err != nil {
		t.Fatal(err)
	}
	ada := w.caller("ada")
	w.claim(ada, "acme")
	w.stage(ada, "", one)
	w.publish(ada, one)
	if len(w.public()) != 1 || len(w.staged()) != 1 {
		t.Errorf("public %v, waiting %v", w.public(), w.staged())
	}
}
