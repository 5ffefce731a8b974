package session

import (
	"context"

	"io/fs"
	"runtime"
	"slices"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/nofollow"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/chain"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/drift"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/gcroot"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/trust"
)

// A source is what one call runs from, under the policies as they are when it is prepared.
type source struct {
	base  exec.Base
	view  *ai.View
	asked ai.Examiner
	// library keeps the chains of tools that rye chooses and no lock pins.
	library *chain.Memory
	config  func(ctx context.Context, name string) (*ai.Merged, error)
	// choose refuses a tool that may not run from base, or changes base for it.
	choose func(ctx context.Context, ref model.Ref) error
	close  func()
}

// source opens what calls run from now.
func (s *Session) source(ctx context.Context) (*source, error) {
	if s.set == nil {
		return s.spaces(ctx)
	}
	return s.pinned(ctx)
}

// from opens what a call of ref runs from now.
func (s *Session) from(ctx context.Context, ref model.Ref) (*source, error) {
	from, err := s.source(ctx)
	if err != nil {
		return nil, err
	}
	if err := from.choose(ctx, ref); err != nil {
		from.close()
		return nil, err
	}
	return from, nil
}

// PoliciesOf returns the policies that decide about calls; t is nil where no key is trusted.
func PoliciesOf(t *trust.Trust) (p chain.Policies) {
	if t != nil {
		p.Root = t.Root.Side.Policy
	}
	if t != nil && t.Project != nil {
		p.Project = t.Project.Side.Policy
	}
	return p
}

// openLock reads the lock of the project or, outside of any, the user's.
func (s *Session) openLock() (err error) {
	switch {
	case s.w.Root.Root != "":
		s.lock, err = s.w.OpenLock(false)
	case s.w.UserSpace().Err != nil: // without a home only the library is left
		s.lock = s.w.LockIn("", "")
		s.lock.User = true
	default:
		s.lock, err = s.w.UserLock(false)
	}
	return err
}

// mayUnlocked refuses to run without a lock where one is required.
func (s *Session) mayUnlocked() error {
	var e *fault.Error
	switch {
	case s.o.Locked || s.o.Pinned:
		return s.lock.NeedLock()
	case s.o.CI:
		e = fault.New(fault.NotLocked, "no lock: in CI only locked tools run").Try(s.lock.LockCommand())
	case s.lock.Root.Marker == workspace.MarkerFile && !s.o.Unlocked && !s.o.Dev:
		e = fault.New(fault.NotLocked, "no %s in %q", file.Name, s.lock.Dir).Try(s.lock.LockCommand(),
			"rye exec TOOL --unlocked")
	default:
		return nil
	}
	return e.From(fs.ErrNotExist)
}

// spaces runs what the spaces have.
func (s *Session) spaces(ctx context.Context) (*source, error) {
	v, err := s.w.Items(ctx)
	if err != nil {
		return nil, err
	}
	from := &source{base: exec.Base{Policies: PoliciesOf(v.Trust), Resolver: v.View, Admit: v.Admit,
		Unlisted: v.Asked.Unlisted},
		view: v.View, close: v.Close}
	from.config = func(ctx context.Context, name string) (*ai.Merged, error) {
		return v.View.Config(ctx, v.Admit, name)
	}
	from.choose = func(ctx context.Context, ref model.Ref) error {
		if _, err := v.Find(ctx, ref); err != nil {
			return err
		}
		if s.o.Dev {
			return from.dev(ctx, v.View, ref)
		}
		return nil
	}
	return from, nil
}

// hold loads the set of the lock and keeps what it names in the store until the session ends.
func (s *Session) hold(ctx context.Context) (err error) {
	l := s.lock
	if s.o.Unlocked {
		e := fault.New(fault.Validation, "--unlocked is for a project without a lock: %q exists",
			l.LockPath()).Try(l.LockCommand())
		return s.orDev(e, "TOOL")
	}
	if s.o.Locked {
		if changes := l.RequirementChanges(); len(changes) > 0 {
			e := fault.New(fault.LockMismatch, "rye.yaml has changed since the lock was made").Try("rye lock")
			for _, ch := range changes {
				e.Because(string(ch.Kind) + " " + ch.Name)
			}
			return e
		}
	}
	if _, err := l.Policy(); err != nil {
		return err
	}
	if s.set, err = l.Set(ctx); err != nil {
		return err
	}
	store, err := l.OpenStore(false)
	if err != nil {
		return nil // all of it is in .ai/vendor
	}
	release, err := gcroot.Hold(ctx, store, s.set)
	if err == nil {
		s.done = append(s.done, func() { release() })
	} else {
		s.w.Detail("the store doesn't keep what the lock pins for this session", err)
	}
	return nil
}

// pinned runs what the lock pins.
func (s *Session) pinned(ctx context.Context) (_ *source, err error) {
	l, err := s.lock.Current()
	if err != nil {
		return nil, err
	}
	from := &source{close: l.Close}
	defer func() {
		if err != nil {
			from.close()
		}
	}()
	known, err := s.learn(ctx, l)
	if err != nil {
		return nil, err
	}
	view, asked := known.view, l.Asked(ctx, l.Dir)
	from.view, from.asked, from.library = view, asked, &known.library
	resolver := s.set.Resolver(view)
	platform := runtime.GOOS + "/" + runtime.GOARCH
	from.base = exec.Base{
		Policies: PoliciesOf(l.Trust), Resolver: resolver, Admit: ai.NewAdmitter(resolver, s.set.Examiner(asked)),
		Unlisted: asked.Unlisted, Set: s.set.ID(),
		Program:   func(name string, digest cas.Digest) *file.Program { return s.set.Program(name, platform, digest) },
		Artifacts: s.set.Lock().ArtifactsOf, Objects: s.set, Known: &known.chains,
	}
	from.config = func(ctx context.Context, name string) (*ai.Merged, error) {
		return s.set.Config(ctx, view, from.base.Admit, name)
	}
	from.choose = func(ctx context.Context, ref model.Ref) error {
		if s.o.Pinned {
			return nil
		}
		if !s.o.Dev && known.unchanged(ref) {
			return nil
		}
		seen := nofollow.NewSeen(s.clock)
		working, admit, done, err := l.WorkingView(ctx, s.set, seen)
		if err != nil {
			return err
		}
		from.close = func() { done(); l.Close() }
		if s.o.Dev {
			return from.devPinned(ctx, s.set, asked, working, ref)
		}
		err = s.drift(ctx, l, drift.Options{Pinned: view, Working: working, Admit: admit, User: l.User}, ref)
		if err == nil {
			known.same(ref, seen)
		}
		return err
	}
	return from, nil
}

// dev admits one tool of the working tree.
func (f *source) dev(ctx context.Context, v *ai.View, ref model.Ref) error {
	it, err := v.Find(ctx, ref)
	if err != nil {
		return err
	}
	if it.Space.Level == ai.System {
		return fault.New(fault.Validation, "%q is from %s: --dev runs tools of the working tree only", ref,
			it.Space.Label).Try(fault.Command("rye exec", ref.String()))
	}
	f.base.Dev = ref
	return nil
}

// devPinned takes one tool from the working tree, and what runs it from the lock.
func (f *source) devPinned(ctx context.Context, set *lock.Set, asked *bundle.Listing, working *ai.View,
	ref model.Ref) error {
	if err := f.dev(ctx, working, ref); err != nil {
		return err
	}
	r := devResolver{ref: ref, working: working, pinned: f.base.Resolver}
	f.base.Resolver, f.base.Admit, f.base.Known = r, ai.NewAdmitter(r, set.Examiner(asked)), nil
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
