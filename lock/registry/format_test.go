package registry_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/lock/index"
	"github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/tlog"
)

func description(t testing.TB) *registry.Description {
	t.Helper()
	log, err := tlog.NewKey("registry.example/log", keytest.Seeded(1).Public())
	if err != nil {
		t.Fatal(err)
	}
	return &registry.Description{Name: "registry.example", Log: log, Key: keytest.Seeded(2).Public()}
}

func TestDescriptionGolden(t *testing.T) {
	b, err := description(t).Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	goldentest.File(t, filepath.Join("testdata", "registry.yaml"), b)
	again, err := registry.ParseDescription(b)
	if err != nil || *again != *description(t) {
		t.Errorf("%+v, %v", again, err)
	}
	for _, c := range []struct{ old, new string }{
		{`"registry/1"`, `"registry/2"`}, {`"registry.example"`, `"registry/example"`}, {`"registry.example"`, `""`},
		{"registry.example/log+", "registry.example/lag+"}, {`key: "`, `key: "A`}, {"key:", "kez:"},
		{keytest.Seeded(2).Public().String(), keytest.Seeded(1).Public().String()},
	} {
		changed := strings.Replace(string(b), c.old, c.new, 1)
		if changed == string(b) {
			t.Fatalf("no %q", c.old)
		}
		if d, err := registry.ParseDescription([]byte(changed)); err == nil {
			t.Errorf("%q is read as %+v", c.new, d)
		}
	}
	bad := description(t)
	bad.Name = "a/b"
	if dst, err := bad.Append([]byte("before")); err == nil || string(dst) != "before" {
		t.Errorf("%q, %v", dst, err)
	}
}

func FuzzDescription(f *testing.F) {
	b, err := description(f).Append(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := registry.ParseDescription(b)
		if err != nil {
			return
		}
		if again, err := d.Append(nil); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%q becomes %q, %v", b, again, err)
		}
	})
}

func TestFiles(t *testing.T) {
	d := cas.Sum([]byte("archive"))
	hex := strings.TrimPrefix(d.String(), "blake3:")
	for got, want := range map[string]string{
		registry.IndexFile("acme/base"):                      "index/acme/base.yaml",
		registry.ArchiveFile(d):                              "archives/" + hex,
		registry.ProofFile(d):                                "proofs/" + hex + ".tlog-proof",
		registry.DocumentFile(d):                             "documents/" + hex,
		registry.IndexLabel("registry.example", "acme/base"): "registry.example/acme/base",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestLogEntry computes what the log has of an index entry.
func TestLogEntry(t *testing.T) {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	e := &index.Entry{ID: "acme/base", Version: "2.1.4", Manifest: cas.Sum([]byte("m")), Archive: "archives/x",
		Size: 5, Logged: &index.Logged{Digest: cas.Sum([]byte("a")), By: "ada", Time: at, Leaf: 3, Yanked: 9}}
	got := registry.LogEntry(e)
	if got.Kind != tlog.Publish || got.Key() != "acme/base@2.1.4" || got.Manifest != e.Manifest ||
		got.Archive != e.Logged.Digest || got.Size != 5 || got.By != "ada" || !got.Time.Equal(at) {
		t.Errorf("%+v", got)
	}
	if _, err := tlog.AppendEntry(nil, got); err != nil {
		t.Error(err)
	}
}

// TestPrivateNames: the registry of a private namespace has its name and its address in one form.
func TestPrivateNames(t *testing.T) {
	for at, want := range map[string][2]string{
		"registry.example/private/acme":          {"registry.example", "acme"},
		"https://h.example/private/acme":         {"https://h.example", "acme"},
		"https://h.example/x/private/a.b":        {"https://h.example/x", "a.b"},
		"registry.example/private/private/acme":  {"registry.example/private", "acme"},
		"registry.example":                       {},
		"registry.example/log":                   {},
		"registry.example/private":               {},
		"registry.example/private/":              {},
		"private/acme":                           {},
		"/private/acme":                          {},
		"https://private/acme":                   {},
		"registry.example/private/acme/x":        {},
		"https://h.example/notprivate/acme":      {},
		"https://h.example/private/acme/private": {},
	} {
		host, space, ok := registry.SplitPrivate(at)
		if !ok && host == at {
			host = ""
		}
		if host != want[0] || space != want[1] || ok != (want[0] != "") {
			t.Errorf("%s: %q, %q, %v", at, host, space, ok)
		}
	}
	for address, want := range map[string]string{
		"https://h.example/private/acme/registry.yaml":              "https://h.example/private/acme",
		"https://h.example/private/acme/index/private/x/y.yaml":     "https://h.example/private/acme",
		"http://127.0.0.1:80/x/private/acme/log/tile/entries/000":   "http://127.0.0.1:80/x/private/acme",
		"https://h.example/private/acme":                            "",
		"https://h.example/private//registry.yaml":                  "",
		"https://private/acme/registry.yaml":                        "",
		"https://h.example/index/acme/base.yaml":                    "",
		"https://h.example/index/private/acme/base.yaml":            "https://h.example/index/private/acme",
		"h.example/private/acme/registry.yaml":                      "",
		"https://evil.example/?https://h.example/private/acme/file": "https://evil.example/?https://h.example/private/acme",
	} {
		if at, ok := registry.PrivateOf(address); at != want || ok != (want != "") {
			t.Errorf("%s: %q, %v", address, at, ok)
		}
	}
	d := description(t)
	d.Name = "registry.example/private/acme"
	b, err := d.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := registry.ParseDescription(b); err != nil || again.Name != d.Name {
		t.Errorf("%+v, %v", again, err)
	}
	for _, name := range []string{"registry.example/private/", "a/b/private/acme", "registry.example/private/-x"} {
		d.Name = name
		if _, err := d.Append(nil); err == nil {
			t.Errorf("%q is a name", name)
		}
	}
}
