//go:build peers && linux

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rye-build/rye/manifest/jcs"
)

// peerScripts names the directory of scripts when the tests run again as another user.
const peerScripts = "RYE_PEER_SCRIPTS"

// TestExecPeers runs the scripts that need interpreters.
func TestExecPeers(t *testing.T) {
	dir := os.Getenv(peerScripts)
	if dir == "" {
		dir = "../../testdata/script/peers"
	}
	p := scriptParams()
	p.Dir = dir
	p.Cmds["result"], p.Cmds["stale"], p.Cmds["venvmodule"], p.Cmds["program"], p.Cmds["arguments"] = result, stale,
		venvModule, program, arguments
	p.Cmds["packageregistry"] = func(ts *testscript.TestScript, neg bool, args []string) {
		packageRegistry(t, ts, neg, args)
	}
	p.Cmds["issuer"] = func(ts *testscript.TestScript, neg bool, args []string) { pipelineIssuer(t, ts, neg, args) }
	setup := p.Setup
	p.Setup = func(env *testscript.Env) error {
		rye, err := exec.LookPath("rye")
		if err != nil {
			return err
		}
		env.Setenv("RYEBIN", filepath.Dir(rye))
		env.Setenv("NPM_CONFIG_REGISTRY", npmRegistry())
		env.Setenv("NODE_EXTRA_CA_CERTS", os.Getenv("NODE_EXTRA_CA_CERTS"))
		return setup(env)
	}
	testscript.Run(t, p)
}

// npmRegistry is where npm has its packages from on this machine, as it says itself.
var npmRegistry = sync.OnceValue(func() string {
	out, err := exec.Command("npm", "config", "get", "registry").Output()
	if err != nil {
		return "npm doesn't say"
	}
	return strings.TrimSpace(string(out))
})

// TestExecPeersAsUser runs the exec scripts as a user who isn't root and has no entry on this machine, and so no
// keyring. Scripts that need no other program run with the rest, see .ci/run.
func TestExecPeersAsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test needs root, to become another user")
	}
	dir, err := os.MkdirTemp("", "rye-user")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	const user = 4242
	for _, err := range []error{
		os.WriteFile(filepath.Join(dir, "rye.test"), binary, 0o755), os.Mkdir(filepath.Join(dir, "scripts"), 0o755),
		os.Mkdir(filepath.Join(dir, "tmp"), 0o700), os.Chown(filepath.Join(dir, "tmp"), user, user),
		os.Chmod(dir, 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	scripts, err := filepath.Glob("../../testdata/script/peers/exec_*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("%v, %v", scripts, err)
	}
	for _, script := range scripts {
		b, err := os.ReadFile(script)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "scripts", filepath.Base(script)), b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(filepath.Join(dir, "rye.test"), "-test.run=^TestExecPeers$", "-test.v")
	cmd.Dir = filepath.Join(dir, "tmp")
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + cmd.Dir, "TMPDIR=" + cmd.Dir,
		peerScripts + "=" + filepath.Join(dir, "scripts")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	out, err := cmd.CombinedOutput()
	if ran := strings.Count(string(out), "--- PASS: TestExecPeers/"); err != nil || ran != len(scripts) {
		t.Errorf("%v, %d of %d scripts passed\n%s", err, ran, len(scripts), out)
	}
}

// result is "result FILE": of the envelope in FILE the result is in result.json, and the payloads in want.json.
func result(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: result FILE")
	}
	var x struct{ Data struct{ Result any } }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &x))
	var want struct{ V any }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("payloads.json")), &want))
	for name, v := range map[string]any{"result.json": x.Data.Result, "want.json": want.V} {
		text, err := jcs.Append(nil, v)
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs(name), text, 0o600))
	}
}

// stale is "stale DIR": __pycache__ holds bytecode of something else for helper.py, made for the source that is there.
func stale(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: stale DIR")
	}
	const program = `import os, py_compile, sys
at = sys.argv[1]
source = open(at, "rb").read()
when = os.stat(at)
evil = b'VALUE = "decoy"'
open(at, "wb").write(evil + b"\n" * (len(source) - len(evil)) if len(source) > len(evil) else evil)
os.utime(at, ns=(when.st_atime_ns, when.st_mtime_ns))
py_compile.compile(at, doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
open(at, "wb").write(source)
os.utime(at, ns=(when.st_atime_ns, when.st_mtime_ns))
`
	ts.Check(ts.Exec("python3", "-I", "-c", program, filepath.Join(ts.MkAbs(args[0]), "helper.py")))
	if made, err := filepath.Glob(filepath.Join(ts.MkAbs(args[0]), "__pycache__", "helper.*.pyc")); err != nil ||
		len(made) != 1 {
		ts.Fatalf("%v, %v", made, err)
	}
}

// venvModule is "venvmodule DIR NAME TEXT": the virtual environment has a module.
func venvModule(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: venvmodule DIR NAME TEXT")
	}
	found := matching(ts, filepath.Join(args[0], "lib", "python3*", "site-packages"))
	ts.Check(os.WriteFile(filepath.Join(found[0], args[1]+".py"), []byte(args[2]+"\n"), 0o600))
}

// program is "program NAME FILE": FILE becomes a copy of the program that PATH has under the name.
func program(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: program NAME FILE")
	}
	path, err := exec.LookPath(args[0])
	ts.Check(err)
	b, err := os.ReadFile(path)
	ts.Check(err)
	to := ts.MkAbs(args[1])
	if err := os.Remove(to); err != nil && !os.IsNotExist(err) {
		ts.Check(err)
	}
	ts.Check(os.WriteFile(to, b, 0o755))
}

// arguments is "arguments PAYLOADS FILE": FILE has the payloads after what makes Python show its arguments.
func arguments(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: arguments PAYLOADS FILE")
	}
	var x struct {
		V []string `json:"v"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &x))
	x.V = append([]string{"-I", "-c", "import json, sys; print(json.dumps(sys.argv[1:]))"}, x.V...)
	b, err := json.Marshal(x)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), b, 0o600))
}
