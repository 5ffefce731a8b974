//go:build unix

package exec_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/lock/file"
)

// TestScript: a script of the chain is pinned, and what it is run by is known like any other program.
func TestScript(t *testing.T) {
	w := newWorld(t)
	interpreter := w.program("bin/interpreter", "the interpreter")
	script := "#!" + interpreter + "\nwhatever it reads\n"
	w.put(map[string]string{".ai/tools/acme/m/m.yaml": tool("acme/m/m", "rye/core/runtimes/r", "config: {start: '{anchor_path}/run'}"), ".ai/tools/acme/m/parts": "", ".ai/tools/acme/m/run": script})
	if err := os.Chmod(filepath.Join(w.project, ".ai/tools/acme/m/run"), 0o755); err != nil {
		t.Fatal(err)
	}
	w.signed("tool:acme/m/m", alice)
	w.probe.starts = func(config map[string]any) []string { return []string{config["start"].(string)} }
	p := w.prepare(call("tool:acme/m/m", nil))
	start := p.Config["start"].(string)
	if len(p.Programs) != 1 || p.Programs[0].Path != interpreter || p.Action.Programs[start].Path != start || p.Action.Programs[start].File != nil {
		t.Errorf("%+v, %+v", p.Programs, p.Action.Programs)
	}
	w.policy = enforce
	if e, ok := errors.AsType[*exec.ToolchainError](w.refused(call("tool:acme/m/m", nil))); !ok || e.Path != interpreter {
		t.Error(e)
	}
	b := w.base()
	b.Program = pins(file.Program{Name: "interpreter", Digest: cas.Sum([]byte("the interpreter"))})
	if p, err := w.kernel.Prepare(t.Context(), b, call("tool:acme/m/m", nil)); err != nil || !p.Programs[0].Pinned {
		t.Error(err)
	} else {
		p.Close()
	}
	// What may not be executed isn't.
	if err := os.Chmod(filepath.Join(w.project, ".ai/tools/acme/m/run"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.signed("tool:acme/m/m", alice)
	w.policy = ""
	if _, ok := errors.AsType[*exec.ConfigError](w.refused(call("tool:acme/m/m", nil))); !ok {
		t.Error("a file that may not be executed is started")
	}
}

// TestAround: a program that isn't the system's can read what it was installed with, and nothing that is private.
func TestAround(t *testing.T) {
	for name, c := range map[string]struct {
		secret string
		extra  bool
	}{"installed": {"", true}, "secrets beside it": {"opt/x/secret", false}, "secrets elsewhere": {"secret", true}, "all is secret": {"opt", true}} {
		w := newWorld(t).with()
		if c.secret != "" {
			w.kernel.Secret = []string{filepath.Join(w.dir, filepath.FromSlash(c.secret))}
		}
		path := w.program("opt/x/bin/program", "good")
		read := w.prepare(call(x, nil)).Action.Sandbox.Read
		if !slices.Contains(read, path) || slices.Contains(read, filepath.Join(w.dir, "opt/x")) != c.extra {
			t.Errorf("%s: %q", name, read)
		}
	}
	// Of a virtual environment all of it.
	w := newWorld(t).with("env_config: {interpreter: {type: venv_python, venv_path: .venv, var: RYE_PYTHON}}", "config: {command: '${RYE_PYTHON}'}")
	w.program("project/.venv/bin/python", "python")
	w.probe.starts = func(config map[string]any) []string { return []string{config["command"].(string)} }
	p := w.prepare(call(x, nil))
	if venv := filepath.Join(w.project, ".venv"); !slices.Contains(p.Action.Sandbox.Read, venv) || len(p.Programs) != 1 || p.Programs[0].Name != "python" {
		t.Errorf("reads %q, programs %+v", p.Action.Sandbox.Read, p.Programs)
	}
	if slices.ContainsFunc(p.Env, func(v string) bool { return len(v) > 4 && v[:4] == "RYE_" }) {
		t.Errorf("the program gets %q", p.Env)
	}
}
