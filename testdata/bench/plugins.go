package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// pluginSkills is how many skills the plugin has.
const pluginSkills = 1000

// pluginJobs compares what rye does with a signed plugin of 1,000 skills with what only copies it:
//
//	verify   rye bundle verify of its directory            cp -r of the directory
//	export   rye export plugin of it, from the store       cp -r of the directory
//	add      rye add of its directory into a new project,  git clone of the same files, from a directory
//	         without a store or a cache
func (b *bench) pluginJobs(what string) ([]job, error) {
	at := filepath.Join(b.dir, "plugin-"+what)
	home, source, project, out := at+"-home", at+"-source", at+"-project", at+"-out"
	store := filepath.Join(home, "data", "rye", "store")
	rye := func(args ...string) command {
		c := cmd(append([]string{b.rye}, args...)...).in(source)
		return c.with("HOME="+home, "XDG_CACHE_HOME="+filepath.Join(home, "cache"),
			"XDG_STATE_HOME="+filepath.Join(home, "state"), "XDG_DATA_HOME="+filepath.Join(home, "data"))
	}
	const write = `printf '{"$schema": "%s", "name": "bench", "version": "1.0.0"}' "$1" >"$0/plugin.json"
		for i in $(seq "$2"); do
			mkdir -p "$0/skills/skill-$i/scripts"
			printf -- '---\nname: skill-%s\ndescription: Does %s\n---\n\nDo %s.\n' $i $i $i >"$0/skills/skill-$i/SKILL.md"
			printf '#!/bin/sh\necho %s\n' $i >"$0/skills/skill-$i/scripts/run.sh"
		done`
	const schema = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"
	making := []command{cmd("mkdir", home, source), cmd("sh", "-c", write, source, schema, fmt.Sprint(pluginSkills)),
		rye("key", "new"), rye("bundle", "create", "-q")}
	settle := cmd("sleep", "3") // until files are old enough for caches
	j := job{tool: "rye", onceFresh: []string{home, source}, once: append(making, settle)}
	copied := job{tool: "cp", fresh: []string{at + "-cp"}, run: []command{cmd("cp", "-r", source, at+"-cp")}}
	switch what {
	case "verify":
		verify := rye("bundle", "verify", "-q", source)
		j.once, j.run = append(j.once, verify), []command{verify}
		return []job{j, copied}, nil
	case "export":
		add := rye("add", "-q", source)
		add.dir = project
		j.onceFresh, j.fresh = append(j.onceFresh, project), []string{out}
		j.once = append(j.once, rye("init", "-q", project), add)
		export := rye("export", "plugin", "-q", "plugins/bench", out)
		export.dir = project
		j.run, j.check = []command{export}, func() error { return sameFiles(source, out) }
		return []job{j, copied}, nil
	case "add":
		add := rye("add", "-q", source)
		add.dir = project
		j.onceFresh, j.once = append(j.onceFresh, at+"-git"), append(j.once,
			cmd("cp", "-r", source, at+"-git"), cmd("git", "init", "-q").in(at+"-git"),
			cmd("git", "add", "-A").in(at+"-git"), cmd("git", "commit", "-q", "-m", "x").in(at+"-git"))
		j.fresh = []string{project, store, filepath.Join(home, "cache")}
		j.run = []command{rye("init", "-q", project), add}
		return []job{j, {tool: "git", fresh: []string{at + "-clone"},
			run: []command{cmd("git", "clone", "-q", "--no-local", at+"-git", at+"-clone")}}}, nil
	}
	return nil, fmt.Errorf("nothing is measured as %q", what)
}

// sameFiles checks that two directories have as many files and bytes, and the same manifest.
func sameFiles(source, out string) error {
	const manifest = "io.github.rye-build/manifest.yaml"
	size, files := usage(source)
	if haveSize, have := usage(out); size != haveSize || files != have {
		return fmt.Errorf("%d files with %d bytes, want %d with %d", have, haveSize, files, size)
	}
	want, err := os.ReadFile(filepath.Join(source, manifest))
	if err != nil {
		return err
	}
	if have, err := os.ReadFile(filepath.Join(out, manifest)); err != nil || string(have) != string(want) {
		return fmt.Errorf("another manifest: %v", err)
	}
	return nil
}
