package main

import (
	"bufio"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
)

var isRequest = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f-]{18}`)

// ryeIn runs a command in a directory, and returns what it prints.
func ryeIn(t *testing.T, dir string, env []string, args ...string) (out string, status int) {
	t.Helper()
	h, stdout, stderr := testHost(env...)
	h.Now = time.Now
	status = cli.Run(h, commands(), append([]string{"-C", dir}, args...))
	return stdout.String() + stderr.String(), status
}

// TestApprovedElsewhere: a question on the terminal ends when another command answers.
func TestApprovedElsewhere(t *testing.T) {
	for answer, want := range map[string]int{"approve": fault.ExitDone, "deny": fault.ExitRefused} {
		dir, env := wipeProject(t)
		policy := dir + "/home/.ai/policy.yaml"
		b, err := os.ReadFile(policy)
		if err == nil {
			err = os.WriteFile(policy, append(b, "\nask:\n  wipes: {names: [\"tool:acme/wipe\"]}\n"...), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		s := onTerminal(t, dir, env, "exec", "tool:acme/wipe", "--unlocked", "-p", "path=one")
		s.until("[y/N] ")
		list, _ := ryeIn(t, dir, env, "approvals")
		if out, status := ryeIn(t, dir, env, answer, isRequest.FindString(list)[:8]); status != fault.ExitDone {
			t.Errorf("%s: %d, %s", answer, status, out)
		}
		if shown, status := s.end(); status != want || strings.Contains(shown, `"wiped"`) != (want == fault.ExitDone) {
			t.Errorf("%s: %d, %s", answer, status, shown)
		}
	}
}

// TestWaitingEnds: a process that waits for an approval may be stopped or killed: the thread waits, and goes on with
// the answer.
func TestWaitingEnds(t *testing.T) {
	for _, signal := range []os.Signal{syscall.SIGTERM, os.Interrupt, os.Kill} {
		dir, env := wipeProject(t, `call acme_wipe {"path": "one"}`)
		cmd := exec.CommandContext(t.Context(), "rye", "run", "acme/wipe", "--unlocked")
		cmd.Dir, cmd.Env = dir, env
		stderr, err := cmd.StderrPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		id := ""
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			if strings.Contains(lines.Text(), "rye approve ") {
				id = isRequest.FindString(lines.Text())
				cmd.Process.Signal(signal)
			}
		}
		cmd.Wait()
		if cmd.ProcessState.Success() || id == "" {
			t.Fatalf("%s: %s, request %q", signal, cmd.ProcessState, id)
		}
		list, _ := ryeIn(t, dir, env, "thread", "list", "--state", "waiting")
		thread := regexp.MustCompile(`acme/wipe-[0-9]+-[a-z0-9]{5}`).FindString(list)
		if thread == "" {
			t.Fatalf("%s: no thread waits: %s", signal, list)
		}
		if out, status := ryeIn(t, dir, env, "approve", id); status != fault.ExitDone {
			t.Errorf("%s: %d, %s", signal, status, out)
		}
		resume := exec.CommandContext(t.Context(), "rye", "thread", "resume", thread, "--unlocked")
		resume.Dir, resume.Env = dir, env
		if out, err := resume.CombinedOutput(); err != nil || !strings.Contains(string(out), "wiped") {
			t.Errorf("%s: %v, %s", signal, err, out)
		}
	}
}
