package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A manyStore is a store that many processes wrote, one file each, and beside it one with the same objects that
// one process wrote.
type manyStore struct {
	many, one place
	file      string // one of the files in them
}

// blocks is into how many parts the puts are divided, so that tools can take turns and growth is seen.
const blocks = 10

// puts has each tool keep many files by a process each. A sample is the mean of a block.
func (b *bench) puts(ctx context.Context) error {
	if b.many != nil {
		return nil
	}
	if err := b.corpus(ctx, "A"); err != nil {
		return err
	}
	src := filepath.Join(b.corpora, "A")
	files, err := someFiles(src, b.options.puts)
	if err != nil {
		return err
	}
	at := func(name string) place {
		return place{store: filepath.Join(b.dir, name), src: src, out: filepath.Join(b.dir, name+"-out")}
	}
	b.many = &manyStore{many: at("many"), one: at("one"), file: files[len(files)/2]}
	type putter struct {
		*result
		one func(file string) command
	}
	var all []putter
	for _, t := range b.tools {
		switch t.name {
		case "rye":
			all = append(all, putter{&result{Tool: t.name}, func(f string) command {
				return b.ryeStore(b.many.many, "put", f)
			}})
		case "git":
			p := at("many-git")
			if _, err := b.run(ctx, t.create(p)...); err != nil {
				return err
			}
			all = append(all, putter{&result{Tool: t.name}, func(f string) command {
				return cmd("git", "--git-dir", p.store, "hash-object", "-w", f)
			}})
		}
	}
	for block := range slices.Chunk(files, (len(files)+blocks-1)/blocks) {
		for _, p := range all {
			if p.Failed != "" {
				continue
			}
			syncDisks()
			var cmds []command
			for _, f := range block {
				cmds = append(cmds, p.one(f))
			}
			s, err := b.run(ctx, cmds...)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				b.fail("puts.A", p.result, err)
				continue
			}
			s.Wall /= float64(len(block))
			s.CPU /= float64(len(block))
			p.Samples = append(p.Samples, s)
		}
	}
	var results []*result
	for _, p := range all {
		results = append(results, p.result)
		if n := len(p.Samples); n > 1 {
			b.notes = append(b.notes, fmt.Sprintf("puts: %d processes of %s, the first tenth %s each, the last %s",
				len(files), p.Tool, seconds.format(p.Samples[0].Wall), seconds.format(p.Samples[n-1].Wall)))
		}
	}
	b.keepResults("puts.A", results)
	return b.finishMany(ctx)
}

// finishMany gives both stores a ref to the whole tree, and notes what they weigh.
func (b *bench) finishMany(ctx context.Context) error {
	weigh := func(what string, p place) {
		size, n := usage(p.store)
		b.notes = append(b.notes, fmt.Sprintf("puts: the store of %s has %d files, %s", what, n,
			storeBytes.format(float64(size))))
	}
	weigh("many batches", b.many.many)
	for _, p := range []place{b.many.one, b.many.many} {
		if _, err := b.run(ctx, b.ryeStore(p, "put", "--ref", "bench", p.src)); err != nil {
			return err
		}
	}
	weigh("one batch", b.many.one)
	return nil
}

// manyJobs compares rye on the store of many processes with rye on that of one.
func (b *bench) manyJobs(ctx context.Context, what string) ([]job, error) {
	answer := filepath.Join(b.dir, "digest")
	if _, err := b.run(ctx, b.ryeStore(b.many.one, "put", b.many.file).onto(answer)); err != nil {
		return nil, err
	}
	digest, err := os.ReadFile(answer)
	if err != nil {
		return nil, err
	}
	var jobs []job
	for _, p := range []place{b.many.many, b.many.one} {
		j := job{tool: "rye"}
		if p == b.many.one {
			j.tool = "one-batch"
		}
		switch what {
		case "cat":
			j.run = []command{b.ryeStore(p, "cat", strings.TrimSpace(string(digest)))}
		case "checkout":
			j.fresh, j.run = []string{p.out}, []command{b.ryeStore(p, "checkout", "bench", p.out)}
			j.check = func() error { return sameUsage(p.src, p.out) }
		case "reimport":
			j.run = []command{b.ryeStore(p, "put", "--ref", "bench", p.src)}
			j.once = j.run
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

// ryeStore is a store command of the rye under test, with a stat cache that belongs to the store.
func (b *bench) ryeStore(p place, args ...string) command {
	return cmd(append([]string{b.rye, "--store", p.store, "store"},
		args...)...).with("XDG_CACHE_HOME=" + p.store + ".cache")
}

// someFiles returns up to n files below a directory.
func someFiles(dir string, n int) (files []string, err error) {
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if files = append(files, p); len(files) == n {
				return fs.SkipAll
			}
		}
		return err
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%q has no files", dir)
	}
	return files, err
}
