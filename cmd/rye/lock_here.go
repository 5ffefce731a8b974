package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock"
	lockfile "github.com/rye-build/rye/lock/file"
	ryeyaml "github.com/rye-build/rye/lock/project"
	versions "github.com/rye-build/rye/lock/resolve"
	sources "github.com/rye-build/rye/lock/source"
	"github.com/rye-build/rye/manifest"
)

// look reads the policy and finds out what is here of the lock. What comes after it makes no store, asks no source and
// writes nothing: a clone with .ai/vendor may be looked at where there is no home, and no right to write.
func (l *locking) look(ctx context.Context) (err error) {
	if l.trust, err = l.app.trust(); err != nil {
		return err
	}
	l.here = &present{l: l, verify: bundle.VerifyOptions{Trust: l.exam()}}
	if l.here.objects, err = l.objects(); err != nil || l.old == nil {
		return err
	}
	// A lock that doesn't fit together is told of when it matters: comparing goes on with what there is.
	l.here.set, err = l.set(ctx)
	if _, unfit := errors.AsType[*lock.RefusedError](err); unfit {
		l.here.unfit, err = err, nil
	}
	return err
}

// pinned is the lock with all that it names, if that is here and the policy admits the manifests of its bundles; else
// nil.
func (l *locking) pinned(ctx context.Context) *lock.Set {
	if l.old == nil || len(l.old.Bundles) == 0 {
		return nil
	}
	set, err := l.set(ctx)
	if err != nil {
		return nil
	}
	verify := bundle.VerifyOptions{Trust: l.exam()}
	for _, line := range l.old.Bundles {
		if _, err := verify.Admit(set.Bundle(line.ID)); err != nil {
			return nil
		}
	}
	for _, line := range l.old.Bundles {
		l.listed.add(set.Bundle(line.ID))
	}
	return set
}

// A present gives the bundles of a lock as far as they are here, for looking alone: whatever is pinned of them is
// verified again when the lock is made.
type present struct {
	l       *locking
	objects lock.Source
	set     *lock.Set // nil if there is none
	unfit   error     // why
	verify  bundle.VerifyOptions
}

// errElsewhere says that other bundles are needed than those of the lock: which ones, their sources know.
var errElsewhere = errors.New("the bundles of the lock aren't those that rye.yaml requires")

// Versions implements lock.Sources.
func (p *present) Versions(context.Context, string) ([]versions.Candidate, error) {
	return nil, errElsewhere
}

// Manifest implements lock.Sources.
func (p *present) Manifest(context.Context, string, string) (cas.Digest, ryeyaml.Source, error) {
	return cas.Digest{}, ryeyaml.Source{}, errElsewhere
}

// Requires implements lock.Sources.
func (p *present) Requires(ctx context.Context, want lockfile.Bundle) ([]manifest.Require, error) {
	b, err := p.read(ctx, want)
	if err != nil {
		return nil, err
	}
	return b.Requires, nil
}

func (p *present) read(ctx context.Context, want lockfile.Bundle) (*bundle.Bundle, error) {
	if p.set != nil {
		if b := p.set.Bundle(want.ID); b != nil && b.ID == want.Manifest {
			return b, nil
		}
	}
	b, err := bundle.ReadStored(ctx, p.objects, p.objects, want.Manifest)
	if errors.Is(err, fs.ErrNotExist) {
		err = &lock.MissingError{ID: cas.ID{Kind: cas.Document, Digest: want.Manifest}, NeededBy: "bundle:" + want.ID + "@" + want.Version}
	}
	return b, err
}

// Bring implements lock.Sources: it brings nothing. A bundle of which only the pinned items are here is an
// *OfflineError.
func (p *present) Bring(ctx context.Context, want lockfile.Bundle, _ []*ai.Space) (*bundle.Bundle, error) {
	b, err := p.read(ctx, want)
	if err != nil {
		return nil, err
	}
	if b.BundleID != want.ID || b.Version != want.Version {
		return nil, &sources.MismatchError{What: "version", Expected: want.ID + "@" + want.Version, Found: b.BundleID + "@" + b.Version}
	}
	if _, err := p.verify.Admit(b); err != nil {
		return nil, &sources.Error{ID: want.ID, Version: want.Version, Where: want.Source.Where, Err: err}
	}
	p.l.listed.add(b)
	lacking, err := p.l.absent(ctx, b)
	if err != nil {
		return nil, err
	}
	if len(lacking) > 0 {
		return nil, &sources.OfflineError{Address: want.Source.Where, ID: want.ID, Version: want.Version, Missing: lacking}
	}
	return b, nil
}

// absent are the files of a bundle that neither the store nor .ai/vendor has, once objects was asked for.
func (l *locking) absent(ctx context.Context, b *bundle.Bundle) (lacking []cas.ID, err error) {
	for i := range b.Files {
		lacking = append(lacking, cas.ID{Kind: cas.Blob, Digest: b.Files[i].Digest})
	}
	if s := l.found.open; s != nil {
		if lacking, err = s.Missing(ctx, lacking); err != nil {
			return nil, err
		}
	}
	if l.vendor == nil {
		return lacking, nil
	}
	out := lacking[:0]
	for _, id := range lacking {
		o, err := l.vendor.Get(ctx, id)
		if err != nil {
			out = append(out, id)
			continue
		}
		o.Close()
	}
	return out, ctx.Err()
}

// requirementChanges are those lines of rye.yaml that aren't as the lock has copied them.
func (l *locking) requirementChanges() []lockfile.Change {
	now := *l.old
	now.Requires = slices.SortedFunc(slices.Values(l.yaml.Requires), func(a, b ryeyaml.Requirement) int { return cmp.Compare(a.ID, b.ID) })
	return lockfile.Diff(l.old, &now)
}

// elsewhere is the answer to --check where other bundles are needed than those that the lock has.
func (c *lockRun) elsewhere(ctx context.Context, l *locking, ans *lockAnswer) (answer, error) {
	l.describe(ans, l.old, l.file)
	ans.Changes, ans.Changed = append(ans.Changes, l.requirementChanges()...), true
	if len(ans.Changes) > 0 {
		return c.checked(ctx, l, ans, nil)
	}
	var f *fault.Error
	if l.here.unfit != nil {
		f = classify(l.here.unfit)
	} else {
		f = &fault.Error{Code: fault.LockMismatch, Text: fmt.Sprintf("%q: %s", l.lockPath(), errElsewhere)}
	}
	f.Hint = []string{"rye lock"}
	return ans, f.Asked()
}
