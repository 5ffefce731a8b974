package session_test

import (
	"bytes"
	"context"
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
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/lock/advisory"
	lockproject "github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/rollback"
	"github.com/rye-build/rye/manifest/tlog"
)

const registryURL = "https://registry.example"

// static are the files of a registry.
type static map[string][]byte

// Get implements registry.Fetcher.
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

// advise keeps an advisory of the registry about all versions of a bundle, as rye trust update does.
func (p *project) advise(t *testing.T, bundle string, severity policy.Severity) {
	t.Helper()
	now := time.Now().UTC().Truncate(time.Second)
	log, err := tlog.NewKey("registry.example/log", keytest.Seeded(1).Public())
	must(t, err)
	a := &advisory.Advisory{ID: "RYE-1", Published: now, Modified: now, Summary: "It is bad", Bundle: bundle,
		Kind: advisory.Malware, Severity: severity, Spans: []advisory.Span{{Introduced: "0"}}}
	text, err := a.Append(nil)
	must(t, err)
	entry, err := tlog.AppendEntry(nil, &tlog.Entry{Kind: tlog.Advisory, Release: tlog.Release{Bundle: bundle},
		Document: cas.Sum(text), By: "@registry", Time: now})
	must(t, err)
	var tail tlog.Tail
	_, err = tail.Add(entry)
	must(t, err)
	files := static{registry.DocumentFile(cas.Sum(text)): text}
	for _, f := range tail.Partial() {
		files["log/"+f.Name] = f.Data
	}
	files["log/checkpoint"], err = tlog.Sign(log, keytest.Seeded(1), tail.Size(), tail.Root())
	must(t, err)
	body, list, err := advisory.AppendList(nil, &advisory.List{Registry: "registry.example", Counter: 1, Issued: now,
		Entries: []advisory.Entry{{ID: a.ID, Bundle: bundle, Document: cas.Sum(text), Modified: now}}})
	must(t, err)
	must(t, list.Sign(keytest.Seeded(2), now))
	files[registry.AdvisoriesFile] = manifest.Join(nil, body, list.Signatures)
	journal := &rollback.Journal{Path: filepath.Join(p.State.Path, "rollback")}
	kept := &registry.Kept{Dir: filepath.Join(p.State.Path, "advisories"), Journal: journal, Now: time.Now}
	_, _, err = kept.Update(t.Context(), &registry.Client{Fetch: files, Journal: journal, Now: time.Now,
		At: lockproject.Registry{URL: registryURL, Log: log, Key: keytest.Seeded(2).Public()}})
	must(t, err)
}

// TestAdvised: a session that has called a tool asks the advisories again at each call, also about what was made of a
// plugin for the project.
func TestAdvised(t *testing.T) {
	p := withPlugin(t, true, keytest.Bob())
	mine := server
	mine.ID = "plugins/demo/servers/mine"
	must(t, p.sign(mine, serverText(mine.ID, "plugins/demo")), p.lock())
	p.vendor(t)
	// As if it came from a registry.
	path := filepath.Join(p.Dir, "rye.lock")
	text, err := os.ReadFile(path)
	must(t, err)
	before, bundles, _ := strings.Cut(string(text), "\nbundles:\n")
	bundles = strings.Replace(bundles, `from: "../demo"`,
		`from: "registry:`+registryURL+`", log: "registry.example/log", leaf: 0`, 1)
	must(t, os.WriteFile(path, []byte(before+"\nbundles:\n"+bundles), 0o644))
	section := "advisories: {%q: {load: critical, call: high, max-age: 7d, stale: %s}}\n"
	must(t, p.trusting(fmt.Sprintf(section, registryURL, "warn")))
	s, err := p.open(t, session.Options{})
	must(t, err)
	for range 2 {
		if _, err := start(t, s, server); err != nil {
			t.Fatal(fault.Of(err))
		}
		if _, err := start(t, s, mine); err != nil {
			t.Fatal(fault.Of(err))
		}
		if _, err := s.Item(t.Context(), server); err != nil {
			t.Fatal(err)
		}
	}
	p.advise(t, "plugins/demo", policy.High)
	for _, ref := range []string{server.ID, mine.ID} {
		at := server
		at.ID = ref
		if _, err := start(t, s, at); fault.CodeOf(err) != fault.Policy ||
			!strings.Contains(err.Error(), "is from plugins/demo@1.0.0, which the advisory RYE-1") {
			t.Errorf("%s: %v", ref, err)
		}
		// From this severity on it isn't called, and it is still loaded.
		if _, err := s.Item(t.Context(), at); err != nil {
			t.Errorf("%s: %v", ref, err)
		}
	}
	must(t, p.trusting(fmt.Sprintf(strings.Replace(section, "critical", "high", 1), registryURL, "warn")))
	if _, err := s.Item(t.Context(), server); fault.CodeOf(err) != fault.Policy {
		t.Errorf("loaded: %v", err)
	}
	must(t, p.trusting(""))
	if _, err := start(t, s, server); err != nil {
		t.Error(fault.Of(err))
	}
	// What is kept and damaged refuses, also where old advisories would only be warned of.
	must(t, p.trusting(fmt.Sprintf(section, registryURL, "warn")))
	documents, err := filepath.Glob(filepath.Join(p.State.Path, "advisories", "*", "documents", "*"))
	must(t, err)
	if len(documents) != 1 {
		t.Fatal(documents)
	}
	must(t, os.WriteFile(documents[0], []byte("x"), 0o600))
	if _, err := start(t, s, server); fault.CodeOf(err) != fault.Expired {
		t.Errorf("damaged: %v", err)
	}
}
