//go:build unix

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
	"github.com/rye-build/rye/lock/workspace"
)

// TestAlone waits for another process's work on a project, says so once, and ends with that work or with its context.
func TestAlone(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, workspace.MarkerFile), []byte("name: a\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	theirs, err := paths.LockProject(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	screen := new(lockedBuffer)
	h, _, _ := testHost("HOME=" + filepath.Dir(dir))
	h.Stderr = cli.Stream{Writer: screen}
	a := &cli.App{Host: h, Term: h.Terminal(true)}
	if err := a.Enter(dir); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	wait := func() <-chan error {
		got := make(chan error)
		go func() {
			unlock, err := paths.Alone(ctx, a, false)
			if err == nil {
				unlock()
			}
			got <- err
		}()
		for {
			if said := screen.take(); strings.TrimSpace(said) != "" {
				if said != "waiting for another rye that works on \""+dir+"\", 30s at most\n" {
					t.Errorf("it said %q", said)
				}
				return got
			}
			time.Sleep(time.Millisecond)
		}
	}
	got := wait()
	theirs()
	if err := <-got; err != nil {
		t.Error(err)
	}
	if theirs, err = paths.LockProject(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	defer theirs()
	got = wait()
	enough := errors.New("enough")
	stop(enough)
	if err := <-got; err != enough {
		t.Error(err)
	}
	if said := screen.take(); said != "" {
		t.Errorf("it said %q once more", said)
	}
}

// TestAskedAlone: a question for a passphrase doesn't block other processes from the user's space.
func TestAskedAlone(t *testing.T) {
	h, home, stderr := askingHost(t, "")
	asked := 0
	h.Hidden = func(ctx context.Context) (string, error) {
		asked++
		ctx, stop := context.WithTimeout(ctx, 5*time.Second)
		defer stop()
		unlock, err := paths.LockProject(ctx, filepath.Join(home, ".ai"))
		if err != nil {
			return "", err
		}
		unlock()
		return "sesame", nil
	}
	for _, name := range []string{"a", "b"} {
		if got := cli.Run(h, commands(), []string{"key", "new", name, "--passphrase"}); got != fault.ExitDone {
			t.Errorf("%s: exit %d, %s", name, got, stderr)
		}
	}
	if got := cli.Run(h, commands(), []string{"key", "new", "b", "--passphrase"}); got != fault.ExitUsage ||
		asked != 4 {
		t.Errorf("exit %d, asked %d times, %s", got, asked, stderr)
	}
}

// TestNewTogether makes an item of one id from several processes at once, in files that don't stand in each other's
// way: there is one.
func TestNewTogether(t *testing.T) {
	h := newTrustHome(t)
	h.must("init", "p")
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		var group sync.WaitGroup
		var made atomic.Int64
		for _, ext := range []string{"sh", "py", "yaml", "star"} {
			group.Go(func() {
				out, err := h.command("-C", "p", "new", "tool", "acme/"+id, "--ext", ext).CombinedOutput()
				switch {
				case err == nil:
					made.Add(1)
				case !strings.Contains(string(out), `"message":"tool:acme/`+id+` exists already"`):
					t.Errorf("%s: %v: %s", ext, err, out)
				}
			})
		}
		group.Wait()
		if made.Load() != 1 {
			t.Errorf("%d were made", made.Load())
		}
	}
}

// TestReceiptTogether: of several calls that are to leave a receipt in one file one does, and the others say why not.
func TestReceiptTogether(t *testing.T) {
	h := newTrustHome(t)
	sandboxtest.Removable(t, h.dir)
	h.must("init", "p")
	h.must("-C", "p", "new", "tool", "acme/x", "--ext", "star")
	h.must("-C", "p", "lock")
	for _, file := range []string{"a.json", "b.json", "c.json"} {
		var group sync.WaitGroup
		var made atomic.Int64
		for range 4 {
			group.Go(func() {
				out, err := h.command("-C", "p", "exec", "tool:acme/x", "-p", "name=x", "--receipt",
					file).CombinedOutput()
				switch {
				case err == nil:
					made.Add(1)
				case !strings.Contains(string(out), `"code":"CONFLICT","message":"\"`+filepath.Join(h.dir, "p",
					file)+`\" exists`):
					t.Errorf("%v: %s", err, out)
				}
			})
		}
		group.Wait()
		if made.Load() != 1 {
			t.Errorf("%d were made", made.Load())
		}
	}
}
