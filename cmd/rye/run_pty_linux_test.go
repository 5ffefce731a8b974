package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
)

const wipeTool = `# ---
# version: "1.0.0"
# category: acme
# description: Wipes nothing
# tool_type: starlark
# executor_id: rye/core/runtimes/starlark_runtime
# risk: destructive
# input_schema: {type: object, properties: {path: {type: string}, token: {type: string}}}
# ---
def main(params):
    return {"wiped": params["path"]}
`

const printTool = `version: 1.0.0
tool_type: script
executor_id: rye/core/primitives/subprocess
category: acme
description: Prints what a terminal would obey
risk: read
config: {command: probe, args: [print, "a\tb\u001b[2J"]}
`

const (
	mayExecute = "<permissions><execute><tool>acme/*</tool><tool>rye/agent/threads/*</tool></execute></permissions>"
	offersWipe = "<tools><tool>acme/wipe</tool></tools>"
	maySign    = "<permissions><sign><tool>acme/*</tool></sign></permissions>"
)

// directive is a directive with more in its metadata, which the model of modelProject follows.
func directive(name, more, text string) string {
	return fmt.Sprintf("```xml\n<directive name=%q version=\"1.0.0\"><metadata><description>d</description>"+
		"<category>acme</category><model provider=\"acme/providers/local\" id=\"m\"/>%s</metadata></directive>\n```\n%s\n",
		name, more, text)
}

// wipeProject is a project of a home's key, whose directive has a model call a tool of risk destructive, as often as
// it has lines "call".
func wipeProject(t *testing.T, calls ...string) (dir string, env []string) {
	t.Helper()
	server := modeltest.New(t)
	server.Handle(func(q *modeltest.Request) modeltest.Turn { turn, _ := directed(q); return turn })
	text := strings.Join(calls, "\n")
	return modelProject(t, server, text, text)
}

// modelProject is a project of a home's key with directives of these texts, which a server's model follows: acme/wipe,
// and acme/signing, whose model may sign.
func modelProject(t *testing.T, server *modeltest.Server, wipe, signing string) (dir string, env []string) {
	t.Helper()
	dir = t.TempDir()
	sandboxtest.Removable(t, dir)
	home := filepath.Join(dir, "home")
	provider := strings.ReplaceAll(server.Item("local"), "category: rye/agent/providers", "category: acme/providers")
	for name, text := range map[string]string{
		"rye.yaml":                            "",
		".git/HEAD":                           "",
		".ai/tools/acme/providers/local.yaml": provider,
		".ai/tools/acme/wipe.star":            wipeTool,
		".ai/tools/acme/print.yaml":           printTool,
		".ai/directives/acme/wipe.md":         directive("wipe", mayExecute+offersWipe, wipe),
		".ai/directives/acme/signing.md":      directive("signing", maySign, signing),
		"home/x":                              "",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	env = []string{"HOME=" + home, "LANG=C.UTF-8", "TERM=dumb", "PATH=" + os.Getenv("PATH"),
		"GOCOVERDIR=" + coverDir()}
	for _, args := range [][]string{{"key", "new", "-q"}, {"sign", "**", "--yes"}} {
		h, _, stderr := testHost(env...)
		h.Now = time.Now
		if got := cli.Run(h, commands(), append([]string{"-C", dir}, args...)); got != fault.ExitDone {
			t.Fatalf("%s: %d, %s", args, got, stderr)
		}
	}
	return dir, env
}

// A session is rye on a terminal.
type session struct {
	t      *testing.T
	cmd    *exec.Cmd
	master *os.File
	in     *bufio.Reader
	shown  strings.Builder
	typed  int // the length of what was shown when keys were typed last
}

// onTerminal starts rye in a directory on a terminal of its own, whose keys send it signals.
func onTerminal(t *testing.T, dir string, env []string, args ...string) *session {
	t.Helper()
	master, slave := openPTY(t)
	if err := unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 100}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "rye", args...)
	cmd.Dir, cmd.Env = dir, env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	late := time.AfterFunc(2*time.Minute, func() { cmd.Process.Kill() })
	t.Cleanup(func() { late.Stop() })
	return &session{t: t, cmd: cmd, master: master, in: bufio.NewReader(master)}
}

// until waits until what is shown since the last keys ends with a text.
func (s *session) until(text string) {
	s.t.Helper()
	for !strings.HasSuffix(s.shown.String()[s.typed:], text) {
		c, err := s.in.ReadByte()
		if err != nil {
			s.t.Fatalf("%s: %q isn't shown: %s", s.cmd.Args, text, s.shown.String())
		}
		s.shown.WriteByte(c)
	}
}

func (s *session) types(keys string) {
	s.t.Helper()
	s.typed = s.shown.Len()
	if _, err := io.WriteString(s.master, keys); err != nil {
		s.t.Fatal(err)
	}
}

// end waits for the end of rye, and returns what it has shown, with LF at the end of lines.
func (s *session) end() (shown string, status int) {
	s.t.Helper()
	io.Copy(&s.shown, s.in) // EIO once the process and the terminal are gone
	s.cmd.Wait()
	return strings.ReplaceAll(s.shown.String(), "\r\n", "\n"), s.cmd.ProcessState.ExitCode()
}

// onPTY runs rye in a directory on a terminal, and types an answer whenever what it shows ends with a prompt.
func onPTY(t *testing.T, dir string, env []string, prompt string, answers []string, args ...string) (shown string,
	status int) {
	t.Helper()
	s := onTerminal(t, dir, env, args...)
	for _, answer := range answers {
		s.until(prompt)
		s.types(answer + "\n")
	}
	return s.end()
}

// TestApproveOnTerminal: a person is shown what a call is, without secrets, and answers once, for the thread, or no.
func TestApproveOnTerminal(t *testing.T) {
	dir, env := wipeProject(t, `call acme_wipe {"path": "one", "token": "abcdef"}`, `call acme_wipe {"path": "two"}`,
		`call acme_wipe {"path": "three"}`)
	const prompt = "[N] no: "
	for _, c := range []struct {
		answers []string
		done    string
	}{
		{[]string{"y", "n", "t"}, "three"}, {[]string{"t"}, "three"}, {[]string{"n", "t"}, "three"},
		{[]string{"n", "", "y"}, "three"}, {[]string{"y", "y", "n"}, ""},
	} {
		shown, status := onPTY(t, dir, env, prompt, c.answers, "run", "acme/wipe", "--unlocked")
		if status != fault.ExitDone || strings.Count(shown, "run it?") != len(c.answers) ||
			strings.Contains(shown, "abcdef") ||
			!strings.Contains(shown, "tool:acme/wipe needs an approval: its risk is destructive") ||
			!strings.Contains(shown, `path: "one"`) ||
			!strings.Contains(shown, `token: "***REDACTED***"`) ||
			strings.Contains(shown, `"wiped":"three"`) != (c.done != "") {
			t.Errorf("%q: %d\n%s", c.answers, status, shown)
		}
	}
}

// TestExecApproveOnTerminal: rye exec asks where a policy says so.
func TestExecApproveOnTerminal(t *testing.T) {
	dir, env := wipeProject(t)
	policy := filepath.Join(dir, "home", ".ai", "policy.yaml")
	b, err := os.ReadFile(policy)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(policy, append(b, "\nask:\n  wipes: {names: [\"tool:acme/wipe\"]}\n"...),
		0o600); err != nil {
		t.Fatal(err)
	}
	for answer, want := range map[string]int{"y": fault.ExitDone, "n": fault.ExitRefused, "": fault.ExitRefused} {
		shown, status := onPTY(t, dir, env, "[y/N] ", []string{answer}, "exec", "tool:acme/wipe", "--unlocked", "-p",
			"path=one")
		if status != want || !strings.Contains(shown, `asked by "wipes" of your policy`) ||
			strings.Contains(shown, `"wiped"`) != (want == fault.ExitDone) {
			t.Errorf("%q: %d\n%s", answer, status, shown)
		}
	}
}

// TestSignOnTerminal: a model that asks for a signature gets it when the user says yes to the file that they are
// shown.
func TestSignOnTerminal(t *testing.T) {
	const asks = `call rye_sign {"item_type": "tool", "item_id": "acme/wipe"}`
	for answer, want := range map[string]string{"y": `"changed":true`, "n": "the user declined to sign",
		"": "the user declined to sign"} {
		dir, env := wipeProject(t, asks)
		tool := filepath.Join(dir, ".ai", "tools", "acme", "wipe.star")
		b, err := os.ReadFile(tool)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(tool, append(b, "# changed\n"...), 0o600); err != nil {
			t.Fatal(err)
		}
		shown, status := onPTY(t, dir, env, "[y/N] ", []string{answer}, "run", "acme/signing", "--unlocked",
			"--allow-sign")
		if status != fault.ExitDone || !strings.Contains(shown, "wants you to sign tool:acme/wipe: ") ||
			!strings.Contains(shown, want) {
			t.Errorf("%q: %d\n%s", answer, status, shown)
		}
		h, _, stderr := testHost(env...)
		h.Now = time.Now
		if got := cli.Run(h, commands(), []string{"-C", dir, "verify",
			"tool:acme/wipe"}); (got == fault.ExitDone) != (answer == "y") {
			t.Errorf("%q: verify: %d, %s", answer, got, stderr)
		}
	}
}

// TestLiveView: on a terminal the model's text comes at once and without what a terminal obeys, calls stand on lines
// of their own, those of a child below its parent's, and a line says what was spent of the budget, also by children.
func TestLiveView(t *testing.T) {
	server, goOn := modeltest.New(t), make(chan struct{})
	server.Handle(func(q *modeltest.Request) modeltest.Turn {
		if turn, ok := directed(q); ok {
			turn.Text = "I say\x1b[2J " + turn.Text
			return turn
		}
		<-goOn
		return modeltest.Turn{Text: "Child."}
	})
	dir, env := modelProject(t, server, "call acme_wipe {\"path\": \"one\"}\n"+
		`call rye_execute {"item_type": "tool", `+
		`"item_id": "rye/agent/threads/thread_directive", "parameters": {"directive_name": "acme/signing"}}`, "Do it.")
	env = append(env, "TERM=xterm", "CI=", "NO_COLOR=1")
	args := []string{"run", "acme/wipe", "--unlocked", "--allow", "tool:acme/wipe", "--limit", "spend=0.5", "--limit",
		"turns=9"}
	s := onTerminal(t, dir, env, args...)
	s.until("; acme/signing: turn 1 of 9, $0.0000 of $0.25, waiting for the")
	close(goOn)
	shown, status := s.end()
	if status != fault.ExitDone {
		t.Errorf("%d, %s", status, shown)
	}
	for _, want := range []string{
		"I say\\x1b[2J Call 1.\nacme_wipe tool:acme/wipe\n", "rye_execute directive:acme/signing\n",
		"turn 2 of 9, $0.0000 of $0.5, ",
		"\r\x1b[K  acme/signing: completed, 1 turn, $0.0000 of $0.25\n", `I say\x1b[2J done: {"cost":`,
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q isn't shown: %q", want, shown)
		}
	}
	if !strings.HasSuffix(shown, "}\n") || strings.Contains(shown, "\x1b[2J") {
		t.Errorf("%q", shown)
	}
}

// TestLiveWait: while a failed model call waits for its next attempt, the line with the turns says so.
func TestLiveWait(t *testing.T) {
	server := modeltest.New(t)
	server.Handle(func(*modeltest.Request) modeltest.Turn {
		return modeltest.Turn{Status: 429, Message: "too many", RetryAfter: "50"}
	})
	dir, env := modelProject(t, server, "Talk.", "Talk.")
	env = append(env, "TERM=xterm", "CI=", "NO_COLOR=1")
	s := onTerminal(t, dir, env, "run", "acme/wipe", "--unlocked")
	s.until("too many; trying again in 50s")
	s.until("turn 1 of ")
	s.until("s, trying again in ")
	s.types("\x03")
	if shown, status := s.end(); status != fault.ExitInterrupted {
		t.Errorf("%d, %s", status, shown)
	}
}

// TestExecOnTerminal: what a tool prints is shown as it comes, without what a terminal obeys.
func TestExecOnTerminal(t *testing.T) {
	dir, env := modelProject(t, modeltest.New(t), "Nothing.", "Nothing.")
	shown, status := onTerminal(t, dir, env, "exec", "tool:acme/print", "--unlocked").end()
	if status != fault.ExitDone || !strings.Contains(shown, "a\tb\\x1b[2J\n") {
		t.Errorf("%d, %q", status, shown)
	}
}

// talking is a server whose model says something and then waits, as long as wait is set.
func talking(t *testing.T, wait *atomic.Bool) *modeltest.Server {
	server := modeltest.New(t)
	server.Handle(func(*modeltest.Request) modeltest.Turn {
		turn := modeltest.Turn{Text: "What is said is shown at once."}
		if wait.Load() {
			drip := make(chan struct{}, 3)
			turn.Drip = drip
			for range cap(drip) {
				drip <- struct{}{}
			}
		}
		return turn
	})
	return server
}

var resumeHint = regexp.MustCompile(`rye thread resume (acme/wipe-[0-9a-z-]+)`)

// TestInterruptOnTerminal: Ctrl-C ends a thread so that its transcript is signed, says what was spent and how to go
// on, and that works; also after a second one, which ends the process at once.
func TestInterruptOnTerminal(t *testing.T) {
	var wait atomic.Bool
	dir, env := modelProject(t, talking(t, &wait), "Talk.", "Talk.")
	rye := func(args ...string) string {
		t.Helper()
		shown, status := onTerminal(t, dir, env, args...).end()
		if status != fault.ExitDone {
			t.Errorf("%s: %d, %s", args, status, shown)
		}
		return shown
	}
	resumed := map[string]bool{}
	for _, keys := range []string{"\x03", "\x03\x03"} {
		wait.Store(true)
		s := onTerminal(t, dir, env, "run", "acme/wipe", "--unlocked")
		s.until("What is said")
		s.types(keys)
		shown, status := s.end()
		said := strings.Contains(shown, "error: the thread was interrupted\n") &&
			strings.Contains(shown, " used 1 turn and $0.000000\n") && resumeHint.MatchString(shown)
		if len(keys) == 1 && (status != fault.ExitInterrupted || !said) {
			t.Errorf("%d, %s", status, shown)
		}
		if status != fault.ExitInterrupted && status != -1 { // -1: killed by the second
			t.Errorf("%q: %d, %s", keys, status, shown)
		}
		wait.Store(false)
		id := ""
		for _, line := range strings.Split(rye("thread", "list"), "\n") {
			if name, _, _ := strings.Cut(line, " "); name != "" && !resumed[name] {
				id, resumed[name] = name, true
			}
		}
		if shown := rye("thread", "resume", id, "--unlocked"); !strings.Contains(shown,
			"What is said is shown at once.") {
			t.Error(shown)
		}
		rye("thread", "verify", id)
	}
}

// asking starts a thread, and returns when it waits for its model.
func asking(t *testing.T, dir string, env []string) (*exec.Cmd, *strings.Builder, *bufio.Scanner) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "rye", "run", "acme/wipe", "--unlocked", "--json", "--events")
	cmd.Dir, cmd.Env = dir, env
	stdout := new(strings.Builder)
	cmd.Stdout = stdout
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	events := bufio.NewScanner(stderr)
	for events.Scan() && !strings.Contains(events.Text(), `"type":"request"`) {
	}
	return cmd, stdout, events
}

// TestRunInterrupted: without a terminal each of these signals ends a thread, and its answer is one object.
func TestRunInterrupted(t *testing.T) {
	hangUps(t)
	var wait atomic.Bool
	wait.Store(true)
	server := talking(t, &wait)
	dir, env := modelProject(t, server, "Talk.", "Talk.")
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		cmd, stdout, events := asking(t, dir, env)
		cmd.Process.Signal(signal)
		last := ""
		for events.Scan() {
			last = events.Text()
		}
		cmd.Wait()
		got, answer := cmd.ProcessState.ExitCode(), stdout.String()
		if got != fault.ExitInterrupted || !strings.Contains(last, `"type":"checkpoint"`) ||
			!strings.HasPrefix(answer, `{"success":false,"error":{"code":"CANCELLED"`) ||
			!resumeHint.MatchString(answer) {
			t.Errorf("%s: %d, %s, %s", signal, got, last, answer)
		}
	}
}

// TestFollowKilled: who follows a thread learns that its process has died.
func TestFollowKilled(t *testing.T) {
	var wait atomic.Bool
	wait.Store(true)
	dir, env := modelProject(t, talking(t, &wait), "Talk.", "Talk.")
	cmd, _, events := asking(t, dir, env)
	var event struct{ Thread string }
	if err := json.Unmarshal(events.Bytes(), &event); err != nil {
		t.Fatal(err)
	}
	follow := exec.CommandContext(t.Context(), "rye", "thread", "logs", event.Thread, "-f")
	follow.Dir, follow.Env = dir, env
	var stderr strings.Builder
	follow.Stderr = &stderr
	stdout, err := follow.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && !strings.Contains(lines.Text(), "  request  ") {
	}
	cmd.Process.Kill()
	cmd.Wait()
	for lines.Scan() {
		t.Error(lines.Text())
	}
	if err := follow.Wait(); err != nil || !strings.Contains(stderr.String(),
		"has died; rye thread resume "+event.Thread) {
		t.Error(err, stderr.String())
	}
}
