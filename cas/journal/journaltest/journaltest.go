// Package journaltest starts processes that write one book at once, or die while they write it, and keeps what books
// look like.
package journaltest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/cas/journal"
)

// Variable of the environment is what a process learns.
const Variable = "RYE_TEST_PROCESS"

// A process is what it learns.
type process[T any] struct {
	Given T
	Dies  int // before which change of a file; 0 for never
}

// Main runs the tests of a package or, in a process that Command has started, which has a text as the Variable, run:
// it prints what that returns, and lives until its standard input ends. It returns the status to exit with.
func Main[T any](m *testing.M, text string, stdin io.Reader, stdout io.Writer,
	run func(given T, hook journal.Hook) (string, error)) int {
	if text == "" {
		return m.Run()
	}
	var p process[T]
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		panic(err)
	}
	changes := 0
	said, err := run(p.Given, func(op, _ string, _ []byte) error {
		if op == "look" {
			return nil
		}
		if changes++; changes == p.Dies {
			self, _ := os.FindProcess(os.Getpid())
			self.Kill()
			select {}
		}
		return nil
	})
	if err != nil {
		fmt.Fprintln(stdout, err)
		return 1
	}
	fmt.Fprintln(stdout, said)
	io.Copy(io.Discard, stdin)
	return 0
}

// Command returns a process that kills itself before its change of a file with this number; 0 for never.
func Command[T any](t testing.TB, given T, dies int) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(process[T]{given, dies})
	Must(t, err)
	self, err := os.Executable()
	Must(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(cmd.Environ(), Variable+"="+string(text))
	return cmd
}

// ErrFull is what a change of a file fails with.
var ErrFull = errors.New("no space left on device")

// Full returns a hook with which the n-th change of a file and all after it fail until heal is called, which reports
// whether any has.
func Full(n int) (hook journal.Hook, heal func() (failed bool)) {
	var mu sync.Mutex
	count, healed := 0, false
	hook = func(op, _ string, _ []byte) error {
		mu.Lock()
		defer mu.Unlock()
		if op == "look" || healed {
			return nil
		}
		if count++; count >= n {
			return ErrFull
		}
		return nil
	}
	return hook, func() bool {
		mu.Lock()
		defer mu.Unlock()
		healed = true
		return count >= n
	}
}

// Golden compares a file with the golden one, forever.
func Golden(t testing.TB, path, golden string) {
	t.Helper()
	got, err := os.ReadFile(path)
	Must(t, err)
	goldentest.File(t, golden, got)
}

// Must ends a test that can't go on.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Refused wants an error with a code.
func Refused(t testing.TB, code fault.Code, err error) {
	t.Helper()
	if err == nil || fault.CodeOf(err) != code {
		t.Errorf("got %v, want %s", err, code)
	}
}
