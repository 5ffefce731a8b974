package tlog_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/manifest/tlog"
)

var at = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func sum(text string) cas.Digest { return cas.Sum([]byte(text)) }

// goldenEntries has one entry of each kind.
func goldenEntries() map[string]*tlog.Entry {
	release := tlog.Release{Bundle: "acme/base", Version: "2.1.4", Manifest: sum("manifest")}
	whole := release
	whole.Archive, whole.Size = sum("archive"), 81234
	other := tlog.Release{Bundle: "acme/tools", Version: "1.0.0-rc.1+linux", Manifest: sum("m"), Archive: sum("a"),
		Size: tlog.MaxArchive}
	return map[string]*tlog.Entry{
		"publish":   {Kind: tlog.Publish, Release: whole, By: "ada", Time: at},
		"yank":      {Kind: tlog.Yank, Release: release, By: "ada", Time: at},
		"unpublish": {Kind: tlog.Unpublish, Release: release, By: "ada", Time: at},
		"owner": {Kind: tlog.Owner, Release: tlog.Release{Bundle: "acme"}, Document: sum("owners"), By: "ada",
			Time: at},
		"trusted-publisher": {Kind: tlog.TrustedPublisher, Release: tlog.Release{Bundle: "acme/base"},
			Document: sum("binding"), By: "ada", Time: at},
		"advisory": {Kind: tlog.Advisory, Release: tlog.Release{Bundle: "acme/base"}, Document: sum("osv"),
			By: "registry", Time: at},
		"release": {Kind: tlog.Group, Releases: []tlog.Release{other, whole}, By: "github:acme/base", Time: at},
	}
}

func TestEntryGolden(t *testing.T) {
	for name, entry := range goldenEntries() {
		b, err := tlog.AppendEntry(nil, entry)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		goldentest.File(t, filepath.Join("testdata", "entry", name+".yaml"), b)
		again, err := tlog.ParseEntry(b)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := len(again.All()); got != map[string]int{"publish": 1, "release": 2}[name] {
			t.Errorf("%s publishes %d versions", name, got)
		}
		if again.By != entry.By || !again.Time.Equal(at) || again.Document != entry.Document ||
			again.Release != entry.Release {
			t.Errorf("%s: %+v", name, again)
		}
	}
}

// TestEntryRefused changes each golden entry so that one rule of the format is broken.
func TestEntryRefused(t *testing.T) {
	golden := func(kind string) string {
		b, err := os.ReadFile(filepath.Join("testdata", "entry", kind+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, c := range []struct{ kind, old, new, says string }{
		{"publish", "log-entry/1", "log-entry/2", "expected"},
		{"publish", `kind: "publish"`, `kind: "delete"`, "unknown kind"},
		{"publish", `kind: "publish"`, `kind: "yank"`, "exactly these of its own: bundle, version, manifest"},
		{"publish", `kind: "publish"`, `kind: "release"`, "exactly these of its own: none"},
		{"yank", `kind: "yank"`, `kind: "publish"`, "archive, archive-size"},
		{"publish", `"acme/base"`, `"acme//base"`, "acme//base"},
		{"publish", `"acme/base"`, `"../base"`, "../base"},
		{"publish", `"2.1.4"`, `"2.1"`, "2.1"},
		{"publish", "archive-size: 81234", "archive-size: 0", "0 bytes"},
		{"publish", "archive-size: 81234", "archive-size: 8589934593", "larger"},
		{"publish", "archive-size: 81234", "archive-size: 081234", "column"},
		{"publish", `manifest: "blake3:`, `manifest: "sha256:`, "digest"},
		{"owner", `document: "blake3:`, `document: "Blake3:`, "digest"},
		{"publish", `by: "ada"`, `by: "a da"`, "account"},
		{"publish", `by: "ada"`, `by: "adá"`, "account"},
		{"publish", "12:00:00Z", "12:00:99Z", "time"},
		{"publish", "2026-11-20", "2026-11-31", "time"},
		{"release", "acme/base@2.1.4", "acme/base", "\"@\""},
		{"release", "acme/base@2.1.4", "acme/base@", "version"},
		{"release", "acme/base@2.1.4", "acme/zoo@2.1.4", "must come before"},
		{"release", ", archive-size: 81234", ", archive-size: 0", "0 bytes"},
		{"publish", "time:", "extra: \"x\"\ntime:", "extra"},
	} {
		text := golden(c.kind)
		changed := strings.Replace(text, c.old, c.new, 1)
		if changed == text {
			t.Fatalf("%s has no %q", c.kind, c.old)
		}
		if _, err := tlog.ParseEntry([]byte(changed)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s with %q: %v", c.kind, c.new, err)
		}
	}
	line := "# rye:signed:v2:2026-11-20T12:00:00Z:" + strings.Repeat("0", 64) + ":" + strings.Repeat("A", 86) + ":" +
		strings.Repeat("0", 64) + "\n"
	if _, err := tlog.ParseEntry([]byte(line + golden("publish"))); err == nil {
		t.Error("an entry with a line of signature was accepted")
	}
	many := &tlog.Entry{Kind: tlog.Group, By: "ada", Time: at}
	for i := range tlog.MaxReleases + 1 {
		many.Releases = append(many.Releases, tlog.Release{Bundle: "acme/b" + strings.Repeat("x", i),
			Version: "1.0.0", Manifest: sum("m"), Archive: sum("a"), Size: 1})
	}
	if b, err := tlog.AppendEntry([]byte("before"), many); err == nil || string(b) != "before" {
		t.Errorf("an entry with %d versions: %q, %v", len(many.Releases), b, err)
	}
	many.Releases = many.Releases[:tlog.MaxReleases]
	if _, err := tlog.AppendEntry(nil, many); err != nil {
		t.Errorf("an entry with %d versions: %v", len(many.Releases), err)
	}
	if _, err := tlog.AppendEntry(nil, &tlog.Entry{Kind: "delete", By: "ada", Time: at}); err == nil {
		t.Error("an entry of an unknown kind was written")
	}
	if _, err := tlog.AppendEntry(nil, &tlog.Entry{Kind: tlog.Group, By: "ada", Time: at}); err == nil {
		t.Error("a release of nothing was written")
	}
}

func FuzzEntry(f *testing.F) {
	for _, entry := range goldenEntries() {
		b, err := tlog.AppendEntry(nil, entry)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		entry, err := tlog.ParseEntry(b)
		if err != nil {
			return
		}
		if again, err := tlog.AppendEntry(nil, entry); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%s becomes %s, %v", b, again, err)
		}
	})
}
