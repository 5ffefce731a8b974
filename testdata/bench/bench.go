package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A bench is one run of the program.
type bench struct {
	*options
	*machine
	tools   []tool
	missing []string
	results map[string][]*result // by row.run
	ready   []string             // corpora that exist and are in memory
	many    *manyStore
	notes   []string
	syncs   []syncCount
	broken  []string // where rye failed

	registry *registry // nil: not started
	mover    string    // what crane and oras are; "" if they can't be built
	hosts    map[string]*host
	stops    []func() // at the end
}

// A result is what one tool needed for one kind of run.
type result struct {
	Tool    string   `json:"tool"`
	Samples []sample `json:"samples"`
	Failed  string   `json:"failed,omitempty"`
	spent   time.Duration
}

// A job is what one tool does in a row. Only run is timed.
type job struct {
	tool   string
	once   []command // before the first run, where onceFresh doesn't exist
	fresh  []string  // before every run these don't exist
	cold   []string  // before every run these are not in memory, where the system can be asked for that
	before []command // before every run
	run    []command
	times  int                   // how often a run does it: its time and CPU time are each one's; 0: once
	store  string                // weighed before and after
	added  func() (int64, error) // after every run: what it added, where that isn't the store's growth
	check  func() error          // after every run: was it done?

	onceFresh []string
}

// span returns the least, the middle and the greatest of a result's numbers.
func (r *result) span(u unit) (least, median, most float64) {
	var x []float64
	for _, s := range r.Samples {
		x = append(x, u.of(s))
	}
	slices.Sort(x)
	if len(x) == 0 {
		return 0, 0, 0
	}
	return x[0], middle(x), x[len(x)-1]
}

// middle returns the median of sorted numbers.
func middle(x []float64) float64 { return (x[(len(x)-1)/2] + x[len(x)/2]) / 2 }

// all measures every row that was asked for.
func (b *bench) all(ctx context.Context) error {
	var chosen []row
	for _, r := range rows {
		if b.only.MatchString(r.name) {
			chosen = append(chosen, r)
		}
	}
	for i, r := range chosen {
		if _, done := b.results[r.run()]; done {
			continue
		}
		// The rows that take their number from the same runs.
		var same []row
		for _, other := range chosen[i:] {
			if other.run() == r.run() {
				same = append(same, other)
			}
		}
		if err := b.rows(ctx, same); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	if b.only.MatchString("syncs") {
		return b.countSyncs(ctx)
	}
	return nil
}

// rows measures what some rows have in common.
func (b *bench) rows(ctx context.Context, same []row) error {
	r, n := same[0], 1
	for _, s := range same {
		switch s.unit {
		case seconds:
			n = b.n
		case peakBytes:
			n = max(n, min(b.n, 3))
		}
	}
	var jobs []job
	var err error
	switch r.op {
	case "puts":
		return b.puts(ctx)
	case "many":
		if err := b.puts(ctx); err != nil {
			return err
		}
		if jobs, err = b.manyJobs(ctx, r.on); err != nil {
			return err
		}
		return b.measure(ctx, r.run(), jobs, n)
	case "items":
		jobs, err = b.itemJobs(ctx, r.on)
	case "bundles":
		jobs, err = b.bundleJobs(ctx, r)
	case "plugins":
		jobs, err = b.pluginJobs(r.on)
	case "lock":
		jobs, err = b.lockJobs(ctx, r)
	case "exec":
		switch jobs, err = b.execJobs(r.on); strings.TrimSuffix(r.on, ".required") {
		case "nothing", "shell", "python":
			n *= 20
		}
	case "session":
		jobs, err = b.sessionJobs(r.on)
	case "build":
		jobs, err = b.buildJobs(r.on)
	case "thread":
		jobs, err = b.threadJobs(r.on)
	case "mcp":
		jobs, err = b.mcpJobs(r.on)
	case "oci":
		jobs, err = b.ociJobs(ctx, r.on)
	case "registry":
		jobs, err = b.publishedJobs(ctx, r.on)
	default:
		if r.op == "startup" {
			n *= 20
		}
		return b.storeRows(ctx, same, n)
	}
	if err != nil {
		return err
	}
	return b.measureAway(ctx, r.run(), jobs, n)
}

// storeRows measures rows in which each tool does the same with a corpus, or nothing but start.
func (b *bench) storeRows(ctx context.Context, same []row, n int) error {
	r := same[0]
	for _, c := range []string{r.on, next[r.on]} {
		if err := b.corpus(ctx, c); err != nil {
			return err
		}
	}
	var jobs []job
	for _, t := range b.tools {
		if !slices.ContainsFunc(same, func(s row) bool { return s.takesPart(t.name) }) {
			continue
		}
		if j, ok := b.job(t, r.op, r.on); ok {
			jobs = append(jobs, j)
		}
	}
	rank := func(j job) int {
		least := 10
		for _, s := range same {
			least = min(least, s.rank(j.tool))
		}
		return least
	}
	slices.SortStableFunc(jobs, func(x, y job) int { return rank(x) - rank(y) })
	return b.measureAway(ctx, r.run(), jobs, n)
}

// measureAway measures, and then moves away what the jobs have made.
func (b *bench) measureAway(ctx context.Context, name string, jobs []job, n int) error {
	err := b.measure(ctx, name, jobs, n)
	for _, j := range jobs {
		for _, p := range slices.Concat(j.fresh, j.onceFresh) {
			err = cmp.Or(err, b.away(p))
		}
	}
	return err
}

// job says what a tool does for an operation.
func (b *bench) job(t tool, op, on string) (j job, ok bool) {
	p := place{store: filepath.Join(b.dir, "store-"+t.name), src: filepath.Join(b.corpora, on),
		out: filepath.Join(b.dir, "out-"+t.name)}
	if op == "startup" {
		return job{tool: t.name, run: []command{{argv: t.version}}}, t.version != nil
	}
	if t.put == nil {
		return j, false
	}
	paths := []string{p.store}
	for _, suffix := range t.beside {
		paths = append(paths, p.store+suffix)
	}
	var fill []command
	if t.create != nil {
		fill = t.create(p)
	}
	j = job{tool: t.name, store: p.store}
	switch op {
	case "import":
		j.fresh, j.before, j.run = paths, fill, t.put(p)
		return j, true
	case "dedup":
		j.fresh, j.before = paths, append(fill, t.put(p)...)
		p.src = filepath.Join(b.corpora, next[on])
		j.run = t.put(p)
		return j, true
	}
	j.onceFresh, j.once, j.store = paths, append(fill, t.put(p)...), ""
	switch op {
	case "reimport":
		// The second time some tools still have to learn that time has passed since the first.
		j.run = t.put(p)
		if t.reput != nil {
			j.run = t.reput(p)
		}
		j.once = append(j.once, j.run...)
	case "verify":
		if t.verify == nil {
			return j, false
		}
		j.run = t.verify(p)
	case "checkout":
		if t.checkout == nil {
			return j, false
		}
		j.fresh, j.run = []string{p.out}, t.checkout(p)
		if t.makeOut {
			j.before = append(j.before, cmd("mkdir", p.out))
		}
		if t.ready != nil {
			j.before = append(j.before, t.ready(p)...)
		}
		j.check = func() error { return sameUsage(p.src, p.out) }
	}
	return j, true
}

// sameUsage checks that a directory has as many files and bytes as the one it was made from.
func sameUsage(src, out string) error {
	wantBytes, wantFiles := usage(src)
	gotBytes, gotFiles := usage(out)
	if gotBytes != wantBytes || gotFiles != wantFiles {
		return fmt.Errorf("made %d files of %d bytes in all, want %d of %d", gotFiles, gotBytes, wantFiles, wantBytes)
	}
	return nil
}

// measure lets the jobs take turns, n times.
func (b *bench) measure(ctx context.Context, name string, jobs []job, n int) error {
	results := make([]*result, len(jobs))
	for i, j := range jobs {
		results[i] = &result{Tool: j.tool}
		if err := b.first(ctx, j); ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			b.fail(name, results[i], err)
		}
	}
	for range n {
		for i, j := range jobs {
			r := results[i]
			if r.Failed != "" || r.spent > b.budget {
				continue
			}
			began := time.Now()
			s, err := b.turn(ctx, j)
			r.spent += time.Since(began)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				b.fail(name, r, err)
				continue
			}
			r.Samples = append(r.Samples, s)
		}
	}
	b.keepResults(name, results)
	return nil
}

func (b *bench) fail(name string, r *result, err error) {
	r.Failed = err.Error()
	b.notes = append(b.notes, fmt.Sprintf("%s: %s failed: %v", name, r.Tool, err))
	if r.Tool == "rye" {
		b.broken = append(b.broken, name)
	}
}

// keepResults remembers what was measured, and tells whoever waits.
func (b *bench) keepResults(name string, results []*result) {
	b.results[name] = results
	for _, r := range results {
		if len(r.Samples) == 0 {
			fmt.Fprintf(os.Stderr, "%-12s %-10s failed\n", name, r.Tool)
			continue
		}
		least, median, most := r.span(seconds)
		_, peak, _ := r.span(peakBytes)
		_, size, _ := r.span(storeBytes)
		_, cpu, _ := r.span(cpuSeconds)
		fmt.Fprintf(os.Stderr, "%-12s %-10s n=%-3d %10s  (%s .. %s)  cpu %s  peak %s", name, r.Tool, len(r.Samples),
			seconds.format(median), seconds.format(least), seconds.format(most), seconds.format(cpu),
			peakBytes.format(peak))
		if size > 0 {
			fmt.Fprintf(os.Stderr, "  store %s", storeBytes.format(size))
		}
		fmt.Fprintln(os.Stderr)
	}
}

// first does what a job needs once.
func (b *bench) first(ctx context.Context, j job) error {
	for _, p := range j.onceFresh {
		if err := b.away(p); err != nil {
			return err
		}
	}
	_, err := b.run(ctx, j.once...)
	return err
}

// turn prepares and does one run.
func (b *bench) turn(ctx context.Context, j job) (s sample, err error) {
	for _, p := range j.fresh {
		if err := b.away(p); err != nil {
			return s, err
		}
	}
	if _, err := b.run(ctx, j.before...); err != nil {
		return s, err
	}
	for _, p := range j.cold {
		if err := forget(p); err != nil {
			return s, err
		}
	}
	var before int64
	if j.store != "" {
		before, _ = usage(j.store)
	}
	syncDisks()
	if s, err = b.run(ctx, j.run...); err != nil {
		return s, err
	}
	if j.times > 0 {
		s.Wall /= float64(j.times)
		s.CPU /= float64(j.times)
	}
	if j.store != "" {
		s.Bytes, _ = usage(j.store)
		s.Added = s.Bytes - before
	}
	if j.added != nil {
		if s.Added, err = j.added(); err != nil {
			return s, err
		}
	}
	if j.check != nil {
		err = j.check()
	}
	return s, err
}

// corpus makes a corpus, where it isn't there, and reads it into memory.
func (b *bench) corpus(ctx context.Context, letter string) error {
	if letter == "" || slices.Contains(b.ready, letter) {
		return nil
	}
	dir := filepath.Join(b.corpora, letter)
	if _, err := os.Stat(dir); err != nil {
		fmt.Fprintf(os.Stderr, "making corpus %s\n", letter)
		// In a process of its own: what it needs of memory would count as every child's.
		c := cmd(b.self, "-make", letter, "-corpora", b.corpora, "-data", b.data, fmt.Sprintf("-quick=%t", b.quick))
		if _, err := b.run(ctx, c); err != nil {
			return err
		}
	}
	b.ready = append(b.ready, letter)
	return warm(dir)
}
