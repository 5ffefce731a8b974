package registry_test

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/advisory"
	"github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/tlog"
)

// A told site is one with advisories.
type told struct {
	*site
	list   advisory.List
	signer key.Private
}

func newTold(t testing.TB) *told {
	s := &told{newSite(t), advisory.List{Registry: "registry.example", Issued: noon}, keytest.Seeded(2)}
	s.publish("1.0.0", noon)
	return s
}

// advise adds an advisory about all versions of acme/base below one, or revises the one with its id.
func (s *told) advise(id, below string, severity policy.Severity, withdrawn time.Time) advisory.Entry {
	s.Helper()
	a := &advisory.Advisory{ID: id, Published: noon, Modified: noon.Add(time.Duration(s.tail.Size()) * time.Second),
		Withdrawn: withdrawn, Summary: "It is bad", Bundle: "acme/base", Kind: advisory.Vulnerable, Severity: severity,
		Spans: []advisory.Span{{Introduced: "0", Fixed: below}}}
	text, err := a.Append(nil)
	if err != nil {
		s.Fatal(err)
	}
	e := advisory.Entry{ID: id, Bundle: a.Bundle, Document: cas.Sum(text), Modified: a.Modified}
	s.files[registry.DocumentFile(e.Document)] = text
	e.Leaf = s.add(&tlog.Entry{Kind: tlog.Advisory, Release: tlog.Release{Bundle: a.Bundle}, Document: e.Document,
		By: "@registry", Time: noon})
	for i := range s.list.Entries {
		if s.list.Entries[i].ID == id {
			s.list.Entries[i] = e
			return e
		}
	}
	s.list.Entries = append(s.list.Entries, e)
	return e
}

// issue signs the next issue of the list, and the log.
func (s *told) issue() {
	s.Helper()
	s.show()
	s.list.Counter++
	s.sign(s.list)
}

func (s *told) sign(l advisory.List) {
	s.Helper()
	body, made, err := advisory.AppendList(nil, &l)
	if err == nil {
		err = made.Sign(s.signer, noon)
	}
	if err != nil {
		s.Fatal(err)
	}
	s.files[registry.AdvisoriesFile] = manifest.Join(nil, body, made.Signatures)
}

func (p *person) kept(t testing.TB) *registry.Kept {
	return &registry.Kept{Dir: filepath.Join(filepath.Dir(p.journal.Path), "advisories"), Journal: p.journal,
		Now: func() time.Time { return p.now }}
}

func (p *person) update(t testing.TB, s *told) (changed bool, err error) {
	t.Helper()
	_, changed, err = p.kept(t).Update(t.Context(), p.client(s.site))
	return changed, err
}

// covering returns the ids of the advisories that cover a version by what is kept.
func (p *person) covering(t testing.TB, version string) string {
	t.Helper()
	feed, err := p.kept(t).Load(url)
	if err != nil {
		t.Fatal(err)
	}
	all, err := feed.Of("acme/base")
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, a := range registry.Covering(all, version) {
		ids = append(ids, a.ID)
	}
	return strings.Join(ids, " ")
}

func TestAdvisories(t *testing.T) {
	s, p := newTold(t), newPerson(t)
	if _, err := p.kept(t).Load(url); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before the first update: %v", err)
	}
	if all, err := p.kept(t).All(); err != nil || len(all) > 0 {
		t.Errorf("%v, %v", all, err)
	}
	s.issue()
	if changed, err := p.update(t, s); err != nil || !changed || p.covering(t, "1.0.0") != "" {
		t.Fatalf("%v, %v", changed, err)
	}
	if changed, err := p.update(t, s); err != nil || changed {
		t.Errorf("unchanged: %v, %v", changed, err)
	}
	s.advise("RYE-1", "1.1.0", policy.Low, time.Time{})
	s.advise("RYE-2", "2.0.0", policy.High, time.Time{})
	s.issue()
	if changed, err := p.update(t, s); err != nil || !changed {
		t.Fatalf("%v, %v", changed, err)
	}
	for version, want := range map[string]string{"1.0.0": "RYE-2 RYE-1", "1.1.0": "RYE-2", "2.0.0": ""} {
		if got := p.covering(t, version); got != want {
			t.Errorf("%s: %q, want %q", version, got, want)
		}
	}
	s.advise("RYE-2", "2.0.0", policy.High, noon.Add(time.Hour))
	s.issue()
	if changed, err := p.update(t, s); err != nil || !changed || p.covering(t, "1.0.0") != "RYE-1" {
		t.Errorf("withdrawn: %v, %v, %s", changed, err, p.covering(t, "1.0.0"))
	}
	all, err := p.kept(t).All()
	if err != nil || len(all) != 1 || all[0].At.URL != url || all[0].Counter != 3 {
		t.Errorf("%+v, %v", all, err)
	}
	if at, err := p.kept(t).Source(url); err != nil || at.Key != keytest.Seeded(2).Public() || at.Log != s.log {
		t.Errorf("%+v, %v", at, err)
	}
	// What neither of the last two lists names is removed, after the next change.
	s.issue()
	if _, err := p.update(t, s); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(p.kept(t).Dir, "*", "documents", "*"))
	if err != nil || len(files) != 2 {
		t.Errorf("%d documents, %v", len(files), err)
	}
}

// TestAdvisoriesRefused: what a registry, or who can change its files, can't do.
func TestAdvisoriesRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *told, first advisory.Entry)
		code   fault.Code
		says   string
	}{
		"no list": {func(s *told, _ advisory.Entry) { delete(s.files, registry.AdvisoriesFile) },
			fault.Registry, "has no"},
		"another key": {func(s *told, _ advisory.Entry) { s.signer = keytest.Eve(); s.issue() },
			fault.UntrustedKey, "not signed by the registry's key"},
		"unsigned": {func(s *told, _ advisory.Entry) {
			body, _, err := manifest.Split(s.files[registry.AdvisoriesFile])
			if err != nil {
				s.Fatal(err)
			}
			s.files[registry.AdvisoriesFile] = body
		}, fault.Unsigned, "not signed by the registry's key"},
		"changed": {func(s *told, _ advisory.Entry) {
			s.files[registry.AdvisoriesFile] = bytes.Replace(s.files[registry.AdvisoriesFile], []byte("leaf: 2"),
				[]byte("leaf: 9"), 1)
		}, fault.Integrity, ""},
		"another registry's": {func(s *told, _ advisory.Entry) { s.list.Registry = "other.example"; s.issue() },
			fault.Integrity, "those of \"other.example\""},
		"an older list": {func(s *told, _ advisory.Entry) { s.list.Counter -= 2; s.issue() },
			fault.Rollback, "goes back"},
		"another list with its counter": {func(s *told, _ advisory.Entry) {
			s.list.Counter--
			s.list.Issued = noon.Add(time.Minute)
			s.issue()
		}, fault.Rollback, "when it was seen"},
		"an advisory less": {func(s *told, _ advisory.Entry) { s.list.Entries = s.list.Entries[1:]; s.issue() },
			fault.Rollback, "has lost RYE-1"},
		"an older document": {func(s *told, first advisory.Entry) { s.list.Entries[0] = first; s.issue() },
			fault.Rollback, "goes back with it"},
		"from the future": {func(s *told, _ advisory.Entry) { s.list.Issued = noon.AddDate(0, 0, 1); s.issue() },
			fault.Integrity, "in the future"},
		"not in the log": {func(s *told, _ advisory.Entry) {
			e := s.advise("RYE-3", "9.0.0", policy.Low, time.Time{})
			s.list.Entries[len(s.list.Entries)-1].Leaf = e.Leaf + 9
			s.issue()
		}, fault.Integrity, "RYE-3: the log doesn't have"},
		"another entry of the log": {func(s *told, _ advisory.Entry) {
			s.advise("RYE-3", "9.0.0", policy.Low, time.Time{})
			s.list.Entries[len(s.list.Entries)-1].Leaf = 0
			s.issue()
		}, fault.Integrity, "RYE-3: the log doesn't have"},
		"of another bundle": {func(s *told, _ advisory.Entry) {
			s.advise("RYE-3", "9.0.0", policy.Low, time.Time{})
			s.list.Entries[len(s.list.Entries)-1].Bundle = "acme/other"
			s.issue()
		}, fault.Integrity, "RYE-3: the log doesn't have"},
		"under another id": {func(s *told, _ advisory.Entry) {
			s.advise("RYE-3", "9.0.0", policy.Low, time.Time{})
			s.list.Entries[len(s.list.Entries)-1].ID = "RYE-4"
			s.issue()
		}, fault.Integrity, "is listed as RYE-4"},
		"a document less": {func(s *told, _ advisory.Entry) {
			delete(s.files, registry.DocumentFile(s.advise("RYE-3", "9.0.0", policy.Low, time.Time{}).Document))
			s.issue()
		}, "", ""},
		"another document": {func(s *told, first advisory.Entry) {
			e := s.advise("RYE-3", "9.0.0", policy.Low, time.Time{})
			s.files[registry.DocumentFile(e.Document)] = s.files[registry.DocumentFile(first.Document)]
			s.issue()
		}, fault.Integrity, "has other bytes"},
		"an entry that is no advisory": {func(s *told, _ advisory.Entry) {
			text := []byte(`{"id":"RYE-3"}`)
			e := advisory.Entry{ID: "RYE-3", Bundle: "acme/base", Document: cas.Sum(text), Modified: noon}
			s.files[registry.DocumentFile(e.Document)] = text
			e.Leaf = s.add(&tlog.Entry{Kind: tlog.Advisory, Release: tlog.Release{Bundle: e.Bundle},
				Document: e.Document, By: "@registry", Time: noon})
			s.list.Entries = append(s.list.Entries, e)
			s.issue()
		}, fault.Parsing, "advisory: "},
		"an older log": {func(s *told, _ advisory.Entry) {
			old := newTold(s)
			old.show()
			maps.Copy(s.files, old.files)
		}, fault.Rollback, "is stale"},
	} {
		s, p := newTold(t), newPerson(t)
		first := s.advise("RYE-1", "1.1.0", policy.Low, time.Time{})
		s.advise("RYE-2", "1.0.1", policy.Low, time.Time{})
		s.issue()
		if _, err := p.update(t, s); err != nil {
			t.Fatal(err)
		}
		s.advise("RYE-1", "1.2.0", policy.High, time.Time{})
		s.issue()
		if _, err := p.update(t, s); err != nil {
			t.Fatal(err)
		}
		c.change(s, first)
		_, err := p.update(t, s)
		if err == nil || c.code != "" && fault.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v (%s), want %s, %q", name, err, fault.CodeOf(err), c.code, c.says)
		}
		// The last good issue stays in force.
		if got := p.covering(t, "1.1.5"); got != "RYE-1" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestKeptDamaged: what is kept is not forgotten, and nothing else is taken for it.
func TestKeptDamaged(t *testing.T) {
	s, p := newTold(t), newPerson(t)
	s.advise("RYE-1", "1.1.0", policy.Low, time.Time{})
	s.issue()
	old := bytes.Clone(s.files[registry.AdvisoriesFile])
	if _, err := p.update(t, s); err != nil {
		t.Fatal(err)
	}
	entry := s.advise("RYE-1", "1.2.0", policy.High, time.Time{})
	s.issue()
	if _, err := p.update(t, s); err != nil {
		t.Fatal(err)
	}
	dirs, err := filepath.Glob(filepath.Join(p.kept(t).Dir, "*"))
	if err != nil || len(dirs) != 1 {
		t.Fatal(dirs, err)
	}
	at := func(name string) string { return filepath.Join(dirs[0], filepath.FromSlash(name)) }
	for name, text := range map[string][]byte{
		registry.AdvisoriesFile:                      []byte("x"),
		"registry.json":                              []byte("{}"),
		"./registry.json":                            []byte("x"),
		"././advisories.yaml":                        old,
		"./advisories.yaml":                          nil,
		"././registry.json":                          nil,
		registry.DocumentFile(entry.Document):        []byte("x"),
		"./" + registry.DocumentFile(entry.Document): nil,
	} {
		good, err := os.ReadFile(at(name))
		if err != nil {
			t.Fatal(err)
		}
		if text == nil {
			err = os.Remove(at(name))
		} else {
			err = os.WriteFile(at(name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		feed, err := p.kept(t).Load(url)
		if err == nil {
			_, err = feed.Of("acme/base")
		}
		if err == nil || errors.Is(err, fs.ErrNotExist) && fault.CodeOf(err) != fault.Integrity {
			t.Errorf("%s: %v", name, err)
		}
		if text != nil && strings.HasSuffix(name, "n") {
			if _, err := p.kept(t).All(); err == nil {
				t.Errorf("%s: all are good", name)
			}
		}
		// An update repairs it.
		if _, err := p.update(t, s); err != nil || p.covering(t, "1.1.5") != "RYE-1" {
			t.Errorf("%s: %v", name, err)
		}
		if now, err := os.ReadFile(at(name)); err != nil || !bytes.Equal(now, good) {
			t.Errorf("%s: %q, %v", name, now, err)
		}
	}
}

// TestOtherKeys refuses another registry at a known address.
func TestOtherKeys(t *testing.T) {
	s, p := newTold(t), newPerson(t)
	s.issue()
	if _, err := p.update(t, s); err != nil {
		t.Fatal(err)
	}
	client := p.client(s.site)
	client.At.Key = keytest.Eve().Public()
	if _, _, err := p.kept(t).Update(t.Context(), client); fault.CodeOf(err) != fault.Rollback {
		t.Error(err)
	}
}

// TestKeptNowhere: what stands in the way of an update is an error, and a stray file is passed over.
func TestKeptNowhere(t *testing.T) {
	s, p := newTold(t), newPerson(t)
	s.issue()
	kept := p.kept(t)
	if err := os.WriteFile(kept.Dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.update(t, s); err == nil {
		t.Error("a file in the place of the directory")
	}
	if _, err := kept.All(); err == nil {
		t.Error("a file is read as a directory")
	}
	if err := os.Remove(kept.Dir); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(kept.Dir, "begun"), 0o700),
		os.WriteFile(filepath.Join(kept.Dir, "stray"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if all, err := kept.All(); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	if _, err := p.update(t, s); err != nil {
		t.Fatal(err)
	}
	if all, err := kept.All(); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}
