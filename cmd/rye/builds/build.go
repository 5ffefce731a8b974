package builds

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle/recipe"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/runs"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/build"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/template/params"
)

type buildRun struct {
	Steps     []string `arg:"" optional:"" name:"step" complete:"step" help:"Steps, or tools of steps, to run with their dependencies; default: all."`
	Why       bool     `help:"Explain why each step runs."`
	Check     bool     `help:"Run each step twice and compare the outputs."`
	KeepGoing bool     `name:"keep-going" short:"k" help:"After a failure, run the steps that don't depend on it."`
	Jobs      *int     `short:"j" placeholder:"N" help:"Number of parallel steps; default: one per processor."`
	DryRun    bool     `name:"dry-run" help:"Show which steps would run; run nothing."`
	Pinned    bool     `help:"Use locked tools despite changes in the working tree."`
	Unlocked  bool     `help:"Run without a lock (refused in CI)."`
	Locked    bool     `help:"Require an up-to-date lock."`
	Frozen    bool     `help:"Same as --locked --offline."`
}

type built struct {
	Bundle string      `json:"bundle"`
	DryRun bool        `json:"dry_run"`
	Steps  []builtStep `json:"steps"`
	Files  int64       `json:"files"` // files of the project that were checked
	Read   int64       `json:"read"`  // files whose content was read
	why    bool
}

type builtStep struct {
	Step       string   `json:"step"`
	Tool       string   `json:"tool"`
	State      string   `json:"state"` // "unchanged", "cached", "ran", "failed", "skipped"; "stale" with --dry-run
	Action     string   `json:"action,omitempty"`
	Outputs    string   `json:"outputs,omitempty"` // digest of the tree of outputs
	Why        []string `json:"why"`
	Error      string   `json:"error,omitempty"`
	DurationMS int64    `json:"duration_ms"`
}

func (b *built) Text(term *cli.Terminal) {
	if !b.DryRun {
		return
	}
	for _, s := range b.Steps {
		term.Printf("%-9s  %s\n", s.State, s.Step)
		if b.why {
			for _, line := range s.Why {
				term.Printf("           %s\n", line)
			}
		}
	}
	term.Note("dry run: no step was run")
}

// CompleteSteps offers the steps of bundle.yaml.
func CompleteSteps(a *cli.App) []cli.Candidate {
	root, err := paths.Paths(a).OpenProject()
	if err != nil {
		return nil
	}
	r, err := recipe.Read(root.Root)
	if err != nil || r == nil {
		return nil
	}
	return cli.Offer(r.Build, func(s recipe.Step) (string, string) { return s.Name, s.Tool.String() })
}

func (c *buildRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	if c.Jobs != nil && *c.Jobs < 1 {
		return nil, fault.New(fault.Validation, "--jobs must be at least 1")
	}
	if c.Check && c.DryRun {
		return nil, fault.New(fault.Validation, "--check and --dry-run exclude each other: --check runs steps")
	}
	root, err := paths.Paths(app).OpenProject()
	if err != nil {
		return nil, err
	}
	steps, err := recipe.Read(root.Root)
	if err != nil {
		return nil, err
	}
	if steps == nil || len(steps.Build) == 0 {
		return nil, fault.New(fault.Config, "no build steps in %q", filepath.Join(root.Root, recipe.File)).
			Try("rye docs build").On("path", filepath.Join(root.Root, recipe.File))
	}
	if c.Frozen {
		app.Globals.Offline = true
	}
	w := &Building{App: app, Dir: root.Root, Recipe: steps,
		Mode: session.Mode{Pinned: c.Pinned, Unlocked: c.Unlocked, Locked: c.Locked || c.Frozen}}
	progress := &reporter{term: app.Term, why: c.Why, dry: c.DryRun}
	w.Options = build.Options{Steps: stepsOf(steps, c.Steps), Jobs: cli.Value(c.Jobs), Check: c.Check,
		KeepGoing: c.KeepGoing,
		DryRun:    c.DryRun, Told: progress.report,
		Runner: &build.Local{Sink: progress.sink}}
	result, err := w.Build(ctx)
	if result == nil {
		return nil, err
	}
	ans := c.answer(steps, result)
	if err != nil {
		return ans, err
	}
	return ans, progress.verdict(app, result)
}

// stepsOf returns the steps that arguments name. The id or ref of a tool selects all steps that run it, unless a
// step has that name. An unknown name stays, so that build.Build reports it.
func stepsOf(r *recipe.Recipe, names []string) (steps []string) {
	for _, name := range names {
		before := len(steps)
		for i := range r.Build {
			s := &r.Build[i]
			if r.Step(name) == nil && (s.Tool.ID == name || s.Tool.String() == name) {
				steps = append(steps, s.Name)
			}
		}
		if len(steps) == before {
			steps = append(steps, name)
		}
	}
	return steps
}

func (c *buildRun) answer(r *recipe.Recipe, result *build.Result) *built {
	ans := &built{Bundle: r.ID, DryRun: c.DryRun, Steps: []builtStep{}, Files: result.Files, Read: result.Read,
		why: c.Why}
	for _, s := range result.Steps {
		line := builtStep{Step: s.Step, Tool: r.Step(s.Step).Tool.String(), State: string(s.State),
			Action: paths.DigestText(s.Action), Outputs: paths.DigestText(s.Outputs),
			Why: s.Why, DurationMS: s.Duration.Milliseconds()}
		if s.Err != nil {
			line.Error = fault.Of(s.Err).Text
		}
		ans.Steps = append(ans.Steps, line)
	}
	return ans
}

// Building is one build: the project, its recipe and the options. Build adds store, caches and tools to Options.
type Building struct {
	App     *cli.App
	Dir     string
	Recipe  *recipe.Recipe
	Mode    session.Mode
	Options build.Options
}

// Build runs the steps of w.Recipe with the tools of the lock. With an error it may return a result: the steps that
// were done before.
func (w *Building) Build(ctx context.Context) (*build.Result, error) {
	app := w.App
	store, err := paths.MakeStore(app)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	stat := paths.OpenStatCache(app, false)
	defer stat.Finish(ctx, app)
	cache, err := buildCache(app)
	if err != nil {
		return nil, err
	}
	defer func() { cache.Close(context.WithoutCancel(ctx)) }()
	opened, err := runs.Open(ctx, app, w.Mode)
	if err != nil {
		return nil, noDev(err)
	}
	defer opened.Close()
	options := w.Options
	options.Dir, options.Recipe, options.Store, options.Stat, options.Cache = w.Dir, w.Recipe, store, stat.Cache, cache
	options.Tool = func(ctx context.Context, ref model.Ref) error {
		_, err := opened.Tool(ctx, ref)
		return noDev(runs.Reworded(app, err))
	}
	options.Prepare = func(ctx context.Context, step *recipe.Step) (*exec.Plan, error) {
		return opened.Prepare(ctx, stepCall(step))
	}
	if options.Jobs == 0 {
		options.Jobs = runtime.NumCPU()
	}
	result, err := build.Build(ctx, options)
	if logged := opened.Close(); logged != nil && err == nil {
		err = logged
	}
	if result != nil {
		stat.Files.Add(result.Files)
		stat.Read.Add(result.Read)
	}
	return result, err
}

// noDev removes the hints that end in --dev from an error, because rye build has no such flag.
func noDev(err error) error {
	f, ok := fault.Find(err)
	if !ok {
		return err
	}
	f.Hint = slices.DeleteFunc(f.Hint, func(hint string) bool { return strings.HasSuffix(hint, " --dev") })
	return f
}

// stepCall returns the call that runs a step's tool with its parameters.
func stepCall(s *recipe.Step) *exec.Call {
	return &exec.Call{Ref: s.Tool, Build: true, Params: func(schema *params.Schema) (map[string]any, error) {
		var c params.Caller
		for _, p := range s.Params {
			c.Pairs = append(c.Pairs, p.Name+"="+p.Text)
		}
		return schema.Read(c)
	}}
}

// buildCache opens the cache of results and creates its key if it is missing. The caller closes it.
func buildCache(a *cli.App) (*build.Cache, error) {
	path, err := paths.BuildCachePath(a)
	if err != nil {
		return nil, err
	}
	state := a.Dir(cli.StatePlace)
	if state.Err != nil {
		return nil, state.Err
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.MkdirAll(state.Value, 0o700)); err != nil {
		return nil, err
	}
	key, err := build.Key(filepath.Join(state.Value, "build.key"))
	if err != nil {
		return nil, err
	}
	return build.OpenCache(path, key), nil
}

// FirstOr returns the first of a list, or otherwise for an empty one.
func FirstOr(list []string, otherwise string) string {
	if len(list) == 0 {
		return otherwise
	}
	return list[0]
}

// A reporter prints the progress of a build. Steps run in parallel, so mu guards the map; each output has one
// writer.
type reporter struct {
	term     *cli.Terminal
	why, dry bool

	mu      sync.Mutex
	written map[string]*stepOutput
}
