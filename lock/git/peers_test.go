//go:build peers

package git

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A server has repositories by https, as git's own program for that gives them.
type server struct {
	t    testing.TB
	root string
	url  string
	vars map[string]string

	mu    sync.Mutex
	asked []string
}

func newServer(t testing.TB) *server {
	t.Helper()
	where, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, root: t.TempDir()}
	backend := &cgi.Handler{Path: filepath.Join(strings.TrimSpace(string(where)), "git-http-backend"),
		Env:        []string{"GIT_PROJECT_ROOT=" + s.root, "GIT_HTTP_EXPORT_ALL=1"},
		InheritEnv: []string{"PATH"}}
	mux := http.NewServeMux()
	mux.HandleFunc("/moved.git/", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/open.git/"+strings.TrimPrefix(r.URL.RequestURI(), "/moved.git/"), http.StatusFound)
	})
	mux.HandleFunc("/secret.git/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked = append(s.asked, r.URL.Path)
		s.mu.Unlock()
		// As net/http/cgi doesn't: git asks for the new protocol by it.
		handler := *backend
		handler.Env = append(slices.Clip(handler.Env), "GIT_PROTOCOL="+r.Header.Get("Git-Protocol"))
		handler.ServeHTTP(w, r)
	})
	web := httptest.NewTLSServer(mux)
	t.Cleanup(web.Close)
	roots := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}),
		0o600); err != nil {
		t.Fatal(err)
	}
	s.url, s.vars = web.URL, map[string]string{"PATH": os.Getenv("PATH"), "GIT_SSL_CAINFO": roots}
	return s
}

// run is a Runner with the git of this machine.
func run(ctx context.Context, c Command) (int, error) {
	cmd := exec.CommandContext(ctx, "git", c.Args...)
	cmd.Env, cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Env, c.Dir, c.Stdin, c.Stdout, c.Stderr
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); ended {
		err = nil
	}
	return cmd.ProcessState.ExitCode(), err
}

func (s *server) client() *Client {
	return New(Options{Run: run, Dir: filepath.Join(s.t.TempDir(), "git"), Vars: s.vars, Reach: anywhere})
}

// git runs git where a repository is made.
func (s *server) git(dir string, args ...string) string {
	s.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=A", "-c", "user.email=a@example.com", "-c",
		"protocol.file.allow=always", "-c", "init.defaultBranch=main"}, args...)...)
	cmd.Dir = filepath.Join(s.root, dir)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "HOME="+s.root)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("git %q: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (s *server) write(name, text string, mode os.FileMode) {
	s.t.Helper()
	path := filepath.Join(s.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		s.t.Fatal(err)
	}
}

// TestReal reads what real git has written, of both kinds of names, over https.
func TestReal(t *testing.T) {
	s := newServer(t)
	for _, format := range []string{"sha1", "sha256"} {
		repo := format + ".git"
		s.git(".", "init", "--quiet", "--object-format="+format, repo)
		s.write(repo+"/sub/a", "one\r\n", 0o644)
		s.write(repo+"/sub/run", "#!/bin/sh\n", 0o755)
		s.git(repo, "add", ".")
		s.git(repo, "commit", "--quiet", "-m", "first")
		first := s.git(repo, "rev-parse", "HEAD")
		s.git(repo, "tag", "-a", "-m", "tag", "v1")
		s.git(repo, "branch", "team/next")
		s.write(repo+"/sub/a", "two", 0o644)
		s.git(repo, "commit", "--quiet", "-am", "second")
		second := s.git(repo, "rev-parse", "HEAD")
		c := s.client()
		for revision, want := range map[string]string{"": second, "main": second, "v1": first, "team/next": first,
			"refs/tags/v1": first} {
			if got, err := c.Resolve(t.Context(), s.url+"/"+repo+"/.git", revision); err != nil || got != want {
				t.Errorf("%s %q: %s, %v; want %s", format, revision, got, err, want)
			}
		}
		for id, want := range map[string]string{first: "one\r\n", second: "two"} {
			k, err := c.Fetch(t.Context(), s.url+"/"+repo+"/.git", id)
			if err != nil {
				t.Fatal(err)
			}
			if got, exec, err := read(t, k, "sub/a", 100); err != nil || got != want || exec {
				t.Errorf("%s: %q, %t, %v", format, got, exec, err)
			}
			if got, exec, err := read(t, k, "sub/run", 100); err != nil || got != "#!/bin/sh\n" || !exec {
				t.Errorf("%s: %q, %t, %v", format, got, exec, err)
			}
			// The parents aren't fetched.
			if deep, err := filepath.Glob(filepath.Join(k.dir, "repository", "shallow")); err != nil || id == second &&
				len(deep) != 1 {
				t.Errorf("%s: the fetch isn't shallow: %v", format, err)
			}
			if err := k.Close(); err != nil {
				t.Error(err)
			}
		}
		if left, err := os.ReadDir(c.o.Dir); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	}
}

// TestHostile reads a repository that has everything in it by which others were brought to start something, on a
// machine whose own settings would start something too.
func TestHostile(t *testing.T) {
	s := newServer(t)
	mark := filepath.Join(t.TempDir(), "mark")
	evil := "#!/bin/sh\ntouch " + mark + "\n"
	s.git(".", "init", "--quiet", "open.git")
	s.git(".", "init", "--quiet", "other")
	s.write("other/x", "x", 0o644)
	s.git("other", "add", ".")
	s.git("other", "commit", "--quiet", "-m", "x")
	s.write("open.git/a", "plain", 0o644)
	s.write("open.git/evil.sh", evil, 0o755)
	s.write("open.git/.gitattributes", "* filter=evil ident eol=crlf\n", 0o644)
	s.write("open.git/.githooks/post-checkout", evil, 0o755)
	s.write("open.git/lfs", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n", 0o644)
	s.git("open.git", "-c", "filter.evil.clean=cat", "submodule", "--quiet", "add", "--name", "m",
		filepath.Join(s.root, "other"), "module")
	s.write("open.git/.gitmodules", "[submodule \"m\"]\n\tpath = module\n\turl = ext::sh -c touch% "+mark+
		"\n\tupdate = !touch "+mark+"\n", 0o644)
	if err := os.Symlink("/etc/passwd", filepath.Join(s.root, "open.git", "link")); err != nil {
		t.Fatal(err)
	}
	s.git("open.git", "-c", "filter.evil.clean=cat", "add", ".")
	s.git("open.git", "commit", "--quiet", "-m", "evil")
	id := s.git("open.git", "rev-parse", "HEAD")
	s.git("open.git", "config", "uploadpack.packObjectsHook", filepath.Join(s.root, "open.git", "evil.sh"))
	for _, hook := range []string{"post-checkout", "post-merge", "reference-transaction", "post-index-change"} {
		s.write("open.git/.git/hooks/"+hook, evil, 0o755)
	}
	// What the user's own settings say, and the variables of the caller.
	home := t.TempDir()
	config := "[core]\n\thooksPath = " + filepath.Join(s.root, "open.git", ".git",
		"hooks") + "\n\tfsmonitor = " + filepath.Join(s.root, "open.git", "evil.sh") + "\n" +
		"[credential]\n\thelper = !touch " + mark + "\n[url \"ext::sh -c touch% " + mark +
		";exit% \"]\n\tinsteadOf = " + s.url + "\n[protocol]\n\tallow = always\n"
	for name, text := range map[string]string{".gitconfig": config,
		".netrc": "machine 127.0.0.1 login a password b\n"} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, v := range map[string]string{"HOME": home, "XDG_CONFIG_HOME": home, "GIT_CONFIG_COUNT": "1",
		"GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": "touch " + mark,
		"GIT_ASKPASS":      filepath.Join(s.root, "open.git", "evil.sh"),
		"GIT_TEMPLATE_DIR": filepath.Join(s.root, "open.git", ".git"),
		"GIT_DIR":          filepath.Join(s.root, "open.git", ".git")} {
		t.Setenv(name, v)
	}
	s.vars["HOME"] = home
	c := s.client()
	place := s.url + "/open.git/.git"
	k, err := c.Fetch(t.Context(), place, id)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	for name, want := range map[string]string{"a": "plain", "evil.sh": evil,
		"lfs": "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"} {
		if got, _, err := read(t, k, name, 1000); err != nil || got != want {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]string{"link": "a symbolic link", "module": "a submodule",
		"module/x": "a submodule"} {
		if _, _, err := read(t, k, name, 1000); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if entries, err := filepath.Glob(filepath.Join(k.dir, "repository", "hooks", "*")); err != nil ||
		len(entries) > 0 {
		t.Errorf("hooks came along: %q, %v", entries, err)
	}
	if _, err := c.Resolve(t.Context(), s.url+"/secret.git", ""); err == nil {
		t.Error("a repository that asks for a password is read")
	}
	if _, err := c.Resolve(t.Context(), s.url+"/moved.git/.git", ""); err == nil {
		t.Error("a redirect is followed")
	}
	if _, err := c.Fetch(t.Context(), s.url+"/moved.git/.git", id); err == nil {
		t.Error("a redirect is followed")
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("something was started")
	}
	// The same settings do start something where they count, so that the test could fail.
	cmd := exec.Command("git", "-c", "core.hooksPath=/dev/null", "ls-remote", s.url+"/secret.git")
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	out, _ := cmd.CombinedOutput()
	if _, err := os.Stat(mark); err != nil {
		t.Errorf("the trap doesn't work: %v: %s", err, out)
	}
}

// TestRefused asks for what a server doesn't have, and keeps git from starting what is no repository of a server.
func TestRefused(t *testing.T) {
	s := newServer(t)
	s.git(".", "init", "--quiet", "open.git")
	s.write("open.git/a", "x", 0o644)
	s.git("open.git", "add", ".")
	s.git("open.git", "commit", "--quiet", "-m", "x")
	id := s.git("open.git", "rev-parse", "HEAD")
	blob := s.git("open.git", "rev-parse", "HEAD:a")
	c := s.client()
	if _, err := c.Fetch(t.Context(), s.url+"/open.git/.git", strings.Repeat("a", 40)); err == nil ||
		!strings.Contains(err.Error(), "not our ref") {
		t.Errorf("a commit that isn't there: %v", err)
	}
	if _, err := c.Fetch(t.Context(), s.url+"/open.git/.git", blob); err == nil {
		t.Error("a file is a commit")
	}
	if _, err := c.Fetch(t.Context(), s.url+"/none.git", id); err == nil {
		t.Error("a repository that isn't there has a commit")
	}
	// Without the variable git would take these, though the address is checked before.
	for _, address := range []string{"file://" + s.root + "/open.git", filepath.Join(s.root, "open.git"),
		"ext::git %s /open.git"} {
		var out bytes.Buffer
		if err := c.run(t.Context(), t.TempDir(), address, nil, &out, "ls-remote", "--", address); err == nil ||
			!strings.Contains(err.Error(), "not allowed") {
			t.Errorf("%q: %v", address, err)
		}
	}
	unknown := New(Options{Run: run, Dir: c.o.Dir, Vars: map[string]string{"PATH": os.Getenv("PATH")},
		Reach: anywhere})
	if _, err := unknown.Resolve(t.Context(), s.url+"/open.git/.git", ""); err == nil {
		t.Error("an unknown server is believed")
	}
	// A name that leads nowhere is found where the caller says that it is, and the other way round.
	told := New(Options{Run: run, Dir: c.o.Dir, Vars: s.vars,
		Reach: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		}})
	named := strings.Replace(s.url, "127.0.0.1", "example.com", 1) + "/open.git/.git"
	if got, err := told.Resolve(t.Context(), named, ""); err != nil || got != id {
		t.Errorf("a name that was looked up: %s, %v", got, err)
	}
	told.o.Reach = func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("127.0.0.2")}, nil
	}
	asked := len(s.asked)
	if _, err := told.Resolve(t.Context(), strings.Replace(named, "example.com", "localhost", 1), ""); err == nil ||
		len(s.asked) > asked {
		t.Error("git has looked a name up itself")
	}
	// A server that only has files is none: what it says is in no protocol that has a limit.
	asked = len(s.asked)
	if _, err := c.Resolve(t.Context(), s.url+"/open.git/.git/objects", ""); err == nil || len(s.asked) == asked {
		t.Errorf("files are a repository: %v", err)
	}
}
