package main

//lint:file-ignore SA1019 revisions before 2026-07-28 have roots

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/lock/web/webtest"
)

// TestMCPRoots: a server that was started outside of any project serves the one that its client's only root is in.
func TestMCPRoots(t *testing.T) {
	dir, env := modelProject(t, modeltest.New(t), "Wipe.", "Sign.")
	cmd := exec.CommandContext(t.Context(), "rye", "mcp", "serve", "--unlocked")
	cmd.Env, cmd.Dir = env, t.TempDir()
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	c.AddRoots(&mcp.Root{URI: "file://" + filepath.Join(dir, ".ai")})
	client, err := c.Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, given := range []map[string]any{{}, {"project_path": filepath.Join(dir, ".ai", "tools")},
		{"project_path": "/"}} {
		given["item_type"], given["item_id"] = "tool", "acme/print"
		r, err := client.CallTool(t.Context(), &mcp.CallToolParams{Name: "execute", Arguments: given})
		if err != nil {
			t.Fatal(err)
		}
		if text := r.Content[0].(*mcp.TextContent).Text; r.IsError != (given["project_path"] == "/") {
			t.Errorf("%v: %s", given, text)
		}
	}
}

// certified writes a certificate of this machine's address and its key, and returns what trusts it.
func certified(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	made, roots := webtest.Certificate(t)
	secret, err := x509.MarshalPKCS8PrivateKey(made.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: made.Certificate[0]},
		"key.pem": {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return roots
}

// TestServeTLS: with a certificate rye serves https, and standard error says where.
func TestServeTLS(t *testing.T) {
	dir, env := modelProject(t, modeltest.New(t), "Wipe.", "Sign.")
	pool := certified(t, dir)
	rye := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "rye", args...)
		cmd.Env, cmd.Dir = env, dir
		return cmd
	}
	if out, err := rye("serve", "token", "add", "laptop", "-q").CombinedOutput(); err != nil {
		t.Fatalf("%v, %s", err, out)
	}
	cmd := rye("serve", "--unlocked", "--listen", "127.0.0.1:0", "--tls-cert", "cert.pem", "--tls-key", "key.pem")
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stderr).ReadString('\n')
	at := regexp.MustCompile(`https://127\.0\.0\.1:[0-9]+/`).FindString(line)
	if err != nil || at == "" {
		t.Fatal(line, err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool},
		DisableKeepAlives: true}}
	for path, want := range map[string]int{"healthz": http.StatusOK, "readyz": http.StatusOK,
		"mcp": http.StatusUnauthorized} {
		answer, err := client.Get(at + path)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%s: %s", path, answer.Status)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if out, err := rye("__complete", "--", "serve", "token", "remove", "").Output(); err != nil ||
		!strings.Contains(string(out), "laptop") {
		t.Errorf("%v, %s", err, out)
	}
}
