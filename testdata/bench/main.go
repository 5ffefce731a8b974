// Bench measures rye's store beside other tools on the same work, and prints one table:
//
//	go run ./testdata/bench [-n 5] [-only REGEX] [-tools REGEX] [-floor PATH] [-quick] [-json FILE]
//
// Machines are noisy, so a number alone says little and a ratio within one run says a lot: in every row the
// tools take turns (A B C A B C …), and what is shown is the median with the least and the most; a ratio is the
// median of the rounds' ratios. Before each run everything is prepared untimed and sync(2) is called, so that
// nobody writes back what another left dirty. Source files are in the page cache. Times are of the monotonic
// clock around start and exit; CPU time and peak memory come from wait4, children included. A child's peak is
// never less than this program's own, since it begins its life in this program's memory: the end of the output
// says how much that is.
//
// # Corpora
//
// They are made once, from a seed, under -data (2.5 GB), with modification times in the past:
//
//	A  10,000 text files of 0.5 to 8 KiB, about 30 MB     S  A with 100 files edited
//	B  24 assets of 64 KiB to 64 MiB, 256 MiB in all,     D  B with 1 % of the bytes changed in runs of
//	   half of it random and half text                       4 KiB, and 8 inserts
//	C  100,000 text files of 64 to 1,024 bytes            G  one file of 1 GiB, random and text in turn
//	I  a project of 10,000 items: tools, directives and knowledge
//
// -corpora takes them from another directory instead; the names of its folders are the letters. -quick makes
// small ones: to see that everything works, not to learn anything about speed.
//
// # Rows
//
//	import     into an empty store, durable          verify    every byte in the store hashed again
//	reimport   the same again, nothing changed       checkout  the tree written out as copies
//	dedup      S after A, D after B                  memory    peak of importing G
//	size       of the store after an import          startup   "rye version"
//	puts       one file each by as many processes as -puts says; then one cat, a checkout and a reimport on the
//	           store they leave, against a store that was written by one process
//	lock       of projects of 100, 1,000 and 10,000 items like those of I: lock.go says beside what
//	items      of I: check (parse and validate) and verify beside b3sum, which only hashes; search beside grep; sign
//	           and verify beside as many bare Ed25519 operations on all cores. Cold is from a disk that isn't in
//	           memory, or for search without an index; sign again is of what is signed already. Of 100,000 items it
//	           is beside 10,000
//	exec       of a pinned tool that does nothing, of sandboxes, and of the audit log: exec.go says beside what
//	session    calls that one process makes, and the memory of rye serve: calls.go says beside what
//	build      of one step that takes 1,000 files: nothing changed, beside make, and what it makes gone, beside cp
//	thread     turns of a thread whose model's answers come from a record: threads.go says beside what
//	mcp        calls of rye mcp serve, beside a server that is the SDK alone: mcp.go says what they do
//	oci        a bundle of A and B to and from a registry on this machine, which has to be there: registry.go says
//	           beside what
//	registry   to and from ryed on this machine, with 100,000 versions and without: published.go says beside what
//	bundles    of A, B and C as they are, all of it assets: create into an empty store, and with nothing changed,
//	           beside "store put" of the same, which neither checks nor signs; verify beside b3sum
//	plugins    of a signed plugin of 1,000 skills: verify and export beside cp -r, add beside git clone: plugins.go
//
// The goals are data in rows.go: a factor, and the rod it is measured against in the same run. A goal whose rod
// isn't installed is not judged. -floor names a program that does the least such a store could do, as an own
// column; it understands "import-pack -src DIR -store DIR", "reimport" with the same, "verify-pack -store DIR"
// and "checkout-pack -store DIR -dst DIR".
//
// Stores are not deleted between runs but moved aside: ext4 without a journal passes over recently deleted inodes
// one by one, which makes creating files ten times slower for minutes after a mass deletion. They are deleted at
// the end, so a second run right after the first starts on a slower disk; -work /dev/shm/bench has no such memory.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"time"

	"github.com/rye-build/rye/exec/sandbox"
)

type options struct {
	rye, floor, data, corpora, work, json, make string

	// this program, what to do with bare signatures, which part of rye to do, and with which tool
	self, ed25519, part, tool string
	count                     int

	only, tools *regexp.Regexp

	n, puts int
	budget  time.Duration
	quick   bool
	keep    bool
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == stageArg {
		os.Exit(sandbox.Stage(os.Args[2:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string) (*options, error) {
	o := &options{only: regexp.MustCompile(""), tools: regexp.MustCompile("")}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&o.rye, "rye", "", "measure the rye at `PATH` instead of building one")
	f.StringVar(&o.floor, "floor", "", "a measuring rod at `PATH`, shown as an own column")
	f.StringVar(&o.data, "data", "", "keep corpora and stores in `DIR` (default: rye-bench in the user's cache)")
	f.StringVar(&o.corpora, "corpora", "", "take the corpora from `DIR`")
	f.StringVar(&o.work, "work", "", "make stores in `DIR` (default: work in -data)")
	f.StringVar(&o.json, "json", "", "write every number to `FILE`")
	f.StringVar(&o.make, "make", "", "only make this corpus, in -corpora (the program starts itself so)")
	f.StringVar(&o.ed25519, "ed25519", "", "only `sign` or verify -count times (the program starts itself so)")
	f.StringVar(&o.part, "part", "", "only do this `part` of rye -count times (the program starts itself so)")
	f.StringVar(&o.tool, "tool", "", "the `tool` that a part calls")
	f.IntVar(&o.count, "count", 0, "how `many` times")
	f.IntVar(&o.n, "n", 0, "`runs` of each tool in a row (default 5, with -quick 1)")
	f.IntVar(&o.puts, "puts", 0, "`processes` in the puts rows (default 10000, with -quick 60)")
	f.DurationVar(&o.budget, "budget", 45*time.Second,
		"no further run of a tool in a row that took so `long`, what each run needs included")
	f.BoolVar(&o.quick, "quick", false, "small corpora")
	f.BoolVar(&o.keep, "keep", false, "leave stores and what was moved aside in -work")
	pattern := func(to **regexp.Regexp) func(string) error {
		return func(s string) (err error) { *to, err = regexp.Compile(s); return }
	}
	f.Func("only", "only rows that match `REGEX`", pattern(&o.only))
	f.Func("tools", "beside rye only tools that match `REGEX`", pattern(&o.tools))
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("%q is not a flag", f.Arg(0))
	}
	return o, o.defaults()
}

// defaults fills in what wasn't given, and makes paths absolute: commands run in other directories.
func (o *options) defaults() (err error) {
	if o.self, err = os.Executable(); err != nil {
		return err
	}
	n, puts, corpora := 5, 10000, "corpora-1"
	if o.quick {
		n, puts, corpora = 1, 60, "corpora-1-quick"
	}
	if o.n <= 0 {
		o.n = n
	}
	if o.puts <= 0 {
		o.puts = puts
	}
	if o.data == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return err
		}
		o.data = filepath.Join(dir, "rye-bench")
	}
	if o.corpora == "" {
		o.corpora = filepath.Join(o.data, corpora)
	}
	if o.work == "" {
		o.work = filepath.Join(o.data, "work")
	}
	for _, p := range []*string{&o.rye, &o.floor, &o.data, &o.corpora, &o.work, &o.json} {
		if *p == "" {
			continue
		}
		abs, err := filepath.Abs(*p)
		if err != nil {
			return err
		}
		*p = abs
	}
	return nil
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.ed25519 != "" {
		return bareEd25519(o.ed25519, o.count)
	}
	if o.part != "" {
		return o.doPart(ctx)
	}
	if o.make != "" {
		return makeCorpus(o.corpora, o.make, o.quick)
	}
	b, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	if !o.keep {
		defer b.clear()
	}
	defer func() {
		for _, stop := range b.stops {
			stop()
		}
	}()
	b.head(os.Stdout)
	if err := b.all(ctx); err != nil {
		return err
	}
	if own, err := b.run(ctx, cmd("true")); err == nil {
		b.notes = append(b.notes, "no process can peak below "+peakBytes.format(float64(own.RSS))+
			", which are this program's own")
	}
	b.report(os.Stdout)
	if o.json != "" {
		text, err := json.MarshalIndent(b.record(), "", " ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(o.json, append(text, '\n'), 0o666); err != nil {
			return err
		}
	}
	if len(b.broken) > 0 {
		return fmt.Errorf("rye failed in %v", b.broken)
	}
	return nil
}

// newBench prepares a work directory of our own, builds what is measured, and finds the tools.
func newBench(ctx context.Context, o *options) (*bench, error) {
	if err := os.MkdirAll(o.work, 0o777); err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp(o.work, "run-")
	if err != nil {
		return nil, err
	}
	b := &bench{options: o, machine: newMachine(work), results: map[string][]*result{}}
	if err := b.build(ctx); err != nil {
		b.clear()
		return nil, err
	}
	for _, t := range tools(b.rye, b.floor, filepath.Join(work, "bin", "hello")) {
		if t.name != "rye" && !o.tools.MatchString(t.name) {
			continue
		}
		if _, err := exec.LookPath(t.bin); err != nil {
			b.missing = append(b.missing, t.name)
			continue
		}
		b.tools = append(b.tools, t)
	}
	return b, nil
}

// build makes rye, unless one was given, and the Go program that does nothing.
func (b *bench) build(ctx context.Context) error {
	bin := filepath.Join(b.dir, "bin")
	hello := filepath.Join(b.dir, "hello.go")
	const source = "package main\n\nimport \"os\"\n\nfunc main() { os.Stdout.WriteString(\"hello\\n\") }\n"
	if err := os.WriteFile(hello, []byte(source), 0o666); err != nil {
		return err
	}
	programs := []string{"hello", hello}
	if b.rye == "" {
		b.rye = filepath.Join(bin, "rye")
		programs = append(programs, "rye", "github.com/rye-build/rye/cmd/rye")
	}
	for p := range slices.Chunk(programs, 2) {
		c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(bin, p[0]),
			p[1])
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", p[0], err, out)
		}
	}
	return nil
}
