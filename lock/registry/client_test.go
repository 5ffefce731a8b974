package registry_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/index"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/rollback"
	"github.com/rye-build/rye/manifest/tlog"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

const url = "https://registry.example"

// A site is the static files of a registry, made without one.
type site struct {
	testing.TB
	files   map[string][]byte
	tail    tlog.Tail
	log     tlog.Key
	entries []index.Entry
	signer  key.Private // of indexes
	label   string
	asked   []string // by conditional requests
}

func newSite(t testing.TB) *site {
	return &site{TB: t, files: map[string][]byte{}, log: description(t).Log, signer: keytest.Seeded(2),
		label: "registry.example/acme/base"}
}

// Get implements registry.Fetcher.
func (s *site) Get(_ context.Context, address string, limit int64) (io.ReadCloser, int64, error) {
	b, ok := s.files[strings.TrimPrefix(address, url+"/")]
	if !ok {
		return nil, 0, fmt.Errorf("%s: %w", address, fs.ErrNotExist)
	}
	if int64(len(b)) > limit {
		return nil, 0, fmt.Errorf("%s has more than %d bytes", address, limit)
	}
	return io.NopCloser(bytes.NewReader(b)), int64(len(b)), nil
}

// GetIf implements registry.Fetcher.
func (s *site) GetIf(ctx context.Context, address string, limit int64, etag string) (io.ReadCloser, string, error) {
	name := strings.TrimPrefix(address, url+"/")
	now := fmt.Sprintf("%q", cas.Sum(s.files[name]).String())
	if etag == now {
		s.asked = append(s.asked, name+" unchanged")
		return nil, etag, nil
	}
	s.asked = append(s.asked, name)
	r, _, err := s.Get(ctx, address, limit)
	return r, now, err
}

// add adds an entry to the log.
func (s *site) add(e *tlog.Entry) int64 {
	s.Helper()
	b, err := tlog.AppendEntry(nil, e)
	if err != nil {
		s.Fatal(err)
	}
	full, err := s.tail.Add(b)
	if err != nil {
		s.Fatal(err)
	}
	for _, f := range full {
		s.files["log/"+f.Name] = bytes.Clone(f.Data)
	}
	return s.tail.Size() - 1
}

// publish publishes a version at a time.
func (s *site) publish(version string, at time.Time) *index.Entry {
	s.Helper()
	archive := []byte("archive of " + version)
	e := index.Entry{ID: "acme/base", Version: version, Manifest: cas.Sum([]byte(version)), Size: int64(len(archive)),
		Logged: &index.Logged{Digest: cas.Sum(archive), By: "ada", Time: at}}
	e.Archive = registry.ArchiveFile(e.Logged.Digest)
	s.files[e.Archive] = archive
	e.Logged.Leaf = s.add(registry.LogEntry(&e))
	s.entries = append(s.entries, e)
	return &s.entries[len(s.entries)-1]
}

// show signs what there is.
func (s *site) show() {
	s.Helper()
	for _, f := range s.tail.Partial() {
		s.files["log/"+f.Name] = bytes.Clone(f.Data)
	}
	text, err := tlog.Sign(s.log, keytest.Seeded(1), s.tail.Size(), s.tail.Root())
	if err != nil {
		s.Fatal(err)
	}
	s.files["log/checkpoint"] = text
	body, list, err := index.Append(nil, &index.Index{Label: s.label, Counter: s.tail.Size(), Entries: s.entries})
	if err == nil {
		err = list.Sign(s.signer, noon)
	}
	if err != nil {
		s.Fatal(err)
	}
	s.files["index/acme/base.yaml"] = manifest.Join(nil, body, list.Signatures)
}

// A person has a memory and a clock.
type person struct {
	journal  *rollback.Journal
	now      time.Time
	policies []*tlog.Policy
	keeper   registry.Keeper
}

// believed is for a log that was read before.
func believed() error { return nil }

func newPerson(t testing.TB) *person {
	return &person{journal: &rollback.Journal{Path: filepath.Join(t.TempDir(), "rollback")}, now: noon.Add(time.Hour)}
}

func (p *person) client(s *site) *registry.Client {
	return &registry.Client{At: project.Registry{URL: url, Log: s.log, Key: keytest.Seeded(2).Public()}, Fetch: s,
		Journal: p.journal, Policies: p.policies, Keeper: p.keeper, Now: func() time.Time { return p.now }}
}

// take proves a version as a lock does.
func (p *person) take(t testing.TB, s *site, version string) error {
	t.Helper()
	c := p.client(s)
	view, err := c.View(t.Context())
	if err != nil {
		return err
	}
	list, err := c.Index(t.Context(), "acme/base", believed)
	if err != nil {
		return err
	}
	e := list.Find("acme/base", version)
	if e == nil {
		return fs.ErrNotExist
	}
	proof, err := c.Prove(t.Context(), view, e)
	if err != nil {
		return err
	}
	if entry, _, err := proof.Verify(s.log, p.policies...); err != nil || entry.Time != e.Logged.Time {
		t.Errorf("%+v, %v", entry, err)
	}
	r, err := c.Archive(t.Context(), e)
	if err != nil {
		return err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err == nil && cas.Sum(b) != e.Logged.Digest {
		t.Error("another archive")
	}
	return err
}

func wants(t testing.TB, err error, code fault.Code, says string) {
	t.Helper()
	if fault.CodeOf(err) != code || code != "" && !strings.Contains(err.Error(), says) {
		t.Errorf("%v (%s), want %s, %q", err, fault.CodeOf(err), code, says)
	}
}

func TestTake(t *testing.T) {
	s, p := newSite(t), newPerson(t)
	s.publish("1.0.0", noon)
	s.show()
	wants(t, p.take(t, s, "1.0.0"), "", "")
	s.publish("1.1.0", noon.Add(2*time.Hour))
	s.show()
	p.now = noon.Add(3 * time.Hour)
	wants(t, p.take(t, s, "1.1.0"), "", "")
	wants(t, p.take(t, s, "1.0.0"), "", "")
	// Another person, who meets the log now.
	wants(t, newPerson(t).take(t, s, "1.1.0"), "", "")
}

// TestGroup takes a version that was published together with others.
func TestGroup(t *testing.T) {
	s, p := newSite(t), newPerson(t)
	first := s.publish("1.0.0", noon)
	archive := []byte("archive of a group")
	e := index.Entry{ID: "acme/base", Version: "2.0.0", Manifest: cas.Sum([]byte("2")), Size: int64(len(archive)),
		Logged: &index.Logged{Digest: cas.Sum(archive), By: "ada", Time: noon.Add(time.Minute)}}
	e.Archive = registry.ArchiveFile(e.Logged.Digest)
	s.files[e.Archive] = archive
	other := first.Manifest
	e.Logged.Leaf = s.add(&tlog.Entry{Kind: tlog.Group, By: "ada", Time: e.Logged.Time, Releases: []tlog.Release{
		registry.LogEntry(&e).Release,
		{Bundle: "acme/other", Version: "1.0.0", Manifest: other, Archive: other, Size: 1},
	}})
	s.entries = append(s.entries, e)
	s.show()
	wants(t, p.take(t, s, "2.0.0"), "", "")
	for _, change := range []func(*index.Entry){
		func(e *index.Entry) { e.Manifest = other }, func(e *index.Entry) { e.Logged.By = "eve" },
		func(e *index.Entry) { e.Logged.Time = e.Logged.Time.Add(time.Second) }, func(e *index.Entry) { e.Size++ },
		func(e *index.Entry) { e.Logged.Leaf = 0 }, func(e *index.Entry) { e.Logged.Leaf = 99 },
	} {
		lie := *s
		changed, logged := e, *e.Logged
		changed.Logged = &logged
		change(&changed)
		lie.entries = []index.Entry{*first, changed}
		lie.files = map[string][]byte{}
		for name, b := range s.files {
			lie.files[name] = b
		}
		lie.show()
		wants(t, newPerson(t).take(t, &lie, "2.0.0"), fault.Integrity, "the log doesn't have what the index says")
	}
}

// TestLies: what a registry can't do without being found out.
func TestLies(t *testing.T) {
	for name, c := range map[string]struct {
		lie  func(s *site, p *person)
		code fault.Code
		says string
	}{
		"an index of another key": {func(s *site, _ *person) { s.signer = keytest.Eve(); s.show() },
			fault.UntrustedKey, "not signed by the registry's key"},
		"an index of another name": {func(s *site, _ *person) { s.label = "registry.example/acme/bass"; s.show() },
			fault.Integrity, "is named"},
		"a version that was never logged": {func(s *site, _ *person) {
			e := s.entries[1]
			logged := *e.Logged
			logged.By, e.Logged = "eve", &logged
			s.entries[1] = e
			s.show()
		}, fault.Integrity, "doesn't have what the index says"},
		"an archive elsewhere": {func(s *site, _ *person) { s.entries[1].Archive = "archives/other"; s.show() },
			fault.Integrity, "isn't of its registry"},
		"an index without signatures": {func(s *site, _ *person) {
			_, body, _ := strings.Cut(string(s.files["index/acme/base.yaml"]), "\n")
			s.files["index/acme/base.yaml"] = []byte(body)
		}, fault.Unsigned, "not signed by the registry's key"},
		"a changed archive": {func(s *site, _ *person) { s.files[s.entries[1].Archive][0] ^= 1 },
			fault.Integrity, ""},
		"a missing archive": {func(s *site, _ *person) { delete(s.files, s.entries[1].Archive) }, fault.Registry,
			"has no archive"},
		"a forged checkpoint": {func(s *site, _ *person) {
			s.files["log/checkpoint"] = bytes.Replace(s.files["log/checkpoint"], []byte("\n2\n"), []byte("\n3\n"), 1)
		}, fault.SignatureInvalid, "invalid"},
		"a forged tile": {func(s *site, _ *person) { s.files["log/tile/0/000.p/2"][40] ^= 1 }, fault.Integrity, ""},
		"a time before the entry before it": {func(s *site, _ *person) {
			s.entries = s.entries[:1]
			s.publish("1.1.0", noon.Add(-time.Hour))
			s.show()
		}, fault.Integrity, "before the entry before it"},
		"too few witnesses": {func(s *site, p *person) {
			w, err := tlog.NewWitnessKey("w", keytest.Seeded(7).Public())
			if err != nil {
				s.Fatal(err)
			}
			policy, err := tlog.ParsePolicy([]byte("witness w " + w.String() + "\nquorum w\n"))
			if err != nil {
				s.Fatal(err)
			}
			p.policies = []*tlog.Policy{policy}
		}, fault.BelowThreshold, "too few witnesses"},
	} {
		s, p := newSite(t), newPerson(t)
		s.publish("1.0.0", noon)
		s.publish("1.1.0", noon.Add(time.Minute))
		s.show()
		c.lie(s, p)
		err := p.take(t, s, "1.1.0")
		if fault.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v (%s)", name, err, fault.CodeOf(err))
		}
	}
}

// TestMemory: what a person has seen can't be undone.
func TestMemory(t *testing.T) {
	s, p := newSite(t), newPerson(t)
	s.publish("1.0.0", noon)
	s.show()
	wants(t, p.take(t, s, "1.0.0"), "", "")
	old := map[string][]byte{}
	for name, b := range s.files {
		old[name] = b
	}
	s.publish("1.1.0", noon.Add(2*time.Hour))
	s.publish("1.2.0", noon.Add(2*time.Hour))
	s.show()
	p.now = noon.Add(3 * time.Hour)
	wants(t, p.take(t, s, "1.1.0"), "", "")

	stale := &site{TB: t, files: old, log: s.log}
	wants(t, p.take(t, stale, "1.0.0"), fault.Rollback, "stale")

	// The same key shows another history.
	split := newSite(t)
	split.publish("1.0.0", noon)
	split.publish("1.1.1", noon)
	split.publish("1.2.0", noon)
	split.show()
	wants(t, p.take(t, split, "1.0.0"), fault.Rollback, "rewritten its history")
	split.publish("1.3.0", noon)
	split.show()
	err := p.take(t, split, "1.0.0")
	wants(t, err, fault.Rollback, "rewritten its history")
	if len(fault.Of(err).Hint) == 0 {
		t.Error("no hint")
	}
	// A person who sees only the other history has no way to know.
	wants(t, newPerson(t).take(t, split, "1.0.0"), "", "")

	// Another key for the same log.
	another, err := tlog.NewKey(s.log.Name, keytest.Seeded(9).Public())
	if err != nil {
		t.Fatal(err)
	}
	renewed := *s
	renewed.log = another
	wants(t, p.take(t, &renewed, "1.0.0"), fault.Rollback, "another key than before")

	// A version that claims to be from before the person saw the log without it.
	s.publish("1.4.0", noon.Add(2*time.Hour))
	s.show()
	p.now = noon.Add(4 * time.Hour)
	for range 2 {
		wants(t, p.take(t, s, "1.4.0"), fault.Integrity, "the log didn't have it at")
	}
	wants(t, p.take(t, s, "1.2.0"), "", "")
}

// TestSince: what a log says of the time before this user met it doesn't make a version older.
func TestSince(t *testing.T) {
	s, p := newSite(t), newPerson(t)
	old := s.publish("1.0.0", noon.Add(-time.Hour))
	s.show()
	since := func(e *index.Entry) time.Time {
		t.Helper()
		at, err := p.client(s).Since(e)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	if got := since(old); !got.Equal(p.now) {
		t.Errorf("before first contact: %v", got)
	}
	met := p.now
	if err := p.take(t, s, "1.0.0"); err != nil {
		t.Fatal(err)
	}
	p.now = p.now.Add(48 * time.Hour)
	if got := since(old); !got.Equal(met) {
		t.Errorf("after first contact: %v", got)
	}
	later := s.publish("1.1.0", met.Add(24*time.Hour))
	s.show()
	if got := since(later); !got.Equal(later.Logged.Time) {
		t.Errorf("published since: %v", got)
	}
	if err := p.take(t, s, "1.1.0"); err != nil {
		t.Fatal(err)
	}
	if got := since(old); !got.Equal(met) {
		t.Errorf("after another contact: %v", got)
	}
}

func TestReadDescription(t *testing.T) {
	s := newSite(t)
	_, err := registry.ReadDescription(t.Context(), s, url)
	wants(t, err, fault.NotFound, "not a registry")
	b, err := description(t).Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	s.files[registry.DescriptionFile] = b
	if d, err := registry.ReadDescription(t.Context(), s, url); err != nil || *d != *description(t) {
		t.Errorf("%+v, %v", d, err)
	}
	s.files[registry.DescriptionFile] = bytes.Repeat([]byte("x"), registry.MaxDescription+1)
	if _, err := registry.ReadDescription(t.Context(), s, url); err == nil {
		t.Error("a large description was read")
	}
}

// TestMemoryLost: without a memory that can be read, nothing of a registry is believed.
func TestMemoryLost(t *testing.T) {
	s, p := newSite(t), newPerson(t)
	e := s.publish("1.0.0", noon)
	s.show()
	if err := p.take(t, s, "1.0.0"); err != nil {
		t.Fatal(err)
	}
	view, err := p.client(s).View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.journal = &rollback.Journal{Path: t.TempDir()} // a directory
	c := p.client(s)
	if _, err := c.View(t.Context()); err == nil {
		t.Error("a checkpoint was believed")
	}
	if _, err := c.Index(t.Context(), "acme/base", believed); err == nil {
		t.Error("an index was believed")
	}
	if _, err := c.Prove(t.Context(), view, e); err == nil {
		t.Error("a version was believed")
	}
	if _, err := c.Since(e); err == nil {
		t.Error("a time was believed")
	}
}
