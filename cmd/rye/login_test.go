package main

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rye-build/rye/exec/oauth/oauthtest"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
)

// A browser reads what a command says, and goes where an address in a line of its own leads.
type browser struct{ strings.Builder }

func (b *browser) Write(text []byte) (int, error) {
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "http") {
			go func() {
				if answer, err := http.Get(strings.TrimSpace(line)); err == nil {
					answer.Body.Close()
				}
			}()
		}
	}
	return b.Builder.Write(text)
}

// TestAuthLogin: a user signs in to a server with a browser, a tool uses the token as a secret, and gets the next one
// when it is over; what a server refuses is an error.
func TestAuthLogin(t *testing.T) {
	server := oauthtest.New(t)
	server.Behind = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(`{"in": true}`))
	})
	var full atomic.Bool
	register := server.Register
	server.Register = func(w http.ResponseWriter, r *http.Request) {
		if full.Load() {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		register(w, r)
	}
	dir := t.TempDir()
	sandboxtest.Removable(t, dir)
	home, project := filepath.Join(dir, "home"), filepath.Join(dir, "project")
	for name, text := range map[string]string{
		"project/.ai/tools/acme/get.yaml": `version: "1.0.0"
tool_type: http
executor_id: rye/core/primitives/http_client
category: acme
description: Asks the server
secrets: [acme-web]
network: ["` + strings.TrimPrefix(server.URL, "http://") + `"]
config: {url: "` + server.URL + `/mcp", auth: {type: bearer, token: "${ACME_WEB}"}}
`,
		"home/.ai/keep": "",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	rye := func(args ...string) *exec.Cmd {
		c := exec.CommandContext(t.Context(), "rye", args...)
		c.Dir = project
		c.Env = []string{"HOME=" + home, "LANG=C.UTF-8", "PATH=" + os.Getenv("PATH"), "GOCOVERDIR=" + coverDir()}
		return c
	}
	must := func(args ...string) string {
		t.Helper()
		out, err := rye(args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	// login signs in with a browser that goes where it is led.
	login := func(args ...string) (string, error) {
		t.Helper()
		c := rye(append([]string{"auth", "login"}, args...)...)
		b := new(browser)
		c.Stderr = b
		err := c.Run()
		return b.String(), err
	}
	must("init", "-q", "--yes")
	policy := filepath.Join(home, ".ai", "policy.yaml")
	text, err := os.ReadFile(policy)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(policy, append(text, "exec:\n  secrets: {acme-web: [\"tool:acme/get\"]}\n"...),
		0o644); err != nil {
		t.Fatal(err)
	}
	must("sign", "--all", "-q")
	must("add", "-q", "tool:acme/get")
	if said, err := login("acme-web", server.URL+"/mcp", "--file"); err != nil ||
		!strings.Contains(said, `the token is stored as the secret "acme-web"`) {
		t.Fatalf("%v\n%s", err, said)
	}
	list := must("auth", "list", "--json")
	if !strings.Contains(list, `"from":"oauth"`) || strings.Contains(list, "access-token") ||
		strings.Contains(list, "refresh") {
		t.Error(list)
	}
	if got := must("exec", "tool:acme/get"); !strings.Contains(got, `{"in": true}`) {
		t.Error(got)
	}
	if out, err := rye("auth", "login", "acme-web", server.URL+"/mcp", "--offline").CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "signing in needs the network") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := rye("auth", "login", "acme web", server.URL+"/mcp").CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "invalid secret name") {
		t.Errorf("%v\n%s", err, out)
	}
	full.Store(true)
	if said, err := login("other", server.URL+"/mcp", "--file", "--json"); err == nil {
		t.Error(said)
	}
	// A client that was registered by hand has a secret, which is one of the user's.
	if said, err := login("other", server.URL+"/mcp", "--client-secret", "mine"); err == nil ||
		!strings.Contains(said, "--client-secret needs --client-id") {
		t.Errorf("%v\n%s", err, said)
	}
	if said, err := login("other", server.URL+"/mcp", "--file", "--client-id", "mine", "--client-secret",
		"mine"); err == nil || !strings.Contains(said, `the secret "mine" is not set`) {
		t.Errorf("%v\n%s", err, said)
	}
	server.Token = func(w http.ResponseWriter, r *http.Request) {
		if id, secret, _ := r.BasicAuth(); id != "mine" || secret != "s3cret-of-mine" {
			t.Errorf("%q %q", id, secret)
		}
		server.Tokens(w, r)
	}
	keep := rye("auth", "set", "mine", "--file")
	keep.Stdin = strings.NewReader("s3cret-of-mine")
	if out, err := keep.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if said, err := login("other", server.URL+"/mcp", "--file", "--client-id", "mine", "--client-secret",
		"mine"); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
	server.Token = server.Tokens
	if said, err := login("other", server.URL+"/mcp", "--file", "--client-id", "mine", "--scope", "few"); err != nil ||
		!strings.Contains(said, "no item may use it yet") {
		t.Errorf("%v\n%s", err, said)
	}
}
