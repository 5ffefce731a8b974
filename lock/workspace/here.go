package workspace

import (
	"context"
	"errors"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock"
	lockfile "github.com/rye-build/rye/lock/file"
	ryeyaml "github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/relock"
	versions "github.com/rye-build/rye/lock/resolve"
	sources "github.com/rye-build/rye/lock/source"
	"github.com/rye-build/rye/manifest"
)

// Look reads the policy and the locally available parts of the lock. It creates no store, asks no source and writes
// nothing, so it works in a read-only clone with .ai/vendor and without a home.
func (l *Lock) Look(ctx context.Context) (err error) {
	if l.Trust, err = l.Policy(); err != nil {
		return err
	}
	l.Here = &present{l: l, verify: bundle.VerifyOptions{Trust: l.Exam()}}
	if l.Here.Objects, err = l.Objects(); err != nil || l.Old == nil {
		return err
	}
	// An inconsistent lock is reported by its caller: comparing works with the parts that exist.
	l.Here.set, err = l.Set(ctx)
	if _, unfit := errors.AsType[*lock.RefusedError](err); unfit {
		l.Here.Unfit, err = err, nil
	}
	if len(l.Old.Bundles) == 0 {
		l.Here.set = nil // only its bundles are read, and it knows where each pin is
	}
	return err
}

// Pinned returns the lock's set, or nil unless all of it is available locally and the policy admits the manifests of
// its bundles.
func (l *Lock) Pinned(ctx context.Context) *lock.Set {
	if l.Old == nil || len(l.Old.Bundles) == 0 {
		return nil
	}
	set, err := l.Set(ctx)
	if err != nil {
		return nil
	}
	verify := bundle.VerifyOptions{Trust: l.Exam()}
	for _, line := range l.Old.Bundles {
		if _, err := verify.Admit(set.Bundle(line.ID)); err != nil {
			return nil
		}
	}
	for _, line := range l.Old.Bundles {
		l.Listed.add(set.Bundle(line.ID))
	}
	return set
}

// A present provides the locally available bundles of a lock for read-only checks. Their pinned items are verified
// again when the lock is made.
type present struct {
	l       *Lock
	Objects lock.Source
	set     *lock.Set // nil without one
	Unfit   error     // why set can't be used
	verify  bundle.VerifyOptions
}

// ErrElsewhere means that the lock's bundles don't match the requirements in rye.yaml. Only the sources know which
// bundles would.
var ErrElsewhere = errors.New("the bundles of the lock aren't those that rye.yaml requires")

// Versions implements relock.Sources.
func (p *present) Versions(context.Context, string) ([]versions.Candidate, error) {
	return nil, ErrElsewhere
}

// Manifest implements relock.Sources.
func (p *present) Manifest(context.Context, string, string) (cas.Digest, ryeyaml.Source, error) {
	return cas.Digest{}, ryeyaml.Source{}, ErrElsewhere
}

// Logged implements relock.Sources.
func (p *present) Logged(context.Context, string, string, ryeyaml.Source) (string, int64, error) {
	return "", 0, ErrElsewhere
}

// Requires implements relock.Sources.
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
	return readBundle(ctx, p.Objects, want)
}

// Bring implements relock.Sources and fetches nothing. It returns an *OfflineError if only
// the pinned items of a bundle are here.
func (p *present) Bring(ctx context.Context, want lockfile.Bundle, _ []*ai.Space) (*bundle.Bundle, error) {
	bundle, err := p.read(ctx, want)
	if err != nil {
		return nil, err
	}
	if bundle.BundleID != want.ID || bundle.Version != want.Version {
		return nil, sources.Mismatch("version", want.ID+"@"+want.Version, bundle.BundleID+"@"+bundle.Version)
	}
	if _, err := p.verify.Admit(bundle); err != nil {
		return nil, &sources.Error{ID: want.ID, Version: want.Version, Where: want.Source.Where,
			Err: sources.Unadmitted(bundle, err)}
	}
	p.l.Listed.add(bundle)
	lacking, err := p.l.absent(ctx, bundle)
	if err != nil {
		return nil, err
	}
	if len(lacking) > 0 {
		return nil, &sources.OfflineError{Address: want.Source.Where, ID: want.ID, Version: want.Version,
			Missing: lacking}
	}
	return bundle, nil
}

// absent lists the files of a bundle that are neither in the store nor in .ai/vendor. Call Objects first.
func (l *Lock) absent(ctx context.Context, b *bundle.Bundle) (lacking []cas.ID, err error) {
	for i := range b.Files {
		lacking = append(lacking, cas.ID{Kind: cas.Blob, Digest: b.Files[i].Digest})
	}
	return l.lacking(ctx, lacking)
}

// Lacks reports whether a pinned item of the project is neither in the store nor in .ai/vendor, as in a new clone.
func (l *Lock) Lacks(ctx context.Context) bool {
	var ids []cas.ID
	for i := range l.Old.Pins {
		if p := &l.Old.Pins[i]; p.From == lockfile.FromProject {
			ids = append(ids, cas.ID{Kind: cas.Blob, Digest: p.Digest})
		}
	}
	ids, err := l.lacking(ctx, ids)
	return err == nil && len(ids) > 0
}

// lacking lists the objects that are neither in the store nor in .ai/vendor.
func (l *Lock) lacking(ctx context.Context, lacking []cas.ID) (_ []cas.ID, err error) {
	if s := l.DiskStore(); s != nil {
		if lacking, err = s.Missing(ctx, lacking); err != nil {
			return nil, err
		}
	}
	if l.Vendor == nil {
		return lacking, nil
	}
	out := lacking[:0]
	for _, id := range lacking {
		o, err := l.Vendor.Get(ctx, id)
		if err != nil {
			out = append(out, id)
			continue
		}
		o.Close()
	}
	return out, ctx.Err()
}

// RequirementChanges lists the lines of rye.yaml that differ from the lock's copy.
func (l *Lock) RequirementChanges() []lockfile.Change {
	now := *l.Old
	now.Requires = relock.SortedRequires(l.Yaml.Requires)
	return lockfile.Diff(l.Old, &now)
}
