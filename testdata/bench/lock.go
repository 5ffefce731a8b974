package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// lockJobs compares what rye does with the lock of a project of 100, 1,000 or 10,000 items with what does the like:
//
//	cold     rye lock without a lock, a store or a cache    b3sum, which only hashes the items
//	check    rye lock --check when nothing changed          git status of the same tree
//	vendor   rye vendor into nothing                        "store put" of the same items
//	restore  the items from .ai/vendor, without a store     "store checkout" of them; pnpm install --offline of a package
//	         into a project that has lost them              that has them as its files, from pnpm's own store
func (b *bench) lockJobs(ctx context.Context, r row) ([]job, error) {
	what, n, _ := strings.Cut(r.on, ".")
	if err := b.corpus(ctx, "I"+n); err != nil {
		return nil, err
	}
	src, at := filepath.Join(b.corpora, "I"+n), filepath.Join(b.dir, "lock-"+what+"-"+n)
	home, project := at+"-home", at+"-project"
	store, ai := filepath.Join(home, "data", "rye", "store"), filepath.Join(project, ".ai")
	rye := func(args ...string) command {
		c := cmd(append([]string{b.rye}, args...)...).in(project)
		return c.with("HOME="+home, "XDG_CACHE_HOME="+filepath.Join(home, "cache"),
			"XDG_STATE_HOME="+filepath.Join(home, "state"), "XDG_DATA_HOME="+filepath.Join(home, "data"))
	}
	// Whoever trusts what a file's times say waits until they are no longer those of this moment.
	settle := cmd("sleep", "3")
	j := job{tool: "rye", onceFresh: []string{home, project},
		once: []command{cmd("mkdir", home), cmd("cp", "-a", src, project), rye("key", "new"),
			rye("sign", "--all", "-q"), settle}}
	lock := rye("lock", "-q")
	kinds := []string{filepath.Join(ai, "tools"), filepath.Join(ai, "directives"), filepath.Join(ai, "knowledge")}
	switch what {
	case "cold":
		j.fresh, j.run = []string{filepath.Join(project, "rye.lock"), store, filepath.Join(home, "cache")},
			[]command{lock}
		hash := cmd("sh", "-c", "find .ai -type f -print0 | xargs -0 -P 2 -n 2500 b3sum").in(src)
		return []job{j, {tool: "b3sum", run: []command{hash}}}, nil
	case "check":
		check := rye("lock", "--check", "-q")
		j.once, j.run = append(j.once, lock, settle, check, check), []command{check}
		return []job{j, statusJob(src, at+"-git")}, nil
	case "vendor":
		j.once, j.fresh, j.run = append(j.once, lock), []string{filepath.Join(ai, "vendor")},
			[]command{rye("vendor", "-q")}
		put := filepath.Join(at+"-put", "store")
		return []job{j, {tool: "store-put", fresh: []string{at + "-put"},
			run: []command{cmd(b.rye, "store", "put", "-q", "--store", put, filepath.Join(src, ".ai"))}}}, nil
	case "restore":
		j.once, j.fresh = append(j.once, lock, rye("vendor", "-q")), append(kinds, store)
		j.run = []command{rye("restore", "**", "-q")}
		j.check = func() error { return allThere(src, kinds) }
		put := filepath.Join(at+"-put", "store")
		jobs := []job{j, {
			tool: "store-checkout", onceFresh: []string{at + "-put"}, fresh: []string{at + "-out"},
			once: []command{cmd(b.rye, "store", "put", "-q", "--store", put, "--ref", "i", filepath.Join(src, ".ai"))},
			run:  []command{cmd(b.rye, "store", "checkout", "-q", "--store", put, "i", at+"-out")},
		}}
		if _, err := exec.LookPath("pnpm"); err == nil {
			jobs = append(jobs, pnpmJob(src, at+"-pnpm"))
		}
		return jobs, nil
	}
	return nil, fmt.Errorf("nothing is measured as %q", what)
}

// pnpmJob installs a package whose files are the items, out of a store that has it.
func pnpmJob(src, at string) job {
	about, _ := json.Marshal(map[string]any{"name": "bench", "version": "1.0.0", "private": true,
		"dependencies": map[string]string{"items": "file:../items.tgz"}})
	const pack = `mkdir -p "$1/project" "$1/package" && cp -a "$0/.ai" "$1/package/items" &&
		printf '{"name":"items","version":"1.0.0"}' >"$1/package/package.json" &&
		tar -C "$1" -czf "$1/items.tgz" package && printf '%s' "$2" >"$1/project/package.json"`
	install := func(args ...string) command {
		c := cmd(append([]string{"pnpm", "install", "--silent", "--store-dir", filepath.Join(at, "store")},
			args...)...).in(filepath.Join(at, "project"))
		return c.with("HOME="+at, "CI=1")
	}
	return job{
		tool: "pnpm", onceFresh: []string{at}, fresh: []string{filepath.Join(at, "project", "node_modules")},
		once: []command{cmd("sh", "-c", pack, src, at, string(about)), install("--no-frozen-lockfile")},
		run:  []command{install("--offline", "--frozen-lockfile")},
	}
}

// allThere checks that as many items are there as were lost.
func allThere(src string, dirs []string) error {
	_, want := usage(filepath.Join(src, ".ai"))
	have := 0
	for _, dir := range dirs {
		_, n := usage(dir)
		have += int(n)
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if have != int(want) {
		return fmt.Errorf("%d files are there again, want %d", have, want)
	}
	return nil
}
