package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// bundleJobs compares what rye does with a bundle of a whole corpus with what does the least of it: "store put" of the
// same tree, which neither checks nor signs, for making one; for making it again when nothing changed the same again,
// and what only asks for the state of each file; for verifying one b3sum, which only hashes.
//
// The corpora are plain trees: a bundle.yaml that takes in everything makes a bundle of assets of each, and an empty
// .ai makes a project.
func (b *bench) bundleJobs(ctx context.Context, r row) ([]job, error) {
	what, letter, _ := strings.Cut(r.on, ".")
	if err := b.corpus(ctx, letter); err != nil {
		return nil, err
	}
	src, at := filepath.Join(b.corpora, letter), filepath.Join(b.dir, "bundle-"+what+"-"+letter)
	home, project := at+"-home", at+"-project"
	store := filepath.Join(home, "store")
	rye := func(args ...string) command {
		c := cmd(append([]string{b.rye, "-C", project, "--store", store, "bundle"}, args...)...)
		return c.with("HOME="+home, "XDG_CACHE_HOME="+filepath.Join(home, "cache"),
			"XDG_STATE_HOME="+filepath.Join(home, "state"))
	}
	key := rye()
	key.argv = []string{b.rye, "key", "new"}
	const recipe = `printf 'id: bench\nversion: 1.0.0\nassets: ["**"]\n' >"$0/bundle.yaml"`
	once := []command{cmd("mkdir", home), cmd("cp", "-a", src, project), cmd("mkdir", filepath.Join(project, ".ai")),
		cmd("sh", "-c", recipe, project), key}
	// Whoever trusts what a file's times say waits until they are no longer those of this moment.
	settle := cmd("sleep", "3")
	create := rye("create", "-q")
	j := job{tool: "rye", onceFresh: []string{home, project}, once: append(once, settle), check: func() error {
		return listsAll(src, project)
	}}
	var jobs []job
	switch what {
	case "create":
		j.fresh = []string{store, filepath.Join(home, "cache"), filepath.Join(project, ".ai", "bundles")}
		j.run = []command{create}
		jobs = []job{j, b.putJob(letter, false), pipeJob(src, at+".tar.zst")}
		jobs = append(jobs, b.others(r, "import", letter)...)
	case "again":
		// The second time rye still has to learn that time has passed since the first.
		j.once, j.run = append(j.once, create, create), []command{create}
		jobs = []job{j, b.putJob(letter, true), statusJob(src, at+"-git"), newerJob(src, at+"-stamp")}
		jobs = append(jobs, b.others(r, "reimport", letter)...)
	case "verify":
		j.once, j.run = append(j.once, create), []command{rye("verify", "-q", "bench")}
		jobs = append([]job{j}, b.others(r, "verify", letter)...)
	default:
		return nil, fmt.Errorf("nothing is measured as %q", what)
	}
	return jobs, nil
}

// listsAll checks that the manifest names every file of a corpus, and bundle.yaml.
func listsAll(src, project string) error {
	text, err := os.ReadFile(filepath.Join(project, ".ai", "bundles", "bench", "manifest.yaml"))
	if err != nil {
		return err
	}
	_, want := usage(src)
	if got := bytes.Count(text, []byte(`{digest: "blake3:`)); int64(got) != int64(want)+1 {
		return fmt.Errorf("the manifest names %d files, want %d", got, want+1)
	}
	return nil
}

// putJob is our own store taking in the same tree: what a bundle costs beyond that is what is measured.
func (b *bench) putJob(letter string, again bool) job {
	op := "import"
	if again {
		op = "reimport"
	}
	j, _ := b.job(ryeTool(b.rye), op, letter)
	j.tool = "store-put"
	return j
}

// others are the tools of a row that the other rows know too.
func (b *bench) others(r row, op, letter string) (jobs []job) {
	for _, t := range b.tools {
		if t.name == "rye" || !r.takesPart(t.name) {
			continue
		}
		if j, ok := b.job(t, op, letter); ok {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// pipeJob is what people make archives with.
func pipeJob(src, to string) job {
	return job{tool: "tar-zstd", fresh: []string{to},
		run: []command{cmd("sh", "-c", `tar -cf - . | zstd -q -T0 -o "$0"`, to).in(src)}}
}

// statusJob has git look at a tree in which nothing changed.
func statusJob(src, at string) job {
	git := func(args ...string) command {
		return cmd(append([]string{"git", "-c", "gc.auto=0"}, args...)...).in(at)
	}
	return job{
		tool: "git-status", onceFresh: []string{at},
		once: []command{cmd("cp", "-a", src, at), git("init", "-q"), git("add", "-A"), git("commit", "-q", "-m", "x"),
			cmd("sleep", "3"), git("status", "--porcelain")},
		run: []command{git("status", "--porcelain")},
	}
}

// newerJob asks for the times of all files, and does nothing with them.
func newerJob(src, stamp string) job {
	return job{tool: "find", onceFresh: []string{stamp}, once: []command{cmd("touch", stamp)},
		run: []command{cmd("find", ".", "-type", "f", "-newer", stamp).in(src)}}
}
