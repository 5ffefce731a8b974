package main

import (
	"bufio"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	threads "github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/key/keytest"
)

// TestFollow: rye thread logs -f shows what is written while it runs, and ends with the thread.
func TestFollow(t *testing.T) {
	own := keytest.Named("machine")
	const id = "acme/a-1795000000-a2b3c"
	state := t.TempDir()
	rows, money := threads.Local(filepath.Join(state, "rye"), time.Now)
	defer money.Shut()
	defer rows.Close()
	lease, err := roster.BeginLease(t.Context(), rows, filepath.Join(t.TempDir(), ".ai", "threads"),
		&roster.Thread{ID: id, Kind: "directive", Directive: "acme/a"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "t-1")
	w, err := transcript.Create(dir, id, transcript.Started{Kind: "directive",
		Directive: transcript.Item{Ref: "directive:acme/a"}, Grants: []string{}, Policy: []cas.Digest{}},
		transcript.Driver{Epoch: 1}, transcript.Options{Key: own, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	h, _, stderr := testHost("XDG_STATE_HOME="+state, "HOME="+state, "LOCALAPPDATA="+state)
	h.Now = time.Now
	r, out := io.Pipe()
	h.Stdout = cli.Stream{Writer: out}
	exit := make(chan int, 1)
	go func() {
		exit <- cli.Run(h, commands(), []string{"thread", "logs", dir, "-f"})
		out.Close()
	}()
	lines := bufio.NewScanner(r)
	next := func(want string) {
		t.Helper()
		if !lines.Scan() || !strings.Contains(lines.Text(), want) {
			t.Fatalf("%q, want %q; %v, %s", lines.Text(), want, lines.Err(), stderr)
		}
	}
	next("thread_started")
	next("driver")
	for _, e := range []transcript.Payload{transcript.Waiting{State: "waiting", Reason: "approval"},
		transcript.Continued{Message: "Go on."}} {
		if _, err := w.Append(e); err != nil {
			t.Fatal(err)
		}
		next(string(e.Type()))
	}
	if _, err := w.Append(transcript.Completed{}, transcript.Checkpoint{}); err != nil {
		t.Fatal(err)
	}
	next("thread_completed")
	next("checkpoint")
	// The list of threads still says that it runs.
	select {
	case <-exit:
		t.Fatal("ended before the thread did")
	case <-time.After(100 * time.Millisecond):
	}
	if err := lease.Leave(t.Context(), roster.Completed, ""); err != nil {
		t.Fatal(err)
	}
	if got := <-exit; got != fault.ExitDone || lines.Scan() {
		t.Fatalf("%d, %q, %s", got, lines.Text(), stderr)
	}
}
