package build

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle/recipe"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/statcache"
	"github.com/rye-build/rye/cas/suggest"
	"github.com/rye-build/rye/cas/worktree"
	"github.com/rye-build/rye/exec"
)

// Options configure a build.
type Options struct {
	Dir    string // of the project
	Recipe *recipe.Recipe
	Steps  []string // the steps to build, with the steps that they need; empty: all
	Store  Store
	Stat   *statcache.Cache // caches digests of files; nil: every file is read
	Cache  *Cache
	// Tool returns why a tool can't be run now. It is called for all tools before the first step runs. Optional.
	Tool func(ctx context.Context, ref model.Ref) error
	// Prepare plans the call of a step. The caller closes the plan.
	Prepare func(ctx context.Context, s *recipe.Step) (*exec.Plan, error)
	Runner  Runner
	Jobs    int // how many steps run at one time

	Check     bool // run each step twice, even if its result is cached, and compare
	KeepGoing bool // run the steps that don't need a failed one
	DryRun    bool // report what would run, and run nothing
	// Told is called with the report of each finished step, one at a time; nil for none.
	Told func(*Report)
}

// A State is the result of a step.
type State string

// The states.
const (
	Unchanged State = "unchanged" // its outputs are up to date
	Cached    State = "cached"    // its outputs come from the cache
	Ran       State = "ran"
	Failed    State = "failed"
	Skipped   State = "skipped" // a step that it needs failed
	Stale     State = "stale"   // with DryRun: it would run, or take its outputs from the cache
)

// A Report is the report of a step.
type Report struct {
	Step     string
	State    State
	Action   cas.Digest // zero where it isn't known
	Outputs  cas.Digest // the tree of its outputs; zero for none
	Why      []string   // what changed since the last result; for a skipped step, the step that it waits for
	Note     string     // why a cached result was not used; "" if it was, or there was none
	Err      error      // with Failed
	Duration time.Duration
}

// A Result is the result of a build.
type Result struct {
	Steps []*Report // in the order of the file
	Files int64     // files of the project that were checked
	Read  int64     // those of them that were read
}

// OK reports whether all requested outputs are up to date.
func (r *Result) OK() bool {
	return !slices.ContainsFunc(r.Steps, func(s *Report) bool {
		return s.State == Failed || s.State == Skipped || s.State == Stale
	})
}

// NoStep returns the error for an unknown step of a recipe.
func NoStep(r *recipe.Recipe, name string) error {
	var known []string
	for i := range r.Build {
		known = append(known, r.Build[i].Name)
	}
	e := fault.New(fault.NotFound, "%s has no step %q", recipe.File, name).On("step", name).Try("rye build --dry-run")
	if meant := suggest.Names(name, known); len(meant) > 0 {
		e.Because("did you mean " + meant[0] + "?")
	}
	return e
}

// Build runs the steps whose inputs have changed. A failed step is in the result; an error concerns the whole build.
func Build(ctx context.Context, o Options) (*Result, error) {
	build := &build{Options: o, result: &Result{}, done: map[string]*step{},
		slots: make(chan struct{}, max(o.Jobs, 1))}
	if err := build.choose(); err != nil {
		return nil, err
	}
	if err := build.tools(ctx); err != nil {
		return nil, err
	}
	defer build.release()
	if err := build.scan(ctx); err != nil {
		return nil, err
	}
	var wait sync.WaitGroup
	for _, s := range build.steps {
		wait.Go(func() {
			defer close(s.over)
			build.step(ctx, s)
			if s.report.State == "" {
				s.report.State = Skipped // interrupted: Build returns that error
			}
		})
	}
	wait.Wait()
	for _, s := range build.steps {
		build.result.Steps = append(build.result.Steps, s.report)
	}
	if ctx.Err() != nil {
		return build.result, context.Cause(ctx)
	}
	return build.result, nil
}

// A build is the state of one Build.
type build struct {
	Options
	result  *Result
	steps   []*step
	done    map[string]*step // by name
	slots   chan struct{}
	sources Files
	found   Files // the project's files at the paths of outputs

	mu     sync.Mutex
	failed string // the first failed step
	held   []func() error
}

// hold pins a tree in a store until the build ends, because a gc without grace period may run at any time.
func (b *build) hold(ctx context.Context, s Store, tree cas.Digest) error {
	release, err := s.Pin(ctx, cas.ID{Kind: cas.TreeKind, Digest: tree})
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held = append(b.held, release)
	return nil
}

// release releases the pins. A pin that can't be released ends with this process.
func (b *build) release() {
	for _, release := range b.held {
		release()
	}
}

// A step is the state of a step in this build.
type step struct {
	*recipe.Step
	report *Report
	over   chan struct{} // closed when report and made are set
	made   Files
}

// choose selects the requested steps and the steps that they need.
func (b *build) choose() error {
	want := map[string]bool{}
	var add func(name string)
	add = func(name string) {
		if !want[name] {
			want[name] = true
			for _, need := range b.Recipe.Step(name).Needs {
				add(need)
			}
		}
	}
	for _, name := range b.Steps {
		if b.Recipe.Step(name) == nil {
			return NoStep(b.Recipe, name)
		}
		add(name)
	}
	for i := range b.Recipe.Build {
		s := &b.Recipe.Build[i]
		if len(b.Steps) > 0 && !want[s.Name] {
			continue
		}
		b.steps = append(b.steps, &step{Step: s, report: &Report{Step: s.Name}, over: make(chan struct{})})
		b.done[s.Name] = b.steps[len(b.steps)-1]
	}
	return nil
}

// tools checks the tool of each step.
func (b *build) tools(ctx context.Context) error {
	asked := map[model.Ref]bool{}
	for _, s := range b.steps {
		if b.Options.Tool == nil || asked[s.Step.Tool] {
			continue
		}
		asked[s.Step.Tool] = true
		if err := b.Options.Tool(ctx, s.Step.Tool); err != nil {
			return err
		}
	}
	return nil
}

// scan puts the inputs of steps into the store, and lists the files at the paths of their outputs.
func (b *build) scan(ctx context.Context) error {
	b.sources, b.found = Files{}, Files{}
	batch, err := b.Store.Batch(ctx)
	if err != nil {
		return err
	}
	defer batch.Close()
	var mu sync.Mutex
	result, err := worktree.Import(ctx, batch, b.Dir,
		worktree.Options{Cache: b.Stat, Skip: b.skip, Files: func(of []worktree.File) {
			mu.Lock()
			defer mu.Unlock()
			for _, f := range of {
				if b.Recipe.Makes(f.Path) {
					b.found[f.Path] = f.Entry
				} else {
					b.sources[f.Path] = f.Entry
				}
			}
		}})
	if err != nil {
		return err
	}
	b.result.Files, b.result.Read = result.Files, result.Read
	if err := batch.Commit(ctx); err != nil {
		return err
	}
	return b.hold(ctx, b.Store, result.ID.Digest)
}

// skip reports whether no step reads or writes a path.
func (b *build) skip(path string, dir bool) bool {
	if in, ok := strings.CutPrefix(path, ".ai/"); ok {
		if first, _, _ := strings.Cut(in, "/"); recipe.Never(first) {
			return true
		}
	}
	mine := b.Recipe.Makes(path)
	return !slices.ContainsFunc(b.steps, func(s *step) bool {
		switch {
		case mine || dir && slices.ContainsFunc(s.Outputs, func(out string) bool { return within(out, path) }):
			return s.Makes(path) || dir && !mine
		case dir:
			return slices.ContainsFunc(s.Inputs, func(g recipe.Glob) bool { return g.Below(path) })
		}
		return s.Takes(path)
	})
}

// step runs one step when the steps that it needs are done.
func (b *build) step(ctx context.Context, step *step) {
	for _, name := range step.Needs {
		need := b.done[name]
		select {
		case <-need.over:
		case <-ctx.Done():
			return
		}
		switch need.report.State {
		case Unchanged, Cached, Ran:
		case Stale:
			step.report.State, step.report.Why = Stale, []string{"the step " + name + " would run"}
			b.tell(step)
			return
		default:
			step.report.State, step.report.Why = Skipped,
				[]string{"the step " + name + " " + string(need.report.State)}
			b.tell(step)
			return
		}
	}
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
	case <-ctx.Done():
		return
	}
	if first := b.first(); first != "" && !b.KeepGoing {
		step.report.State, step.report.Why = Skipped, []string{"the step " + first + " failed"}
		b.tell(step)
		return
	}
	begin := time.Now()
	err := b.do(ctx, step)
	step.report.Duration = time.Since(begin)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		step.report.State, step.report.Err = Failed, err
	}
	b.tell(step)
}

func (b *build) first() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed
}

func (b *build) tell(s *step) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.report.State == Failed && b.failed == "" {
		b.failed = s.Name
	}
	if b.Told != nil {
		b.Told(s.report)
	}
}

// inputs returns the input files of a step: of the project, and of the steps that it needs.
func (b *build) inputs(step *step) (Files, error) {
	in := Files{}
	for _, glob := range step.Inputs {
		any := false
		take := func(files Files) {
			for path, e := range files {
				if glob.Match(path) {
					in[path], any = e, true
				}
			}
		}
		take(b.sources)
		for _, need := range step.Needs {
			take(b.done[need].made)
		}
		if !any {
			return nil, fault.New(fault.Files, "the step %q needs %q, and no file matches", step.Name,
				glob.String()).On("step", step.Name).On("path", glob.String()).Missing().
				Because("inputs: in " + recipe.File + " names files of the project and outputs of other steps")
		}
	}
	return in, nil
}

// do runs a step if it isn't up to date.
func (b *build) do(ctx context.Context, step *step) error {
	in, err := b.inputs(step)
	if err != nil {
		return err
	}
	root, err := in.tree(nil)
	if err != nil {
		return err
	}
	plan, err := b.Prepare(ctx, step.Step)
	if err != nil {
		return err
	}
	defer func() { plan.Close() }()
	action, err := ActionOf(plan, root, step.Outputs)
	if err != nil {
		return err
	}
	record, err := action.Append(nil)
	if err != nil {
		return err
	}
	step.report.Action = cas.Sum(record)
	last, lastTree := b.Cache.Last(ctx, b.Dir, step.Name)
	found := b.found.below(step.Outputs)
	step.report.Why = changes(ctx, b.Store, last, action, in)

	if !b.Check {
		if over, err := b.recall(ctx, step, action, found, last != nil, lastTree); over || err != nil {
			return err
		}
	}
	if b.DryRun {
		step.report.State = Stale
		return nil
	}
	if err := b.putTrees(ctx, in); err != nil {
		return err
	}
	store := b.Store
	if step.report.Note != "" {
		// The store doesn't replace a damaged object, because it has one of that name. So this result is kept outside
		// of it until it is placed.
		fresh := &beside{Store: b.Store, fresh: &cas.Memory{}}
		store = fresh
		defer func() { fresh.copy(ctx, step.report.Outputs) }()
	}
	job := &Job{Step: step.Step, Action: action, Plan: plan, Store: store,
		Hold: func(ctx context.Context, tree cas.Digest) error {
			return b.hold(ctx, store, tree)
		}}
	made, err := b.Runner.Run(ctx, job)
	if err != nil {
		return err
	}
	if b.Check {
		if err := b.again(ctx, job, made); err != nil {
			return err
		}
	}
	step.report.State, step.report.Outputs = Ran, made
	b.Cache.Keep(ctx, step.report.Action, made)
	if step.made, err = readFiles(ctx, store, made); err != nil {
		return err
	}
	return b.place(ctx, step, action, store, found, last != nil, lastTree)
}

// recall returns the cached result of an action if all its objects exist.
func (b *build) recall(ctx context.Context, step *step, action *Action, found Files, known bool,
	lastTree cas.Digest) (over bool, err error) {
	outputs, ok := b.Cache.Result(ctx, step.report.Action)
	if !ok {
		return false, nil
	}
	step.report.Outputs = outputs
	if is, err := found.tree(nil); err == nil && is == outputs {
		step.report.State, step.made = Unchanged, found
		b.Cache.SetLast(ctx, b.Dir, step.Name, action, outputs)
		return true, nil
	}
	if err = b.hold(ctx, b.Store, outputs); err == nil {
		step.made, err = readFiles(ctx, b.Store, outputs)
	}
	if err == nil && !b.DryRun {
		err = b.whole(ctx, step.made)
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if err != nil {
		step.report.Outputs = cas.Digest{}
		step.report.Note = "the cached result is missing or damaged: " + err.Error()
		return false, nil
	}
	if len(step.report.Why) == 0 {
		step.report.Why = differences("output", step.made, found)
	}
	if b.DryRun {
		step.report.State = Stale
		return true, nil
	}
	step.report.State = Cached
	return true, b.place(ctx, step, action, b.Store, found, known, lastTree)
}

// whole checks that all files exist, by reading them against their digests.
func (b *build) whole(ctx context.Context, files Files) error {
	for _, e := range files {
		o, err := b.Store.Get(ctx, e.ID())
		if err == nil {
			_, err = io.Copy(io.Discard, o)
			err = errors.Join(err, o.Close())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// place writes the outputs of a step into the project, and records them in the cache.
func (b *build) place(ctx context.Context, step *step, action *Action, src cas.Getter, found Files, known bool,
	lastTree cas.Digest) error {
	last := Files{}
	if known {
		// A tree that is no longer in the store can't prove that a build made the files.
		if f, err := readFiles(ctx, b.Store, lastTree); err == nil {
			last = f
		}
	}
	gone, err := strays(step.Name, found, step.made, last)
	if err != nil {
		return err
	}
	if err := place(ctx, b.Dir, src, found, step.made, gone); err != nil {
		return err
	}
	b.Cache.SetLast(ctx, b.Dir, step.Name, action, step.report.Outputs)
	return nil
}

// putTrees puts the trees of inputs into the store, which already has the files.
func (b *build) putTrees(ctx context.Context, in Files) error {
	batch, err := b.Store.Batch(ctx)
	if err != nil {
		return err
	}
	defer batch.Close()
	root, err := in.tree(func(tree []byte) error {
		_, err := batch.PutBytes(ctx, cas.TreeKind, tree)
		return err
	})
	if err != nil {
		return err
	}
	if err := batch.Commit(ctx); err != nil {
		return err
	}
	return b.hold(ctx, b.Store, root)
}

// again runs a job a second time, and compares the outputs.
func (b *build) again(ctx context.Context, j *Job, first cas.Digest) error {
	plan, err := b.Prepare(ctx, j.Step)
	if err != nil {
		return err
	}
	defer plan.Close()
	twice := *j
	twice.Plan = plan
	second, err := b.Runner.Run(ctx, &twice)
	if err != nil || second == first {
		return err
	}
	one, err := readFiles(ctx, j.Store, first)
	if err != nil {
		return err
	}
	two, err := readFiles(ctx, j.Store, second)
	if err != nil {
		return err
	}
	tool, differs := j.Step.Tool.String(), differences("output", one, two)
	return fault.New(fault.Failed, "%q is not pure: the second run of the step %q had other outputs", tool,
		j.Step.Name).On("step", j.Step.Name).On("ref", tool).
		On("differences", differs).Because(differs...).Try(fault.Command("rye show", tool))
}
