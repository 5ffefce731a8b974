//go:build peers && linux

package main

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/web/webtest"
)

// npm runs npm with the configuration of the user who runs the tests.
func npm(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("npm", args...)
	cmd.Dir = dir
	var told strings.Builder
	cmd.Stderr = &told
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("npm %q: %v\n%s", args, err, told.String())
	}
	return strings.TrimSpace(string(out))
}

// TestLockNPM: what npm lists rye pins, from the registry that npm uses, by way of a mirror on this machine: packages
// in several versions, with scopes, and some that are for other platforms.
func TestLockNPM(t *testing.T) {
	work := t.TempDir()
	list :=
		`{"name": "lines", "version": "1.0.0", "dependencies": {"@sindresorhus/slugify": "2.2.1", "chalk": "2.4.2", "chalk-new": "npm:chalk@4.1.2"}}`
	if err := os.WriteFile(filepath.Join(work, "package.json"), []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	upstream := strings.TrimSuffix(npm(t, work, "config", "get", "registry"), "/")
	npm(t, work, "install", "--package-lock-only", "--ignore-scripts", "--no-audit")
	lock, err := os.ReadFile(filepath.Join(work, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	h := newTrustHome(t)
	mirror, asked := h.npmMirror(upstream)
	p := h.lockedProject(filepath.Join(h.dir, "p"), 0)
	p.put("rye.yaml", "packages: {npm: \""+mirror+"\"}\n")
	p.put(".ai/tools/mine/lines/lines.yaml",
		"version: 1.0.0\ntool_type: runtime\nexecutor_id: rye/core/primitives/subprocess\ncategory: mine/lines\n"+
			"description: Count lines\nconfig: {command: \"true\"}\nanchor: {enabled: true, mode: always, root: tool_dir}\npackages: package-lock.json\n")
	p.put(".ai/tools/mine/lines/package-lock.json", string(lock))
	p.in("sign", "tool:mine/lines/lines")
	p.in("lock")
	l, err := lockfile.Parse([]byte(p.get("rye.lock")))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2.4.2", "4.1.2"} {
		if len(l.ArtifactsOf("npm:chalk", want)) != 1 {
			t.Errorf("chalk %s isn't pinned: %v", want, l.Artifacts)
		}
	}
	if len(l.ArtifactsOf("npm:@sindresorhus/slugify", "2.2.1")) != 1 || int64(len(l.Artifacts)) != asked.Load() {
		t.Errorf("%d artifacts after %d questions", len(l.Artifacts), asked.Load())
	}
	p.in("lock", "--check")
	p.in("vendor")
	empty := filepath.Join(h.dir, "empty")
	p.in("fetch", "--offline", "--store", empty)
	p.in("lock", "--offline", "--store", empty)
	if got := int64(len(l.Artifacts)); asked.Load() != got {
		t.Errorf("%d questions after everything was vendored, expected %d", asked.Load(), got)
	}
}

// npmMirror is a registry on this machine that has what another one has, and counts what it passes on. The user of h
// may reach it.
func (h trustHome) npmMirror(upstream string) (at string, asked *atomic.Int64) {
	t := h.t
	asked = new(atomic.Int64)
	mirror := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resp, err := http.Get(upstream + r.URL.Path)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		w.WriteHeader(resp.StatusCode)
		if _, err := io.Copy(w, resp.Body); err != nil {
			panic(http.ErrAbortHandler)
		}
		asked.Add(1)
	}))
	// npm, which goes through the sandbox's proxy, takes the name localhost for the address.
	certificate, _ := webtest.Certificate(t, "localhost")
	mirror.TLS = &tls.Config{Certificates: []tls.Certificate{*certificate}}
	mirror.StartTLS()
	t.Cleanup(mirror.Close)
	roots := filepath.Join(h.dir, "roots.pem")
	system, _ := os.ReadFile(os.Getenv("SSL_CERT_FILE")) // the mirror trusts the same certificates as npm
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: mirror.Certificate().Raw})
	if err := os.WriteFile(roots, append(append(system, '\n'), own...), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", roots)
	policy := filepath.Join(h.dir, ".ai", "policy.yaml")
	text, err := os.ReadFile(policy)
	if err == nil {
		err = os.WriteFile(policy, fmt.Appendf(text, "\ninside: [\"%s\"]\n", mirror.Listener.Addr()), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return mirror.URL, asked
}
