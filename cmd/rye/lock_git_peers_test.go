//go:build peers && linux

package main

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// gitServer serves the repositories below a directory by https, and lets the policy of the user name it.
func gitServer(t *testing.T, h trustHome, root string) string {
	t.Helper()
	where, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		(&cgi.Handler{Path: filepath.Join(strings.TrimSpace(string(where)), "git-http-backend"),
			InheritEnv: []string{"PATH"},
			Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1",
				"GIT_PROTOCOL=" + r.Header.Get("Git-Protocol"), "GIT_CONFIG_COUNT=1",
				"GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}}).ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	roots := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", roots)
	policy := filepath.Join(h.dir, ".ai", "policy.yaml")
	text, err := os.ReadFile(policy)
	if err == nil {
		err = os.WriteFile(policy, fmt.Appendf(text, "\ninside: [\"%s\"]\n", server.Listener.Addr()), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return server.URL
}

// TestLockGit lets a project use a bundle from a branch: it is locked at a commit, stays there when the branch goes
// on, and comes from there, or from what is here.
func TestLockGit(t *testing.T) {
	h := newTrustHome(t)
	base := h.lockedProject(filepath.Join(h.dir, "repositories", "base.git"), 2)
	release := func(version string) string {
		base.put("bundle.yaml", "id: base\nversion: "+version+
			"\ndescription: Base\nlicense: MIT\ninclude: [\".ai/tools/**\"]\n")
		base.in("bundle", "create")
		git(t, base.project, "add", "-A")
		git(t, base.project, "commit", "-q", "-m", version)
		return strings.TrimSpace(git(t, base.project, "rev-parse", "HEAD"))
	}
	git(t, filepath.Dir(base.project), "init", "-q", "base.git")
	first := release("1.0.0")
	git(t, base.project, "tag", "-m", "one", "v1.0.0")
	url := "git+" + gitServer(t, h, filepath.Join(h.dir, "repositories")) + "/base.git/.git"

	p := h.lockedProject(filepath.Join(h.dir, "project"), 1)
	locked := func() string {
		t.Helper()
		b, err := os.ReadFile(p.path("rye.lock"))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	pinned := func(version, commit string) {
		t.Helper()
		if text := locked(); !strings.Contains(text, `"base": {version: "`+version+`", manifest: `) ||
			!strings.Contains(text, `from: "`+url+"@"+commit+`"}`) {
			t.Fatalf("not %s at %s:\n%s", version, commit, text)
		}
	}
	p.in("add", "base", "--from", url+"@main")
	pinned("1.0.0", first)
	p.in("lock", "--check")

	// The branch moves on without an update.
	second := release("1.1.0")
	before := locked()
	p.in("lock")
	p.in("fetch")
	if locked() != before {
		t.Error("the lock changed with the branch")
	}
	out, err := p.command("outdated", "-C", p.project).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "1.1.0") {
		t.Errorf("outdated: %v: %s", err, out)
	}
	p.in("update", "base")
	pinned("1.1.0", second)

	// A tag is another revision of the same place, and no other source.
	p.in("add", "base@*", "--from", url+"@v1.0.0")
	pinned("1.0.0", first)

	// Another machine has only the lock. Then nothing is fetched any more.
	if err := os.RemoveAll(filepath.Join(h.dir, ".local")); err != nil {
		t.Fatal(err)
	}
	p.in("fetch")
	p.in("--offline", "lock")
	p.in("--offline", "lock", "--check")
	p.in("vendor")
	pinned("1.0.0", first)

	// What isn't there is said, and changes nothing.
	before = locked()
	for _, revision := range []string{"@none", "@" + strings.Repeat("a", 40)} {
		if out, err := p.command("add", "base@*", "--from", url+revision, "-C",
			p.project).CombinedOutput(); err == nil {
			t.Errorf("%s: %s", revision, out)
		}
	}
	if locked() != before {
		t.Error("the lock changed")
	}
	left, err := filepath.Glob(filepath.Join(h.dir, "cache", "rye", "git", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}
