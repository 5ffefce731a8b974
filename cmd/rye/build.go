package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle/recipe"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/build"
	"github.com/rye-build/rye/exec/template/params"
)

func buildCommand() command {
	return command{
		path: "build", group: "run", help: "Make what bundle.yaml says is made, as far as something changed.",
		more: "Each step under build: in bundle.yaml makes files of files with a tool that is pure. What it makes depends on its inputs, its parameters, " +
			"the bytes of its tool and the programs that run that; where all of this was there before, the result is taken from the store, " +
			"and where it is in its place already, nothing happens. Steps that don't need each other run at one time.\n\n" +
			"rye bundle create takes what steps make into the bundle, and refuses to as long as it isn't what rye build would make.\n\n" +
			"Examples:\n\n    rye build\n    rye build app --why\n    rye build --dry-run\n    rye build --check    (is each tool as pure as it says?)",
		aka: []string{"make", "compile"},
		new: func() runner { return new(buildRun) }, schema: "build/1", output: &built{},
	}
}

type buildRun struct {
	Steps     []string `arg:"" optional:"" name:"step" help:"Make these, and what they need; all when left out."`
	Why       bool     `help:"Say of each step what changed since it was made here last."`
	Check     bool     `help:"Run each step twice, whatever is remembered, and compare."`
	KeepGoing bool     `name:"keep-going" short:"k" help:"When a step fails, make what doesn't need it."`
	Jobs      int      `short:"j" placeholder:"N" help:"How many steps run at one time; as many as there are processors when left out."`
	DryRun    bool     `name:"dry-run" help:"Say what would be made, and make nothing."`
	Pinned    bool     `help:"Use the tools that the lock pins although the working tree differs."`
	Unlocked  bool     `help:"Use the tools of the spaces though the project has no lock yet. Not in CI."`
	Locked    bool     `help:"Refuse where there is no lock, or one that rye.yaml has left behind."`
	Frozen    bool     `help:"As --locked and --offline together."`
}

type built struct {
	Bundle string      `json:"bundle"`
	DryRun bool        `json:"dry_run"`
	Steps  []builtStep `json:"steps"`
	Files  int64       `json:"files"` // of the project that were looked at
	Read   int64       `json:"read"`  // those of them that were read
	why    bool
}

type builtStep struct {
	Step       string   `json:"step"`
	Tool       string   `json:"tool"`
	State      string   `json:"state"` // "unchanged", "cached", "ran", "failed", "skipped"; "stale" with --dry-run
	Action     string   `json:"action,omitempty"`
	Outputs    string   `json:"outputs,omitempty"` // the digest of their tree
	Why        []string `json:"why"`
	Error      string   `json:"error,omitempty"`
	DurationMS int64    `json:"duration_ms"`
}

func (b *built) text(t *terminal) {
	if !b.DryRun {
		return
	}
	for _, s := range b.Steps {
		t.printf("%-9s  %s\n", s.State, s.Step)
		if b.why {
			for _, line := range s.Why {
				t.printf("           %s\n", line)
			}
		}
	}
	t.note("nothing was made")
}

func (c *buildRun) complete(_ context.Context, a *app, name, _ string) (out []candidate) {
	root, err := a.project()
	if err != nil || name != "step" {
		return nil
	}
	r, err := readRecipe(root.root)
	if err != nil || r == nil {
		return nil
	}
	for i := range r.Build {
		out = append(out, candidate{r.Build[i].Name, r.Build[i].Tool.String()})
	}
	return out
}

func (c *buildRun) run(ctx context.Context, a *app) (answer, error) {
	if c.Jobs < 0 {
		return nil, &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("--jobs is %d, and has to be more than nothing", c.Jobs)}
	}
	if c.Check && c.DryRun {
		return nil, &fault.Error{Code: fault.Validation, Text: "--check and --dry-run exclude each other: to compare, steps are run"}
	}
	root, err := a.project()
	if err != nil {
		return nil, err
	}
	r, err := readRecipe(root.root)
	if err != nil {
		return nil, err
	}
	if r == nil || len(r.Build) == 0 {
		return nil, &fault.Error{Code: fault.Config, Text: fmt.Sprintf("no steps are in %q", filepath.Join(root.root, recipe.File)), Hint: []string{"rye docs build"},
			Details: map[string]any{"path": filepath.Join(root.root, recipe.File)}}
	}
	w := &building{app: a, dir: root.root, recipe: r, base: execBase{Pinned: c.Pinned, Unlocked: c.Unlocked, Locked: c.Locked, Frozen: c.Frozen, noDev: true}}
	defer w.close()
	said := &buildSaid{term: a.term, why: c.Why, dry: c.DryRun}
	w.options = build.Options{Steps: c.Steps, Jobs: c.Jobs, Check: c.Check, KeepGoing: c.KeepGoing, DryRun: c.DryRun, Told: said.told,
		Runner: &build.Local{Sink: said.sink}}
	made, err := w.build(ctx)
	if made == nil {
		return nil, err
	}
	ans := c.answer(r, made)
	if err != nil {
		return ans, err
	}
	return ans, said.verdict(a, made)
}

func (c *buildRun) answer(r *recipe.Recipe, made *build.Result) *built {
	ans := &built{Bundle: r.ID, DryRun: c.DryRun, Steps: []builtStep{}, Files: made.Files, Read: made.Read, why: c.Why}
	for _, s := range made.Steps {
		line := builtStep{Step: s.Step, Tool: r.Step(s.Step).Tool.String(), State: string(s.State), Action: digestText(s.Action), Outputs: digestText(s.Outputs),
			Why: orNone(s.Why), DurationMS: s.Duration.Milliseconds()}
		if s.Err != nil {
			line.Error = classify(s.Err).Text
		}
		ans.Steps = append(ans.Steps, line)
	}
	return ans
}

// building is what a build works with.
type building struct {
	app     *app
	dir     string
	recipe  *recipe.Recipe
	base    execBase
	options build.Options

	store  *disk.Store
	kernel *exec.Kernel
	opened map[model.Ref]*opened
	done   []func()
}

func (w *building) close() {
	for _, f := range slices.Backward(w.done) {
		f()
	}
}

// build builds.
func (w *building) build(ctx context.Context) (_ *build.Result, err error) {
	a := w.app
	if w.store, err = a.makeStore(); err != nil {
		return nil, err
	}
	w.done = append(w.done, func() { w.store.Close() })
	stat := a.statCache(false)
	defer stat.close(ctx, a)
	cache, err := a.buildCache()
	if err != nil {
		return nil, err
	}
	defer func() { cache.Close(context.WithoutCancel(ctx)) }()
	o := w.options
	o.Dir, o.Recipe, o.Store, o.Stat, o.Cache, o.Prepare = w.dir, w.recipe, w.store, stat.Cache, cache, w.prepare
	if o.Jobs == 0 {
		o.Jobs = runtime.NumCPU()
	}
	if err := w.open(ctx); err != nil {
		return nil, err
	}
	made, err := build.Build(ctx, o)
	if logged := w.kernel.Log.Close(context.WithoutCancel(ctx)); logged != nil && err == nil {
		err = &exec.AuditError{Ref: w.recipe.Build[0].Tool, Ran: true, Err: logged}
	}
	if made != nil {
		stat.files.Add(made.Files)
		stat.read.Add(made.Read)
	}
	a.cleanCopies(ctx, w.kernel.Copies)
	return made, err
}

// open finds the tools of the steps that are to be made.
func (w *building) open(ctx context.Context) (err error) {
	w.opened = map[model.Ref]*opened{}
	var needed func(names []string) error
	needed = func(names []string) error {
		for _, name := range names {
			s := w.recipe.Step(name)
			if s == nil || w.opened[s.Tool] != nil && len(s.Needs) == 0 {
				continue // one that isn't there is refused by name
			}
			if w.opened[s.Tool] == nil {
				b := w.base
				o, err := b.open(ctx, w.app, s.Tool)
				if err != nil {
					return err
				}
				w.opened[s.Tool] = o
				w.done = append(w.done, o.close)
				if w.kernel == nil {
					if w.kernel, err = w.app.kernel(ctx, o); err != nil {
						return err
					}
					w.done = append(w.done, func() { w.kernel.Close() })
				}
			}
			if err := needed(s.Needs); err != nil {
				return err
			}
		}
		return nil
	}
	names := w.options.Steps
	if len(names) == 0 {
		for i := range w.recipe.Build {
			names = append(names, w.recipe.Build[i].Name)
		}
	}
	if err := needed(names); err != nil || w.kernel != nil {
		return err
	}
	return w.unknown(names[0])
}

func (w *building) unknown(name string) error {
	e := &build.StepError{Step: name}
	for i := range w.recipe.Build {
		e.Known = append(e.Known, w.recipe.Build[i].Name)
	}
	return e
}

// prepare decides about the call of a step.
func (w *building) prepare(ctx context.Context, s *recipe.Step) (*exec.Plan, error) {
	call := &exec.Call{Ref: s.Tool, Principal: principal(), Build: true, Params: func(schema *params.Schema) (map[string]any, error) {
		var c params.Caller
		for _, p := range s.Params {
			c.Pairs = append(c.Pairs, p.Name+"="+p.Text)
		}
		return schema.Read(c)
	}}
	return w.kernel.Prepare(ctx, w.opened[s.Tool].base, call)
}

// buildCache opens the index of results.
func (a *app) buildCache() (*build.Cache, error) {
	path, err := a.buildCachePath()
	if err != nil {
		return nil, err
	}
	state := a.dir(statePlace)
	if state.err != nil {
		return nil, state.err
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.MkdirAll(state.value, 0o700)); err != nil {
		return nil, err
	}
	key, err := build.Key(filepath.Join(state.value, "build.key"))
	if err != nil {
		return nil, err
	}
	return build.OpenCache(path, key), nil
}

func (a *app) buildCachePath() (string, error) {
	s := a.dir(cachePlace)
	return filepath.Join(s.value, "build.db"), s.err
}

func buildCacheSize(ctx context.Context, path string) (entries, bytes int64) {
	fi, err := os.Stat(path)
	if err != nil {
		return 0, 0
	}
	c := build.OpenCache(path, nil)
	defer c.Close(ctx)
	return c.Stats(ctx).Entries, fi.Size()
}

// current refuses a bundle whose steps would make something else than is there.
func (m *making) current(ctx context.Context) error {
	if len(m.recipe.Build) == 0 {
		return nil
	}
	w := &building{app: m.app, dir: m.found.root.root, recipe: m.recipe, options: build.Options{DryRun: true}}
	w.base.Unlocked = m.app.env("CI") == "" && m.found.projectLock() == nil
	defer w.close()
	made, err := w.build(ctx)
	if err != nil {
		f := classify(err)
		f.Hint = []string{"rye build"} // which says how to go on
		return f
	}
	if made.OK() {
		return nil
	}
	f := &fault.Error{Code: fault.Conflict, Final: true, Text: "what the steps of bundle.yaml make isn't there as they would make it now", Hint: []string{"rye build"}}
	var stale []string
	for _, s := range made.Steps {
		switch {
		case s.State == build.Unchanged:
			continue
		case s.Err != nil:
			f.Why = append(f.Why, s.Step+": "+classify(s.Err).Text)
		default:
			f.Why = append(f.Why, s.Step+": "+firstOr(s.Why, "it was not made here before"))
		}
		stale = append(stale, s.Step)
	}
	f.Details = map[string]any{"steps": stale}
	return f
}

func firstOr(list []string, otherwise string) string {
	if len(list) == 0 {
		return otherwise
	}
	return list[0]
}

// A buildSaid tells people what becomes of a build while it goes on.
type buildSaid struct {
	term     *terminal
	why, dry bool

	mu      sync.Mutex
	written map[string]*stepOutput
}
