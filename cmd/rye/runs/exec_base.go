package runs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/lock"
	lockfile "github.com/rye-build/rye/lock/file"
	ryeyaml "github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/trust"
)

// execBase says what is run: what the lock pins, unless a flag says otherwise.
type execBase struct {
	Pinned   bool `help:"Run the locked version despite changes in the working tree."`
	Dev      bool `help:"Run this tool unsigned and unlocked, in the strictest sandbox."`
	Unlocked bool `help:"Run without a lock (refused in CI)."`
	Locked   bool `help:"Require an up-to-date lock."`
	Frozen   bool `help:"Same as --locked --offline."`
	noDev    bool // the command has no --dev
}

// opened is what executions work with.
type opened struct {
	base  *exec.Base        // of the one that is asked for
	trust *trust.Trust      // nil: there is no policy, and only the library runs
	root  workspace.Project // zero outside of projects
	done  []func()
	// of returns what one tool is run from, or why it may not be run.
	of func(context.Context, model.Ref) (*exec.Base, error)
	// config returns config of one name, from where tools are.
	config func(ctx context.Context, name string) (*ai.Merged, error)
}

func (o *opened) close() {
	for _, f := range slices.Backward(o.done) {
		f()
	}
}

// open finds out what is to be run.
func (c *execBase) open(ctx context.Context, a *cli.App, ref model.Ref) (*opened, error) {
	o, err := c.openAll(ctx, a)
	if err != nil {
		return nil, err
	}
	if o.base, err = o.of(ctx, ref); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

// openAll finds out what tools are run from.
func (c *execBase) openAll(ctx context.Context, a *cli.App) (_ *opened, err error) {
	if c.Frozen {
		c.Locked, a.Globals.Offline = true, true
	}
	if err := c.check(a); err != nil {
		return nil, err
	}
	o := new(opened)
	defer func() {
		if err != nil {
			o.close()
		}
	}()
	l, err := c.lock(a)
	if err != nil {
		return nil, err
	}
	o.root = l.Root
	o.done = append(o.done, l.Close)
	if l.Old != nil {
		return o, c.pinned(ctx, l, o)
	}
	if err := c.mayUnlocked(a, l); err != nil {
		return nil, err
	}
	return o, c.spaces(ctx, a, o)
}

// check refuses flags that say two things.
func (c *execBase) check(a *cli.App) error {
	both := func(x, y string) error {
		return &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("%s and %s exclude each other", x, y)}
	}
	locked := "--locked"
	if c.Frozen {
		locked = "--frozen"
	}
	switch {
	case c.Dev && c.Pinned:
		return both("--dev", "--pinned")
	case c.Dev && c.Locked:
		return both("--dev", locked)
	case c.Unlocked && c.Locked:
		return both("--unlocked", locked)
	case c.Unlocked && c.Pinned:
		return both("--unlocked", "--pinned")
	case c.Dev && a.Env("CI") != "":
		return &fault.Error{Code: fault.NotLocked, Text: "--dev is not for CI: what runs there is locked", Hint: []string{"rye lock"}}
	}
	return nil
}

// lock opens the lock of the project or, outside of any, the user's.
func (c *execBase) lock(a *cli.App) (*places.Lock, error) {
	w, err := places.OpenWorkspace(a)
	if err != nil {
		return nil, err
	}
	if w.Root.Root != "" {
		l, err := w.OpenLock(false)
		return &places.Lock{Lock: l, App: a}, err
	}
	l, err := w.UserLock(false)
	if err != nil { // without a home only the library is left
		l = w.LockIn("", "")
		l.User = true
	}
	return &places.Lock{Lock: l, App: a}, nil
}

// mayUnlocked refuses what isn't locked where it has to be.
func (c *execBase) mayUnlocked(a *cli.App, l *places.Lock) error {
	var f *fault.Error
	switch {
	case c.Locked || c.Pinned:
		return l.NeedLock()
	case a.Env("CI") != "":
		f = &fault.Error{Code: fault.NotLocked, Text: "there is no lock, and in CI nothing runs without"}
	case l.Root.Marker == workspace.MarkerFile && !c.Unlocked && !c.Dev:
		f = &fault.Error{Code: fault.NotLocked, Text: fmt.Sprintf("there is a rye.yaml and no %q in %q", lockfile.Name, l.Dir)}
	default:
		return nil
	}
	f.Hint, f.Err = []string{l.LockCommand()}, fs.ErrNotExist
	if a.Env("CI") == "" {
		f.Hint = append(f.Hint, "rye "+cli.JoinArgs(a.Args)+" --unlocked")
	}
	return f
}

// spaces runs what the spaces have.
func (c *execBase) spaces(ctx context.Context, a *cli.App, o *opened) error {
	v, err := spaces.OpenItems(ctx, a)
	if err != nil {
		return err
	}
	o.done = append(o.done, v.Close)
	o.trust = v.Trust
	o.config = func(ctx context.Context, name string) (*ai.Merged, error) { return v.View.Config(ctx, v.Admit, name) }
	o.of = func(ctx context.Context, ref model.Ref) (*exec.Base, error) {
		if _, err := v.Find(ctx, ref); err != nil {
			return nil, err // and with it what else may be meant
		}
		b := &exec.Base{Resolver: v.View, Admit: v.Admit, Unlisted: v.Asked.Unlisted}
		if c.Dev {
			return b, c.dev(ctx, a, b, v.View, ref)
		}
		return b, nil
	}
	return nil
}

// pinned runs what the lock pins.
func (c *execBase) pinned(ctx context.Context, l *places.Lock, o *opened) (err error) {
	if c.Unlocked {
		return &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("--unlocked is for a project without a lock, and there is %q", l.LockPath()),
			Hint: append([]string{l.LockCommand()}, c.orDev(l.App)...)}
	}
	if c.Locked {
		if changes := l.RequirementChanges(); len(changes) > 0 {
			f := &fault.Error{Code: fault.LockMismatch, Text: "the lock isn't that of rye.yaml any more", Hint: []string{"rye lock"}}
			for _, ch := range changes {
				f.Why = append(f.Why, fmt.Sprintf("%s %s", ch.Kind, ch.Name))
			}
			return f
		}
	}
	if l.Trust, err = l.Policy(); err != nil {
		return err
	}
	o.trust = l.Trust
	set, err := l.Set(ctx)
	if err != nil {
		return err
	}
	if s, err := l.OpenStore(false); err == nil {
		release, err := set.Hold(ctx, s)
		if err == nil {
			o.done = append(o.done, func() { release() })
		} else {
			l.App.Term.Detail("the store keeps nothing for this run: %s", fault.Of(err).Text)
		}
	}
	for i := range l.Old.Bundles {
		l.Listed.AddAdmitted(l.Trust, set.Bundle(l.Old.Bundles[i].ID))
	}
	asked := l.Asked(ctx, l.Dir)
	view, err := set.View(ctx, asked, l.Trust.Root.Side.Policy.MayOverride)
	if err != nil {
		return err
	}
	resolver := set.Resolver(view)
	platform := runtime.GOOS + "/" + runtime.GOARCH
	base := exec.Base{Resolver: resolver, Admit: ai.NewAdmitter(resolver, set.Examiner(asked)), Unlisted: asked.Unlisted, Set: set.ID(),
		Program:   func(name string, digest cas.Digest) *lockfile.Program { return set.Program(name, platform, digest) },
		Artifacts: set.Lock().ArtifactsOf, Objects: set}
	o.config = func(ctx context.Context, name string) (*ai.Merged, error) {
		return set.Config(ctx, view, base.Admit, name)
	}
	if c.Pinned {
		o.of = func(context.Context, model.Ref) (*exec.Base, error) { return &base, nil }
		return nil
	}
	working, admit, done, err := l.WorkingView(ctx, set)
	if err != nil {
		return err
	}
	o.done = append(o.done, done)
	o.of = func(ctx context.Context, ref model.Ref) (*exec.Base, error) {
		b := base
		if c.Dev {
			return &b, c.devLocked(ctx, l.App, &b, set, asked, working, ref)
		}
		return &b, c.drift(ctx, l, set, lock.DriftOptions{Pinned: view, Working: working, Admit: admit, User: l.User}, ref)
	}
	return nil
}

// drift refuses where what is pinned of a tool isn't what the working tree has.
func (c *execBase) drift(ctx context.Context, l *places.Lock, set *lock.Set, o lock.DriftOptions, ref model.Ref) error {
	found, err := set.Drift(ctx, o, ref)
	if err != nil {
		if no, ok := errors.AsType[*lock.NotLockedError](err); ok && no.Ref == ref {
			f, from := fault.Of(err), ""
			if it, missing := o.Working.Find(ctx, ref); missing == nil && it.Space.Level == ai.System {
				from = it.Space.Label
			} else if in := l.BundleOf(ctx, ref.String()); missing != nil && in != "" {
				from = "the bundle " + in // of which a set has what is pinned
			} else if missing != nil {
				return missing // a name that nothing has is rather a slip than something to be locked
			}
			rooted := len(l.Yaml.Roots) == 0 || slices.ContainsFunc(l.Yaml.Roots, func(r ryeyaml.Root) bool { return r.Match(ref, lockfile.FromProject) })
			switch {
			case l.User && from != "":
				f.Why, f.Hint = append(f.Why, fmt.Sprintf("the lock pins the items of %s that an item of your own uses", from)), []string{"rye docs lock"}
			case from != "" || !rooted && !l.User:
				f.Hint = []string{"rye add " + fault.Quote(ref.String())}
			default:
				f.Hint = append([]string{l.LockCommand()}, c.orDev(l.App)...)
			}
			return f
		}
		return err
	}
	if len(found) == 0 {
		return nil
	}
	outlived := l.Outlived()
	f := &fault.Error{Code: fault.LockMismatch, Text: fmt.Sprintf("the working tree isn't what the lock pins for %q", ref),
		Hint: c.adopt(l, found, outlived), Details: map[string]any{"ref": ref.String(), "reason": "drift"}}
	if !slices.ContainsFunc(found, func(d *lock.Difference) bool { return slices.Contains(outlived, d.Ref.String()) }) {
		f.Hint = append(f.Hint, "rye "+cli.JoinArgs(l.App.Args)+" --pinned")
	}
	if !l.User {
		diff := "rye diff " + fault.Quote(ref.String())
		edited := func(d *lock.Difference) bool { return d.Ref == ref && d.Kind != lock.Gone }
		dev := c.orDev(l.App)
		if len(dev) == 0 || slices.ContainsFunc(found, func(d *lock.Difference) bool { return !edited(d) }) {
			f.Hint = append([]string{diff}, f.Hint...)
		} else { // the user is working on the tool
			f.Hint = append(append(dev, f.Hint...), diff)
		}
	}
	var files []map[string]string
	for i, d := range found {
		line := spaces.DriftLineOf(d)
		files = append(files, map[string]string{"kind": line.Kind, "file": line.File, "ref": line.Ref, "expected": line.Expected, "found": line.Found})
		switch {
		case i < fault.MaxLines:
			f.Why = append(f.Why, fmt.Sprintf("%s  %s  %s", line.Kind, line.File, line.Ref))
		case i == fault.MaxLines:
			f.Why = append(f.Why, fmt.Sprintf("and %d more", len(found)-i))
		}
	}
	f.Details["drift"] = files
	return f
}

// adopt are the commands by which what the working tree has becomes what is locked or, of an item that is gone, by which
// it comes back.
func (c *execBase) adopt(l *places.Lock, found []*lock.Difference, outlived []string) []string {
	var sign []string
	for _, d := range found {
		ref := fault.Quote(d.Ref.String())
		switch {
		case d.Kind == lock.Gone && d.Ref.Kind != "" && !l.User:
			return []string{"rye restore " + ref}
		case d.Kind == lock.Gone || d.Ref.Kind == "" || slices.Contains(sign, ref):
		default:
			sign = append(sign, ref)
		}
	}
	switch {
	case len(sign) == 0:
		return []string{l.LockAgain(outlived)}
	case l.User:
		return []string{"rye sign " + strings.Join(sign, " "), l.LockAgain(outlived)}
	}
	again := l.LockCommand() + " --sign " + strings.Join(sign, " ")
	if len(outlived) > 0 {
		again += " " + cli.JoinArgs(workspace.Accepting(outlived))
	}
	return []string{again}
}

// without returns arguments but for a flag.
func without(args []string, flag string) []string {
	return slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == flag })
}

// orDev is the line that has --dev instead of what it doesn't go with, where it may be given at all.
func (c *execBase) orDev(a *cli.App) []string {
	if c.noDev || a.Env("CI") != "" {
		return nil
	}
	args := a.Args
	for _, flag := range []string{"--unlocked", "--pinned", "--locked", "--frozen"} {
		args = without(args, flag)
	}
	return []string{"rye " + cli.JoinArgs(args) + " --dev"}
}

// dev admits one tool of the working tree for this call.
func (c *execBase) dev(ctx context.Context, a *cli.App, b *exec.Base, v *ai.View, ref model.Ref) error {
	it, err := v.Find(ctx, ref)
	if err != nil {
		return err
	}
	if it.Space.Level == ai.System {
		return &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("%q is from %s and not from the working tree: --dev is for what you work on", ref, it.Space.Label),
			Hint: []string{"rye " + cli.JoinArgs(without(a.Args, "--dev"))}}
	}
	b.Dev = ref
	return nil
}

// devLocked takes one tool from the working tree, and what runs it from the lock.
func (c *execBase) devLocked(ctx context.Context, a *cli.App, b *exec.Base, set *lock.Set, asked *bundle.Listing, working *ai.View, ref model.Ref) error {
	if err := c.dev(ctx, a, b, working, ref); err != nil {
		return err
	}
	r := devResolver{ref: ref, working: working, pinned: b.Resolver}
	b.Resolver, b.Admit = r, ai.NewAdmitter(r, set.Examiner(asked))
	return nil
}

// A devResolver finds one tool in the working tree, and all else among what is pinned.
type devResolver struct {
	ref     model.Ref
	working *ai.View
	pinned  ai.Resolver
}

// Resolve implements ai.Resolver. From the working tree everything that is pinned is in reach.
func (r devResolver) Resolve(ctx context.Context, ref model.Ref, from *ai.Space) (*ai.Item, error) {
	if ref == r.ref {
		return r.working.Find(ctx, ref)
	}
	if from != nil && slices.Contains(r.working.Spaces(), from) && from.Level != ai.System {
		from = nil
	}
	return r.pinned.Resolve(ctx, ref, from)
}
