package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci"
)

const (
	maxAnswer = 1 << 20
	maxWait   = 2 * time.Minute // for a helper, which may prompt
	lastWait  = time.Second     // for processes that a helper leaves behind
)

// ask asks a helper, by the protocol of docker: "get", with the registry on its standard input.
func ask(ctx context.Context, helper, host, path string) (oci.Credential, error) {
	program := "docker-credential-" + helper
	text, err := run(ctx, maxWait, program, address(host))
	if ctx.Err() != nil {
		return oci.Credential{}, context.Cause(ctx)
	}
	var found struct{ Username, Secret string }
	why := ""
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return oci.Credential{}, failed(fmt.Sprintf("the credential helper %s is not in PATH", program), program,
			host, path).From(err).
			Because(fmt.Sprintf("%s names it for %s", path, host))
	case err != nil && strings.TrimSpace(string(text)) == "credentials not found in native keychain":
		return oci.Credential{}, nil
	case errors.Is(err, context.DeadlineExceeded):
		why = fmt.Sprintf("it did not answer within %s", maxWait)
	case err != nil:
		why = err.Error()
	case json.Unmarshal(text, &found) != nil:
		why = "its answer is not JSON"
	case found.Username == "<token>":
		return oci.Credential{Token: found.Secret}, nil
	default:
		return oci.Credential{User: found.Username, Password: found.Secret}, nil
	}
	return oci.Credential{}, failed(fmt.Sprintf("the credential helper %s has no credentials for %s", program, host),
		program, host, path).
		Because(why, fmt.Sprintf("to see what it says: echo %s | %s get", fault.Quote(address(host)), program))
}

// failed returns an error about a helper. It doesn't show the helper's output, which may be a secret.
func failed(text, program, host, path string) *fault.Error {
	return fault.New(fault.AuthRequired, "%s", text).On("host", host).On("helper", program).On("path", path).
		Try("rye auth set " + oci.Scheme + host)
}

// run runs a helper for at most a time, and returns its output.
func run(ctx context.Context, most time.Duration, program, input string) ([]byte, error) {
	ctx, stop := context.WithTimeout(ctx, most)
	defer stop()
	var out answer
	cmd := exec.CommandContext(ctx, program, "get")
	cmd.Stdin, cmd.Stdout, cmd.WaitDelay = strings.NewReader(input), &out, lastWait
	err := cmd.Run()
	switch {
	case err == nil:
	case out.over:
		err = fmt.Errorf("its answer has more than %d bytes", maxAnswer)
	case ctx.Err() != nil:
		err = ctx.Err()
	case errors.Is(err, exec.ErrWaitDelay): // a program that it started goes on
		err = nil
	}
	return out.text, err
}

// An answer takes a helper's output. If it is too long, the pipe breaks.
type answer struct {
	text []byte
	over bool
}

// Write implements io.Writer.
func (a *answer) Write(b []byte) (int, error) {
	if a.over = len(a.text)+len(b) > maxAnswer; a.over {
		return 0, errors.New("too long")
	}
	a.text = append(a.text, b...)
	return len(b), nil
}
