//go:build unix

package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
)

// waitCommand is a command that only tests have: it reads standard input to its end, and with --deaf goes
// on after it was interrupted.
func waitCommand() cli.Command {
	return cli.Command{Path: "wait", New: func() cli.Runner { return new(waitRun) }, Schema: "wait/1"}
}

type waitRun struct{ Deaf bool }

func (w *waitRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	ctx.Done() // from here on signals are caught
	a.Term.Warn("ready")
	_, err := io.Copy(io.Discard, a.Input(ctx))
	if w.Deaf {
		<-ctx.Done()
		a.Term.Warn("deaf")
		time.Sleep(time.Hour)
	}
	return nil, err
}

// startWait starts it as a process whose standard input stays open, and waits until it is ready.
func startWait(t *testing.T, args ...string) (cmd *exec.Cmd, stderr *bufio.Reader, stdout *strings.Builder) {
	t.Helper()
	// A shell has what it starts in the background ignore it, which is inherited; what we catch isn't.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, os.Interrupt)
	t.Cleanup(func() { signal.Stop(caught) })
	cmd = exec.Command("rye-wait", append([]string{"wait"}, args...)...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close() })
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout = new(strings.Builder)
	cmd.Stdout = stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	stderr = bufio.NewReader(pipe)
	wantLine(t, stderr, "warning: ready\n")
	return cmd, stderr, stdout
}

func wantLine(t *testing.T, r *bufio.Reader, want string) {
	t.Helper()
	if line, err := r.ReadString('\n'); line != want {
		t.Fatalf("got %q, %v, want %q", line, err, want)
	}
}

// hangUps has what this test starts hear of SIGHUP, even if who runs the tests ignores it.
func hangUps(t *testing.T) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(c) })
}

func TestInterrupt(t *testing.T) {
	hangUps(t)
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			cmd, stderr, stdout := startWait(t, "--json")
			cmd.Process.Signal(sig)
			rest, _ := io.ReadAll(stderr)
			var exit *exec.ExitError
			if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != fault.ExitInterrupted {
				t.Errorf("got %v, want exit status 130", err)
			}
			if len(rest) > 0 || !strings.Contains(stdout.String(), `{"success":false,"error":{"code":"CANCELLED"`) {
				t.Errorf("standard output %q, standard error %q", stdout, rest)
			}
		})
	}
}

// TestHangUp: whose terminal goes away, ends in order though the signal comes twice; who was started to go on
// nevertheless, does.
func TestHangUp(t *testing.T) {
	hangUps(t)
	ends := func(cmd *exec.Cmd) syscall.Signal {
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return exit.Sys().(syscall.WaitStatus).Signal()
	}
	cmd, stderr, _ := startWait(t, "--deaf")
	cmd.Process.Signal(syscall.SIGHUP)
	wantLine(t, stderr, "warning: deaf\n")
	cmd.Process.Signal(syscall.SIGHUP)
	cmd.Process.Signal(syscall.SIGTERM)
	if got := ends(cmd); got != syscall.SIGTERM {
		t.Errorf("ended by %v", got)
	}
	signal.Ignore(syscall.SIGHUP)
	defer signal.Reset(syscall.SIGHUP)
	cmd, stderr, _ = startWait(t, "--deaf")
	cmd.Process.Signal(syscall.SIGHUP)
	cmd.Process.Signal(syscall.SIGTERM) // the first that counts
	wantLine(t, stderr, "warning: deaf\n")
	cmd.Process.Signal(os.Interrupt)
	if got := ends(cmd); got != syscall.SIGINT {
		t.Errorf("with SIGHUP ignored, ended by %v", got)
	}
}

func TestSecondInterruptKills(t *testing.T) {
	cmd, stderr, _ := startWait(t, "--deaf")
	cmd.Process.Signal(os.Interrupt)
	wantLine(t, stderr, "warning: deaf\n")
	cmd.Process.Signal(os.Interrupt)
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
		t.Errorf("got %v, want a death by SIGINT", err)
	}
}
