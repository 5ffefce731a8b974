package starlark_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/starlark"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// guestWord starts this binary as the guest.
const guestWord = "__guest"

func TestMain(m *testing.M) {
	sandboxtest.Programs(map[string]func([]string) int{guestWord: func([]string) int {
		return starlark.Guest(os.Stdin, os.Stdout)
	}})
	os.Exit(m.Run())
}

// subject is the primitive, whose children bear the mark.
func subject(t testing.TB) *starlark.Starlark {
	return &starlark.Starlark{
		Machine: sandboxtest.Machine(t),
		Self:    []string{sandboxtest.Self(t), guestWord, mark(t)},
	}
}

// mark marks the processes of a test, and of those in it.
func mark(t testing.TB) string {
	name, _, _ := strings.Cut(t.Name(), "/")
	return "test-of-" + name
}

// alive lists the processes that a test has left, where a system lists them.
func alive(t testing.TB) []string { return sandboxtest.Alive("cmdline", mark(t)) }

// put writes files into a directory, and returns it.
func put(t testing.TB, dir string, files map[string]string) string {
	for name, text := range files {
		at := filepath.Join(dir, filepath.FromSlash(name))
		err := os.MkdirAll(filepath.Dir(at), 0o777)
		if err == nil {
			err = os.WriteFile(at, []byte(text), 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// action calls main of a script.
func action(t testing.TB, text string, params any) *primitive.Action {
	line, err := jcs.Append(nil, params)
	if err != nil {
		t.Fatal(err)
	}
	dir := put(t, sandboxtest.Dir(t), map[string]string{"tool.star": text})
	return &primitive.Action{
		Config: map[string]any{"file": filepath.Join(dir, "tool.star"), "params": string(line), "timeout": int64(300)},
		Dir:    dir, Own: dir, Sandbox: sandbox.Spec{Level: floor.Limits, Read: []string{dir}},
	}
}

// granted returns the action with files of a project.
func granted(a *primitive.Action, project string, read, write []string) *primitive.Action {
	whole := func(list []string) (all []string) {
		for _, at := range list {
			all = append(all, filepath.Join(project, filepath.FromSlash(at)))
		}
		return all
	}
	a.Files = primitive.Files{Project: project, Read: whole(read), Write: whole(write)}
	a.Sandbox.Read = append(a.Sandbox.Read, a.Files.Read...)
	a.Sandbox.Write = append(a.Sandbox.Write, a.Files.Write...)
	return a
}

// A sink keeps the output.
type sink struct {
	text [2]bytes.Buffer
	full error // returned from the first call on
}

func (s *sink) Emit(from primitive.Stream, b []byte) error {
	s.text[from].Write(b)
	return s.full
}

var errFull = errors.New("the sink has enough")

// run runs an action that can be done.
func run(t testing.TB, a *primitive.Action, to primitive.Sink) *primitive.Result {
	t.Helper()
	r, err := subject(t).Run(t.Context(), a, to)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// here runs one in this process.
func here(t testing.TB, a *primitive.Action) *primitive.Result {
	t.Helper()
	r, err := starlark.Here(a, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
