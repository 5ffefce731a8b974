package subprocess_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/subprocess"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// childWord starts this binary as the program.
const childWord = "__child"

func TestMain(m *testing.M) {
	sandboxtest.Programs(map[string]func([]string) int{childWord: func(args []string) int {
		if err := child(args[0], args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 9
		}
		return 0
	}})
	os.Exit(m.Run())
}

// exit ends the process without what a binary that measures coverage says at its end.
func exit(status int) { syscall.Exit(status) }

// A script is what the program "say" does.
type script struct {
	Out, Err []byte
	Times    int // 0: once
	Kill     int // the signal that it sends itself
	Exit     int
}

// child is the program.
func child(what string, args []string) error {
	switch what {
	case "echo":
		_, err := io.Copy(os.Stdout, os.Stdin)
		return err
	case "say":
		return say()
	case "args":
		return json.NewEncoder(os.Stdout).Encode(append([]string{}, args...))
	case "env":
		dir, err := os.Getwd()
		if err != nil {
			return err
		}
		env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "RYE_TEST=") })
		slices.Sort(env)
		return json.NewEncoder(os.Stdout).Encode(map[string]any{"env": append([]string{}, env...), "dir": dir})
	case "print":
		n, err := strconv.Atoi(args[0])
		if err != nil {
			return err
		}
		_, err = os.Stdout.Write(pattern(n))
		return err
	case "forever":
		// What is polite is passed over.
		signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		fmt.Println("x")
		if err := os.WriteFile(args[0], nil, 0o600); err != nil {
			return err
		}
		for {
			time.Sleep(time.Hour)
		}
	case "write":
		return os.WriteFile(args[0], []byte("was here"), 0o600)
	case "copy":
		b, err := os.ReadFile(args[0])
		if err == nil {
			err = os.WriteFile(args[1], b, 0o600)
		}
		return err
	case "dial":
		c, err := net.DialTimeout(args[0], args[1], 5*time.Second)
		if err == nil {
			err = c.Close()
		}
		return err
	}
	return fmt.Errorf("no program %q", what)
}

func say() error {
	var s script
	if err := json.NewDecoder(os.Stdin).Decode(&s); err != nil {
		return err
	}
	for range max(1, s.Times) {
		os.Stdout.Write(s.Out)
		os.Stderr.Write(s.Err)
	}
	if s.Kill != 0 {
		p, err := os.FindProcess(os.Getpid())
		if err != nil {
			return err
		}
		if err := p.Signal(syscall.Signal(s.Kill)); err != nil {
			return err
		}
		time.Sleep(time.Minute)
	}
	exit(s.Exit)
	return nil
}

// pattern returns n bytes of text without repetition.
func pattern(n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.Bytes()[:n]
}

// action starts the program with arguments and what it reads.
func action(t testing.TB, input string, args ...string) *primitive.Action {
	list := []any{childWord}
	for _, a := range args {
		list = append(list, a)
	}
	config := map[string]any{"command": "program", "args": list, "timeout": int64(300)}
	if input != "" {
		config["input_data"] = input
	}
	return &primitive.Action{
		Config: config, Env: []string{mark(t)}, Dir: sandboxtest.Dir(t),
		Programs: map[string]primitive.Program{"program": {Path: sandboxtest.Self(t)}},
		Sandbox:  sandbox.Spec{Level: floor.Limits},
	}
}

// saying runs a script.
func saying(t testing.TB, s script) *primitive.Action {
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return action(t, string(text), "say")
}

// mark marks the processes of a test.
func mark(t testing.TB) string { return "RYE_TEST=" + strconv.Itoa(os.Getpid()) + t.Name() }

// alive lists the processes that a test has left, where a system lists them.
func alive(t testing.TB) []string { return sandboxtest.Alive("environ", mark(t)) }

// run runs an action that can be done.
func run(t testing.TB, a *primitive.Action, to primitive.Sink) *primitive.Result {
	t.Helper()
	r, err := (&subprocess.Subprocess{Machine: sandboxtest.Machine(t)}).Run(t.Context(), a, to)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
