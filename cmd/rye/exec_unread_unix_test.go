//go:build unix

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
)

const floodTool = `version: 1.0.0
tool_type: script
executor_id: rye/core/primitives/subprocess
category: acme
description: Prints for longer than anybody reads
risk: read
config: {command: probe, args: [flood, "10000000"]}
`

// flooding makes a project with floodTool in it, and returns how rye is started there.
func flooding(t *testing.T) (home string, rye func(args ...string) *exec.Cmd) {
	home, project := t.TempDir(), t.TempDir()
	sandboxtest.Removable(t, home)
	tool := filepath.Join(project, ".ai/tools/acme/flood.yaml")
	if err := errors.Join(os.MkdirAll(filepath.Dir(tool), 0o755),
		os.WriteFile(tool, []byte(floodTool), 0o644)); err != nil {
		t.Fatal(err)
	}
	rye = func(args ...string) *exec.Cmd {
		cmd := exec.Command("rye", args...)
		cmd.Dir, cmd.Env = project, []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + home,
			"GOCOVERDIR=" + coverDir()}
		return cmd
	}
	for _, args := range [][]string{{"key", "new", "--owner", "Ann"}, {"sign", "--all", "-q"}} {
		if out, err := rye(args...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %s", args, err, out)
		}
	}
	return home, rye
}

// A write that fails although the reader is still there is no interruption.
func TestUnwritten(t *testing.T) {
	_, rye := flooding(t)
	closed, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer closed.Close()
	cmd, said := rye("exec", "tool:acme/flood"), new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = closed, said
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != fault.ExitNo ||
		!strings.HasPrefix(said.String(), "error: writing to standard output: ") {
		t.Errorf("got %v and %q, want exit status 1", err, said)
	}
}

// The reader of a tool's output may leave early, as head does: the tool ends, and the log says how.
func TestUnread(t *testing.T) {
	home, rye := flooding(t)
	receipt := filepath.Join(home, "receipt.json")
	cmd, said := rye("exec", "tool:acme/flood", "--receipt", receipt), new(bytes.Buffer)
	cmd.Stderr = said
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Error(err)
	}
	out.Close()
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != fault.ExitInterrupted {
		t.Errorf("got %v, want exit status 130", err)
	}
	if want := "error: \"tool:acme/flood\" was stopped: its output is no longer read\n"; said.String() != want {
		t.Errorf("got %q, want %q", said, want)
	}
	// others may read it, and only its owner writes it
	if fi, err := os.Stat(receipt); err != nil || fi.Mode() != 0o644 {
		t.Errorf("%v, %v, want a receipt of mode 0644", fi, err)
	}
	list, err := rye("audit", "list").Output()
	if err != nil || strings.Count(string(list), "\n") != 1 ||
		!strings.Contains(string(list), "tool:acme/flood  cancelled") {
		t.Errorf("%v: %s", err, list)
	}
}
