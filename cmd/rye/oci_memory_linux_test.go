package main

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rye-build/rye/cas/oci/ocitest"
)

// TestPushMemory: a push needs less than 100 MiB, however large the bundle. 25 of them are for rye's own code, which
// the binary of the tests has more of.
func TestPushMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("one process alone")
	}
	h := newTrustHome(t)
	project := filepath.Join(h.dir, "p")
	h.must("init", project)
	if err := os.Mkdir(filepath.Join(project, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"bundle.yaml": []byte("id: acme\nversion: 1.0.0\nassets: [\"a/*\"]\n"),
		"a/large": make([]byte, 32<<20), "a/other": make([]byte, 32<<20)}
	for i := range 200 {
		files[fmt.Sprint("a/", i)] = make([]byte, 200_000)
	}
	for name, b := range files {
		if name != "bundle.yaml" {
			_, _ = rand.Read(b) // which don't become fewer
		}
		if err := os.WriteFile(filepath.Join(project, filepath.FromSlash(name)), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h.must("bundle", "create", "-C", project)
	d := ocitest.New(t)
	cmd := h.command("bundle", "push", "acme", "oci://"+d.Host()+"/acme/deploy", "-C", project)
	var peak atomic.Int64
	d.Cue = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/manifests/") { // all layers were sent
			peak.Store(ownPeak(cmd.Process.Pid))
		}
		return false
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v, %s", err, out)
	}
	if kib := peak.Load(); kib == 0 || kib > 75<<10 {
		t.Errorf("%d MiB", kib>>10)
	}
}
