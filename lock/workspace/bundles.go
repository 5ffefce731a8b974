package workspace

import (
	"context"
	"slices"
	"sync"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/semver"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/bundle/legacy"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/lock/relock"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/trust"
)

// Finder finds the bundles that this workspace can see.
func (w *Workspace) Finder() *find.Finder {
	project := w.Root.Root
	if dir := find.PluginDir(w.Dir); len(dir) > len(project) {
		project = dir // the nearer one
	}
	f := &find.Finder{Dir: w.Dir, Project: project, Now: w.Now(), Store: func() (*disk.Store, error) {
		return w.OpenStore(false)
	},
		Keep: w.Keep, Warn: w.Warn, Below: w.Below}
	if w.User.Err == nil {
		f.User = w.User.Path
	}
	f.Installed, _ = w.Space() // no home, nothing installed
	return f
}

// Space returns the space of the user's installed bundles. Reading their manifests needs no store.
func (w *Workspace) Space() (*install.Space, error) {
	s := w.UserSpace()
	if s.Err != nil {
		return nil, s.Err
	}
	if w.State.Err != nil {
		return nil, w.State.Err
	}
	space := &install.Space{Dir: s.Path, Journal: w.Journal(), Now: w.Now}
	if s := w.DiskStore(); s != nil {
		space.Store = s
	}
	return space, nil
}

// Below returns the spaces that the items of a bundle may use: the library, and the bundles that it requires, from
// the project's lock or else as they are installed. The needs list each requirement and whether it was found.
func (w *Workspace) Below(ctx context.Context, id string, requires []manifest.Require) (all []*ai.Space,
	needs []bundle.Need, err error) {
	all = []*ai.Space{find.LibrarySpace()}
	for _, r := range requires {
		spaces, need, err := w.required(ctx, id, r)
		if err != nil {
			return nil, nil, err
		}
		all, needs = append(all, spaces...), append(needs, need)
	}
	return all, needs, nil
}

// required returns the spaces of a bundle that another bundle requires: the locked one in a project, otherwise the
// installed one.
func (w *Workspace) required(ctx context.Context, id string, require manifest.Require) ([]*ai.Space, bundle.Need,
	error) {
	need := bundle.Need{Bundle: require.BundleID, Version: require.Version}
	allowed, err := semver.Parse(require.Version)
	if err != nil {
		return nil, need, err
	}
	if l := w.ProjectLock(); l != nil && l.Old.Bundle(require.BundleID) != nil {
		if need.Found = l.Old.Bundle(require.BundleID).Version; allowed.Contains(need.Found) {
			need.Met = true
			spaces, err := w.lockedBelow(ctx, l, require.BundleID)
			return spaces, need, err
		}
		w.note("%q requires %q %s, but %s is locked", id, require.BundleID, require.Version, need.Found)
	}
	at, err := w.Finder().Current(require.BundleID)
	switch {
	case err != nil:
		return nil, need, err
	case at == nil:
		w.note("%q, which %q requires, is not installed", require.BundleID, id)
		return nil, need, nil
	}
	if need.Found = at.Version; !allowed.Contains(at.Version) {
		w.note("%q requires %q %s, but %s is installed", id, require.BundleID, require.Version, at.Version)
		return nil, need, nil
	}
	need.Met = true
	if _, err := w.OpenStore(false); err != nil {
		return nil, need, err
	}
	space, err := w.Space()
	if err != nil {
		return nil, need, err
	}
	s, err := space.Open(ctx, require.BundleID)
	return []*ai.Space{s}, need, err
}

// ProjectLock returns the project's lock, or nil if it is missing or unreadable.
func (w *Workspace) ProjectLock() *Lock {
	if w.Root.Root == "" {
		return nil
	}
	l := w.LockIn(w.Root.Root, w.Root.DotAI())
	if err := l.ReadLock(false); err != nil || l.Old == nil {
		return nil
	}
	return l
}

// lockedBelow returns the spaces of a locked bundle and of all that it requires.
func (w *Workspace) lockedBelow(ctx context.Context, lock *Lock, id string) (spaces []*ai.Space, err error) {
	objects, err := lock.Objects()
	if err != nil {
		return nil, err
	}
	if lock.Vendor != nil {
		w.Keep(lock.Vendor)
	}
	seen := map[string]bool{}
	var add func(id string) error
	add = func(id string) error {
		line := lock.Old.Bundle(id)
		if seen[id] || line == nil {
			return nil
		}
		seen[id] = true
		read, err := readBundle(ctx, objects, *line)
		if err != nil {
			return err
		}
		spaces = append(spaces, relock.BundleSpace(ctx, objects, read))
		for _, need := range read.Requires {
			if err := add(need.BundleID); err != nil {
				return err
			}
		}
		return nil
	}
	err = add(id)
	return spaces, err
}

// Listing returns the listing that decides on v1 signatures: such a signature counts only if an admitted manifest, of
// v2 or of the first format, lists the item. The manifests below dirs are read when the first such signature is
// checked.
func Listing(ctx context.Context, trusted *trust.Trust, dirs ...string) *bundle.Listing {
	all := sync.OnceValue(func() (found []func(cas.Digest) bool) {
		for _, dir := range dirs {
			ids, _ := find.InProjectIDs(dir)
			for _, id := range ids {
				if lists := listedBy(ctx, trusted, dir, id); lists != nil {
					found = append(found, lists)
				}
			}
		}
		return found
	})
	return &bundle.Listing{Trust: trusted.Exam(), Listed: func(d cas.Digest) bool {
		return slices.ContainsFunc(all(), func(lists func(cas.Digest) bool) bool { return lists(d) })
	}}
}

// listedBy returns a function that reports whether a manifest lists an item, or nil if the policy doesn't admit the
// manifest.
func listedBy(ctx context.Context, trusted *trust.Trust, dir, id string) func(cas.Digest) bool {
	if first, err := find.IsV1(dir, id); err != nil || first {
		space, err := ai.OpenDir(dir, id, ai.Project)
		if err != nil {
			return nil
		}
		defer space.Close()
		r, err := legacy.List(ctx, space.FS, id, legacy.Options{Trust: trusted.Exam()})
		if err != nil {
			return nil
		}
		return r.Listed
	}
	read, err := find.ReadManifest(dir, id)
	if err != nil {
		return nil
	}
	e, err := trusted.Exam().ExamineDocument(&read.Document, read.Expires, policy.ToUse)
	if err != nil || !e.Decision.Allowed {
		return nil
	}
	digests := make(map[cas.Digest]bool, len(read.Files))
	for i := range read.Files {
		digests[read.Files[i].Digest] = true
	}
	return func(d cas.Digest) bool { return digests[d] }
}

// Each returns the errors that err joins.
func Each(err error) []error {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return many.Unwrap()
	}
	return []error{err}
}
