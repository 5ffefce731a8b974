package sandbox_test

import (
	"errors"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// TestOffers: every offered level works and names its means.
func TestOffers(t *testing.T) {
	m := machine(t)
	o := m.Offers()
	if len(o.Parts) != 4 || o.Best < floor.Limits {
		t.Fatalf("%+v", o)
	}
	for _, p := range o.Parts {
		if strings.Contains(p.Why, "\n") || p.Name == "" || p.Works == (p.Why != "") || p.Works != (p.Version != "") {
			t.Errorf("%+v", p)
		}
	}
	for l := floor.None; l <= floor.Namespace; l++ {
		out, err := m.Run(t.Context(), sandbox.Spec{Level: l},
			proc.Command{Path: self(t), Args: []string{tryWord, "nothing"}})
		if l > o.Best {
			if missing, ok := errors.AsType[*sandbox.UnavailableError](err); !ok || missing.Level != l ||
				len(missing.Missing) == 0 {
				t.Errorf("%s: %v", l, err)
			}
			continue
		}
		if err != nil || out.Level != l || out.Exit.Code != 0 {
			t.Errorf("%s: %+v, %v", l, out, err)
			continue
		}
		for name, from := range map[string]floor.Level{"rlimits": floor.Limits, "seccomp": floor.Landlock,
			"netns": floor.Namespace, "pidns": floor.Namespace} {
			if slices.Contains(out.Enforced, name) != (l >= from) {
				t.Errorf("%s: %q", l, out.Enforced)
			}
		}
	}
}

// TestNoStage: without a working second stage nothing runs.
func TestNoStage(t *testing.T) {
	c := proc.Command{Path: self(t), Args: []string{tryWord, "nothing"}}
	for name, words := range map[string][]string{
		"none": nil, "not there": {"/no/such/stage"}, "another program": {self(t), tryWord, "nothing"},
		"one that fails": {self(t), tryWord, "exit", "3"},
	} {
		m := sandbox.New(sandbox.Options{Self: words})
		if o := m.Offers(); o.Best == floor.Namespace {
			t.Errorf("%s: %+v", name, o)
		}
		for l := floor.None; l <= floor.Namespace; l++ {
			if o, err := m.Run(t.Context(), sandbox.Spec{Level: l}, c); err == nil {
				t.Errorf("%s, %s: %+v", name, l, o)
			}
		}
		// More than a socket buffers while its other end doesn't read.
		long := c
		for range 20 {
			long.Env = append(long.Env, "X="+strings.Repeat("x", 100<<10))
		}
		if o, err := m.Run(t.Context(), sandbox.Spec{Most: true}, long); err == nil {
			t.Errorf("%s: %+v", name, o)
		}
	}
	// A stage without a caller does nothing.
	alone := exec.Command(self(t), stageWord, coverDir())
	if err := alone.Run(); alone.ProcessState.ExitCode() != 2 {
		t.Error(err)
	}
}

// TestSelf: the stage starts whatever the name of this binary.
func TestSelf(t *testing.T) {
	m := sandbox.New(sandbox.Options{Self: []string{"/proc/self/exe", stageWord, ""}})
	for l := floor.None; l <= floor.Namespace; l++ {
		if o, said := attempt(t, m, sandbox.Spec{Level: l}, "nothing"); o.Exit.Code != 0 {
			t.Errorf("%s: %+v, %s", l, o, said)
		}
	}
}

// TestRefusals: a command that can't be passed on or started is an error, and nothing runs.
func TestRefusals(t *testing.T) {
	m := machine(t)
	good := proc.Command{Path: self(t), Args: []string{tryWord, "nothing"}}
	for l := floor.None; l <= floor.Namespace; l++ {
		c := good
		c.Args = []string{"a\x00b"}
		if _, err := m.Run(t.Context(), sandbox.Spec{Level: l}, c); !isArgument(err) {
			t.Errorf("%s: %v", l, err)
		}
		c = good
		c.Dir = "/no/such/dir"
		_, err := m.Run(t.Context(), sandbox.Spec{Level: l}, c)
		if err == nil || !strings.HasPrefix(err.Error(), "start "+strconv.Quote(c.Path)+": enter the directory: ") {
			t.Errorf("%s: %v", l, err)
		}
	}
	// A directory as the program doesn't give access to its content.
	for path, want := range map[string]error{t.TempDir(): unix.EACCES, "/no/such/program": unix.ENOENT} {
		if _, err := m.Run(t.Context(), sandbox.Spec{Level: floor.Landlock}, proc.Command{Path: path}); !errors.Is(err,
			want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
	_, err := m.Run(t.Context(), sandbox.Spec{Level: floor.Landlock, Read: []string{"/proc/1"}}, good)
	if err == nil || !strings.Contains(err.Error(), "can't be given to a program") {
		t.Error(err)
	}
}

func isArgument(err error) bool {
	return fault.Of(err).Details["argument"] != nil
}
