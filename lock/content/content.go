// Package content brings the bytes that a lock names to where they are needed: into the store (Fetch), into .ai/vendor
// (Vendor), and back into the working tree (Restore). It changes neither rye.yaml nor rye.lock.
package content

import (
	"context"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/workspace"
)

// Request says what the lock of a project is made of. With l.Here nothing is fetched.
func Request(ctx context.Context, l *workspace.Lock) lock.Request {
	r := lock.Request{Project: l.Yaml, Old: l.Old, Pinned: l.Pinned(ctx), Library: find.LibrarySpace(), View: l.View, User: l.User, Installed: l.Installed}
	if l.Here != nil {
		r.Sources, r.Files = l.Here, l.Here.Objects
	} else {
		r.Sources, r.Files, r.Packages = workspace.Bringing{Sources: l.Sources, Listed: &l.Listed}, l.DiskStore(), l.Registry
	}
	return r
}

// Stored returns the set of a lock with everything from the store.
func Stored(ctx context.Context, l *workspace.Lock) (*lock.Set, error) {
	return setOf(ctx, l, l.DiskStore())
}

// setOf returns the set of a lock with the objects that src has.
func setOf(ctx context.Context, l *workspace.Lock, src lock.Source) (*lock.Set, error) {
	return lock.NewSet(ctx, l.Old, l.Id(), workspace.SetOptions(src))
}

// Drift lists the files of the working tree that differ from their pins, for all items or for some. Look must have been
// called.
func Drift(ctx context.Context, l *workspace.Lock, refs ...model.Ref) ([]*lock.Difference, error) {
	set, err := l.Set(ctx)
	if err != nil {
		return nil, err
	}
	for i := range l.Old.Bundles {
		l.Listed.AddAdmitted(l.Trust, set.Bundle(l.Old.Bundles[i].ID))
	}
	pinned, err := set.View(ctx, l.Asked(ctx, l.Dir), l.Trust.Root.Side.Policy.MayOverride)
	if err != nil {
		return nil, err
	}
	working, admit, done, err := l.WorkingView(ctx, set)
	if err != nil {
		return nil, err
	}
	defer done()
	return set.Drift(ctx, lock.DriftOptions{Pinned: pinned, Working: working, Admit: admit}, refs...)
}

// shown is a path as messages write it.
func shown(l *workspace.Lock, path string) string {
	if l.Show == nil {
		return path
	}
	return l.Show(path)
}

func detail(l *workspace.Lock, what string, err error) {
	if l.Detail != nil {
		l.Detail(what, err)
	}
}

// lackingOf is the error of an object that is in no place rye may look at.
func lackingOf(id cas.ID, by string) *fault.Error {
	return fault.Of(&lock.MissingError{ID: id, NeededBy: by})
}
