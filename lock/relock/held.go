package relock

import (
	"context"
	"errors"
	"slices"

	"github.com/rye-build/rye/ai/semver"
	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/resolve"
)

// A holding wraps sources to keep some bundles as locked: those from repositories, whose branches and tags move, and
// those from directories and archives when newer versions are listed. An unsigned plugin is kept everywhere: its
// versions have no order, so only an update takes what its source has now.
type holding struct {
	Sources
	r    *Request
	held map[string]*file.Bundle
	tips bool // also offer the current versions of the sources
	tell bool // only listing: a locked bundle that is no longer readable counts as without requirements
}

// held returns the locked bundles from repositories that the requirements still allow; with places also those from
// directories and archives, which also have one version at a time. Unsigned plugins are always among them.
func (r *Request) held(places bool) map[string]*file.Bundle {
	held := map[string]*file.Bundle{}
	if r.Old == nil {
		return held
	}
	was := map[string]project.Source{}
	for _, need := range r.Old.Requires {
		was[need.ID] = need.Source
	}
	for _, need := range r.Project.Requires {
		b := r.Old.Bundle(need.ID)
		_, ofGit := need.Source.Git()
		_, image := need.Source.OCI()
		if b == nil || !ofGit && !image && !(places && !need.Source.Index) && !plugin.IsUnsigned(b.ID, b.Version) ||
			!need.Range.Contains(b.Version) || slices.Contains(r.Update, need.ID) || r.UpdateAll {
			continue
		}
		// Another branch or tag is required, even if its commit is the same.
		if need.Source == b.Source || need.Source == was[need.ID] && need.Source.Allows(b.Source) {
			held[need.ID] = b
		}
	}
	return held
}

// Versions implements resolve.Sources.
func (h *holding) Versions(ctx context.Context, id string) ([]resolve.Candidate, error) {
	bundle := h.held[id]
	if bundle == nil {
		return h.Sources.Versions(ctx, id)
	}
	needs, err := h.r.requires(ctx, *bundle)
	if err != nil && (!h.tell || ctx.Err() != nil) {
		return nil, err
	}
	locked := resolve.Candidate{Version: bundle.Version, Requires: map[string]semver.Range{}}
	for _, n := range needs {
		if locked.Requires[n.BundleID], err = semver.Parse(n.Version); err != nil {
			return nil, err
		}
	}
	if !h.tips || h.tell && plugin.IsUnsigned(id, bundle.Version) { // its versions have no order: see Sources.Now
		return []resolve.Candidate{locked}, nil
	}
	now, err := h.Sources.Versions(ctx, id)
	if err != nil {
		return nil, err
	}
	return append(slices.DeleteFunc(slices.Clone(now), func(c resolve.Candidate) bool {
		return c.Version == bundle.Version
	}), locked), nil
}

// Manifest implements Sources.
func (h *holding) Manifest(ctx context.Context, id, version string) (cas.Digest, project.Source, error) {
	if b := h.held[id]; b != nil && b.Version == version {
		return b.Manifest, b.Source, nil
	}
	return h.Sources.Manifest(ctx, id, version)
}

// chooseHeld selects versions with the bundles of repositories as locked. If there is no solution, it adds the
// current versions of the repositories, and then uses these alone. The request keeps the sources that succeeded.
func (r *Request) chooseHeld(ctx context.Context) (*resolve.Resolution, error) {
	sources := r.Sources
	if held := r.held(false); len(held) > 0 {
		for _, tips := range []bool{false, true} {
			r.Sources = &holding{Sources: sources, r: r, held: held, tips: tips}
			res, err := r.resolve(ctx)
			_, conflict := errors.AsType[*resolve.ConflictError](err)
			_, none := errors.AsType[*resolve.NoVersionError](err)
			if !conflict && !none {
				return res, err
			}
			r.Sources = sources
		}
	}
	return r.resolve(ctx)
}
