package registry_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry"
	"github.com/rye-build/rye/exec/registry/blobs"
	"github.com/rye-build/rye/exec/registry/rows"
	"github.com/rye-build/rye/lock/advisory"
	"github.com/rye-build/rye/lock/project"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/rollback"
	"github.com/rye-build/rye/manifest/tlog"
)

func draft(id, bundle, below string) *advisory.Advisory {
	return &advisory.Advisory{ID: id, Bundle: bundle, Spans: []advisory.Span{{Introduced: "0", Fixed: below}},
		Kind: advisory.Vulnerable, Severity: policy.High, Summary: "It is bad"}
}

// list reads the list of advisories, and checks its signature, and that the log has what it says.
func (w *world) list() *advisory.List {
	w.Helper()
	list, err := advisory.ParseList(w.read(client.AdvisoriesFile))
	if err != nil {
		w.Fatal(err)
	}
	if _, err := list.Check(func(f key.Fingerprint) (key.Public, bool) {
		return w.KeyOf(), f == w.KeyOf().Fingerprint()
	}); err != nil || list.Registry != "registry.example" {
		w.Fatalf("%+v, %v", list, err)
	}
	checkpoint, err := tlog.Open(w.read("log/checkpoint"), w.Registry.Log())
	if err != nil {
		w.Fatal(err)
	}
	for i := range list.Entries {
		e := &list.Entries[i]
		text, err := tlog.NewTree(checkpoint, registry.LogFiles{Store: w.files}).Entry(w.Context(), e.Leaf)
		if err != nil {
			w.Fatal(err)
		}
		entry, err := tlog.ParseEntry(text)
		if err != nil || entry.Kind != tlog.Advisory || entry.Document != e.Document || entry.Bundle != e.Bundle ||
			entry.By != "@registry" {
			w.Errorf("%+v, %v", entry, err)
		}
		document := w.read(client.DocumentFile(e.Document))
		if _, err := client.ReadAdvisory(document, e); err != nil || cas.Sum(document) != e.Document {
			w.Error(err)
		}
	}
	return list
}

func TestAdvise(t *testing.T) {
	w := newWorld(t)
	if list := w.list(); list.Counter != noon.Unix() || len(list.Entries) > 0 || !list.Issued.Equal(noon) {
		t.Errorf("a new registry: %+v", list)
	}
	ada := w.caller("ada")
	w.claim(ada, "acme")
	w.publish(ada, pack{id: "acme/base", version: "1.0.0"})
	ctx := t.Context()
	if _, err := w.Advise(ctx, draft("", "acme/none", "2.0.0")); fault.CodeOf(err) != fault.NotFound {
		t.Error(err)
	}
	if _, err := w.Advise(ctx, draft("", "../none", "2.0.0")); fault.CodeOf(err) != fault.NotFound {
		t.Error(err)
	}
	if _, err := w.Advise(ctx, draft("", "acme/base", "x")); fault.CodeOf(err) != fault.Parsing {
		t.Error(err)
	}
	a, err := w.Advise(ctx, draft("", "acme/base", "1.1.0"))
	if err != nil || a.ID != "RYE-2026-0001" || !a.Published.Equal(noon) || !a.Modified.Equal(noon) {
		t.Fatalf("%+v, %v", a, err)
	}
	if list := w.list(); list.Counter != noon.Unix()+1 || len(list.Entries) != 1 || list.Entries[0].ID != a.ID {
		t.Errorf("%+v", list)
	}
	w.now = noon.Add(time.Hour)
	if b, err := w.Advise(ctx, draft("RYE-2026-0002", "acme/base", "1.1.0")); err != nil || !b.Published.Equal(w.now) {
		t.Errorf("%+v, %v", b, err)
	}
	if c, err := w.Advise(ctx, draft("", "acme/base", "1.1.0")); err != nil || c.ID != "RYE-2026-0003" {
		t.Errorf("%+v, %v", c, err)
	}
	revised, err := w.Advise(ctx, draft(a.ID, "acme/base", "1.2.0"))
	if err != nil || !revised.Published.Equal(noon) || !revised.Modified.Equal(w.now) || !revised.Covers("1.1.5") {
		t.Errorf("%+v, %v", revised, err)
	}
	w.publish(ada, pack{id: "acme/other", version: "1.0.0"})
	if _, err := w.Advise(ctx, draft(a.ID, "acme/other", "1.2.0")); fault.CodeOf(err) != fault.Conflict {
		t.Error(err)
	}
	if _, err := w.WithdrawAdvisory(ctx, "", "RYE-2026-0009"); fault.CodeOf(err) != fault.NotFound {
		t.Error(err)
	}
	if _, err := w.WithdrawAdvisory(ctx, "", "no id"); fault.CodeOf(err) != fault.NotFound {
		t.Error(err)
	}
	w.now = noon.Add(-time.Hour) // a clock that goes back
	for range 2 {
		if withdrawn, err := w.WithdrawAdvisory(ctx, "", a.ID); err != nil || !withdrawn.Withdrawn.Equal(noon) {
			t.Errorf("%+v, %v", withdrawn, err)
		}
	}
	if _, err := w.Advise(ctx, draft(a.ID, "acme/base", "1.2.0")); fault.CodeOf(err) != fault.Conflict {
		t.Error(err)
	}
	all, err := w.Advisories(ctx)
	if err != nil || len(all) != 3 || all[0].Withdrawn.IsZero() || !all[1].Withdrawn.IsZero() {
		t.Errorf("%+v, %v", all, err)
	}
	list := w.list()
	if len(list.Entries) != 3 || list.Counter != noon.Add(time.Hour).Unix()+3 ||
		!list.Issued.Equal(noon.Add(time.Hour)) {
		t.Errorf("%+v", list)
	}
	if check, err := w.Verify(ctx); err != nil || len(check.Wrong) > 0 {
		t.Errorf("%+v, %v", check, err)
	}
}

// TestTakedown removes a version however old it is and whatever requires it.
func TestTakedown(t *testing.T) {
	w := newWorld(t)
	ada := w.caller("ada")
	w.claim(ada, "acme")
	ctx := t.Context()
	bad := w.publish(ada, pack{id: "acme/base", version: "1.0.0"})
	w.publish(ada, pack{id: "acme/base", version: "1.1.0"})
	w.now = noon.AddDate(0, 1, 0)
	a, err := w.Takedown(ctx, "acme/base", "1.0.0", registry.Malware, "")
	if err != nil || a.Kind != advisory.Malware || a.Severity != policy.Critical || !a.Covers("1.0.0") ||
		a.Covers("1.1.0") || a.Summary != "acme/base@1.0.0 is malware" {
		t.Fatalf("%+v, %v", a, err)
	}
	if _, err := w.files.Open(ctx, client.ArchiveFile(bad.Archive)); err == nil {
		t.Error("the archive is still there")
	}
	if list := w.index("acme/base"); len(list.Entries) != 1 || list.Entries[0].Version != "1.1.0" {
		t.Errorf("%+v", list)
	}
	if list := w.list(); len(list.Entries) != 1 {
		t.Errorf("%+v", list)
	}
	if _, err := w.Publish(ctx, ada, bytes.NewReader(w.archive(pack{id: "acme/base", version: "1.0.0"}))); err == nil {
		t.Error("the number is given again")
	}
	if again, err := w.Takedown(ctx, "acme/base", "1.0.0", registry.Malware, ""); err != nil || again.ID != a.ID {
		t.Errorf("again: %+v, %v", again, err)
	}
	b, err := w.Takedown(ctx, "acme/base", "1.1.0", registry.Secrets, "It has a key of ours")
	if err != nil || b.Kind != advisory.Withdrawn || b.Severity != policy.Medium ||
		b.Summary != "It has a key of ours" {
		t.Errorf("%+v, %v", b, err)
	}
	for _, c := range []struct {
		id, version string
		why         registry.Reason
		code        fault.Code
	}{
		{"acme/base", "1.1.0", registry.Malware, fault.Conflict},
		{"acme/base", "9.0.0", registry.Malware, fault.NotFound},
		{"../x", "1.0.0", registry.Malware, fault.NotFound}, {"acme/base", "x", registry.Malware, fault.NotFound},
		{"acme/base", "1.1.0", "spam", fault.Validation},
	} {
		if _, err := w.Takedown(ctx, c.id, c.version, c.why, ""); fault.CodeOf(err) != c.code {
			t.Errorf("%+v: %v", c, err)
		}
	}
	// An advisory may be about a bundle whose versions are all gone.
	if _, err := w.Advise(ctx, draft("", "acme/base", "2.0.0")); err != nil {
		t.Error(err)
	}
	if check, err := w.Verify(ctx); err != nil || len(check.Wrong) > 0 || check.Versions != 0 {
		t.Errorf("%+v, %v", check, err)
	}
}

// TestReissue issues the list again when it has become old, and only then.
func TestReissue(t *testing.T) {
	w := newWorld(t)
	first := w.list()
	for _, after := range []time.Duration{time.Minute, 59 * time.Minute} {
		w.now = noon.Add(after)
		if err := w.Reissue(t.Context()); err != nil || w.list().Counter != first.Counter {
			t.Errorf("%s: %+v, %v", after, w.list(), err)
		}
	}
	w.now = noon.Add(time.Hour)
	for range 2 {
		if err := w.Reissue(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if list := w.list(); list.Counter != w.now.Unix() || !list.Issued.Equal(w.now) {
		t.Errorf("%+v", list)
	}
	w.now = noon.Add(3 * time.Hour)
	w.open() // as another process
	if list := w.list(); list.Counter != w.now.Unix() {
		t.Errorf("%+v", list)
	}
}

// TestVerifyAdvisories names what differs from the rows.
func TestVerifyAdvisories(t *testing.T) {
	w := newWorld(t)
	ada := w.caller("ada")
	w.claim(ada, "acme")
	w.publish(ada, pack{id: "acme/base", version: "1.0.0"})
	if _, err := w.Advise(t.Context(), draft("", "acme/base", "2.0.0")); err != nil {
		t.Fatal(err)
	}
	old := w.read(client.AdvisoriesFile)
	document := client.DocumentFile(w.list().Entries[0].Document)
	if _, err := w.WithdrawAdvisory(t.Context(), "", "RYE-2026-0001"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, says string
		text       []byte
	}{{client.AdvisoriesFile, "advisories.yaml differs", old},
		{client.AdvisoriesFile, "advisories.yaml is missing", nil},
		{document, "is damaged", []byte("x")}, {document, "is missing", nil}} {
		good := w.read(c.name)
		err := w.files.Remove(t.Context(), c.name)
		if c.text != nil {
			err = w.files.Replace(t.Context(), c.name, c.text)
		}
		if err != nil {
			t.Fatal(err)
		}
		check, err := w.Verify(t.Context())
		if err != nil || len(check.Wrong) != 1 || !strings.Contains(check.Wrong[0], c.says) {
			t.Errorf("%s: %+v, %v", c.says, check, err)
		}
		if err := w.files.Replace(t.Context(), c.name, good); err != nil {
			t.Fatal(err)
		}
	}
}

// TestInterruptedAdvisory stops at each write of a file: what is shown is of one state, and the next process completes
// it.
func TestInterruptedAdvisory(t *testing.T) {
	for n := 0; ; n++ {
		w := newWorld(t)
		ada := w.caller("ada")
		w.claim(ada, "acme")
		w.publish(ada, pack{id: "acme/base", version: "1.0.0"})
		o := w.o
		o.Blobs = &stopping{w.files, n}
		other, err := registry.Open(t.Context(), o)
		if err != nil {
			continue
		}
		_, err = other.Takedown(t.Context(), "acme/base", "1.0.0", registry.Malware, "")
		w.list()
		w.now = w.now.Add(time.Minute) // a lease that is left ends
		w.open()
		list := w.list()
		if check, err := w.Verify(t.Context()); err != nil || len(check.Wrong) > 0 {
			t.Errorf("after %d writes: %+v, %v", n, check, err)
		}
		if err == nil {
			if len(list.Entries) != 1 {
				t.Errorf("after %d writes: %+v", n, list)
			}
			return
		}
	}
}

// TestAdvisoriesInMirror: a client takes the advisories from a copy.
func TestAdvisoriesInMirror(t *testing.T) {
	w := newWorld(t)
	ada := w.caller("ada")
	w.claim(ada, "acme")
	w.publish(ada, pack{id: "acme/base", version: "1.0.0"})
	if _, err := w.Advise(t.Context(), draft("", "acme/base", "2.0.0")); err != nil {
		t.Fatal(err)
	}
	to, err := blobs.OpenLocal(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Mirror(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	journal := &rollback.Journal{Path: filepath.Join(t.TempDir(), "rollback")}
	now := func() time.Time { return noon }
	at := project.Registry{URL: "https://mirror.example", Log: w.Registry.Log(), Key: w.KeyOf()}
	reader := &client.Client{At: at, Fetch: copied{to}, Journal: journal, Now: now}
	kept := &client.Kept{Dir: t.TempDir(), Journal: journal, Now: now}
	feed, changed, err := kept.Update(t.Context(), reader)
	if err != nil || !changed || len(feed.Entries) != 1 {
		t.Fatalf("%+v, %v, %v", feed, changed, err)
	}
	all, err := feed.Of("acme/base")
	if err != nil || len(client.Covering(all, "1.0.0")) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}

// copied serves the files of a store.
type copied struct{ blobs.Store }

// Get implements client.Fetcher.
func (c copied) Get(ctx context.Context, address string, limit int64) (io.ReadCloser, int64, error) {
	file, err := c.Open(ctx, strings.TrimPrefix(address, "https://mirror.example/"))
	if err != nil {
		return nil, 0, err
	}
	if file.Size > limit {
		file.Close()
		return nil, 0, fault.New(fault.Limit, "%q is too large", address)
	}
	return file, file.Size, nil
}

// GetIf implements client.Fetcher: these files have no ETags.
func (c copied) GetIf(ctx context.Context, address string, limit int64, _ string) (io.ReadCloser, string, error) {
	r, _, err := c.Get(ctx, address, limit)
	return r, "", err
}

// TestUnreadableAdvisories lets each read of each operation fail once: the error is returned, and the operation can be
// made again.
func TestUnreadableAdvisories(t *testing.T) {
	w := newWorld(t)
	ada := w.caller("ada")
	w.claim(ada, "acme")
	w.publish(ada, pack{id: "acme/base", version: "1.0.0"})
	ctx := t.Context()
	for _, c := range []struct {
		name string
		do   func(r *registry.Registry) error
	}{
		{"advise", func(r *registry.Registry) error {
			_, err := r.Advise(ctx, draft("RYE-EXAMPLE", "acme/base", "2.0.0"))
			return err
		}},
		{"advise without an id", func(r *registry.Registry) error {
			_, err := r.Advise(ctx, draft("", "acme/base", "2.0.0"))
			return err
		}},
		{"withdraw", func(r *registry.Registry) error { _, err := r.WithdrawAdvisory(ctx, "", "RYE-EXAMPLE"); return err }},
		{"takedown", func(r *registry.Registry) error {
			_, err := r.Takedown(ctx, "acme/base", "1.0.0", registry.Malware, "")
			return err
		}},
		{"advisories", func(r *registry.Registry) error { _, err := r.Advisories(ctx); return err }},
		{"verify", func(r *registry.Registry) error { _, err := r.Verify(ctx); return err }},
		{"reissue", func(r *registry.Registry) error {
			w.now = w.now.Add(2 * time.Hour)
			return r.Reissue(ctx)
		}},
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
	if check, err := w.Verify(ctx); err != nil || len(check.Wrong) > 0 || check.Versions != 0 {
		t.Errorf("%+v, %v", check, err)
	}
	all, err := w.Advisories(ctx)
	if err != nil || len(all) < 3 || len(w.list().Entries) != len(all) {
		t.Errorf("%+v, %v", all, err)
	}
	// A row that is damaged is named.
	if err := w.o.Rows.Update(ctx, func(in rows.Writer) error {
		in.Put("advisory/RYE-EXAMPLE", []byte(`{"text":"{}"}`))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Advisories(ctx); fault.CodeOf(err) != fault.Registry {
		t.Error(err)
	}
}
