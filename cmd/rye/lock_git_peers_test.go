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
	"regexp"
	"strings"
	"testing"

	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
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

// TestPluginGit: an unsigned plugin comes from a branch of a repository. It is locked at a commit, runs from there and
// from what is vendored, and stays until an update shows what has changed.
func TestPluginGit(t *testing.T) {
	h := newTrustHome(t)
	sandboxtest.Removable(t, h.dir)
	greeter := &lockedProject{h, filepath.Join(h.dir, "repositories", "greeter.git"), nil}
	commit := func(files map[string]string) string {
		t.Helper()
		for name, text := range files {
			greeter.put("sub/"+name, text)
		}
		git(t, greeter.project, "add", "-A")
		git(t, greeter.project, "commit", "-q", "-m", "next")
		return strings.TrimSpace(git(t, greeter.project, "rev-parse", "HEAD"))
	}
	greeter.put("sub/skills/talk/SKILL.md", "---\nname: talk\ndescription: Talks\n---\nTalk.\n")
	git(t, greeter.project, "init", "-q")
	if err := os.Symlink("../../note.md", greeter.path("sub/skills/talk/note.md")); err != nil {
		t.Fatal(err)
	}
	first := commit(map[string]string{"note.md": "One.\n",
		"plugin.json": `{"$schema": "` + plugin.ManifestSchema + `", "name": "greeter", "version": "1.0.0"}`})
	url := "git+" + gitServer(t, h, filepath.Join(h.dir, "repositories")) + "/greeter.git/.git"
	from := url + "?dir=sub@main"

	p := h.lockedProject(filepath.Join(h.dir, "project"), 1)
	p.in("lock")
	admits := regexp.MustCompile(`trust add (blake3:[0-9a-f]{64}) --as (bundle:plugins/greeter@1\.0\.0\+[0-9a-f]{12})`)
	// admit lets the policy admit what a refused command names.
	admit := func(args ...string) {
		t.Helper()
		out, err := p.command(append(args, "-C", p.project)...).CombinedOutput()
		line := admits.FindSubmatch(out)
		if err == nil || line == nil || !strings.Contains(string(out), `"code":"UNSIGNED"`) {
			t.Fatalf("%q: %v: %s", args, err, out)
		}
		h.must("trust", "add", string(line[1]), "--as", string(line[2]))
	}
	note := func(want string, flags ...string) {
		t.Helper()
		out := p.in(append(flags, "exec", "plugins/greeter/skills/talk/skill", "-p", "path=note.md")...)
		if !strings.Contains(out, want) {
			t.Fatalf("not %q: %s", want, out)
		}
	}
	admit("add", from)
	if p.get("rye.lock") == "" || strings.Contains(p.get("rye.lock")+p.get("rye.yaml"), "greeter") {
		t.Fatal("half of it was added")
	}
	p.in("add", from)
	if !strings.Contains(p.get("rye.lock"), `from: "`+url+"?dir=sub@"+first+`"}`) {
		t.Fatalf("not at %s:\n%s", first, p.get("rye.lock"))
	}
	p.in("verify", "**")
	p.in("lock", "--check")
	note("One.")

	// The branch moves on without an update.
	second := commit(map[string]string{"note.md": "Two.\n"})
	before := p.get("rye.lock")
	p.in("lock")
	p.in("fetch")
	if p.get("rye.lock") != before {
		t.Error("the lock changed with the branch")
	}
	note("One.")
	if out, err := p.command("outdated", "-C", p.project).CombinedOutput(); err == nil ||
		!strings.Contains(string(out), `"latest":"changed"`) {
		t.Errorf("outdated: %v: %s", err, out)
	}
	admit("update")
	p.in("update")
	if !strings.Contains(p.get("rye.lock"), "@"+second+`"}`) {
		t.Fatalf("not at %s:\n%s", second, p.get("rye.lock"))
	}
	note("Two.")

	// Another machine has only the lock. Then nothing is fetched any more.
	forget := func() {
		t.Helper()
		if err := os.RemoveAll(filepath.Join(h.dir, ".local")); err != nil {
			t.Fatal(err)
		}
	}
	forget()
	p.in("fetch")
	p.in("--offline", "lock", "--check")
	note("Two.", "--offline")
	p.in("vendor")
	p.in("vendor", "--check")
	forget()
	if err := os.RemoveAll(filepath.Join(h.dir, "repositories", "greeter.git")); err != nil {
		t.Fatal(err)
	}
	p.in("--offline", "fetch")
	note("Two.", "--offline")
}
