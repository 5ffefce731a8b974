package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rye-build/rye/ai/model"
	kernel "github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/env"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/lock/workspace"
)

// calledItems are tools that do nothing, each another way.
var calledItems = map[string]string{
	"tools/acme/nothing.yaml": "version: \"1.0.0\"\ntool_type: program\ncategory: acme\ndescription: Does nothing\nrisk: read\nexecutor_id: rye/core/primitives/subprocess\nconfig: {command: \"true\"}\n",
	"tools/acme/script.star": "# ---\n# version: \"1.0.0\"\n# tool_type: starlark\n# category: acme\n# description: Does nothing\n# risk: read\n# executor_id: rye/core/runtimes/starlark_runtime\n# ---\n" +
		"def main(params):\n    return params\n",
	"tools/acme/shell.sh": "# ---\n# version: \"1.0.0\"\n# tool_type: script\n# category: acme\n# description: Does nothing\n# risk: read\n# executor_id: rye/core/runtimes/bash_runtime\n# ---\necho '{}'\n",
	"tools/acme/python.py": "__version__ = \"1.0.0\"\n__tool_type__ = \"python\"\n__executor_id__ = \"rye/core/runtimes/python_function_runtime\"\n__category__ = \"acme\"\n" +
		"__tool_description__ = \"Does nothing\"\n__risk__ = \"read\"\n\n\ndef execute(params, project_path):\n    return {}\n",
	"tools/acme/module/module.yaml": "version: \"1.0.0\"\ntool_type: wasm\ncategory: acme/module\ndescription: Does nothing\nrisk: read\nexecutor_id: rye/core/runtimes/wasm_runtime\n",
}

// nothing is the source of a module that does nothing.
const nothing = "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(\"{}\") }\n"

// writeCalled writes calledItems into a project, and builds the module.
func writeCalled(ctx context.Context, project string) error {
	if err := writeItems(project, calledItems, ""); err != nil {
		return err
	}
	source := filepath.Join(project, "go", "main.go")
	if err := errors.Join(os.MkdirAll(filepath.Dir(source), 0o777),
		os.WriteFile(source, []byte(nothing), 0o666)); err != nil {
		return err
	}
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o",
		filepath.Join(project, ".ai", "tools", "acme", "module", "_module.wasm"), source)
	c.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("build the module: %w: %s", err, out)
	}
	return nil
}

// A called is a project with calledItems, signed and locked, and its user.
type called struct {
	*bench
	home, project string
}

func (b *bench) called(name string) called {
	at := filepath.Join(b.dir, name)
	return called{b, at + "-home", at + "-project"}
}

// in runs a command in the project, as its user.
func (c called) in(x command) command {
	return x.in(c.project).with("HOME="+c.home, "XDG_CACHE_HOME="+filepath.Join(c.home, "cache"),
		"XDG_STATE_HOME="+filepath.Join(c.home, "state"),
		"XDG_DATA_HOME="+filepath.Join(c.home, "data"))
}

func (c called) rye(args ...string) command {
	return c.in(cmd(append([]string{c.bench.rye}, args...)...))
}

// job is rye's, with the project as it needs it. With audit, calls are only made if they are in the log of the disk.
func (c called) job(audit bool, run command) job {
	once := []command{cmd("mkdir", c.home, c.project),
		cmd(c.self, "-part", "called", "-count", "1", "-data", c.project), c.rye("init")}
	if audit {
		once = append(once, c.in(cmd("sh", "-c", `printf '\nexec:\n  audit: required\n' >>"$HOME/.ai/policy.yaml"`)))
	}
	once = append(once, c.rye("sign", "--all", "-q"), c.rye("lock", "-q"), run)
	return job{tool: "rye", onceFresh: []string{c.home, c.project}, once: once, run: []command{run}}
}

// bare returns the command that does what a tool of calledItems does, without rye, and what it is called.
func (c called) bare(tool string) (string, command) {
	switch tool {
	case "shell":
		return "bash", cmd("bash", "--noprofile", "--norc", "-p", "-c", "echo '{}'")
	case "python":
		return "python3", cmd("python3", "-I", "-S", "-B", "-c", "print('{}')")
	}
	return "true", cmd("true")
}

// sessionJobs compares calls that one process makes, one after the other, with what does the like. Names of tools are
// those of calledItems; with ".required", the policy demands the audit log.
//
//	shell, python      bare: bash, and python3
//	script, module     nothing: the tool in Starlark, and the module of WebAssembly
//	idle               nothing: what rye serve needs of memory before the first call
func (b *bench) sessionJobs(what string) ([]job, error) {
	n := 1000
	if b.quick {
		n = 10
	}
	at := b.called("session-" + what)
	tool, audit := strings.CutSuffix(what, ".required")
	if tool == "idle" {
		out := filepath.Join(at.project, "resident")
		j := at.job(false, at.in(cmd(b.self, "-part", "idle", "-count", "1", "-rye", b.rye, "-data", out)))
		j.once = slices.Insert(j.once, len(j.once)-1, at.rye("serve", "token", "add", "bench"))
		j.added = func() (int64, error) {
			text, err := os.ReadFile(out)
			if err != nil {
				return 0, err
			}
			return strconv.ParseInt(string(text), 10, 64)
		}
		return []job{j}, nil
	}
	ref := "acme/" + tool
	if tool == "module" {
		ref += "/module"
	}
	j := at.job(audit, at.in(cmd(b.self, "-part", "session", "-count", fmt.Sprint(n), "-rye", b.rye, "-tool", ref)))
	j.times = n
	jobs := []job{j}
	if of, _ := at.bare(tool); of != "true" {
		jobs = append(jobs, at.many(tool, n))
	}
	return jobs, nil
}

// many does n times what a tool of calledItems does, without rye.
func (c called) many(tool string, n int) job {
	of, bare := c.bare(tool)
	return job{tool: of, times: n, run: []command{bare.through("sh", "-c",
		`n=$1; shift; for i in $(seq "$n"); do "$@" </dev/null; done`, "sh", fmt.Sprint(n))}}
}

// callInSession opens the project in the working directory and makes n calls of a tool, without parameters.
func callInSession(ctx context.Context, rye, id string, n int) (err error) {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	place := func(variable, more string) workspace.Place {
		return workspace.Place{Path: filepath.Join(os.Getenv(variable), more)}
	}
	w, err := workspace.Open(ctx, workspace.Paths{Dir: dir, Named: true, Version: "devel", User: place("HOME", ""),
		Store: place("XDG_DATA_HOME", "rye/store"),
		State: place("XDG_STATE_HOME", "rye"), Cache: place("XDG_CACHE_HOME", "rye")}, workspace.Options{})
	if err != nil {
		return err
	}
	defer w.Close()
	host := env.Host{Vars: map[string]string{}}
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		host.Vars[name] = value
	}
	s, err := session.Open(ctx, w, session.Options{Self: rye, Host: host})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for range n {
		r, err := s.Call(ctx, &kernel.Call{Ref: model.Ref{Kind: "tool", ID: id}}, nil)
		if err == nil && r.Status != "ok" {
			err = fmt.Errorf("%s: %s: %v", id, r.Status, r.Value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// residentIdle starts rye serve in the working directory, asks whether it is ready, and writes what it needs of
// memory.
func residentIdle(ctx context.Context, rye, out string) error {
	c := exec.CommandContext(ctx, rye, "serve", "--listen", "127.0.0.1:0", "--json")
	c.Stderr = os.Stderr
	from, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return err
	}
	defer func() { c.Process.Kill(); c.Wait() }()
	line, err := bufio.NewReader(from).ReadBytes('\n')
	var at struct{ Data struct{ Ready string } }
	if err = errors.Join(err, json.Unmarshal(line, &at)); err != nil {
		return err
	}
	resp, err := http.Get(at.Data.Ready)
	if err != nil {
		return err
	}
	resp.Body.Close()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Process.Pid))
	if err != nil {
		return err
	}
	_, text, _ := strings.Cut(string(status), "VmRSS:")
	var kibs int64
	if _, err := fmt.Sscan(text, &kibs); err != nil {
		return err
	}
	return os.WriteFile(out, strconv.AppendInt(nil, kibs*kib, 10), 0o666)
}
