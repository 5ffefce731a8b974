//go:build unix

package env

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/parse"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
)

// A world is a machine with a project, a home and a directory of programs.
type world struct {
	t    testing.TB
	root string
	Request
}

func newWorld(t testing.TB) *world {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, root: root}
	for _, dir := range []string{"bin", "bin2", "project", "home", "tmp", "user"} {
		if err := os.Mkdir(w.at(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.program("bin/python3", "python of the system")
	w.program("bin/node", "node of the system")
	w.Request = Request{Project: w.at("project"), Home: w.at("home"), Temp: w.at("tmp"),
		Host: Host{Files: Disk{}, Vars: map[string]string{"PATH": w.at("bin") + ":" + w.at("bin2"),
			"HOME": w.at("user")}}}
	return w
}

func (w *world) at(path string) string { return filepath.Join(w.root, path) }

func (w *world) program(path, content string) string {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(w.at(path)), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(w.at(path), []byte(content), 0o755); err != nil {
		w.t.Fatal(err)
	}
	return w.at(path)
}

func (w *world) chmod(path string, m fs.FileMode) {
	w.t.Helper()
	if err := os.Chmod(w.at(path), m); err != nil {
		w.t.Fatal(err)
	}
}

// link adds a link to the chain, below those that are there.
func (w *world) link(name, text string) {
	w.t.Helper()
	v, problems := parse.YAML([]byte(text), value.Pos{Line: 1, Column: 1})
	if len(problems) > 0 {
		w.t.Fatal(problems[0])
	}
	w.Links = append(w.Links, Link{Name: name, EnvConfig: v.Get("env_config"), EnvPaths: v.Get("env_paths")})
}

func (w *world) resolve() *Env {
	w.t.Helper()
	e, err := Resolve(context.Background(), w.Request)
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

func (w *world) err() string {
	w.t.Helper()
	e, err := Resolve(context.Background(), w.Request)
	if err == nil {
		w.t.Fatalf("%v was resolved", e.List())
	}
	text := err.Error()
	// with the places, which a fault has on lines of their own
	if missing, ok := errors.AsType[*NotFoundError](err); ok {
		text = strings.Replace(text, missing.Fault().Text, missing.Error(), 1)
	}
	return strings.ReplaceAll(text, w.root, "ROOT")
}

func (w *world) list(e *Env) []string {
	list := e.List()
	for i := range list {
		list[i] = strings.ReplaceAll(list[i], w.root, "ROOT")
	}
	return list
}

func TestHostVariables(t *testing.T) {
	w := newWorld(t)
	for name, v := range map[string]string{
		"LANG": "de_DE.UTF-8", "LC_ALL": "C", "LC_TIME": "../../evil", "LC_": "/x", "LANGUAGE": "de:en",
		"TZ": "Europe/Berlin", "TERM": "xterm-256color",
		"NO_COLOR": "1", "USER": "x", "SSH_AUTH_SOCK": "/x", "AWS_SECRET_ACCESS_KEY": "s", "RYE_KEY": "k",
		"RYE_KEY_PASSPHRASE": "p", "LD_PRELOAD": "/x.so",
		"LD_LIBRARY_PATH": "/x", "PYTHONPATH": "/x", "PYTHONSTARTUP": "/x", "NODE_OPTIONS": "-r x", "BASH_ENV": "/x",
		"ENV": "/x", "GIT_SSH_COMMAND": "x",
		"NODE_COMPILE_CACHE": "/x", "XDG_CONFIG_HOME": "/x", "GIT_DIR": "/x", "R_LIBS_USER": "/x",
		"TCL8_6_TM_PATH": "/x", "__PYVENV_LAUNCHER__": "/x",
		"BASH_FUNC_ls%%": "() { evil; }", "HTTP_PROXY": "http://x", "DISPLAY": ":0", "CI": "1", "": "x",
		"TMPDIR": "/tmp", "VIRTUAL_ENV": "/x",
	} {
		w.Host.Vars[name] = v
	}
	want := []string{"HOME=ROOT/home", "LANG=de_DE.UTF-8", "LANGUAGE=de:en", "LC_ALL=C", "NO_COLOR=1",
		"PATH=ROOT/bin:ROOT/bin2", "TERM=xterm-256color",
		"TMPDIR=ROOT/tmp", "TZ=Europe/Berlin"}
	e := w.resolve()
	if got := w.list(e); !slices.Equal(got, want) || e.Keys != nil || e.Programs != nil {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for name, v := range map[string]string{"TZ": ":/etc/passwd", "LANG": "/x", "TERM": "x/../../y",
		"LC_ALL": strings.Repeat("a", 201), "LANGUAGE": "a b", "NO_COLOR": "\n"} {
		w := newWorld(t)
		w.Host.Vars[name] = v
		if got, ok := w.resolve().Vars[name]; ok {
			t.Errorf("%s=%s is taken", name, got)
		}
	}
}

func TestPath(t *testing.T) {
	w := newWorld(t)
	for _, dir := range []string{"project/bin", "open", "sticky", "shim", "user/.ai", "parent/bin"} {
		if err := os.MkdirAll(w.at(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.chmod("open", 0o777)
	w.chmod("parent", 0o777)
	w.chmod("sticky", 0o777|fs.ModeSticky) // as /tmp: anyone may add a program
	for name, target := range map[string]string{"tobin": "bin", "toproject": "project/bin"} {
		if err := os.Symlink(w.at(target), w.at(name)); err != nil {
			t.Fatal(err)
		}
	}
	w.Forbidden = []string{w.at("user/.ai"), ""}
	w.Host.Vars["PATH"] = strings.Join([]string{"", ".", "bin", w.at("project/bin"), w.root + "/bin/../project",
		w.at("open"), w.at("sticky"), w.at("none"), w.at("parent/bin"),
		w.at("bin/python3"), w.at("user/.ai"), w.at("home"), w.at("tmp"), w.at("toproject"), w.at("tobin") + "/",
		w.at("bin"), w.root + "//bin"}, ":")
	if got := strings.ReplaceAll(w.resolve().Vars["PATH"], w.root, ""); got != "/tobin:/bin" {
		t.Error(got)
	}
	w.Host.Vars["PATH"] = strings.Repeat("x:", 300) + w.at("bin")
	if got := w.resolve().Vars["PATH"]; got != "/usr/local/bin:/usr/bin:/bin" {
		t.Error(got)
	}
	// A shim in the project isn't found, wherever PATH says it is.
	w.program("project/bin/perl", "evil")
	w.Host.Vars["PATH"] = w.at("project/bin") + ":" + w.at("bin")
	e := w.resolve()
	if _, err := Find(w.Request, e, "perl"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestLinks(t *testing.T) {
	w := newWorld(t)
	w.Names = map[string]string{"tool_dir": "/run/t", "anchor_path": "/run/a"}
	w.DotEnv = []Variable{{"LEVEL", "dotenv", 1}, {"FROM_FILE", "f", 2}}
	w.link("tool", `
env_config:
  env: {WHO: tool, SEEN: "${WHO}-${BASE}-${LEVEL}", NODE_OPTIONS: "", PATH: "${PATH}", HOME: "${HOME}"}
env_paths:
  RYE_MODULE_PATH: {prepend: ["{anchor_path}", "/run/b"], append: ["/run/c", "{anchor_path}"]}
  EXTRA: {append: [/z]}`)
	w.link("runtime", `
env_config:
  env: {WHO: runtime, BASE: "${WHO}/${NONE:-d}", N: 42, T: true, F: 1.50, Z: null, D: "{tool_dir}/data", LIT: "$${A}{{b}}"}
env_paths:
  RYE_MODULE_PATH: {prepend: [/run/c]}
  EXTRA:`+" {prepend: [/y]}")
	w.link("primitive", `env_config: {env: {WHO: primitive}}`)
	w.link("bare", "")
	e := w.resolve()
	want := []string{"BASE=runtime/d", "D=/run/t/data", "EXTRA=/y:/z", "F=1.50", "FROM_FILE=f", "HOME=ROOT/home",
		"LEVEL=dotenv", "LIT=${A}{b}", "N=42", "NODE_OPTIONS=",
		"PATH=ROOT/bin:ROOT/bin2", "RYE_MODULE_PATH=/run/a:/run/b:/run/c", "SEEN=tool-runtime/d-dotenv", "T=true",
		"TMPDIR=ROOT/tmp", "WHO=tool"}
	if got := w.list(e); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	keys := []string{"BASE", "D", "EXTRA", "F", "FROM_FILE", "HOME", "LEVEL", "LIT", "N", "NODE_OPTIONS", "PATH",
		"RYE_MODULE_PATH", "SEEN", "T", "WHO"}
	if !slices.Equal(e.Keys, keys) {
		t.Errorf("got %q", e.Keys)
	}
}

func TestLinkErrors(t *testing.T) {
	const loads = `it loads other code before the tool's; use RYE_MODULE_PATH for modules`
	for _, c := range []struct{ text, want string }{
		{`env_config: {env: {A: "${NONE}"}}`,
			`env_config.env.A of "l", line 1: column 1 of the template: the variable "NONE" is not set and has no default, as in ${NONE:-…}`},
		{`env_config: {env: {A: "{none}"}}`,
			`env_config.env.A of "l", line 1: column 1 of the template: unknown name "none"; write {{none}} for the literal text`},
		{`env_config: {env: {A: [x]}}`, `env_config.env.A of "l", line 1: expected a string, got array`},
		{`env_config: {env: {A: "x` + `\0` + `"}}`,
			`env_config.env.A of "l", line 1: the value of "A" contains a NUL byte`},
		{`env_config: {env: {"A=B": x}}`,
			`env_config.env.A=B of "l", line 1: "A=B" is not a valid variable name: use letters, digits and _, without a digit first`},
		{`env_config: {env: {"": x}}`,
			`env_config.env. of "l", line 1: a variable name must have 1 to 200 characters, not 0`},
		{`env_config: {env: {LD_PRELOAD: x}}`,
			`env_config.env.LD_PRELOAD of "l", line 1: the variable "LD_PRELOAD" can't be set: ` + loads},
		{`env_config: {env: {ld_preload: x}}`,
			`env_config.env.ld_preload of "l", line 1: the variable "ld_preload" can't be set: ` + loads},
		{`env_config: {env: {BASH_ENV: x}}`,
			`env_config.env.BASH_ENV of "l", line 1: the variable "BASH_ENV" can't be set: ` + loads},
		{`env_config: {env: {NODE_COMPILE_CACHE: x}}`,
			`env_config.env.NODE_COMPILE_CACHE of "l", line 1: the variable "NODE_COMPILE_CACHE" can't be set: ` +
				loads},
		{`env_config: {env: {XDG_CONFIG_HOME: x}}`,
			`env_config.env.XDG_CONFIG_HOME of "l", line 1: the variable "XDG_CONFIG_HOME" can't be set: ` + loads},
		{`env_config: {env: {TCL8_6_TM_PATH: x}}`,
			`env_config.env.TCL8_6_TM_PATH of "l", line 1: the variable "TCL8_6_TM_PATH" can't be set: ` + loads},
		{`env_paths: {PYTHONPATH: {prepend: [/x]}}`,
			`anchor.env_paths.PYTHONPATH of "l", line 1: the variable "PYTHONPATH" can't be set: ` + loads},
		{`env_config: {env: {RYE_TRUST: x}}`,
			`env_config.env.RYE_TRUST of "l", line 1: the variable "RYE_TRUST" can't be set: it is reserved for rye`},
		{`env_config: {env: {RYE_PYTHON: x}}`,
			`env_config.env.RYE_PYTHON of "l", line 1: the variable "RYE_PYTHON" can't be set: it is reserved for rye`},
		{`env_config: {env: {USER_SPACE: x}}`,
			`env_config.env.USER_SPACE of "l", line 1: the variable "USER_SPACE" can't be set: it is reserved for rye`},
		{`env_config: {env: {HOME: /root}}`,
			`env_config.env.HOME of "l", line 1: the variable "HOME" can't be set: it is a private directory`},
		{`env_config: {env: {HOME: ""}}`,
			`env_config.env.HOME of "l", line 1: the variable "HOME" can't be set: it is a private directory`},
		{`env_config: {env: {PATH: "ROOT/project:${PATH}"}}`,
			`env_config.env.PATH of "l", line 1: the entry "ROOT/project" may not be in PATH: its files are not pinned`},
		{`env_config: {env: {PATH: ".:${PATH}"}}`,
			`env_config.env.PATH of "l", line 1: the entry "." may not be in PATH: it is not an absolute path without . and ..`},
		{`env_config: {env: {Path: "/x"}}`,
			`env_config.env.Path of "l", line 1: the variable "Path" can't be set: its name must be PATH`},
		{`env_paths: {X: {prepend: [x]}}`, `anchor.env_paths.X of "l", line 1: "x" is not an absolute path`},
		{`env_paths: {X: {prepend: ["/a:/b"]}}`,
			`anchor.env_paths.X of "l", line 1: "/a:/b" contains a ':', so it can't be in a list of paths`},
		{`env_paths: {X: {append: ["{none}"]}}`,
			`anchor.env_paths.X of "l", line 1: column 1 of the template: unknown name "none"; write {{none}} for the literal text`},
		{`env_paths: {X: {prepend: /x}}`, `anchor.env_paths.X of "l", line 1: expected a list, got string`},
		{`env_paths: {X: {prepend: [1]}}`, `anchor.env_paths.X of "l", line 1: expected a string, got integer`},
		{`env_paths: {X: []}`,
			`anchor.env_paths.X of "l", line 1: expected an object with prepend and append, got array`},
		{`env_config: {interpreter: x}`, `env_config.interpreter of "l", line 1: expected an object, got string`},
		{`env_config: {interpreter: {type: conda, var: X}}`,
			`env_config.interpreter of "l", line 1: invalid type "conda": expected node_modules, system_binary, venv_python or version_manager`},
		{`env_config: {interpreter: {type: venv_python}}`,
			`env_config.interpreter of "l", line 1: var: a variable name must have 1 to 200 characters, not 0`},
		{`env_config: {interpreter: {type: venv_python, var: LD_PRELOAD}}`,
			`env_config.interpreter of "l", line 1: var: the variable "LD_PRELOAD" can't be set: ` + loads},
		{`env_config: {interpreter: {type: venv_python, var: RYE_TRUST}}`,
			`env_config.interpreter of "l", line 1: var: the variable "RYE_TRUST" can't be set: it is used otherwise`},
		{`env_config: {interpreter: {type: venv_python, var: P, binary: x}}`,
			`env_config.interpreter of "l", line 1: "binary" has no effect for venv_python`},
		{`env_config: {interpreter: {type: venv_python, var: P, fallback: 3}}`,
			`env_config.interpreter of "l", line 1: fallback must be a string, not integer`},
		{`env_config: {interpreter: {type: venv_python, var: P, venv_path: ../x}}`,
			`env_config.interpreter of "l", line 1: "../x" is not a path inside the project`},
		{`env_config: {interpreter: {type: venv_python, var: P, fallback: bin/x}}`,
			`env_config.interpreter of "l", line 1: fallback: "bin/x" is not the name of a program: expected a name without a path`},
		{`env_config: {interpreter: {type: node_modules, var: P, search_paths: [/x]}}`,
			`env_config.interpreter of "l", line 1: "/x" is not a path inside the project`},
		{`env_config: {interpreter: {type: node_modules, var: P, search_paths: []}}`,
			`env_config.interpreter of "l", line 1: search_paths must be a list of 1 to 16 paths`},
		{`env_config: {interpreter: {type: system_binary, var: P, binary: -x}}`,
			`env_config.interpreter of "l", line 1: binary: "-x" is not the name of a program: expected a name without a path`},
		{`env_config: {interpreter: {type: system_binary, var: P, binary: none}}`,
			`env_config.interpreter of "l", line 1: "none" not found: looked in ["ROOT/bin/none" "ROOT/bin2/none"]`},
		{`env_config: {interpreter: {type: venv_python, var: P}}`,
			`env_config.interpreter of "l", line 1: "venv_python" not found: looked in ["ROOT/project/.venv/bin/python" "ROOT/project/.venv/bin/python3"]`},
		{`env_config: {interpreter: {type: venv_python, var: P, fallback: /none/x}}`,
			`env_config.interpreter of "l", line 1: "/none/x" not found: looked in ["/none/x"]`},
		{`env_config: {interpreter: {type: version_manager, var: P, manager: x, version: "3"}}`,
			`env_config.interpreter of "l", line 1: invalid manager "x": expected asdf, nvm, pyenv or rbenv`},
		{`env_config: {interpreter: {type: version_manager, var: P, manager: asdf, version: "3"}}`,
			`env_config.interpreter of "l", line 1: binary is required for asdf`},
		{`env_config: {interpreter: {type: version_manager, var: P, manager: nvm, version: "-3"}}`,
			`env_config.interpreter of "l", line 1: "-3" is not a version`},
		{`env_config: {interpreter: {type: version_manager, var: P, manager: nvm, version: "x"}}`,
			`env_config.interpreter of "l", line 1: "node x" not found: looked in ["ROOT/user/.nvm/versions/node"]`},
		{`env_config: {interpreter: {type: version_manager, var: P, manager: pyenv, version: "3"}}`,
			`env_config.interpreter of "l", line 1: "pyenv" not found: looked in ["ROOT/bin/pyenv" "ROOT/bin2/pyenv"]`},
		{`env_config: {interpreter: {type: system_binary, var: NODE, binary: node}, env: {NODE: x}}`,
			`env_config.env.NODE of "l", line 1: the variable "NODE" can't be set: it is the interpreter of "l"`},
		{`env_config: {env: {A: "` + strings.Repeat("x", MaxVariable) + `"}}`,
			`env_config.env.A of "l", line 1: the variable "A" has more than 131070 bytes`},
	} {
		w := newWorld(t)
		w.link("l", strings.ReplaceAll(c.text, "ROOT", w.root))
		if got := w.err(); got != c.want {
			t.Errorf("%.100s:\n got %s\nwant %s", c.text, got, c.want)
		}
	}
	w := newWorld(t)
	w.DotEnv = []Variable{{"LD_PRELOAD", "/x", 7}}
	if got, want := w.err(), `LD_PRELOAD of ".env", line 7: the variable "LD_PRELOAD" can't be set: `+
		loads; got != want {
		t.Error(got)
	}
	w.DotEnv = nil
	for i := range 20 {
		w.DotEnv = append(w.DotEnv, Variable{fmt.Sprintf("V%d", i), strings.Repeat("x", 100_000), i})
	}
	if got := w.err(); !strings.Contains(got, "at most 1048576 are allowed") {
		t.Error(got)
	}
	w = newWorld(t)
	w.Home = "home"
	if got, want := w.err(), `the directories "home", "ROOT/tmp" and "ROOT/project" must be absolute`; got != want {
		t.Error(got)
	}
	w = newWorld(t)
	for i := range maxPrograms + 1 {
		w.link("many", fmt.Sprintf(`env_config: {interpreter: {type: system_binary, binary: node, var: V%d}}`, i))
	}
	if got := w.err(); !strings.HasSuffix(got, "the chain needs more than 64 programs") {
		t.Error(got)
	}
	w = newWorld(t)
	w.link("l", `env_config: {env: {LD_PRELOAD: x}}`)
	_, err := Resolve(context.Background(), w.Request)
	if fault.CodeOf(err) != fault.Validation ||
		!strings.Contains(err.Error(), `the variable "LD_PRELOAD" can't be set`) {
		t.Error(err)
	}
}
