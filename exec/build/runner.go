package build

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rye-build/rye/bundle/recipe"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/worktree"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/exec/primitive"
)

// A Runner runs actions: here, or on other machines. It is safe for concurrent use.
type Runner interface {
	// Run runs an action. It reads the inputs from the store, puts the outputs into the store, and returns their tree.
	// A failed tool is a *FailedError, a missing output an *OutputError.
	Run(ctx context.Context, j *Job) (outputs cas.Digest, err error)
}

// A Job is an action with the means to run it.
type Job struct {
	Step   *recipe.Step
	Action *Action
	Plan   *exec.Plan // for one run; the creator of the job closes it
	Store  Store
	// Hold keeps a tree in the store until the build is over. A runner calls it for its outputs before it closes the
	// batch.
	Hold func(ctx context.Context, tree cas.Digest) error
}

// A Store has inputs and outputs, and keeps pinned objects from gc, as *disk.Store does.
type Store interface {
	cas.Store
	cas.Batcher
	Pin(ctx context.Context, ids ...cas.ID) (release func() error, err error)
}

// A FailedError is the failure of a step's tool.
type FailedError struct {
	Step   string
	Plan   *exec.Plan
	Result *exec.Result
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("the tool of the step %q ended with %s: %s", e.Step, e.Result.Code, e.Result.Failure)
}

// noOutput returns the error for a missing output, or for one that can't be part of a tree.
func noOutput(step, path string, err error) error {
	e := fault.New(fault.Validation, "the step %q has not made %q: %v", step, path, err).On("step", step).On("path",
		path).From(err).
		Because("a tool writes its outputs to its working directory, at the paths that " + recipe.File + " names")
	e.Exit = fault.ExitNo
	return e
}

// Local runs actions on this machine, with the plans that the kernel has prepared.
type Local struct {
	// Sink returns the sink for the output of a step's tool; nil for none.
	Sink func(step string) primitive.Sink
}

// Run implements Runner.
func (l *Local) Run(ctx context.Context, j *Job) (cas.Digest, error) {
	if err := l.fill(ctx, j); err != nil {
		return cas.Digest{}, err
	}
	var to primitive.Sink
	if l.Sink != nil {
		to = l.Sink(j.Step.Name)
	}
	r, err := j.Plan.Run(ctx, to)
	if err != nil {
		return cas.Digest{}, err
	}
	if r.Status != record.OK {
		return cas.Digest{}, &FailedError{j.Step.Name, j.Plan, r}
	}
	return collect(ctx, j)
}

// fill writes the inputs to the tool's working directory, and creates the directories of its outputs.
func (l *Local) fill(ctx context.Context, j *Job) error {
	root := cas.ID{Kind: cas.TreeKind, Digest: j.Action.Inputs}
	if _, err := worktree.Checkout(ctx, j.Store, root, j.Plan.Work, worktree.CheckoutOptions{}); err != nil {
		return err
	}
	for _, out := range j.Step.Outputs {
		if err := os.MkdirAll(filepath.Join(j.Plan.Work, filepath.FromSlash(out), ".."), 0o777); err != nil {
			return err
		}
	}
	// Archives record the age of their files.
	then := time.Unix(exec.BuildEpoch, 0)
	return filepath.WalkDir(j.Plan.Work, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(path, then, then)
	})
}

// collect imports the outputs into the store.
func collect(ctx context.Context, j *Job) (cas.Digest, error) {
	batch, err := j.Store.Batch(ctx)
	if err != nil {
		return cas.Digest{}, err
	}
	defer batch.Close()
	outs := j.Step.Outputs
	for _, out := range outs {
		if _, err := os.Lstat(filepath.Join(j.Plan.Work, filepath.FromSlash(out))); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				err = fs.ErrNotExist
			}
			return cas.Digest{}, noOutput(j.Step.Name, out, err)
		}
	}
	made, err := worktree.Import(ctx, batch, j.Plan.Work, worktree.Options{Skip: func(path string, _ bool) bool {
		return !slices.ContainsFunc(outs, func(out string) bool { return within(path, out) || within(out, path) })
	}})
	if refused, ok := errors.AsType[*worktree.RefusedError](err); ok {
		p := refused.Problems[0]
		return cas.Digest{}, noOutput(j.Step.Name, p.Path, p.Err)
	}
	if err != nil {
		return cas.Digest{}, err
	}
	if err := batch.Commit(ctx); err != nil {
		return cas.Digest{}, err
	}
	if err := j.Hold(ctx, made.ID.Digest); err != nil {
		return cas.Digest{}, err
	}
	files, err := readFiles(ctx, j.Store, made.ID.Digest)
	if err != nil {
		return cas.Digest{}, err
	}
	for _, out := range outs {
		if len(files.below([]string{out})) == 0 {
			return cas.Digest{}, noOutput(j.Step.Name, out, errors.New("it has no file"))
		}
	}
	return made.ID.Digest, nil
}
