package proc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/proc"
)

// word makes this test binary do what comes behind it, for tests that need a program.
const word = "__do"

func TestMain(m *testing.M) {
	if len(os.Args) < 3 || os.Args[1] != word {
		os.Exit(m.Run())
	}
	switch os.Args[2] {
	case "echo":
		dir, _ := os.Getwd()
		in, _ := io.ReadAll(os.Stdin)
		fmt.Printf("%q %q %q %s", os.Args[3:], os.Environ(), dir, in)
	case "exit":
		fmt.Fprintln(os.Stderr, "so it is")
		n, _ := strconv.Atoi(os.Args[3])
		os.Exit(n)
	case "sleep":
		fmt.Println("ready")
		time.Sleep(time.Hour)
	case "children":
		for range 3 {
			c := exec.Command(os.Args[0], word, "sleep")
			c.Stdout = os.Stdout
			_ = c.Start()
		}
		if os.Args[3] == "stay" {
			time.Sleep(time.Hour)
		}
	case "burn":
		for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end); {
		}
		keep := make([]byte, 32<<20)
		for i := range keep {
			keep[i] = 1
		}
	case "much":
		fmt.Print(strings.Repeat("x", 2<<20))
	case "read 200":
		if _, err := os.NewFile(200, "file").Read(make([]byte, 1)); err != nil && !errors.Is(err, io.EOF) {
			os.Exit(1)
		}
	}
	os.Exit(0)
}

func self(t testing.TB) string {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func command(t testing.TB, args ...string) proc.Command {
	return proc.Command{Path: self(t), Args: append([]string{word}, args...)}
}

// Everything gets there as it is, and nothing else.
func TestAsGiven(t *testing.T) {
	var out bytes.Buffer
	c := command(t, "echo", "", "a b", "$X", "-v", "*", "\n")
	c.Env, c.Dir, c.Stdin, c.Stdout = []string{"X=1", "Y= a=b "}, t.TempDir(), strings.NewReader("input"), &out
	exit, err := proc.Run(t.Context(), c)
	want := fmt.Sprintf("%q %q %q input", c.Args[2:], c.Env, c.Dir)
	if err != nil || exit.Code != 0 || out.String() != want && runtime.GOOS == "linux" {
		t.Errorf("%+v, %v\n%s\n%s", exit, err, out.String(), want)
	}
	out.Reset()
	c = command(t, "echo")
	c.Stdout = &out
	if _, err := proc.Run(t.Context(), c); err != nil || !strings.HasPrefix(out.String(), "[] [] ") &&
		runtime.GOOS == "linux" {
		t.Errorf("no environment: %s, %v", out.String(), err)
	}
}

func TestExit(t *testing.T) {
	for _, code := range []int{0, 1, 42, 255} {
		exit, err := proc.Run(t.Context(), command(t, "exit", strconv.Itoa(code)))
		if err != nil || exit.Code != code || exit.Signal != "" || exit.Wall <= 0 {
			t.Errorf("%d: %+v, %v", code, exit, err)
		}
	}
	exit, err := proc.Run(t.Context(), command(t, "burn"))
	if err != nil || exit.CPU < 20*time.Millisecond || exit.Wall < 50*time.Millisecond || runtime.GOOS == "linux" &&
		exit.MaxRSS < 32<<20 {
		t.Errorf("%+v, %v", exit, err)
	}
}

// A context that ends kills, and its cause is the error.
func TestCancel(t *testing.T) {
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	c := command(t, "sleep")
	c.Stdout = tell(func() { cancel(cause) })
	exit, err := proc.Run(ctx, c)
	if !errors.Is(err, cause) || exit == nil || exit.Code != -1 || runtime.GOOS != "windows" &&
		exit.Signal != "SIGKILL" {
		t.Errorf("%+v, %v", exit, err)
	}
	if exit, err := proc.Run(ctx, c); !errors.Is(err, cause) || exit != nil {
		t.Errorf("afterwards: %+v, %v", exit, err)
	}
}

// A tell is called for each line.
type tell func()

func (f tell) Write(p []byte) (int, error) {
	for range bytes.Count(p, []byte("\n")) {
		f()
	}
	return len(p), nil
}

// An error of the one who waits for the start ends the program, and is the answer.
func TestStarted(t *testing.T) {
	refused := errors.New("refused")
	c := command(t, "sleep")
	pid := 0
	c.Started = func(p *os.Process) error {
		pid = p.Pid
		return refused
	}
	if exit, err := proc.Run(t.Context(), c); !errors.Is(err, refused) || exit.Code != -1 || pid == 0 {
		t.Errorf("%+v, %v", exit, err)
	}
}

func TestCheck(t *testing.T) {
	path := self(t)
	script, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer script.Close()
	if _, err := script.WriteString("#!/bin/sh\n"); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", proc.MaxArgument)
	for want, c := range map[string]proc.Command{
		`the program "rye" is not an absolute path`: {Path: "rye"},
		`the program "" is not an absolute path`:    {},
		`the directory "x" is not an absolute path`: {Path: path, Dir: "x"},
		"the program's path contains a NUL byte":    {Path: path + "\x00"},
		"the directory contains a NUL byte":         {Path: path, Dir: path + "\x00"},
		"argument 2 contains a NUL byte":            {Path: path, Args: []string{"a", "b\x00c"}},
		"argument 1 has 131072 bytes":               {Path: path, Args: []string{long + "x"}},
		`variable "A" contains a NUL byte`:          {Path: path, Env: []string{"A=\x00"}},
		`variable "A" has 131073 bytes`:             {Path: path, Env: []string{"A=" + long}},
		"variable 2 is not NAME=VALUE":              {Path: path, Env: []string{"A=", "B"}},
		"variable 1 is not NAME=VALUE":              {Path: path, Env: []string{"=B"}},
		"argument 16 is too long": {Path: path,
			Args: strings.SplitAfter(strings.Repeat(long[1:]+"\n", 20), "\n")},
		"is a script: start its interpreter": {Path: path, Program: script},
	} {
		_, err := proc.Run(t.Context(), c)
		if fault.CodeOf(err) != fault.Validation || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	c := command(t, "echo", long)
	if exit, err := proc.Run(t.Context(), c); err != nil || exit.Code != 0 {
		t.Errorf("the longest argument: %+v, %v", exit, err)
	}
	if _, err := proc.Run(t.Context(), proc.Command{Path: path + ".none"}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestAsker(t *testing.T) {
	var a proc.Asker
	out, err := a.Run(t.Context(), self(t), []string{word, "echo", "x"}, nil)
	if err != nil || !strings.HasPrefix(string(out), `["x"]`) {
		t.Errorf("%s, %v", out, err)
	}
	for want, args := range map[string][]string{
		`exits with status 3: "so it is`: {"exit", "3"}, "prints more than 1048576 bytes": {"much"},
	} {
		if out, err := a.Run(t.Context(), self(t), append([]string{word}, args...), nil); err == nil ||
			!strings.Contains(err.Error(), want) || out != nil {
			t.Errorf("%v: %d bytes, %v", args, len(out), err)
		}
	}
	if _, err := a.Run(t.Context(), "relative", nil, nil); err == nil {
		t.Error("a relative path")
	}
}
