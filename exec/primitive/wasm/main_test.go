package wasm

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// The arguments that start this binary as a guest.
const (
	guestWord  = "__guest"
	brokenWord = "__broken"
)

func TestMain(m *testing.M) {
	sandboxtest.Programs(map[string]func(args []string) int{
		guestWord: func([]string) int { return Guest(os.Stdin, os.Stdout) },
		brokenWord: func(args []string) int { // a guest that sends no frame
			os.Stdout.WriteString(args[1])
			os.Stderr.WriteString(args[0] + "\n\nand a stack")
			return 2
		},
	})
	dir, err := os.MkdirTemp("", "rye-wasm")
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		panic(err)
	}
	scratch = dir
	status := m.Run()
	os.RemoveAll(dir)
	os.Exit(status)
}

// scratch is a directory that all tests share.
var scratch string

// built builds the guest, once.
var built = sync.OnceValues(func() (string, error) {
	at := filepath.Join(scratch, "own", "guest.wasm")
	c := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", at, "./testdata/guest")
	c.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=")
	c.Stderr = os.Stderr
	return at, c.Run()
})

func theGuest(t testing.TB) string {
	t.Helper()
	at, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func subject(t testing.TB) *Wasm {
	return &Wasm{Machine: sandboxtest.Machine(t), Self: []string{sandboxtest.Self(t), guestWord},
		Cache: filepath.Join(scratch, "cache")}
}

// action starts the guest with arguments and what it reads.
func action(t testing.TB, input string, args ...string) *primitive.Action {
	list := []any{}
	for _, a := range args {
		list = append(list, a)
	}
	config := map[string]any{"module": theGuest(t), "args": list, "timeout": int64(300)}
	if input != "" {
		config["input_data"] = input
	}
	return &primitive.Action{Config: config, Dir: sandboxtest.Dir(t), Own: filepath.Dir(theGuest(t)),
		Sandbox: sandbox.Spec{Level: floor.Limits}}
}

// put writes files below a directory; a name with a slash at its end is a directory.
func put(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(at, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// run runs an action that can be done.
func run(t testing.TB, a *primitive.Action, to primitive.Sink) *primitive.Result {
	t.Helper()
	r, err := subject(t).Run(t.Context(), a, to)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// said returns what a module wrote, and its status.
func said(r *primitive.Result) (out, errs string, code int64) {
	v, _ := r.Value.(map[string]any)
	out, _ = v["stdout"].(string)
	errs, _ = v["stderr"].(string)
	code, _ = v["return_code"].(int64)
	return out, errs, code
}
