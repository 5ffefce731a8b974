package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/advisory"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/tlog"
	"github.com/rye-build/rye/manifest/trust"
)

const registryURL = "https://registry.example"

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// static are the files of a registry with one advisory, about acme/base below 1.1.0.
type static map[string][]byte

func (s static) Get(_ context.Context, address string, _ int64) (io.ReadCloser, int64, error) {
	b, ok := s[strings.TrimPrefix(address, registryURL+"/")]
	if !ok {
		return nil, 0, fmt.Errorf("%s: %w", address, fs.ErrNotExist)
	}
	return io.NopCloser(bytes.NewReader(b)), int64(len(b)), nil
}

// GetIf implements registry.Fetcher: these files have no ETags.
func (s static) GetIf(ctx context.Context, address string, limit int64, _ string) (io.ReadCloser, string, error) {
	r, _, err := s.Get(ctx, address, limit)
	return r, "", err
}

func newStatic(t *testing.T) (static, project.Registry) {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	log, err := tlog.NewKey("registry.example/log", keytest.Seeded(1).Public())
	must(err)
	text, err := (&advisory.Advisory{ID: "RYE-1", Published: noon, Modified: noon, Summary: "It is bad",
		Bundle: "acme/base", Kind: advisory.Vulnerable, Severity: policy.High,
		Spans: []advisory.Span{{Introduced: "0", Fixed: "1.1.0"}}}).Append(nil)
	must(err)
	entry, err := tlog.AppendEntry(nil, &tlog.Entry{Kind: tlog.Advisory, Release: tlog.Release{Bundle: "acme/base"},
		Document: cas.Sum(text), By: "@registry", Time: noon})
	must(err)
	var tail tlog.Tail
	_, err = tail.Add(entry)
	must(err)
	s := static{registry.DocumentFile(cas.Sum(text)): text}
	for _, f := range tail.Partial() {
		s["log/"+f.Name] = f.Data
	}
	s["log/checkpoint"], err = tlog.Sign(log, keytest.Seeded(1), tail.Size(), tail.Root())
	must(err)
	body, list, err := advisory.AppendList(nil, &advisory.List{Registry: "registry.example", Counter: 1, Issued: noon,
		Entries: []advisory.Entry{{ID: "RYE-1", Bundle: "acme/base", Document: cas.Sum(text), Modified: noon}}})
	must(err)
	must(list.Sign(keytest.Seeded(2), noon))
	s[registry.AdvisoriesFile] = manifest.Join(nil, body, list.Signatures)
	return s, project.Registry{URL: registryURL, Log: log, Key: keytest.Seeded(2).Public()}
}

func authority(t *testing.T, text string) *trust.Authority {
	t.Helper()
	p, err := policy.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return &trust.Authority{Side: policy.Side{Policy: p}}
}

func TestAdvised(t *testing.T) {
	ctx := t.Context()
	l := lockAt(t, map[string]string{MarkerFile: ""})
	l.Options.Now = func() time.Time { return noon }
	asking := authority(t, "advisories:\n  \""+registryURL+"\": {call: high, max-age: 7d}\n")
	l.Trust = &trust.Trust{Root: asking, Now: noon}
	from := project.RegistryAt(registryURL)
	l.Old = &lockfile.Lock{Bundles: []lockfile.Bundle{
		{ID: "acme/base", Version: "1.0.0", Source: from, Log: "registry.example/log"},
		{ID: "acme/far", Version: "1.0.0", Source: project.Source{Where: "../far"}},
		{ID: "acme/new", Version: "1.0.0", Source: project.RegistryAt("https://other.example")},
		{ID: "plugins/db", Version: "1.0.0", Source: from, Log: "registry.example/log"},
	}}
	if a := l.Advised().Of("system:acme/base", "tool:acme/base/x"); a == nil || a.Broken == "" {
		t.Errorf("without a state directory: %+v", a)
	}
	l.State = Place{Path: t.TempDir()}
	missing := l.Advised()
	if a := missing.Of("system:acme/base", "tool:acme/base/x"); a == nil || !a.Missing ||
		a.Bundle != "acme/base@1.0.0" {
		t.Errorf("never read: %+v", a)
	}
	for _, space := range []string{"system:acme/far", "system:acme/new", "project", ""} {
		if a := missing.Of(space, "tool:x"); a != nil {
			t.Errorf("%s: %+v", space, a)
		}
	}
	if a := missing.Of("project", "tool:plugins/db/x"); a == nil || a.Bundle != "plugins/db@1.0.0" {
		t.Errorf("made of a plugin: %+v", a)
	}
	files, at := newStatic(t)
	fetch := func(bool) registry.Fetcher { return files }
	update := func(fetch func(bool) registry.Fetcher, only string, project *trust.Authority) FeedUpdate {
		t.Helper()
		all, err := l.UpdateAdvisories(ctx, fetch, only, asking, project)
		if err != nil || len(all) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}
		return all[0]
	}
	if u := update(fetch, "", nil); fault.CodeOf(u.Err) != fault.NotFound {
		t.Errorf("without keys: %v", u.Err)
	}
	l.Yaml = &project.Project{Registries: []project.Registry{at}}
	if u := update(nil, registryURL, nil); fault.CodeOf(u.Err) != fault.Offline {
		t.Errorf("offline: %v", u.Err)
	}
	if u := update(fetch, "", asking); u.Err != nil || !u.Changed || len(u.Feed.Entries) != 1 {
		t.Fatalf("%+v", u)
	}
	// From now on the keys are known, in other directories too.
	l.Yaml = &project.Project{}
	if u := update(fetch, "", nil); u.Err != nil || u.Changed {
		t.Errorf("%+v", u)
	}
	if all, err := l.UpdateAdvisories(ctx, fetch, "https://none.example", asking); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	covered := l.Advised()
	if a := covered.Of("system:acme/base", "tool:acme/base/x"); a == nil || len(a.Notices) != 1 ||
		a.Notices[0].ID != "RYE-1" || !a.Issued.Equal(noon) || a.Missing || a.Broken != "" {
		t.Errorf("%+v", a)
	}
	if a := covered.Of("system:plugins/db", "tool:plugins/db/x"); a == nil || len(a.Notices) != 0 {
		t.Errorf("%+v", a)
	}
	if covered.ID == missing.ID || covered.ID != l.Advised().ID {
		t.Error("the id doesn't tell the answers apart")
	}
	l.Trust.Now = noon.AddDate(0, 0, 8)
	if l.Advised().ID == covered.ID {
		t.Error("the id doesn't tell that the advisories are stale")
	}
	l.Trust.Now = noon
	l.Old.Bundles[0].Log = "other.example/log"
	if a := l.Advised().Of("system:acme/base", ""); a == nil || !strings.Contains(a.Broken, `belong to the log`) {
		t.Errorf("of another log: %+v", a)
	}
	l.Old.Bundles[0].Log = "registry.example/log"
	documents, err := filepath.Glob(filepath.Join(l.State.Path, "advisories", "*", "documents", "*"))
	if err != nil || len(documents) != 1 {
		t.Fatal(documents, err)
	}
	if err := os.Remove(documents[0]); err != nil {
		t.Fatal(err)
	}
	if a := l.Advised().Of("system:acme/base", ""); a == nil || a.Broken == "" {
		t.Errorf("damaged: %+v", a)
	}
	// Without the section nothing is asked, and without a lock there is nothing to ask about.
	l.Trust.Root = authority(t, "")
	if a := l.Advised().Of("system:acme/base", ""); a != nil {
		t.Errorf("%+v", a)
	}
	l.Old = nil
	if a := l.Advised().Of("system:acme/base", ""); a != nil {
		t.Errorf("%+v", a)
	}
}

func TestUpdateStranger(t *testing.T) {
	l := lockAt(t, map[string]string{MarkerFile: "", ".ai/" + WitnessFile: "x\n"})
	files, at := newStatic(t)
	asking := authority(t, "advisories:\n  \""+registryURL+"\": {call: high, max-age: 7d}\n")
	l.Options.Now, l.Yaml = func() time.Time { return noon }, &project.Project{Registries: []project.Registry{at}}
	fetch := func(stranger bool) registry.Fetcher {
		if !stranger {
			t.Error("what only the project names is no stranger")
		}
		return files
	}
	if _, err := l.UpdateAdvisories(t.Context(), fetch, "", authority(t, ""), asking); err == nil {
		t.Error("a policy of witnesses that is none was taken")
	}
	if err := os.Remove(filepath.Join(l.DotAI, WitnessFile)); err != nil {
		t.Fatal(err)
	}
	all, err := l.UpdateAdvisories(t.Context(), fetch, "", authority(t, ""), asking)
	if err != nil || len(all) != 1 || !errors.Is(all[0].Err, errHomeless) {
		t.Errorf("%+v, %v", all, err)
	}
	l.State = Place{Path: t.TempDir()}
	all, err = l.UpdateAdvisories(t.Context(), fetch, "", authority(t, ""), asking)
	if err != nil || len(all) != 1 || all[0].Err != nil {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestPublished(t *testing.T) {
	of := Published([]lockfile.Bundle{
		{ID: "acme/base", Version: "1.0.0", Source: project.RegistryAt(registryURL)},
		{ID: "acme/far", Version: "1.0.0", Source: project.Source{Where: "../far"}},
		{ID: "plugins/db", Version: "2.0.0", Source: project.RegistryAt(registryURL)},
	})
	for _, c := range []struct{ space, item, version, registry string }{
		{"system:acme/base", "tool:acme/base/x", "acme/base@1.0.0", registryURL},
		{"system:acme/far", "tool:acme/far/x", "", ""}, {"project", "tool:x", "", ""},
		{"project", "tool:plugins/db/x", "plugins/db@2.0.0", registryURL},
	} {
		if version, url := of(c.space, c.item); version != c.version || url != c.registry {
			t.Errorf("%+v: %s, %s", c, version, url)
		}
	}
}
