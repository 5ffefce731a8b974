//go:build unix

package exec_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/file"
)

// TestScript: a script of the chain is pinned, and what it is run by is known like any other program.
func TestScript(t *testing.T) {
	w := newWorld(t)
	interpreter := w.program("bin/interpreter", "the interpreter")
	script := "#!" + interpreter + "\nwhatever it reads\n"
	w.put(map[string]string{".ai/tools/acme/m/m.yaml": tool("acme/m/m", "rye/core/runtimes/r",
		"config: {start: '{anchor_path}/run'}"), ".ai/tools/acme/m/parts": "", ".ai/tools/acme/m/run": script})
	if err := os.Chmod(filepath.Join(w.project, ".ai/tools/acme/m/run"), 0o755); err != nil {
		t.Fatal(err)
	}
	w.signed("tool:acme/m/m", alice)
	w.probe.starts = func(config map[string]any) []string { return []string{config["start"].(string)} }
	p := w.prepare(call("tool:acme/m/m", nil))
	start := p.Config["start"].(string)
	if len(p.Programs) != 1 || p.Programs[0].Path != interpreter || p.Action.Programs[start].Path != start ||
		p.Action.Programs[start].File != nil {
		t.Errorf("%+v, %+v", p.Programs, p.Action.Programs)
	}
	w.policy = enforce
	if e := fault.Of(w.refused(call("tool:acme/m/m", nil))); e.Code != fault.NotLocked ||
		e.Details["path"] != interpreter {
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
	if fault.Of(w.refused(call("tool:acme/m/m", nil))).Details["ref"] != "tool:acme/m/m" {
		t.Error("a file that may not be executed is started")
	}
}

// TestAround: a program that isn't the system's can read what it was installed with, and nothing that is private.
func TestAround(t *testing.T) {
	for name, c := range map[string]struct {
		secret string
		extra  bool
	}{"installed": {"", true}, "secrets beside it": {"opt/x/secret", false}, "secrets elsewhere": {"secret", true},
		"all is secret": {"opt", true}} {
		w := newWorld(t).with()
		if c.secret != "" {
			w.kernel.Secret = []string{filepath.Join(w.dir, filepath.FromSlash(c.secret))}
		}
		w.program("opt/x/lib/python3/module.py", "")
		w.program("opt/x/credentials", "")
		path := w.program("opt/x/bin/program", "good")
		if err := os.Symlink("lib", filepath.Join(w.dir, "opt/x/lib64")); err != nil {
			t.Fatal(err)
		}
		want := []string{path}
		if c.extra {
			want = append(want, filepath.Join(w.dir, "opt/x/bin"), filepath.Join(w.dir, "opt/x/lib"))
		}
		if read := w.prepare(call(x, nil)).Action.Sandbox.Read; !slices.Equal(read[1:], want) {
			t.Errorf("%s: %q, want %q", name, read[1:], want)
		}
	}
}

// TestEnvironment: of a virtual environment the tool reads what is installed there, whatever directory a link calls
// one.
func TestEnvironment(t *testing.T) {
	for place, more := range map[string][]string{".venv": {".venv/pyvenv.cfg", ".venv/lib"}, "data": {"data/lib"},
		".": nil} {
		w := newWorld(t).
			with("env_config: {interpreter: {type: venv_python, venv_path: '"+place+"', var: RYE_PYTHON}}",
				"config: {command: '${RYE_PYTHON}'}")
		w.put(map[string]string{".venv/pyvenv.cfg": "", ".venv/lib/x": "", "data/lib/x": "", "data/secret": "",
			"lib/x": "", ".env": ""})
		path := w.program(filepath.Join("project", place, "bin/python"), "python")
		w.probe.starts = func(config map[string]any) []string { return []string{config["command"].(string)} }
		p := w.prepare(call(x, nil))
		want := []string{path}
		if more != nil {
			want = append(want, filepath.Dir(path))
		}
		for _, m := range more {
			want = append(want, filepath.Join(w.project, filepath.FromSlash(m)))
		}
		read := slices.Compact(slices.Sorted(slices.Values(p.Action.Sandbox.Read[1:])))
		if slices.Sort(want); !slices.Equal(read, want) || len(p.Programs) != 1 || p.Programs[0].Name != "python" {
			t.Errorf("%s: reads %q, want %q; programs %+v", place, read, want, p.Programs)
		}
		if slices.ContainsFunc(p.Env, func(v string) bool { return len(v) > 4 && v[:4] == "RYE_" }) {
			t.Errorf("the program gets %q", p.Env)
		}
	}
}

// TestUnfit: no program is taken from places where others write or from rye's own directories. A stranger's tool gets
// only programs of the system and of PATH, because it can read what it may execute.
func TestUnfit(t *testing.T) {
	for name, c := range map[string]struct {
		path     string
		own, all bool // may the user's own tool start it, may any
	}{
		"in the project":           {"project/bin/x", false, false},
		"in what is rye's":         {"cache/x", false, false},
		"a link into the project":  {"links/x", false, false},
		"of another project":       {"other/bin/x", true, false},
		"in PATH":                  {"path/x", true, true},
		"a script for the project": {"path/script", false, false},
		"a script for another":     {"path/other", true, false},
	} {
		for _, own := range []bool{true, false} {
			for _, fallback := range []bool{false, true} {
				w := newWorld(t)
				w.policy = "\ngrants:\n  \"tool:acme/**\": []\n"
				for _, program := range []string{"project/bin/x", "cache/x", "other/bin/x", "path/x"} {
					w.program(program, "good")
				}
				w.program("path/script", "#!"+filepath.Join(w.dir, "project/bin/x")+"\n")
				w.program("path/other", "#!"+filepath.Join(w.dir, "other/bin/x")+"\n")
				path := filepath.Join(w.dir, filepath.FromSlash(c.path))
				if err := errors.Join(os.Mkdir(filepath.Join(w.dir, "links"), 0o755),
					os.Symlink(filepath.Join(w.project, "bin/x"), filepath.Join(w.dir, "links/x"))); err != nil {
					t.Fatal(err)
				}
				w.kernel.Host.Vars["PATH"] = filepath.Join(w.dir, "path") + ":" + filepath.Join(w.dir, "links")
				w.probe.starts = func(map[string]any) []string { return []string{path} }
				more := ""
				if fallback {
					w.probe.starts = nil
					more = "env_config: {interpreter: {type: system_binary, binary: nothing, var: RYE_X, fallback: '" +
						path + "'}}"
				}
				w.put(map[string]string{".ai/tools/acme/x.yaml": tool("acme/x", probing, more)})
				who := bob
				if own {
					who = alice
				}
				w.signed(x, who)
				want := c.all || own && c.own
				if p, err := w.kernel.Prepare(t.Context(), w.base(), call(x, nil)); (err == nil) != want {
					t.Errorf("%s: own %v, fallback %v: %v", name, own, fallback, err)
				} else if err == nil {
					p.Close()
				} else if fault.CodeOf(err) != fault.Validation && !fallback {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	}
}

// TestOtherProject: a call that is about another directory works there, and takes no program from it.
func TestOtherProject(t *testing.T) {
	w := newWorld(t).with("config: {project: '{project_path}'}", "files: {read: [in], write: [out]}")
	other := filepath.Join(w.dir, "other")
	if err := os.MkdirAll(filepath.Join(other, "out"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := call(x, nil)
	c.Project = other
	p := w.prepare(c)
	if p.Config["project"] != other || !slices.Contains(p.Action.Sandbox.Write, filepath.Join(other, "out")) ||
		slices.Contains(p.Action.Sandbox.Write, filepath.Join(w.project, "out")) {
		t.Errorf("%v, %v", p.Config, p.Action.Sandbox.Write)
	}
	prog := w.program("other/out/prog", "good")
	w.probe.starts = func(map[string]any) []string { return []string{prog} }
	if fault.CodeOf(w.refused(c)) != fault.Validation {
		t.Error("a program of the other project is started")
	}
}
