//go:build peers && linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
)

// TestLockOnTerminal: rye lock and rye update show an unknown signer of what rye.yaml requires, and ask once whether
// to trust the key. Without consent nothing is trusted or locked.
func TestLockOnTerminal(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	environ := func(home string) []string {
		return []string{"HOME=" + filepath.Join(dir, home), "LANG=C.UTF-8", "TERM=dumb",
			"GOCOVERDIR=" + os.Getenv("GOCOVERDIR")}
	}
	rye := func(home, project string, args ...string) string {
		t.Helper()
		h, stdout, stderr := testHost(environ(home)...)
		h.Now = time.Now
		if got := cli.Run(h, commands(), append([]string{"-C", filepath.Join(dir, project)},
			args...)); got != fault.ExitDone {
			t.Fatalf("%s: %d, %s", args, got, stderr)
		}
		return stdout.String()
	}
	write("alice/x", "")
	write("made/rye.yaml", "")
	write("made/bundle.yaml", "id: acme/hello\nversion: 1.0.0\n")
	write("made/.ai/knowledge/acme/hello/note.md",
		"---\nid: note\ntitle: Note\nversion: 1.0.0\nentry_type: reference\n---\nA note.\n")
	write("dist/x", "")
	rye("alice", "made", "key", "new", "-q")
	rye("alice", "made", "sign", "--all", "--yes")
	rye("alice", "made", "bundle", "create")
	rye("alice", "made", "bundle", "export", "-o", filepath.Join(dir, "dist", "hello.tar.zst"))
	rye("alice", "made", "bundle", "index", filepath.Join(dir, "dist"), "--name", "acme/bundles")
	for name, c := range map[string]struct {
		command, answer string
		status          int
	}{
		"lock":   {"lock", "y", fault.ExitDone},
		"update": {"update", "y", fault.ExitDone},
		"no":     {"lock", "n", fault.ExitRefused},
	} {
		t.Run(name, func(t *testing.T) {
			project := filepath.Join(dir, name)
			write(name+"/home/x", "")
			write(name+"/rye.yaml", "requires:\n  acme/hello: {version: \"*\", index: \"../dist\"}\n")
			rye(name+"/home", name, "key", "new", "-q")
			shown, status := onPTY(t, project, environ(name+"/home"), "[y/N] ", []string{c.answer}, c.command)
			if status != c.status || !strings.Contains(shown, "fingerprint  ") ||
				!strings.Contains(shown, "trust this key for acme/**?") {
				t.Fatalf("%d: %s", status, shown)
			}
			_, err := os.Stat(filepath.Join(project, "rye.lock"))
			trusted := strings.Contains(rye(name+"/home", name, "trust", "list"), "acme/**")
			if yes := c.answer == "y"; (err == nil) != yes || trusted != yes {
				t.Errorf("locked: %v, trusted: %v: %s", err, trusted, shown)
			}
		})
	}
}
