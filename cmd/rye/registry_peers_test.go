//go:build peers && linux

package main

import (
	"bufio"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// pipelineIssuer is "issuer", which starts the issuer of testdata/peers and sets $ISSUER, and "issuer KEY CLAIMS",
// which describes the run that asks it for a token next.
func pipelineIssuer(t *testing.T, ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 && len(args) != 2 {
		ts.Fatalf("usage: issuer [KEY CLAIMS]")
	}
	if len(args) == 2 {
		answer, err := http.Post(ts.Getenv("ISSUER")+"/describe?key="+args[0], "application/json",
			strings.NewReader(args[1]))
		ts.Check(err)
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			ts.Fatalf("the issuer answers %s", answer.Status)
		}
		return
	}
	program := filepath.Join(t.TempDir(), "issuer")
	build := exec.Command("go", "build", "-o", program, "./issuer")
	build.Dir = "../../testdata/peers"
	if out, err := build.CombinedOutput(); err != nil {
		ts.Fatalf("%v: %s", err, out)
	}
	server := exec.Command(program)
	in, err := server.StdinPipe()
	ts.Check(err)
	out, err := server.StdoutPipe()
	ts.Check(err)
	ts.Check(server.Start())
	ts.Defer(func() { in.Close(); _ = server.Wait() })
	at, err := bufio.NewReader(out).ReadString('\n')
	ts.Check(err)
	ts.Setenv("ISSUER", strings.TrimSpace(at))
}
