package main

import (
	"context"
	"errors"
	"io/fs"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock"
)

// addLocked puts the bundles of the project's lock before the library. One that isn't here, or a lock that can't be
// read, is a warning: looking at items must go on where they are to be mended.
func (v *items) addLocked(ctx context.Context, spaces []*ai.Space) []*ai.Space {
	v.bundles = &bundles{app: v.app, root: v.root}
	v.lock = &locking{app: v.app, dir: v.root.root, dotAI: v.root.dotAI(), found: v.bundles}
	if err := v.lock.readLock(false); err != nil {
		v.app.term.warn("%s", classify(err).message)
	}
	if v.lock.old == nil || len(v.lock.old.Bundles) == 0 {
		return spaces
	}
	objects, err := v.lock.objects()
	if err != nil {
		v.app.term.warn("the bundles of the lock: %s", classify(err).message)
		return spaces
	}
	for _, line := range v.lock.old.Bundles {
		b, err := bundle.ReadStored(ctx, objects, objects, line.Manifest)
		if errors.Is(err, fs.ErrNotExist) {
			err = &lock.MissingError{ID: cas.ID{Kind: cas.Document, Digest: line.Manifest}, NeededBy: "bundle:" + line.ID + "@" + line.Version}
		}
		if err != nil {
			v.app.term.warn("the bundle %q: %s; rye fetch", line.ID, classify(err).message)
			continue
		}
		spaces = append(spaces, lock.BundleSpace(ctx, objects, b))
	}
	return spaces
}
