package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
)

// buildJobs compares what a build costs that has nothing to do with what does the like, for one step that takes 1,000
// files and makes as many:
//
//	unchanged  all is as it was                   make, which looks at times
//	hit        what it makes is gone              cp, which makes it again
func (b *bench) buildJobs(what string) ([]job, error) {
	files := "1000"
	if b.quick {
		files = "20"
	}
	at := filepath.Join(b.dir, "build-"+what)
	home, project := at+"-home", at+"-project"
	rye := func(args ...string) command {
		c := cmd(append([]string{b.rye}, args...)...).in(project)
		return c.with("HOME="+home, "XDG_CACHE_HOME="+filepath.Join(home, "cache"),
			"XDG_STATE_HOME="+filepath.Join(home, "state"), "XDG_DATA_HOME="+filepath.Join(home, "data"))
	}
	const write = `mkdir -p src .ai/tools/acme && for i in $(seq "$1"); do seq $i $((i+100)) >src/$i; done
printf '%s\n' 'version: "1.0.0"' 'tool_type: program' 'category: acme' 'description: Copies' 'pure: true' \
	'executor_id: rye/core/primitives/subprocess' 'config: {command: cp, args: ["-r", src, dist]}' >.ai/tools/acme/copy.yaml
printf '%s\n' 'id: acme/app' 'version: 1.0.0' 'build: {copy: {tool: "tool:acme/copy", inputs: ["src/**"], outputs: [dist]}}' >bundle.yaml
printf 'all: $(patsubst src/%%,made/%%,$(wildcard src/*))\nmade/%%: src/%%\n\t@mkdir -p made; cp $< $@\n' >Makefile`
	// Files that were written just now are read again: the next tick of the clock may be theirs.
	once := []command{cmd("mkdir", home, project), cmd("sh", "-c", write, "sh", files).in(project), rye("init"),
		rye("sign", "--all", "-q"), rye("lock", "-q"),
		cmd("sleep", "3"), rye("build", "-q"), cmd("sleep", "3"), rye("build", "-q")}
	j := job{tool: "rye", onceFresh: []string{home, project}, once: once, run: []command{rye("build", "-q")}}
	switch what {
	case "unchanged":
		jobs := []job{j}
		if _, err := exec.LookPath("make"); err == nil {
			jobs = append(jobs, job{tool: "make", onceFresh: []string{filepath.Join(project, "made")},
				once: []command{cmd("make", "-s").in(project)}, run: []command{cmd("make", "-s").in(project)}})
		}
		return jobs, nil
	case "hit":
		dist := filepath.Join(project, "dist")
		j.before = []command{cmd("rm", "-r", dist)}
		return []job{j, {tool: "cp", fresh: []string{at + "-copy"},
			run: []command{cmd("cp", "-r", dist, at+"-copy")}}}, nil
	}
	return nil, fmt.Errorf("nothing is measured as %q", what)
}
