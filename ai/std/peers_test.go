//go:build peers

package std

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/model"
)

// A bench runs tools as the runtimes say, in a small world: home holds a parent, which holds a project, which is the
// working directory.
type bench struct {
	*testing.T
	runtimes              map[string]*model.Tool
	lib                   string // what the library has beside its runtimes
	home, parent, project string
	env                   []string // what an attacker may have put into the environment
	interpreter           map[string]string
	anchored              bool // the tool's directory is its tree
}

func newBench(t *testing.T) *bench {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{T: t, runtimes: map[string]*model.Tool{}, lib: filepath.Join(root, "std"),
		home: filepath.Join(root, "home"),
		interpreter: map[string]string{"RYE_PYTHON": python(t), "RYE_NODE": program(t, "node"),
			"RYE_BASH": program(t, "bash")}}
	b.parent = filepath.Join(b.home, "parent")
	b.project = filepath.Join(b.parent, "project")
	if err := os.CopyFS(b.lib, FS()); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(b.project, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, m := range items(t) {
		if m.Tool != nil && m.Tool.Type == "runtime" {
			b.runtimes[m.Ref.Name()] = m.Tool
		}
	}
	return b
}

func program(t *testing.T, name string) string {
	t.Helper()
	p, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// python is the interpreter itself, where what is found first is a script that chooses one by the home directory.
func python(t *testing.T) string {
	t.Helper()
	out, err := exec.Command(program(t, "python3"), "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// write writes files, given as path and content by turns; a path without root is the project's.
func (b *bench) write(files ...string) {
	b.Helper()
	for i := 0; i < len(files); i += 2 {
		p := files[i]
		if !filepath.IsAbs(p) {
			p = filepath.Join(b.project, p)
		}
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(files[i+1]), 0o600); err != nil {
			b.Fatal(err)
		}
	}
}

// run starts a tool of the project by a runtime, and returns what it wrote and whether it ended well.
func (b *bench) run(runtime, tool, parameters string) (stdout, stderr string, ok bool) {
	b.Helper()
	r := b.runtimes[runtime]
	tool = filepath.Join(b.project, tool)
	variable := r.EnvConfig.Get("interpreter").Get("var").String()
	fill := strings.NewReplacer("${"+variable+"}", b.interpreter[variable], "{tool_path}", tool, "{project_path}",
		b.project,
		"{params_json}", parameters, "{anchor_path}", filepath.Dir(tool),
		"{runtime_lib}", filepath.Join(b.lib, "tools/rye/core/runtimes", r.Anchor.Get("lib").String())).Replace
	cmd := exec.CommandContext(b.Context(), fill(r.Config.Get("command").String()))
	for _, a := range r.Config.Get("args").Items {
		cmd.Args = append(cmd.Args, fill(a.String()))
	}
	cmd.Dir = fill(r.Config.Get("cwd").String())
	cmd.Env = append([]string{"HOME=" + b.home, "PATH=" + os.Getenv("PATH")}, b.env...)
	if env := r.EnvConfig.Get("env"); env != nil {
		for _, e := range env.Map {
			cmd.Env = append(cmd.Env, e.Key+"="+e.Value.String())
		}
	}
	if paths := r.Anchor.Get("env_paths"); b.anchored && paths != nil {
		for _, e := range paths.Map {
			cmd.Env = append(cmd.Env, e.Key+"="+fill(e.Value.Get("prepend").Items[0].String()))
		}
	}
	cmd.Stdin = strings.NewReader(fill(r.Config.Get("input_data").String()))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	return out.String(), errs.String(), err == nil
}

// want runs a tool and compares the JSON that it prints.
func (b *bench) want(runtime, tool, parameters, want string) {
	b.Helper()
	out, errs, ok := b.run(runtime, tool, parameters)
	if !ok || !sameJSON(out, want) {
		b.Errorf("%s %s: %v\n%s\nwant %s\n%s", runtime, tool, ok, out, want, errs)
	}
}

func sameJSON(a, b string) bool {
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return bytes.Equal(p, q)
}

// hostile are parameters that break whatever splits, expands or evaluates them.
const hostile = `{"a":"it's \"$(touch pwned)\" ` + "`touch pwned`" +
	`; touch pwned\n--project-path {project_path} ${HOME} %s é 𝄞"}`

func TestPythonScript(t *testing.T) {
	b := newBench(t)
	b.write("tool.py",
		"import json, sys\nprint(json.dumps([sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:], sys.stdin.read(), __name__, __file__]))\n")
	project, _ := json.Marshal(b.project)
	file, _ := json.Marshal(filepath.Join(b.project, "tool.py"))
	for _, parameters := range []string{"{}", hostile, `{"a":"` + strings.Repeat("x", 1<<20) + `"}`} {
		b.want("python_script_runtime", "tool.py", parameters,
			`["--params", `+parameters+`, ["--project-path", `+string(project)+`], "", "__main__", `+string(file)+`]`)
	}
	b.write("bad.py", "import sys\nsys.exit(3)\n")
	if _, _, ok := b.run("python_script_runtime", "bad.py", "{}"); ok {
		t.Error("a failing script succeeds")
	}
	if _, err := os.Stat(filepath.Join(b.project, "pwned")); err == nil {
		t.Error("parameters were evaluated")
	}
}

func TestPythonFunction(t *testing.T) {
	b := newBench(t)
	const runtime = "python_function_runtime"
	project, _ := json.Marshal(b.project)
	b.write(
		"sync.py",
		"import os, sys\nprint('noise')\ndef execute(params, project_path):\n  print('noise')\n  os.system('echo noise')\n  return [params, project_path, sys.stdin.read(), sys.argv[1:]]\n",
		"async.py",
		"import asyncio\nfrom dataclasses import dataclass\n@dataclass\nclass P:\n  x: int\nasync def execute(params, project_path):\n  await asyncio.sleep(0)\n  return {'x': P(7).x}\n",
		"none.py", "def execute(params, project_path):\n  pass\n",
		"json.py", "import json\ndef execute(params, project_path):\n  return json.loads('[1]')\n",
		"missing.py", "x = 1\n",
		"nan.py", "def execute(params, project_path):\n  return float('nan')\n",
		"object.py", "def execute(params, project_path):\n  return [1, object()]\n",
		"raises.py", "def execute(params, project_path):\n  raise ValueError('because')\n",
		"syntax.py", "def execute(:\n")
	b.want(runtime, "sync.py", hostile, `[`+hostile+`, `+string(project)+`, "", []]`)
	b.want(runtime, "async.py", "{}", `{"x": 7}`)
	b.want(runtime, "none.py", "{}", `{}`)
	b.want(runtime, "json.py", "{}", `[1]`)
	for file, why := range map[string]string{
		"missing.py": "has no function execute(params, project_path)", "nan.py": "ValueError",
		"object.py": "TypeError",
		"raises.py": "because", "syntax.py": "SyntaxError",
	} {
		out, errs, ok := b.run(runtime, file, "{}")
		if ok || out != "" || !strings.Contains(errs, why) {
			t.Errorf("%s: %v, %q, %s", file, ok, out, errs)
		}
	}
	if out, _, ok := b.run(runtime, "none.py", "{"); ok || out != "" {
		t.Error("half parameters are taken")
	}
}

// TestPythonModules: what a tool imports is its own or the standard library's, whatever lies elsewhere.
func TestPythonModules(t *testing.T) {
	b := newBench(t)
	const script = "python_script_runtime"
	decoy := "raise SystemExit('decoy')\n"
	version, err := exec.Command(b.interpreter["RYE_PYTHON"], "-c",
		"import sys; print('python%d.%d' % sys.version_info[:2])").Output()
	if err != nil {
		t.Fatal(err)
	}
	user := filepath.Join(b.home, ".local/lib", strings.TrimSpace(string(version)), "site-packages")
	b.env = []string{"PYTHONPATH=" + filepath.Join(b.home, "path"), "PYTHONHOME=/nowhere",
		"PYTHONSTARTUP=" + filepath.Join(b.home, "path/decoy.py"),
		"RYE_MODULE_PATH=" + filepath.Join(b.home, "path")}
	for _, dir := range []string{b.project, b.parent, b.home, user, filepath.Join(b.home, "path"),
		filepath.Join(b.project, ".ai/tools")} {
		for _, name := range []string{"decoy", "json", "helper", "sitecustomize", "usercustomize", "asyncio"} {
			b.write(filepath.Join(dir, name+".py"), decoy)
		}
		b.write(filepath.Join(dir, "decoy.pth"), "import sys; sys.exit('decoy')\n")
	}
	const tool = ".ai/tools/acme/report/report.py"
	b.write(tool, `
import asyncio, json, os
assert "RYE_MODULE_PATH" not in os.environ
try:
    import decoy
except ImportError as e:
    missing = e.name
try:
    import helper
    found = helper.NAME
except ImportError:
    found = None
print(json.dumps([missing, found]))
`, filepath.Dir(tool)+"/helper.py", "NAME = 'own'\n")
	b.want(script, tool, "{}", `["decoy", null]`)
	b.anchored = true
	b.want(script, tool, "{}", `["decoy", "own"]`)

	// A package of several files, by plain and by relative imports, without bytecode written or read.
	const part = ".ai/tools/acme/package/"
	b.write(part+"__init__.py", "WHO = 'package'\n", part+"helper.py", "NAME = 'own'\n",
		// As a module of its own, data has no parent.
		part+"data/__init__.py",
		"try:\n  from ..helper import NAME as UP\nexcept (ImportError, ValueError):\n  UP = None\n",
		part+"data/deep.py", "DEEP = 4\n", part+"space/inner.py", "INNER = 5\n",
		part+"main.py",
		"import json, helper, data.deep, space.inner\nfrom . import WHO\nfrom .helper import NAME\nfrom .data import UP\nfrom .data.deep import DEEP\n"+
			"def execute(params, project_path):\n  return [helper.NAME, data.deep.DEEP, space.inner.INNER, WHO, NAME, UP, DEEP, __name__]\n"+
			"if __name__ == '__main__':\n  print(json.dumps(execute({}, '')))\n")
	b.want(script, part+"main.py", "{}", `["own", 4, 5, "package", "own", "own", 4, "__main__"]`)
	b.want("python_function_runtime", part+"main.py", "{}",
		`["own", 4, 5, "package", "own", "own", 4, "rye_tool.main"]`)
	if err := filepath.WalkDir(b.project, func(p string, d fs.DirEntry, err error) error {
		if d.Name() == "__pycache__" {
			t.Errorf("%s was written", p)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	plant(b, filepath.Join(b.project, part+"helper.py"))
	b.want(script, part+"main.py", "{}", `["own", 4, 5, "package", "own", "own", 4, "__main__"]`)

	b.env = nil
	out, errs, ok := b.runWith("RYE_MODULE_PATH=lib", script, tool)
	if ok || out != "" || !strings.Contains(errs, "RYE_MODULE_PATH names 'lib', which is not absolute") {
		t.Errorf("a relative module path: %v %q %s", ok, out, errs)
	}
}

// plant puts bytecode beside a source that Python would take for that source's.
func plant(b *bench, source string) {
	b.Helper()
	const script = `
import importlib.util, os, py_compile, shutil, sys
source = sys.argv[1]
own = os.stat(source)
other = os.path.join(os.path.dirname(source), "other.py")
with open(other, "w") as f:
    f.write("NAME = 'bad'\n")
assert os.stat(other).st_size == own.st_size
os.utime(other, (own.st_mtime, own.st_mtime))
os.utime(source, (own.st_mtime, own.st_mtime))
py_compile.compile(other, cfile=importlib.util.cache_from_source(source), dfile=source, doraise=True)
os.remove(other)
sys.path.insert(0, os.path.dirname(source))
import helper
assert helper.NAME == "bad", "the bytecode is no bait"
`
	if out, err := exec.Command(b.interpreter["RYE_PYTHON"], "-I", "-c", script, source).CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
}

// runWith is run with a variable set last.
func (b *bench) runWith(variable, runtime, tool string) (stdout, stderr string, ok bool) {
	b.Helper()
	name, v, _ := strings.Cut(variable, "=")
	launcher := map[string]string{"python_script_runtime": "python/_launch.py",
		"node_runtime": "node/_launch.cjs"}[runtime]
	args := []string{filepath.Join(b.lib, "tools/rye/core/runtimes/lib", launcher)}
	command := b.interpreter["RYE_NODE"]
	if runtime == "python_script_runtime" {
		args = append([]string{"-I", "-S", "-B"}, append(args, "script")...)
		command = b.interpreter["RYE_PYTHON"]
	}
	cmd := exec.CommandContext(b.Context(), command, append(args, filepath.Join(b.project, tool), b.project)...)
	cmd.Env = append(os.Environ(), name+"="+v)
	cmd.Stdin = strings.NewReader("{}")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	return out.String(), errs.String(), err == nil
}

// TestPythonEnvironment: packages of a virtual environment count if it is the project's.
func TestPythonEnvironment(t *testing.T) {
	b := newBench(t)
	b.write("tool.py",
		"import json\ntry:\n  import package\n  found = True\nexcept ImportError:\n  found = False\nprint(json.dumps(found))\n")
	for _, c := range []struct{ dir, want string }{{filepath.Join(b.project, ".venv"), "true"},
		{filepath.Join(b.home, "venv"), "false"},
		{b.project + "-venv", "false"}} {
		if out, err := exec.Command(python(t), "-m", "venv", "--without-pip", c.dir).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		packages, err := filepath.Glob(filepath.Join(c.dir, "lib/python*/site-packages"))
		if err != nil || len(packages) == 0 {
			t.Fatalf("%v: %q", err, packages)
		}
		b.write(filepath.Join(packages[0], "package.py"), "", filepath.Join(packages[0], "run.pth"),
			"import sys; sys.exit('decoy')\n")
		b.interpreter["RYE_PYTHON"] = filepath.Join(c.dir, "bin/python")
		b.want("python_script_runtime", "tool.py", "{}", c.want)
	}
}

func TestPythonRefuses(t *testing.T) {
	b := newBench(t)
	launcher := filepath.Join(b.lib, "tools/rye/core/runtimes/lib/python/_launch.py")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{launcher, "script", "t.py", "."}, "python has to be started with -I and -S"},
		{[]string{"-I", launcher, "script", "t.py", "."}, "python has to be started with -I and -S"},
		{[]string{"-I", "-S", launcher, "other", "t.py", "."}, "usage: "},
		{[]string{"-I", "-S", launcher}, "usage: "},
	} {
		out, err := exec.Command(b.interpreter["RYE_PYTHON"], c.args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%q: %v\n%s", c.args[1:], err, out)
		}
	}
}

const nodeReport = `["--params", PARAMS, ["--project-path", PROJECT], "", true]`

func TestNode(t *testing.T) {
	b := newBench(t)
	body :=
		`console.log(JSON.stringify([process.argv[2], JSON.parse(process.argv[3]), process.argv.slice(4), fs.readFileSync(0, "utf8"), MAIN]));` +
			"\n"
	b.write("tool.js", "const fs = require('fs');\n"+strings.Replace(body, "MAIN", "require.main === module", 1),
		"tool.cjs", "const fs = require('fs');\n"+strings.Replace(body, "MAIN", "require.main === module", 1),
		"tool.mjs", "import fs from 'node:fs';\n"+strings.Replace(body, "MAIN", "true", 1),
		"throws.mjs", "throw new Error('because');\n", "rejects.js", "Promise.reject(new Error('because'));\n")
	project, _ := json.Marshal(b.project)
	for _, tool := range []string{"tool.js", "tool.cjs", "tool.mjs"} {
		for _, parameters := range []string{"{}", hostile, `{"a":"` + strings.Repeat("x", 1<<20) + `"}`} {
			b.want("node_runtime", tool, parameters, strings.NewReplacer("PARAMS", parameters, "PROJECT",
				string(project)).Replace(nodeReport))
		}
	}
	for _, tool := range []string{"throws.mjs", "rejects.js", "missing.js"} {
		if out, _, ok := b.run("node_runtime", tool, "{}"); ok || out != "" {
			t.Errorf("%s: %v, %q", tool, ok, out)
		}
	}
}

// TestNodeModules: what a tool loads is its own or Node's, whatever lies elsewhere.
func TestNodeModules(t *testing.T) {
	b := newBench(t)
	for _, dir := range []string{b.project, b.parent, b.home, filepath.Join(b.project, ".ai"),
		filepath.Join(b.project, ".ai/tools/acme")} {
		b.write(filepath.Join(dir, "node_modules/decoy/index.js"), "module.exports = 'decoy';\n",
			filepath.Join(dir, "node_modules/dep/index.js"), "module.exports = 'decoy';\n",
			filepath.Join(dir, "node_modules/fs/index.js"), "process.exit(7);\n")
	}
	b.write(filepath.Join(b.home, ".node_modules/decoy.js"), "module.exports = 'decoy';\n",
		filepath.Join(b.home, ".node_libraries/decoy.js"), "module.exports = 'decoy';\n",
		filepath.Join(b.home, "path/decoy.js"), "module.exports = 'decoy';\n",
		filepath.Join(b.home, "path/preload.js"), "process.exit(7);\n",
		".ai/tools/acme/outside.js", "module.exports = 'decoy';\n", ".ai/tools/acme/report-2/x.js",
		"module.exports = 'decoy';\n")
	b.env = []string{"NODE_PATH=" + filepath.Join(b.home, "path"),
		"NODE_OPTIONS=--require=" + filepath.Join(b.home, "path/preload.js"),
		"RYE_MODULE_PATH=" + filepath.Join(b.home, "path")}
	const dir = ".ai/tools/acme/report/"
	try := `
const tried = [];
if ("RYE_MODULE_PATH" in process.env) throw new Error("inherited");
for (const name of ["decoy", "dep", "./lib/own.js", "../outside.js", "../report-2/x.js"]) {
  for (const load of [require, (n) => import(n)]) {
    try { const m = await load(name); tried.push(m.default ?? m); } catch (e) { tried.push(e.code); }
  }
}
console.log(JSON.stringify(tried));
`
	b.write(dir+"node_modules/dep/index.js", "module.exports = 'dep';\n", dir+"lib/own.js",
		"module.exports = 'own';\n",
		dir+"package.json", `{"name": "report"}`,
		dir+"tool.cjs", "(async () => {"+try+"})();\n",
		dir+"tool.mjs",
		"import { createRequire } from 'node:module';\nconst require = createRequire(import.meta.url);\n"+try)
	const no = `"MODULE_NOT_FOUND", "ERR_MODULE_NOT_FOUND"`
	for _, tool := range []string{"tool.cjs", "tool.mjs"} {
		b.anchored = false
		b.want("node_runtime", dir+tool, "{}", "["+strings.Repeat(no+", ", 4)+no+"]")
		b.anchored = true
		b.want("node_runtime", dir+tool, "{}", "["+no+`, "dep", "dep", "own", "own", `+no+", "+no+"]")
	}
	out, errs, ok := b.runWith("RYE_MODULE_PATH=lib", "node_runtime", dir+"tool.cjs")
	if ok || out != "" || !strings.Contains(errs, "RYE_MODULE_PATH names 'lib', which is not absolute") {
		t.Errorf("a relative module path: %v %q %s", ok, out, errs)
	}
}

// TestNodePackages: the packages that a tool has named are found by require and import alike, each with its own, and
// nothing of the project's, nor of what lies above them, instead.
func TestNodePackages(t *testing.T) {
	b := newBench(t)
	cache := filepath.Join(b.home, "cache")
	packages := filepath.Join(cache, "tree")
	at := func(path string) string { return filepath.Join(packages, "node_modules", path) }
	for _, dir := range []string{b.project, b.home, cache, filepath.Join(b.project, ".ai/tools/acme")} {
		for _, name := range []string{"a", "b", "decoy"} {
			b.write(filepath.Join(dir, "node_modules", name, "index.js"), "module.exports = 'decoy';\n")
		}
	}
	b.write(
		at("a/package.json"), `{"name": "a", "version": "1.0.0"}`,
		at("a/index.js"), "module.exports = 'a with ' + require('b');\n",
		at("a/node_modules/b/index.js"), "module.exports = 'b1';\n",
		at("a/lib/part.js"), "module.exports = 'part';\n",
		at("b/index.js"), "module.exports = 'b2';\n",
		at("@x/y/package.json"), `{"name": "@x/y", "exports": {"import": "./i.mjs", "require": "./r.cjs"}}`,
		at("@x/y/i.mjs"), "import b from 'b';\nexport default 'imported with ' + b;\n",
		at("@x/y/r.cjs"), "module.exports = 'required';\n",
		at("leak/index.js"),
		"module.exports = (() => { try { return require('decoy'); } catch (e) { return e.code; } })();\n",
		at("asks/index.js"), "module.exports = 'RYE_PACKAGE_PATH' in process.env;\n",
	)
	b.env = []string{"RYE_PACKAGE_PATH=" + packages}
	const dir = ".ai/tools/acme/report/"
	try := `
const tried = [];
for (const name of ["a", "b", "a/lib/part.js", "@x/y", "leak", "asks", "decoy", "no/such"]) {
  for (const load of [require, (n) => import(n)]) {
    try { const m = await load(name); tried.push(m.default ?? m); } catch (e) { tried.push(e.code); }
  }
}
tried.push(require.resolve("b").endsWith("b/index.js"));
console.log(JSON.stringify(tried));
`
	b.write(dir+"package.json", `{"name": "report"}`, dir+"own.js", "module.exports = 'own';\n",
		dir+"tool.cjs", "(async () => {"+try+"})();\n",
		dir+"tool.mjs",
		"import { createRequire } from 'node:module';\nconst require = createRequire(import.meta.url);\n"+try)
	for _, tool := range []string{"tool.cjs", "tool.mjs"} {
		for _, b.anchored = range []bool{false, true} {
			b.want("node_runtime", dir+tool, "{}", `["a with b1", "a with b1", "b2", "b2", "part", "part", "required", "imported with b2",
				"MODULE_NOT_FOUND", "MODULE_NOT_FOUND", false, false, "MODULE_NOT_FOUND", "ERR_MODULE_NOT_FOUND",
				"MODULE_NOT_FOUND", "ERR_MODULE_NOT_FOUND", true]`)
		}
	}
	b.env = []string{"RYE_PACKAGE_PATH=lib"}
	if out, errs, ok := b.run("node_runtime", dir+"tool.cjs", "{}"); ok || out != "" ||
		!strings.Contains(errs, "RYE_PACKAGE_PATH names 'lib', which is not absolute") {
		t.Errorf("a relative path of packages: %v %q %s", ok, out, errs)
	}
}

// TestPythonPackages: the packages that a tool has named stand behind the standard library, and in place of those of a
// virtual environment.
func TestPythonPackages(t *testing.T) {
	b := newBench(t)
	const script = "python_script_runtime"
	packages := filepath.Join(b.home, "cache/tree/site-packages")
	at := func(path string) string { return filepath.Join(packages, path) }
	for _, dir := range []string{b.project, b.home, filepath.Dir(packages),
		filepath.Join(b.project, ".ai/tools/acme")} {
		b.write(filepath.Join(dir, "demo.py"), "raise SystemExit('decoy')\n", filepath.Join(dir, "decoy.py"),
			"raise SystemExit('decoy')\n")
	}
	b.write(
		at("demo/__init__.py"), "from .part import NAME\nfrom other import NAME as OTHER\n", at("demo/part.py"),
		"NAME = 'demo'\n", at("other.py"), "NAME = 'other'\n",
		at("json.py"), "raise SystemExit('in place of the standard library')\n", at("space/inner.py"),
		"NAME = 'inner'\n",
		at("evil.pth"), "import sys; sys.exit('pth')\n", at("sitecustomize.py"), "raise SystemExit('site')\n",
		at("demo-1.5.dist-info/METADATA"), "Metadata-Version: 2.1\nName: demo\nVersion: 1.5\n",
		at("demo/data.txt"), "data",
	)
	b.env = []string{"RYE_PACKAGE_PATH=" + packages}
	const tool = ".ai/tools/acme/report/report.py"
	b.write(tool, `
import json, os, demo, space.inner, importlib.metadata, importlib.resources
try:
    import decoy
except ImportError as e:
    missing = e.name
data = importlib.resources.files("demo").joinpath("data.txt").read_text()
print(json.dumps([demo.NAME, demo.OTHER, space.inner.NAME, missing, importlib.metadata.version("demo"), data, "RYE_PACKAGE_PATH" in os.environ,
    os.path.exists(os.path.join(os.path.dirname(demo.__file__), "__pycache__"))]))
`)
	for _, b.anchored = range []bool{false, true} {
		b.want(script, tool, "{}", `["demo", "other", "inner", "decoy", "1.5", "data", false, false]`)
	}
	// The tool's own module of that name is nearer.
	b.write(filepath.Dir(tool)+"/other.py", "NAME = 'own'\n")
	b.want(script, tool, "{}", `["demo", "own", "inner", "decoy", "1.5", "data", false, false]`)
	b.env = []string{"RYE_PACKAGE_PATH=lib"}
	if out, errs, ok := b.run(script, tool, "{}"); ok || out != "" ||
		!strings.Contains(errs, "RYE_PACKAGE_PATH names 'lib', which is not absolute") {
		t.Errorf("a relative path of packages: %v %q %s", ok, out, errs)
	}
	// A virtual environment in the project isn't asked for what the list doesn't name.
	if out, err := exec.Command(b.interpreter["RYE_PYTHON"], "-m", "venv", "--without-pip",
		filepath.Join(b.project, ".venv")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	found, err := filepath.Glob(filepath.Join(b.project, ".venv/lib/python*/site-packages"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	b.write(filepath.Join(found[0], "decoy.py"), "raise SystemExit('decoy')\n")
	b.interpreter["RYE_PYTHON"] = filepath.Join(b.project, ".venv/bin/python")
	b.env = []string{"RYE_PACKAGE_PATH=" + packages}
	b.want(script, tool, "{}", `["demo", "own", "inner", "decoy", "1.5", "data", false, false]`)
}

func TestBash(t *testing.T) {
	b := newBench(t)
	b.write(filepath.Join(b.home, "env.sh"), "echo decoy\n", filepath.Join(b.home, ".bashrc"), "echo decoy\n",
		filepath.Join(b.home, ".profile"), "echo decoy\n",
		"tool.sh",
		"[ \"$(cat)\" = \"$2\" ] || exit 4\n[ \"$1 $3 $# $4\" = \"--params --project-path 4 $PWD\" ] || exit 3\nprintf '%s' \"$2\"\n")
	b.env = []string{"BASH_ENV=" + filepath.Join(b.home, "env.sh"), "ENV=" + filepath.Join(b.home, "env.sh"),
		"BASH_FUNC_printf%%=() { echo decoy\n}"}
	out, errs, ok := b.run("bash_runtime", "tool.sh", hostile)
	if !ok || out != hostile {
		t.Errorf("%v\n%s\n%s", ok, out, errs)
	}
	if _, err := os.Stat(filepath.Join(b.project, "pwned")); err == nil {
		t.Error("parameters were evaluated")
	}
}

// TestTemplatesRun: what "rye new" begins with does something.
func TestTemplatesRun(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct{ ext, runtime string }{
		{".py", "python_function_runtime"}, {".js", "node_runtime"}, {".sh", "bash_runtime"},
	} {
		ref := model.Ref{Kind: "tool", ID: "acme/greet"}
		b.write("greet"+c.ext, string(render(read(t, "tools/rye/core/templates/_tool"+c.ext), ref, "Greets a person")))
		b.env = []string{"PARAM_NAME=you"} // as the primitive sets it
		b.want(c.runtime, "greet"+c.ext, `{"name": "you"}`, `{"success": true, "greeting": "hello, you"}`)
	}
}
