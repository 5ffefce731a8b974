//go:build unix

package env

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rye-build/rye/ai/parse"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas"
)

func TestInterpreters(t *testing.T) {
	w := newWorld(t)
	venv := w.program("project/.venv/bin/python3", "")
	if err := os.Remove(venv); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(w.at("bin/python3"), venv); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.at("project/.venv/pyvenv.cfg"), []byte("home = /usr/bin\nversion = 3.11.2\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	w.program("project/tools/node", "own node")
	python :=
		`env_config: {interpreter: {type: venv_python, venv_path: .venv, var: RYE_PYTHON, fallback: python3}, env: {SEES: "${RYE_PYTHON}"}}`
	w.link("tool", `env_config: {interpreter: {type: node_modules, search_paths: [none, tools], var: RYE_NODE}}`)
	w.link("runtime", python)
	// the tool has said it
	w.link("other", `env_config: {interpreter: {type: system_binary, binary: nowhere, var: RYE_NODE}}`)
	e := w.resolve()
	sum := func(s string) cas.Digest { return cas.Sum([]byte(s)) }
	want := []Program{
		{Name: "RYE_NODE", Link: "tool", Type: "node_modules", Path: w.at("project/tools/node"),
			Real: w.at("project/tools/node"), Digest: sum("own node"), Size: 8},
		{Name: "RYE_PYTHON", Link: "runtime", Type: "venv_python", Path: venv, Real: w.at("bin/python3"),
			Version: "3.11.2", Digest: sum("python of the system"), Size: 20},
	}
	if !reflect.DeepEqual(e.Programs, want) {
		t.Errorf("got  %+v\nwant %+v", e.Programs, want)
	}
	if e.Vars["RYE_PYTHON"] != venv || e.Vars["SEES"] != venv || e.Vars["RYE_NODE"] != w.at("project/tools/node") {
		t.Error(w.list(e))
	}
	// Without a virtual environment it is the fallback, and that is said.
	w = newWorld(t)
	w.link("runtime", python)
	if p := w.resolve().Programs; len(p) != 1 || !p[0].Fallback || p[0].Path != w.at("bin/python3") ||
		p[0].Version != "" {
		t.Errorf("%+v", p)
	}
	w.Project = ""
	if p := w.resolve().Programs; len(p) != 1 || !p[0].Fallback {
		t.Errorf("%+v", p)
	}
	// What is there and doesn't count is no reason for the fallback.
	w = newWorld(t)
	w.link("runtime", python)
	file := w.program("project/.venv/bin/python", "x")
	for mode, why := range map[fs.FileMode]string{0o777: "can be written by any user", 0o644: "is not executable"} {
		w.chmod("project/.venv/bin/python", mode)
		want :=
			`env_config.interpreter of "runtime", line 1: "venv_python" not found: "ROOT/project/.venv/bin/python" ` +
				why +
				` (looked in ["ROOT/project/.venv/bin/python" "ROOT/project/.venv/bin/python3"])`
		if got := w.err(); got != want {
			t.Errorf("%o: got %s\nwant %s", mode, got, want)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(file, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := w.err(); !strings.Contains(got, "is not a regular file") {
		t.Error(got)
	}
}

func TestScripts(t *testing.T) {
	w := newWorld(t)
	w.program("bin/env", "env")
	w.program("bin/sh", "sh")
	names := func(list []Program) (all []string) {
		for _, p := range list {
			all = append(all, fmt.Sprintf("%s %s %s %s", p.Name, p.Type, filepath.Base(p.Path), filepath.Base(p.For)))
		}
		return all
	}
	e := w.resolve()
	for _, c := range []struct {
		script string
		want   []string
		err    string
	}{
		{"#!ROOT/bin/sh -e\n", []string{"t name t .", "sh interpreter sh t"}, ""},
		{"#! ROOT/bin/sh", []string{"t name t .", "sh interpreter sh t"}, ""},
		{"#!ROOT/bin/env python3\n", []string{"t name t .", "env interpreter env t", "python3 interpreter python3 t"},
			""},
		{"#!ROOT/bin/env -S python3 -I\n", []string{"t name t .", "env interpreter env t",
			"python3 interpreter python3 t"}, ""},
		{"#!ROOT/bin/env none\n", nil,
			`"t" not found: "ROOT/bin2/t" is a script: "none" not found: looked in ["ROOT/bin/none" "ROOT/bin2/none"] (looked in ["ROOT/bin/t" "ROOT/bin2/t"])`},
		{"#!ROOT/none\n", nil,
			`"t" not found: "ROOT/bin2/t" is a script: "ROOT/none" not found: looked in ["ROOT/none"] (looked in ["ROOT/bin/t" "ROOT/bin2/t"])`},
		{"#!ROOT/bin/env A=b python3\n", nil,
			`"t" not found: "ROOT/bin2/t" uses env in an unsupported way (looked in ["ROOT/bin/t" "ROOT/bin2/t"])`},
		{"#!ROOT/bin/env -S -i python3\n", nil,
			`"t" not found: "ROOT/bin2/t" uses env in an unsupported way (looked in ["ROOT/bin/t" "ROOT/bin2/t"])`},
		{"#!ROOT/bin/env -S 'python3'\n", nil,
			`"t" not found: "ROOT/bin2/t" uses env in an unsupported way (looked in ["ROOT/bin/t" "ROOT/bin2/t"])`},
		{"#!sh\n", nil,
			`"t" not found: "ROOT/bin2/t" has no absolute path after #! (looked in ["ROOT/bin/t" "ROOT/bin2/t"])`},
		{"#!\n", nil,
			`"t" not found: "ROOT/bin2/t" has no absolute path after #! (looked in ["ROOT/bin/t" "ROOT/bin2/t"])`},
	} {
		w.program("bin2/t", strings.ReplaceAll(c.script, "ROOT", w.root))
		got, err := Find(w.Request, e, "t")
		if c.err != "" {
			if err == nil || strings.ReplaceAll(err.Error(), w.root, "ROOT") != c.err ||
				!errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%q:\n got %v\nwant %s", c.script, err, c.err)
			}
			continue
		}
		if err != nil || !slices.Equal(names(got), c.want) {
			t.Errorf("%q: %q, %v", c.script, names(got), err)
		}
	}
	// A script of itself comes to an end.
	w.program("bin2/t", "#!"+w.at("bin2/t"))
	if _, err := Find(w.Request, e, "t"); err == nil ||
		!strings.Contains(err.Error(), "is a script run by too many scripts") {
		t.Error(err)
	}
	if got, err := Find(w.Request, e, w.at("bin/sh")); err != nil || len(got) != 1 ||
		got[0].Digest != cas.Sum([]byte("sh")) {
		t.Error(got, err)
	}
	for _, name := range []string{"", "../sh", "a/b", "-x", "a\x00", strings.Repeat("x", 256)} {
		if _, err := Find(w.Request, e, name); err == nil {
			t.Errorf("%q was found", name)
		}
	}
}

// asked is a Runner.
type asked struct {
	answer string
	err    error
	wait   bool
	got    []string
}

func (a *asked) Run(ctx context.Context, path string, args, env []string) ([]byte, error) {
	a.got = append(append([]string{path}, args...), env...)
	if a.wait {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return []byte(a.answer), a.err
}

// TestShimOf: a version manager's script in PATH is recognised, and so is the program that it hides.
func TestShimOf(t *testing.T) {
	w := newWorld(t)
	w.program("bin/sh", "sh")
	if err := os.Mkdir(w.at("shims"), 0o755); err != nil {
		t.Fatal(err)
	}
	w.program("shims/tool", "#!"+w.root+"/bin/sh\n")
	w.program("bin/script", "#!"+w.root+"/bin/sh\n")
	e := w.resolve()
	e.Vars["PATH"] = strings.Join([]string{w.root + "/shims", w.root + "/bin"}, string(filepath.ListSeparator))
	find := func(name string) *Shim {
		found, err := Find(w.Request, e, name)
		if err != nil {
			t.Fatal(err)
		}
		return ShimOf(w.Request, e, name, found[0])
	}
	if shim := find("tool"); shim == nil || shim.Path != w.root+"/shims/tool" || shim.Past != "" {
		t.Errorf("%+v", shim)
	}
	w.program("bin/tool", "program")
	if shim := find("tool"); shim == nil || shim.Past != w.root+"/bin/tool" {
		t.Errorf("%+v", shim)
	}
	if shim := find("script"); shim != nil {
		t.Errorf("%+v", shim)
	}
	if shim := find(w.root + "/shims/tool"); shim != nil { // asked for by its path
		t.Errorf("%+v", shim)
	}
}

func TestVersionManagers(t *testing.T) {
	w := newWorld(t)
	w.program("bin/sh", "sh")
	w.program("bin/pyenv", "#!"+w.at("bin/sh"))
	w.program("bin/asdf", "asdf")
	w.program("bin/rbenv", "rbenv")
	own := w.program("user/.pyenv/versions/3.11/bin/python", "3.11")
	w.Host.Vars["PYENV_ROOT"], w.Host.Vars["RBENV_ROOT"] = w.at("user/.pyenv"), "relative"
	ask := &asked{answer: own + "\n"}
	w.Host.Ask = ask
	w.link("tool",
		`env_config: {interpreter: {type: version_manager, manager: pyenv, version: "3.11", var: RYE_PYTHON, fallback: python3}}`)
	e := w.resolve()
	var got []string
	for _, p := range e.Programs {
		got = append(got, fmt.Sprint(p.Name, " ", p.Type, " ", strings.TrimPrefix(p.Path, w.root), " ", p.Version, " ",
			p.Link))
	}
	want := []string{"RYE_PYTHON version_manager /user/.pyenv/versions/3.11/bin/python 3.11 tool",
		"pyenv manager /bin/pyenv  tool", "sh interpreter /bin/sh  tool"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got, want := strings.ReplaceAll(strings.Join(ask.got, " "), w.root, ""),
		"/bin/pyenv which python HOME=/user PATH=/bin:/bin2 PYENV_ROOT=/user/.pyenv PYENV_VERSION=3.11"; got != strings.Replace(want,
		"/bin:/bin2", "/bin:/bin2", 1) {
		t.Error(got)
	}
	for _, c := range []struct {
		ask  *asked
		want string // "" for the fallback
	}{
		{&asked{err: errors.New("exit status 1")}, ""},
		{&asked{answer: w.at("none")}, ""},
		{&asked{answer: "python\n"}, `pyenv did not answer with an absolute path`},
		{&asked{answer: own + "\n" + own}, `pyenv did not answer with an absolute path`},
		{&asked{answer: "/" + strings.Repeat("x", 5000)}, `pyenv did not answer with an absolute path`},
	} {
		w.Host.Ask = c.ask
		if c.want != "" {
			if got := w.err(); !strings.HasSuffix(got, c.want) {
				t.Error(got)
			}
		} else if p := w.resolve().Programs; len(p) != 1 || !p[0].Fallback {
			t.Errorf("%+v", p)
		}
	}
	w.Host.Ask = nil
	if got := w.err(); !strings.HasSuffix(got, "can't ask pyenv: starting it is not allowed here") {
		t.Error(got)
	}
	synctest.Test(t, func(t *testing.T) {
		w.Host.Ask = &asked{wait: true}
		if got := w.err(); !strings.HasSuffix(got, "no answer from pyenv: context deadline exceeded") {
			t.Error(got)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := Resolve(ctx, w.Request); err != context.Canceled {
			t.Error(err)
		}
	})
	for manager, want := range map[string]string{
		"rbenv, binary: ruby":   "/bin/rbenv which ruby HOME=/user PATH=/bin:/bin2 RBENV_VERSION=3.1",
		"rbenv":                 "/bin/rbenv which ruby HOME=/user PATH=/bin:/bin2 RBENV_VERSION=3.1",
		"asdf, binary: node":    "/bin/asdf which node ASDF_NODEJS_VERSION=3.1 HOME=/user PATH=/bin:/bin2",
		"asdf, binary: python3": "/bin/asdf which python3 ASDF_PYTHON_VERSION=3.1 HOME=/user PATH=/bin:/bin2",
		"asdf, binary: my-tool": "/bin/asdf which my-tool ASDF_MY_TOOL_VERSION=3.1 HOME=/user PATH=/bin:/bin2",
	} {
		ask := &asked{answer: own}
		w.Host.Ask, w.Links = ask, nil
		w.link("tool", `env_config: {interpreter: {type: version_manager, manager: `+manager+
			`, version: "3.1", var: X}}`)
		w.resolve()
		if got := strings.ReplaceAll(strings.Join(ask.got, " "), w.root, ""); got != want {
			t.Errorf("%s: got  %s\nwant %s", manager, got, want)
		}
	}
}

func TestNVM(t *testing.T) {
	w := newWorld(t)
	for _, v := range []string{"v20.1.0", "v20.10.0", "v20.9.1", "v18.0.0", "v020.11.0", "20.99.0", "vx", "v21"} {
		w.program("user/.nvm/versions/node/"+v+"/bin/node", v)
	}
	for asked, want := range map[string]string{"20": "20.10.0", "v20.9": "20.9.1", "20.1": "20.1.0",
		"18.0.0": "18.0.0"} {
		w.Links = nil
		w.link("tool", `env_config: {interpreter: {type: version_manager, manager: nvm, version: "`+asked+
			`", var: RYE_NODE}}`)
		p := w.resolve().Programs
		if len(p) != 1 || p[0].Version != want || p[0].Digest != cas.Sum([]byte("v"+want)) {
			t.Errorf("%s: %+v", asked, p)
		}
	}
	w.Links = nil
	w.Host.Vars["NVM_DIR"] = w.at("user/.nvm")
	w.link("tool",
		`env_config: {interpreter: {type: version_manager, manager: nvm, version: "22", var: RYE_NODE, fallback: node}}`)
	if p := w.resolve().Programs; len(p) != 1 || !p[0].Fallback {
		t.Errorf("%+v", p)
	}
	w.Links = nil
	w.link("tool",
		`env_config: {interpreter: {type: version_manager, manager: nvm, version: "lts", var: RYE_NODE, fallback: node}}`)
	if got := w.err(); !strings.HasSuffix(got, `"lts" is not a version of node: expected 1 to 3 numbers`) {
		t.Error(got)
	}
}

func TestDotEnv(t *testing.T) {
	got, err := ParseDotEnv([]byte("# c\n\nA=1\n export B = two words # kept\r\nC=\"q $X\"\nD='a\"b'\nE=\nF==x\n"))
	want := []Variable{{"A", "1", 3}, {"B", "two words # kept", 4}, {"C", "q $X", 5}, {"D", `a"b`, 6}, {"E", "", 7},
		{"F", "=x", 8}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v %v", got, err)
	}
	for _, c := range []struct{ text, want string }{
		{"A", ".env: line 1, column 1: expected NAME=VALUE"},
		{"A=1\n  é=2",
			`.env: line 2, column 3: "é" is not a valid variable name: use letters, digits and _, without a digit first`},
		{"A=1\nA=2", `.env: line 2, column 1: "A" is already set in line 1`},
		{"A=\"x", ".env: line 1, column 3: unclosed quote"},
		{"A='x' y", ".env: line 1, column 3: unclosed quote"},
		{"A='x'y'", ".env: line 1, column 3: unclosed quote"},
		{"A=\x00", ".env: line 1, column 3: control character or invalid UTF-8"},
		{"A=\xff", ".env: line 1, column 1: control character or invalid UTF-8"},
		{"export =x", `.env: line 1, column 8: a variable name must have 1 to 200 characters, not 0`},
		{strings.Repeat("x", MaxDotEnv+1), ".env: line 1, column 1: the file has more than 65536 bytes"},
	} {
		if got, err := ParseDotEnv([]byte(c.text)); err == nil || err.Error() != c.want {
			t.Errorf("%.20q: got %+v, %v; want %s", c.text, got, err, c.want)
		}
	}
}

func FuzzDotEnv(f *testing.F) {
	f.Add([]byte("# c\n\nA=1\n export B = x\r\nC=\"q\"\nD='a'\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := ParseDotEnv(b)
		if err != nil {
			return
		}
		var again strings.Builder
		for _, v := range all {
			quote := `"`
			if strings.Contains(v.Value, quote) {
				quote = "'"
			}
			if strings.Contains(v.Value, quote) {
				return
			}
			fmt.Fprintf(&again, "%s=%s%s%s\n", v.Name, quote, v.Value, quote)
		}
		back, err := ParseDotEnv([]byte(again.String()))
		for i := range back {
			back[i].Line = all[i].Line
		}
		if again.Len() <= MaxDotEnv && (err != nil || len(back) != len(all) || !slices.Equal(back, all)) {
			t.Errorf("%q is %+v, and written again %+v, %v", b, all, back, err)
		}
	})
}

// Whatever a link says, what comes of it can be handed to a process, and what is private stays private.
func FuzzLinks(f *testing.F) {
	f.Add([]byte("env_config: {env: {A: \"${B:-x}\", PATH: \"${PATH}\"}}\nenv_paths: {X: {prepend: [/x]}}"))
	f.Add([]byte("env_config: {interpreter: {type: venv_python, var: RYE_PYTHON, fallback: python3}}"))
	w := newWorld(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		v, problems := parse.YAML(b, value.Pos{Line: 1, Column: 1})
		if len(problems) > 0 {
			return
		}
		q := w.Request
		q.Links = []Link{{"l", v.Get("env_config"), v.Get("env_paths")}}
		e, err := Resolve(context.Background(), q)
		if err != nil {
			return
		}
		if e.Vars["HOME"] != w.Home || e.Vars["TMPDIR"] != w.Temp || e.Vars["LD_PRELOAD"] != "" ||
			e.Vars["PYTHONPATH"] != "" || e.Vars["RYE_KEY"] != "" {
			t.Errorf("%q", e.List())
		}
		for _, line := range e.List() {
			if strings.IndexByte(line, 0) >= 0 || strings.IndexByte(line, '=') < 1 {
				t.Errorf("%q", line)
			}
		}
	})
}

func BenchmarkResolve(b *testing.B) {
	w := newWorld(b)
	w.program("bin/python3", strings.Repeat("x", 6<<20))
	w.link("runtime",
		`env_config: {interpreter: {type: venv_python, venv_path: .venv, var: RYE_PYTHON, fallback: python3}, env: {RYE_MODULE_PATH: ""}}`)
	for b.Loop() {
		w.resolve()
	}
}
