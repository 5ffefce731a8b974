package session

import (
	"context"
	"errors"
	"io/fs"
	"runtime"
	"slices"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/nofollow"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/chain"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/drift"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/gcroot"
	"github.com/rye-build/rye/lock/restore"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/trust"
)

// A source is what calls run from, under the policies as they are when it is opened: pinned, dev and unlocked make
// one. No field is changed afterwards. The method of Session that opens a source closes it; plans and items outlive
// it.
type source struct {
	base  exec.Base
	view  *ai.View
	close func()

	// Of a lock; nil without one.
	set   *lock.Set
	lock  *workspace.Lock // as it is now
	known *known
	asked ai.Examiner // of items that the set doesn't have
}

// resolve opens the source of one item, and refuses an item that may not run from it.
func (s *Session) resolve(ctx context.Context, ref model.Ref) (source, error) {
	if s.o.Dev {
		return s.dev(ctx, ref)
	}
	from, err := s.source(ctx)
	if err != nil {
		return source{}, err
	}
	if err := s.mayRun(ctx, from, ref); err != nil {
		from.close()
		return source{}, s.w.OrNoProject(err, ref.ID)
	}
	return from, nil
}

// source opens the source of all items.
func (s *Session) source(ctx context.Context) (source, error) {
	if s.set == nil {
		return s.unlocked(ctx)
	}
	return s.pinned(ctx)
}

// mayRun refuses an item that doesn't exist or that differs in the working tree from the lock.
func (s *Session) mayRun(ctx context.Context, from source, ref model.Ref) error {
	if from.set == nil {
		_, err := from.view.Find(ctx, ref)
		return err
	}
	if s.o.Pinned || from.known.unchanged(ref) {
		return nil
	}
	seen := nofollow.NewSeen(s.clock)
	working, admit, done, err := from.lock.WorkingView(ctx, from.set, seen)
	if err != nil {
		return err
	}
	defer done()
	err = s.drift(ctx, from.lock, drift.Options{Pinned: from.view, Working: working, Admit: admit,
		User: from.lock.User}, ref)
	if err == nil {
		from.known.same(ref, seen)
	}
	return err
}

// unlocked opens what the spaces have.
func (s *Session) unlocked(ctx context.Context) (source, error) {
	v, err := s.w.Items(ctx)
	if err != nil {
		return source{}, err
	}
	base := exec.Base{Policies: PoliciesOf(v.Trust), Resolver: v.View, Admit: v.Admit, Unlisted: v.Asked.Unlisted,
		Plugins: s.plugins(v.Trust, nil)}
	return source{base: base, view: v.View, close: v.Close}, nil
}

// pinned opens what the lock pins.
func (s *Session) pinned(ctx context.Context) (source, error) {
	current, err := s.lock.Current()
	if err != nil {
		return source{}, err
	}
	advised := current.Advised()
	known, err := s.learn(ctx, current, advised)
	if err != nil {
		current.Close()
		return source{}, err
	}
	asked, resolver := current.Asked(ctx, current.Dir), s.set.Resolver(known.view)
	asked.Advice = advised.Of
	platform := runtime.GOOS + "/" + runtime.GOARCH
	base := exec.Base{
		Policies: PoliciesOf(current.Trust), Resolver: resolver,
		Admit: ai.NewAdmitter(resolver, s.set.Examiner(asked)), Unlisted: asked.Unlisted, Set: s.set.ID(),
		Program:   func(name string, digest cas.Digest) *file.Program { return s.set.Program(name, platform, digest) },
		Artifacts: s.set.Lock().ArtifactsOf, Objects: s.set, Known: &known.chains,
		Plugins: s.plugins(current.Trust, s.set), Allow: s.allowed,
		Published: workspace.Published(s.set.Lock().Bundles),
	}
	return source{base: base, view: known.view, close: current.Close, set: s.set, lock: current, known: known,
		asked: asked}, nil
}

// dev opens one tool of the working tree. The items that run it come from the lock, or without a lock from the spaces.
func (s *Session) dev(ctx context.Context, ref model.Ref) (source, error) {
	from, err := s.source(ctx)
	if err != nil {
		return source{}, err
	}
	working, done := from.view, func() {}
	if from.set != nil {
		if working, _, done, err = from.lock.WorkingView(ctx, from.set, nil); err != nil {
			from.close()
			return source{}, err
		}
	}
	closeAll := func() { done(); from.close() }
	if err := inDevelopment(ctx, working, ref); err != nil {
		closeAll()
		return source{}, err
	}
	base := from.base
	base.Dev = ref
	if from.set != nil {
		r := devResolver{ref: ref, working: working, pinned: base.Resolver}
		base.Resolver, base.Admit, base.Known = r, ai.NewAdmitter(r, from.set.Examiner(from.asked)), nil
	}
	return source{base: base, view: from.view, close: closeAll, set: from.set, lock: from.lock, known: from.known,
		asked: from.asked}, nil
}

// inDevelopment refuses a tool that isn't one of the working tree.
func inDevelopment(ctx context.Context, working *ai.View, ref model.Ref) error {
	it, err := working.Find(ctx, ref)
	if err != nil {
		return err
	}
	if it.Space.Level == ai.System {
		return fault.New(fault.Validation, "%q is from %s: --dev runs tools of the working tree only", ref,
			it.Space.Label).Try(fault.Command("rye exec", ref.String()))
	}
	return nil
}

// library returns the source with the library's items in the place of its own: the items that rye itself selects and
// no lock pins.
func (f source) library(ctx context.Context) (source, error) {
	view, err := find.LibraryView(ctx)
	if err != nil {
		return source{}, err
	}
	base := f.base
	base.Resolver, base.Admit, base.Known = view, ai.NewAdmitter(view, f.asked), &f.known.library
	return source{base: base, view: f.view, close: f.close, set: f.set, lock: f.lock, known: f.known, asked: f.asked},
		nil
}

// config returns the configuration of a name.
func (f source) config(ctx context.Context, name string) (*ai.Merged, error) {
	if f.set == nil {
		return f.view.Config(ctx, f.base.Admit, name)
	}
	return f.set.Config(ctx, f.view, f.base.Admit, name)
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
	var failure *fault.Error
	switch {
	case s.o.Locked || s.o.Pinned:
		return s.lock.NeedLock()
	case s.o.CI:
		failure = fault.New(fault.NotLocked, "no lock: in CI only locked tools run").Try(s.lock.LockCommand())
	case s.lock.Root.Marker == workspace.MarkerFile && !s.o.Unlocked && !s.o.Dev:
		failure = fault.New(fault.NotLocked, "no %s in %q", file.Name, s.lock.Dir).Try(s.lock.LockCommand(),
			"rye exec TOOL --unlocked")
	default:
		return nil
	}
	return failure.From(fs.ErrNotExist)
}

// hold loads the set of the lock, and keeps its objects in the store until the session ends.
func (s *Session) hold(ctx context.Context) (err error) {
	current := s.lock
	if s.o.Unlocked {
		e := fault.New(fault.Validation, "--unlocked is for a project without a lock: %q exists",
			current.LockPath()).Try(current.LockCommand())
		return s.orDev(e, "TOOL")
	}
	if s.o.Locked {
		if changes := current.RequirementChanges(); len(changes) > 0 {
			e := fault.New(fault.LockMismatch, "rye.yaml has changed since the lock was made").Try("rye lock")
			for _, ch := range changes {
				e.Because(string(ch.Kind) + " " + ch.Name)
			}
			return e
		}
	}
	if _, err := current.Trusting(); err != nil {
		return err
	}
	if s.set, err = current.Set(ctx); isMissing(err) || err == nil && current.Lacks(ctx) {
		// In a clone nothing is in the store yet. Trust comes first: without it nothing is taken.
		if stranger := current.Stranger(); stranger != nil {
			return stranger
		}
		left, taken := restore.TakeProject(ctx, current)
		if taken != nil {
			s.w.Detail("the project's items", taken)
		}
		if s.set, err = current.Set(ctx); isMissing(err) && left != nil {
			err = fault.Of(err).Because(left.Error())
		}
	}
	if err == nil {
		err = restore.Proven(ctx, current)
	}
	if err != nil {
		return err
	}
	store, err := current.OpenStore(false)
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

// isMissing reports whether an error means that an object of the lock is missing.
func isMissing(err error) bool {
	_, missing := errors.AsType[*lock.MissingError](err)
	return missing
}

// A devResolver finds one tool in the working tree, and every other item in the lock or, if the lock doesn't have it
// and the project has no other, in the library: a tool can be tried before anything is locked.
type devResolver struct {
	ref     model.Ref
	working *ai.View
	pinned  ai.Resolver
}

// Resolve implements ai.Resolver. An item of the working tree may use every pinned item.
func (r devResolver) Resolve(ctx context.Context, ref model.Ref, from *ai.Space) (*ai.Item, error) {
	if ref == r.ref {
		return r.working.Find(ctx, ref)
	}
	if from != nil && slices.Contains(r.working.Spaces(), from) && from.Level != ai.System {
		from = nil
	}
	it, err := r.pinned.Resolve(ctx, ref, from)
	if no, ok := errors.AsType[*lock.NotLockedError](err); ok && no.Pinned == "" {
		if std, found := r.working.Resolve(ctx, ref, from); found == nil && std.Space.Builtin {
			return std, nil
		}
	}
	return it, err
}
