package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/audit"
)

// ran is "ran N": so many calls are in the audit log.
func ran(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: ran N")
	}
	n := 0
	for _, err := range audit.List(context.Background(), ts.Getenv("XDG_STATE_HOME")+"/rye/audit", audit.Filter{}) {
		ts.Check(err)
		n++
	}
	if strconv.Itoa(n) != args[0] {
		ts.Fatalf("%d calls were made, want %s", n, args[0])
	}
}

// buildWords are the words of build: a step of an unsigned tool, which the message names.
func buildWords(t *testing.T, home string) []string {
	t.Helper()
	project := execWords(t)[1]
	tool := filepath.Join(project, ".ai", "tools", "acme", "hi.yaml")
	text, err := os.ReadFile(tool)
	if err == nil {
		err = os.WriteFile(tool, fmt.Appendln(text, "pure: true"), 0o600)
	}
	steps := []byte("id: acme/app\nversion: 1.0.0\nbuild: {hi: {tool: \"tool:acme/hi\", outputs: [made]}}\n")
	if err = errors.Join(err, os.WriteFile(filepath.Join(project, "bundle.yaml"), steps, 0o600)); err != nil {
		t.Fatal(err)
	}
	h, _, stderr := testHost("HOME="+home, "LOCALAPPDATA="+home)
	if code := cli.Run(h, commands(), []string{"sign", "-C", project, "tool:acme/hi", "-q"}); code != fault.ExitDone {
		t.Fatal(stderr)
	}
	return []string{"-C", project, "--dry-run"}
}
