package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/exec/audit"
	keys "github.com/rye-build/rye/exec/audit/receipt"
	kept "github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// execJobs compares what execution costs with what does the like:
//
//	nothing   rye exec of a pinned tool that is the program "true" "true" bare; bwrap, which starts it with
//	          namespaces of
//	                                                                   its own; allowed: two times "rye version", and
//	                                                                   bwrap
//	shell     rye exec of a pinned tool in bash                        bash bare
//	python    rye exec of a pinned tool in Python                      python3 bare
//	starlark  rye exec of a pinned tool in Starlark                program: that of the program "true"; python3, which does nothing
//	wasm      rye exec of a pinned module of 2 MiB that does nothing,  "true" bare
//	          compiled before
//	sandbox   "true" in our sandbox, 100 times in one process          bare, bwrap, and landlock alone, by the same process
//	at-once   1,000 times rye exec, all at once                        bwrap 1,000 times at once
//	append    500,000 calls into an empty audit log                    cp of the log that this makes
//	verify    rye audit verify of them, a million lines                b3sum, which only hashes them
//
// With ".required" the policy demands the audit log.
func (b *bench) execJobs(what string) ([]job, error) {
	runs, together, calls := "100", "1000", "500000"
	if b.quick {
		runs, together, calls = "5", "20", "1000"
	}
	at := b.called("exec-" + what)
	home, project := at.home, at.project
	state := filepath.Join(home, "state", "rye")
	part := func(name, count string, more ...string) command {
		return cmd(append([]string{b.self, "-part", name, "-count", count}, more...)...)
	}
	_, err := exec.LookPath("bwrap")
	bwrap := err == nil
	confined := []string{"bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev",
		"--proc", "/proc", "true"}
	call := []string{"exec", "tool:acme/nothing"}
	j := job{tool: "rye", onceFresh: []string{home, project}}
	switch what {
	case "nothing", "nothing.required", "shell", "shell.required", "python":
		tool, audit := strings.CutSuffix(what, ".required")
		j := at.job(audit, at.rye("exec", "tool:acme/"+tool))
		of, bare := at.bare(tool)
		jobs := []job{j, {tool: of, run: []command{bare}}}
		if bwrap && tool == "nothing" {
			version := cmd(b.rye, "version")
			jobs = append(jobs, job{tool: "bwrap", run: []command{cmd(confined...)}},
				job{tool: "allowed", run: []command{version, version, cmd(confined...)}})
		}
		return jobs, nil
	case "starlark":
		j := at.job(false, at.rye("exec", "tool:acme/script"))
		return []job{j, {tool: "program", run: []command{at.rye(call...)}},
			{tool: "python3", run: []command{cmd("python3", "-I", "-S", "-c", "pass")}}}, nil
	case "wasm":
		return []job{at.job(false, at.rye("exec", "tool:acme/module/module")),
			{tool: "true", run: []command{cmd("true")}}}, nil
	case "sandbox":
		jobs := []job{{tool: "rye", run: []command{part("namespace", runs)}},
			{tool: "landlock", run: []command{part("landlock", runs)}},
			{tool: "bare", run: []command{part("bare", runs)}}}
		if bwrap {
			jobs = append(jobs, job{tool: "bwrap", run: []command{part("bwrap", runs)}})
		}
		return jobs, nil
	case "at-once":
		many := func(c command) command {
			return c.through("sh", "-c", `n=$1; shift; seq "$n" | xargs -P "$n" -I_ "$@"`, "sh", together)
		}
		j := at.job(false, at.rye(call...))
		j.run = []command{many(at.rye(call...))}
		jobs := []job{j}
		if bwrap {
			jobs = append(jobs, job{tool: "bwrap", run: []command{many(cmd(confined...))}})
		}
		return jobs, nil
	case "append":
		log := filepath.Join(state, "audit")
		j.onceFresh, j.fresh, j.before, j.run = nil, []string{home}, []command{cmd("mkdir", "-p", state)},
			[]command{part("append", calls, "-data", state)}
		return []job{j, {tool: "cp", fresh: []string{home + "-copy"},
			run: []command{cmd("cp", "-r", log, home+"-copy"), cmd("sync", home+"-copy")}}}, nil
	case "verify":
		j.once = []command{cmd("mkdir", "-p", project, state), part("append", calls, "-data", state)}
		j.run = []command{at.rye("audit", "verify")}
		return []job{j, {tool: "b3sum", run: []command{cmd("sh", "-c",
			"find . -type f -print0 | xargs -0 b3sum").in(filepath.Join(state, "audit"))}}}, nil
	}
	return nil, fmt.Errorf("nothing is measured as %q", what)
}

// stageArg enters the second stage of a sandbox, which is this program started again.
const stageArg = "__stage"

// doPart does something of rye n times, in this process.
func (o *options) doPart(ctx context.Context) error {
	what, self, n := o.part, o.self, o.count
	switch what {
	case "append":
		return appendCalls(ctx, o.data, n)
	case "called":
		return writeCalled(ctx, o.data)
	case "session":
		return callInSession(ctx, o.rye, o.tool, n)
	case "idle":
		return residentIdle(ctx, o.rye, o.data)
	case "syncs":
		return appendSynced(o.data, n)
	case "record":
		return recordTurns(ctx, o.rye, o.data, n)
	case "ledger":
		return spendMany(ctx, self, o.data, n)
	case "spend":
		return spend(ctx, o.data, n)
	case "crowd-ready":
		return readyCrowd(ctx, o.rye, o.data, n)
	case "crowd":
		return runCrowd(ctx, o.rye, o.data, n)
	case "mcp-rye":
		return callMany(ctx, o.tool, n, o.rye, "mcp", "serve")
	case "mcp-bare":
		return callMany(ctx, o.tool, n, self, "-part", "mcp-server", "-count", "1")
	case "mcp-server":
		return serveBare(ctx)
	}
	name, args := "true", []string(nil)
	if what == "bwrap" {
		name, args = "bwrap", []string{"--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev",
			"--proc", "/proc", "true"}
	}
	path, err := exec.LookPath(name)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return err
	}
	c := proc.Command{Path: path, Args: args, Dir: "/", Env: []string{"PATH=" + os.Getenv("PATH")}}
	levels := map[string]floor.Level{"landlock": floor.Landlock, "namespace": floor.Namespace}
	m := sandbox.New(sandbox.Options{Self: []string{self, stageArg}})
	for range n {
		var exit *proc.Exit
		if level, ok := levels[what]; ok {
			var o *sandbox.Ending
			if o, err = m.Run(ctx, sandbox.Spec{Level: level}, c); err == nil {
				exit = &o.Exit
			}
		} else {
			exit, err = proc.Run(ctx, c)
		}
		if err == nil && exit.Code != 0 {
			err = fmt.Errorf("%s: status %d", what, exit.Code)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// appendCalls writes the beginnings and ends of n calls into the audit log of a state directory.
func appendCalls(ctx context.Context, dir string, n int) error {
	own, err := keys.MachineKey(filepath.Join(dir, "machine"))
	if err != nil {
		return err
	}
	l, err := audit.Open(audit.Options{Dir: filepath.Join(dir, "audit"), Key: own, Program: "bench", Now: time.Now})
	if err != nil {
		return err
	}
	d := cas.Sum([]byte("bench"))
	c := kept.Call{Ref: "tool:acme/nothing", Digest: d, Params: d, Principal: "bench", Lock: d,
		Signers: []string{"builtin"},
		Chain:   []kept.Link{{Digest: d, Ref: "tool:rye/core/primitives/subprocess", Signers: []string{"builtin"}}},
		Sandbox: "landlock"}
	for i := range n {
		c.ID = strconv.Itoa(i)
		e, err := l.Begin(ctx, c)
		if err != nil {
			return err
		}
		if err := e.End(ctx, kept.End{Status: kept.OK, Result: d, Sandbox: "landlock"}); err != nil {
			return err
		}
	}
	return l.Close(ctx)
}
