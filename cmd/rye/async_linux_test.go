package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
)

// TestAsyncTerminated: SIGTERM ends the process of a thread in the background, whose starter has ended, while its
// model thinks: the thread is interrupted, what it did is signed, its log says how to go on, and that works.
func TestAsyncTerminated(t *testing.T) {
	var answers atomic.Bool
	asked := make(chan struct{}, 1)
	server := modeltest.New(t)
	server.Handle(func(*modeltest.Request) modeltest.Turn {
		if answers.Load() {
			return modeltest.Turn{Text: "Done."}
		}
		asked <- struct{}{}
		return modeltest.Turn{Hang: true}
	})
	dir, env := modelProject(t, server, "Talk.", "Talk.")
	policy, err := os.OpenFile(filepath.Join(dir, "home", ".ai", "policy.yaml"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = policy.WriteString("exec: {limits: {memory: 700MiB}}\n")
	}
	if err := errors.Join(err, policy.Close()); err != nil {
		t.Fatal(err)
	}
	start := exec.CommandContext(t.Context(), "rye", "run", "acme/wipe", "--unlocked", "--async", "--json")
	start.Dir, start.Env = dir, env
	out, err := start.Output()
	var started struct {
		Data struct {
			Thread string `json:"thread"`
			PID    int    `json:"pid"`
			Log    string `json:"log"`
		} `json:"data"`
	}
	if err != nil || json.Unmarshal(out, &started) != nil || started.Data.PID == 0 {
		t.Fatalf("%v: %s", err, out)
	}
	thread := started.Data.Thread
	<-asked
	process, err := unix.PidfdOpen(started.Data.PID, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(process)
	// It has the limits of the policy, and as much CPU time as its thread may take.
	for what, want := range map[int]uint64{unix.RLIMIT_DATA: 700 << 20, unix.RLIMIT_CPU: 1801} {
		var has unix.Rlimit
		if err := unix.Prlimit(started.Data.PID, what, nil, &has); err != nil || has.Cur != want {
			t.Errorf("limit %d is %+v, want %d: %v", what, has, want, err)
		}
	}
	if err := unix.PidfdSendSignal(process, unix.SIGTERM, nil, 0); err != nil {
		t.Fatal(err)
	}
	ended := []unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}
	for n, err := unix.Poll(ended, 60_000); n != 1; n, err = unix.Poll(ended, 60_000) {
		if err != unix.EINTR {
			t.Fatalf("the process goes on: %v", err)
		}
	}
	if list, _ := ryeIn(t, dir, env, "thread", "list", "--state", "interrupted"); !strings.Contains(list, thread) {
		t.Errorf("no thread is interrupted: %s", list)
	}
	if log, err := os.ReadFile(started.Data.Log); err != nil ||
		!strings.Contains(string(log), "rye thread resume "+thread) {
		t.Errorf("%v: %s", err, log)
	}
	if out, status := ryeIn(t, dir, env, "thread", "verify", thread, "--unfinished"); status != fault.ExitDone {
		t.Errorf("%d, %s", status, out)
	}
	answers.Store(true)
	resume := exec.CommandContext(t.Context(), "rye", "thread", "resume", thread, "--unlocked")
	resume.Dir, resume.Env = dir, env
	if out, err := resume.CombinedOutput(); err != nil || !strings.Contains(string(out), "Done.") {
		t.Errorf("%v, %s", err, out)
	}
	if out, status := ryeIn(t, dir, env, "thread", "verify", thread); status != fault.ExitDone {
		t.Errorf("%d, %s", status, out)
	}
}
