package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/provider/wire"
)

// TestWaitOnTerminal: a person who waits sees after a second what is waited for, and in the end only what became of
// it.
func TestWaitOnTerminal(t *testing.T) {
	asked, goes := make(chan struct{}), make(chan struct{})
	server := modeltest.New(t)
	server.Handle(func(q *modeltest.Request) modeltest.Turn {
		close(asked)
		select {
		case <-goes:
		case <-q.Gone:
		}
		return modeltest.Turn{Text: "Done.", Usage: wire.Usage{Input: 5, Output: 1}}
	})
	dir, env := modelProject(t, server, "Do it.", "")
	env = slices.DeleteFunc(env, func(s string) bool { return strings.HasPrefix(s, "TERM=") })
	run := exec.CommandContext(t.Context(), "rye", "run", "acme/wipe", "--unlocked")
	run.Dir, run.Env = dir, append(env, "TERM=xterm")
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	<-asked
	s := onTerminal(t, dir, append(env, "TERM=xterm"), "thread", "wait", "acme/wipe")
	s.until("waiting for 1 of 1: acme/wipe-")
	close(goes)
	shown, status := s.end()
	if err := run.Wait(); err != nil {
		t.Error(err)
	}
	last := shown[strings.LastIndex(shown, "\x1b[K")+len("\x1b[K"):]
	if status != fault.ExitDone || !strings.HasPrefix(last, "acme/wipe-") ||
		!strings.Contains(last, "completed  1 turn") || strings.Contains(last, "waiting") {
		t.Errorf("%d: %q", status, shown)
	}
}
