package main

import (
	"context"
	"errors"
	"io/fs"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock"
	lockfile "github.com/rye-build/rye/lock/file"
)

// An unreadBundle is a bundle of the lock whose items nobody can see, and why.
type unreadBundle struct {
	lockfile.Bundle
	err error
}

// addLocked puts the bundles of the project's lock before the library. One that isn't here, or a lock that can't be
// read, is a warning: looking at items must go on where they are to be mended. What vouches for items asks unread.
func (v *items) addLocked(ctx context.Context, spaces []*ai.Space) []*ai.Space {
	v.bundles = &bundles{app: v.app, root: v.root}
	v.lock = &locking{app: v.app, dir: v.root.root, dotAI: v.root.dotAI(), found: v.bundles}
	if err := v.lock.readLock(false); err != nil {
		v.app.term.warn("%s", classify(err).Text)
	}
	if v.user == nil {
		switch taken, err := v.lock.takenOver(ctx); {
		case err != nil:
			v.app.term.warn("what the lock has of the user's: %s", classify(err).Text)
		case taken != nil:
			spaces = append(spaces, taken)
		}
	}
	lines := v.app.coming
	if lines == nil && v.lock.old != nil {
		lines = v.lock.old.Bundles
	}
	if len(lines) == 0 {
		return spaces
	}
	objects, err := v.lock.objects()
	if err != nil {
		v.app.term.warn("the bundles of the lock: %s", classify(err).Text)
		for _, line := range lines {
			v.unread = append(v.unread, unreadBundle{line, err})
		}
		return spaces
	}
	if v.asked != nil {
		v.lock.listed.beside(v.asked)
	}
	for _, line := range lines {
		b, err := bundle.ReadStored(ctx, objects, objects, line.Manifest)
		if errors.Is(err, fs.ErrNotExist) {
			err = &lock.MissingError{ID: cas.ID{Kind: cas.Document, Digest: line.Manifest}, NeededBy: "bundle:" + line.ID + "@" + line.Version}
		}
		if err != nil {
			f, next := classify(err), ""
			if len(f.Hint) > 0 {
				next = "; " + v.app.globals.placed(f.Hint[0])
			}
			v.app.term.warn("the bundle %q: %s%s", line.ID, f.Text, next)
			v.unread = append(v.unread, unreadBundle{line, err})
			continue
		}
		v.lock.listed.addAdmitted(v.trust, b)
		if s := v.lockedSpace(ctx, objects, b); s != nil {
			spaces = append(spaces, s)
		}
	}
	return spaces
}

// lockedSpace has all items of a bundle if the store has all of it, for whoever looks for what could be used. Elsewhere
// it has those that are pinned, and is nil if none is: a clone with .ai/vendor has no bytes of the others.
func (v *items) lockedSpace(ctx context.Context, objects lock.Source, b *bundle.Bundle) *ai.Space {
	all := lock.BundleSpace(ctx, objects, b)
	if s, err := v.lock.found.store(false); err == nil {
		ids := make([]cas.ID, len(b.Files))
		for i := range b.Files {
			ids[i] = cas.ID{Kind: cas.Blob, Digest: b.Files[i].Digest}
		}
		if missing, err := s.Missing(ctx, ids); err == nil && len(missing) == 0 {
			return all
		}
	}
	set, err := v.lock.set(ctx)
	if err != nil || set.Bundle(b.BundleID) == nil || set.Bundle(b.BundleID).ID != b.ID {
		return all
	}
	for _, s := range set.Spaces() {
		if s.Label == all.Label {
			return s
		}
	}
	return nil
}

// locked says whether an item is as the project's lock has it.
func (v *items) locked(it *ai.Item, tree *treeLine) string {
	if v.lock == nil || v.lock.old == nil {
		return ""
	}
	p := v.lock.old.Pin(it.Ref)
	switch {
	case p == nil:
		return "not locked"
	case p.From != it.Space.Label, p.Digest != it.Raw, tree == nil && !p.Tree.IsZero(), tree != nil && tree.Digest != p.Tree.String():
		return "differs"
	}
	return "locked"
}
