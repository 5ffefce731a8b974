//go:build peers && linux

package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rye-build/rye/testdata/peerstart"
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
	address, stop, err := peerstart.Start(t.Context(), "issuer")
	ts.Check(err)
	ts.Defer(stop)
	ts.Setenv("ISSUER", address)
}
