//go:build peers && unix

package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rye-build/rye/cas/fault"
)

// TestOtherUser needs root: what a user does with a thread of another one, in a project that both may write to, is
// refused with the next command, and what the other's transcript says can be seen only if the other lets everybody
// read it.
func TestOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test needs root, to become another user")
	}
	self, err := exec.LookPath("rye")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "rye-other")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	binary, err := os.ReadFile(self)
	if err := errors.Join(err, os.WriteFile(filepath.Join(dir, "rye"), binary, 0o755),
		os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	const mine, theirs = 4242, 4343
	const thread = "acme/deploy-1795000000-k3v9q"
	at := filepath.Join(dir, "p", ".ai", "threads", filepath.FromSlash(thread))
	for _, path := range []string{"p/rye.yaml", "p/.git/HEAD", "home/.ai/x"} {
		path = filepath.Join(dir, filepath.FromSlash(path))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.MkdirAll(at, 0o755),
		os.WriteFile(filepath.Join(at, "transcript.jsonl"), []byte("{}\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		owner := mine
		if strings.HasPrefix(path, at) {
			owner = theirs
		}
		return errors.Join(err, os.Chown(path, owner, owner))
	})
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (string, int) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "rye"), append(args, "--json")...)
		cmd.Dir, cmd.Env = filepath.Join(dir, "p"),
			[]string{"HOME=" + filepath.Join(dir, "home"), "GOCOVERDIR=" + coverDir()}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: mine, Gid: mine}}
		out, _ := cmd.Output()
		return string(out), cmd.ProcessState.ExitCode()
	}
	for _, args := range [][]string{{"key", "new"}, {"lock"}} {
		if out, status := run(args...); status != fault.ExitDone {
			t.Fatalf("%q: %d, %s", args, status, out)
		}
	}
	for name, next := range map[string]string{"0755": "rye thread show " + thread, "0700": "rye thread list --all"} {
		mode := fs.FileMode(0o755)
		if name == "0700" {
			mode = 0o700
		}
		if err := os.Chmod(at, mode); err != nil {
			t.Fatal(err)
		}
		commands := []string{"wait", "result", "cancel", "kill", "tree", "resume", "handoff"}
		if mode == 0o700 {
			commands = append(commands, "show", "verify", "logs", "replay", "export", "cost")
		}
		for _, c := range commands {
			args := []string{"thread", c, thread}
			if c == "export" {
				args = append(args, "-o", filepath.Join(dir, "home", "x.zst"))
			}
			out, status := run(args...)
			if status != fault.ExitRefused || !strings.Contains(out, `"code":"PERMISSION_DENIED"`) ||
				!strings.Contains(out, "belongs to another user") ||
				!strings.Contains(out, `"suggestion":"`+next+`"`) {
				t.Errorf("%s %s: %d, %s", name, c, status, out)
			}
		}
	}
}
