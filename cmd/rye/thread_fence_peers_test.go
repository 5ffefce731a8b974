//go:build peers && linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
)

// TestFenced stops a driver by SIGSTOP while its model thinks. A process that sees it can't drive its thread, and says
// what lets it go on; one that can't see it, since the driver is in a PID namespace of its own, takes it for dead and
// goes on. When the driver goes on by SIGCONT, it has lost the thread: CONFLICT, and no further effect.
func TestFenced(t *testing.T) {
	for name, before := range map[string][]string{"seen": nil,
		"unseen": {"unshare", "--pid", "--fork", "--mount-proc"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked, answer := make(chan struct{}, 1), make(chan struct{})
			var first atomic.Bool
			server := modeltest.New(t)
			server.Handle(func(q *modeltest.Request) modeltest.Turn {
				if first.CompareAndSwap(false, true) {
					asked <- struct{}{}
					select {
					case <-answer:
					case <-q.Gone:
					}
				}
				turn, _ := directed(q)
				return turn
			})
			dir, env := modelProject(t, server, `call acme_wipe {"path": "one"}`, "")
			args := []string{"run", "acme/wipe", "--unlocked", "--allow", "tool:acme/*", "--json"}
			words := append(append(before, "rye"), args...)
			driver := exec.CommandContext(t.Context(), words[0], words[1:]...)
			var out bytes.Buffer
			driver.Dir, driver.Env, driver.Stdout, driver.SysProcAttr = dir, env, &out,
				&syscall.SysProcAttr{Setpgid: true}
			if err := driver.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { syscall.Kill(-driver.Process.Pid, syscall.SIGKILL) })
			<-asked
			signal := func(s syscall.Signal) {
				if err := syscall.Kill(-driver.Process.Pid, s); err != nil {
					t.Fatal(err)
				}
			}
			signal(syscall.SIGSTOP)
			resume := exec.CommandContext(t.Context(), "rye", "thread", "resume", "acme/wipe", "--unlocked", "--allow",
				"tool:acme/*", "--json")
			resume.Dir, resume.Env = dir, env
			second, err := resume.Output()
			signal(syscall.SIGCONT)
			close(answer)
			ended := driver.Wait()
			won, lost := out.String(), string(second)
			if before != nil {
				won, lost = lost, won
				err, ended = ended, err
			}
			stopped := strings.Contains(lost, `a signal has stopped this process`) &&
				strings.Contains(lost, fmt.Sprintf(`kill -CONT %d\nrye thread kill acme/wipe-`, driver.Process.Pid))
			if err == nil || !strings.Contains(lost, `"code":"CONFLICT"`) || stopped != (before == nil) {
				t.Errorf("%v: %s", err, lost)
			}
			if ended != nil || !strings.Contains(won, `"status":"completed"`) || !strings.Contains(won, "wiped") {
				t.Errorf("%v: %s", ended, won)
			}
			lines, err := filepath.Glob(filepath.Join(dir, ".ai/threads/acme/wipe-*/transcript.jsonl"))
			if err != nil || len(lines) != 1 {
				t.Fatalf("%q, %v", lines, err)
			}
			if text, err := os.ReadFile(lines[0]); err != nil ||
				strings.Count(string(text), `"type":"call_started"`) != 1 {
				t.Errorf("%v: %s", err, text)
			}
			if out, status := ryeIn(t, dir, env, "thread", "verify", "acme/wipe"); status != fault.ExitDone {
				t.Errorf("%d, %s", status, out)
			}
			if out, status := ryeIn(t, dir, env, "audit", "list", "--ref",
				"tool:acme/wipe"); status != fault.ExitDone || strings.Count(out, "acme/wipe") != 1 {
				t.Errorf("%d, %s", status, out)
			}
		})
	}
}
