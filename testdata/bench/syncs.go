package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A syncCount is how often a tool asked for durability in one run.
type syncCount struct {
	Op    string         `json:"op"`
	Tool  string         `json:"tool"`
	Calls map[string]int `json:"calls"`
}

// String says how many calls, and how many of them were for the whole file system.
func (c syncCount) String() string {
	all := 0
	for _, n := range c.Calls {
		all += n
	}
	if n := c.Calls["syncfs"] + c.Calls["sync"]; n > 0 {
		return fmt.Sprintf("%d, %d of all files", all, n)
	}
	return strconv.Itoa(all)
}

// syncCalls are the system calls that wait for a disk.
var syncCalls = []string{"fsync", "fdatasync", "syncfs", "sync", "sync_file_range", "msync"}

// countSyncs runs what writes once more under strace, untimed.
func (b *bench) countSyncs(ctx context.Context) error {
	if _, err := exec.LookPath("strace"); err != nil {
		b.missing = append(b.missing, "strace")
		return nil
	}
	for _, op := range []string{"import.A", "reimport.A", "dedup.A", "import.B", "verify.A", "checkout.A",
		"put one file"} {
		verb, on, isRow := strings.Cut(op, ".")
		if !isRow {
			on = "A"
		}
		for _, c := range []string{on, next[on]} {
			if err := b.corpus(ctx, c); err != nil {
				return err
			}
		}
		for _, t := range b.tools {
			j, ok := b.job(t, verb, on)
			switch {
			case !slices.Contains([]string{"rye", "floor", "git", "ostree", "restic", "borg", "nix-store"}, t.name),
				t.name == "floor" && verb == "dedup":
				continue
			case !isRow:
				if ok = t.name == "rye"; ok {
					j = b.putOneJob()
				}
			}
			if !ok {
				continue
			}
			calls, err := b.syncsOf(ctx, j)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				b.fail("syncs of "+op, &result{Tool: t.name}, err)
				continue
			}
			b.syncs = append(b.syncs, syncCount{op, t.name, calls})
		}
	}
	return nil
}

// putOneJob puts one small file into a store that exists.
func (b *bench) putOneJob() job {
	p := place{store: filepath.Join(b.dir, "store-rye")}
	files, _ := someFiles(filepath.Join(b.corpora, "A"), 2)
	return job{
		tool: "rye", onceFresh: []string{p.store, p.store + ".cache"},
		once: []command{b.ryeStore(p, "put", files[0])}, run: []command{b.ryeStore(p, "put", files[1])},
	}
}

// syncsOf does a job once and counts.
func (b *bench) syncsOf(ctx context.Context, j job) (map[string]int, error) {
	counts := map[string]int{}
	var logs []string
	run := slices.Clone(j.run)
	for i := range run {
		log := filepath.Join(b.dir, fmt.Sprintf("strace-%d", i))
		logs = append(logs, log)
		run[i] = run[i].through("strace", "-f", "-c", "-o", log, "-e", "trace="+strings.Join(syncCalls, ","))
	}
	j.run = run
	err := b.first(ctx, j)
	if err == nil {
		_, err = b.turn(ctx, j)
	}
	for _, p := range slices.Concat(j.fresh, j.onceFresh) {
		if err := b.away(p); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, err
	}
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			return nil, err
		}
		countCalls(string(text), counts)
	}
	return counts, nil
}

// countCalls adds up the table that "strace -c" writes: % time, seconds, usecs/call, calls, errors, syscall.
func countCalls(table string, counts map[string]int) {
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 5 || !slices.Contains(syncCalls, f[len(f)-1]) {
			continue
		}
		if n, err := strconv.Atoi(f[3]); err == nil {
			counts[f[len(f)-1]] += n
		}
	}
}
