package spaces

import (
	"context"
	"errors"
	"io/fs"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cmd/rye/classify"
	"github.com/rye-build/rye/cmd/rye/locking"
	"github.com/rye-build/rye/lock"
	lockfile "github.com/rye-build/rye/lock/file"
)

// An UnreadBundle is a bundle of the lock whose items nobody can see, and why.
type UnreadBundle struct {
	lockfile.Bundle
	Err error
}

// addLocked puts the bundles of the project's lock before the library. One that isn't here, or a lock that can't be
// read, is a warning: looking at items must go on where they are to be mended. What vouches for items asks unread.
func (v *Items) addLocked(ctx context.Context, spaces []*ai.Space) []*ai.Space {
	v.bundles = &locking.Bundles{App: v.App, Root: v.Root}
	v.Lock = &locking.Locking{App: v.App, Dir: v.Root.Root, DotAI: v.Root.DotAI(), Found: v.bundles}
	if err := v.Lock.ReadLock(false); err != nil {
		v.App.Term.Warn("%s", classify.Classify(err).Text)
	}
	if v.User == nil {
		switch taken, err := v.Lock.TakenOver(ctx); {
		case err != nil:
			v.App.Term.Warn("what the lock has of the user's: %s", classify.Classify(err).Text)
		case taken != nil:
			spaces = append(spaces, taken)
		}
	}
	lines := v.App.Coming
	if lines == nil && v.Lock.Old != nil {
		lines = v.Lock.Old.Bundles
	}
	if len(lines) == 0 {
		return spaces
	}
	objects, err := v.Lock.Objects()
	if err != nil {
		v.App.Term.Warn("the bundles of the lock: %s", classify.Classify(err).Text)
		for _, line := range lines {
			v.Unread = append(v.Unread, UnreadBundle{line, err})
		}
		return spaces
	}
	if v.Asked != nil {
		v.Lock.Listed.Beside(v.Asked)
	}
	for _, line := range lines {
		b, err := bundle.ReadStored(ctx, objects, objects, line.Manifest)
		if errors.Is(err, fs.ErrNotExist) {
			err = &lock.MissingError{ID: cas.ID{Kind: cas.Document, Digest: line.Manifest}, NeededBy: "bundle:" + line.ID + "@" + line.Version}
		}
		if err != nil {
			f, next := classify.Classify(err), ""
			if len(f.Hint) > 0 {
				next = "; " + v.App.Globals.Placed(f.Hint[0])
			}
			v.App.Term.Warn("the bundle %q: %s%s", line.ID, f.Text, next)
			v.Unread = append(v.Unread, UnreadBundle{line, err})
			continue
		}
		v.Lock.Listed.AddAdmitted(v.Trust, b)
		if s := v.lockedSpace(ctx, objects, b); s != nil {
			spaces = append(spaces, s)
		}
	}
	return spaces
}

// lockedSpace has all items of a bundle if the store has all of it, for whoever looks for what could be used. Elsewhere
// it has those that are pinned, and is nil if none is: a clone with .ai/vendor has no bytes of the others.
func (v *Items) lockedSpace(ctx context.Context, objects lock.Source, b *bundle.Bundle) *ai.Space {
	all := lock.BundleSpace(ctx, objects, b)
	if s, err := v.Lock.Found.Store(false); err == nil {
		ids := make([]cas.ID, len(b.Files))
		for i := range b.Files {
			ids[i] = cas.ID{Kind: cas.Blob, Digest: b.Files[i].Digest}
		}
		if missing, err := s.Missing(ctx, ids); err == nil && len(missing) == 0 {
			return all
		}
	}
	set, err := v.Lock.Set(ctx)
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

// Locked says whether an item is as the project's lock has it.
func (v *Items) Locked(it *ai.Item, tree *TreeLine) string {
	if v.Lock == nil || v.Lock.Old == nil {
		return ""
	}
	p := v.Lock.Old.Pin(it.Ref)
	switch {
	case p == nil:
		return "not locked"
	case p.From != it.Space.Label, p.Digest != it.Raw, tree == nil && !p.Tree.IsZero(), tree != nil && tree.Digest != p.Tree.String():
		return "differs"
	}
	return "locked"
}
