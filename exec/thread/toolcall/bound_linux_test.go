package toolcall_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/toolcall"
)

// bounded is what a process of TestBound does: it says what ended it.
func bounded(what string) {
	ctx, cancel := context.WithCancelCause(context.Background())
	memory, processes, cpu := int64(1<<30), int64(512), time.Hour
	switch what {
	case "cpu":
		cpu = time.Millisecond
	case "processes":
		processes = 2
	}
	toolcall.Bound(ctx, cancel, memory, processes, cpu)
	switch what {
	case "memory":
		var kept [][]byte
		for range 20 {
			kept = append(kept, make([]byte, 100<<20))
		}
		os.Stdout.WriteString(string(rune('0' + len(kept)%10)))
		os.Exit(0)
	case "cpu":
		for n := 0; ctx.Err() == nil; n++ {
			if n < 0 {
				os.Exit(7)
			}
		}
	case "processes":
		for range 3 {
			cmd := exec.Command("/bin/sleep", "60")
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			if err := cmd.Start(); err != nil {
				os.Exit(5)
			}
		}
	case "limits":
		var l syscall.Rlimit
		if syscall.Getrlimit(syscall.RLIMIT_DATA, &l) != nil || l.Cur != 1<<30 || l.Max < l.Cur+1 {
			os.Exit(6)
		}
		os.Exit(0)
	}
	<-ctx.Done()
	os.Stdout.WriteString(string(fault.CodeOf(context.Cause(ctx))) + " " + context.Cause(ctx).Error())
	os.Exit(0)
}

// TestStartWithoutFiles: a process that has too few files left to make the log, the pipes or the process of a thread
// says so, and leaves no directory behind.
func TestStartWithoutFiles(t *testing.T) {
	r, w, err := os.Pipe() // Go's poller has its own files from now on
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	var all syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &all); err != nil {
		t.Fatal(err)
	}
	c, base, failed := command(t, "run"), t.TempDir(), 0
	for files := uint64(3); ; files++ {
		dir := filepath.Join(base, strconv.FormatUint(files, 10), "plan-1-a")
		few := all
		few.Cur = files
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
			t.Fatal(err)
		}
		word, err := toolcall.StartDetached(t.Context(), c, dir, &toolcall.Job{Thread: "acme/plan-1-a"})
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &all); err != nil {
			t.Fatal(err)
		}
		if err == nil {
			if word.Thread != "acme/plan-1-a" || failed < 6 {
				t.Errorf("%+v with %d files, after %d errors", word, files, failed)
			}
			return
		}
		failed++
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("with %d files its directory is left: %v", files, err)
		}
		if files > 1000 {
			t.Fatal(err)
		}
	}
}

// TestBound: a process of a thread can't use more than its limits. Over those of time and of processes its thread is
// interrupted; beyond its memory the process ends.
func TestBound(t *testing.T) {
	for what, want := range map[string]string{"cpu": "RESOURCE_EXCEEDED", "processes": "limit of processes: 2",
		"memory": "", "limits": ""} {
		if testing.Short() && what == "memory" { // the race detector has memory of its own
			continue
		}
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := command(t, "bound-"+what)
			out, err := exec.Command(c.Path, c.Args...).CombinedOutput()
			// Go says "out of memory", or its collector crashes for want of it.
			if !strings.Contains(string(out), want) || (err != nil) != (what == "memory") {
				t.Errorf("%v: %.500s", err, out)
			}
		})
	}
}
