package workspace

import (
	"context"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/semver"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/lock"
	lockfile "github.com/rye-build/rye/lock/file"
	ryeyaml "github.com/rye-build/rye/lock/project"
)

// UserLock opens the user's own lock, which counts outside of projects. It requires nothing: its bundles are the
// installed ones.
func (w *Workspace) UserLock(conflict bool) (*Lock, error) {
	s := w.UserSpace()
	if s.Err != nil {
		return nil, s.Err
	}
	l := w.LockIn(s.Path, s.Path)
	l.User = true
	return l, l.ReadLock(conflict)
}

// LockCommand returns the command that makes this lock.
func (l *Lock) LockCommand() string {
	if l.User {
		return "rye lock --user"
	}
	return "rye lock"
}

// FindInstalled finds the bundles that the user's lock may use: the installed ones with all that they require. It
// warns about the others; an item that uses one of them is a problem when the lock is made.
func (l *Lock) FindInstalled(ctx context.Context) error {
	if _, err := l.Space(); err != nil {
		return err
	}
	all, err := l.Finder().AllInstalled(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		l.Warn("installed bundles", err)
	}
	for n := -1; n != len(all); {
		n = len(all)
		all = slices.DeleteFunc(all, func(b *install.Installed) bool {
			for _, r := range b.Requires {
				if !satisfied(all, r.BundleID, r.Version) {
					l.note("the bundle %q requires %q %s, which is not installed: bundle skipped", b.BundleID,
						r.BundleID, r.Version)
					return true
				}
			}
			return false
		})
	}
	for _, b := range all {
		from, err := ryeyaml.ParseSource("bundles/"+b.BundleID, false)
		if err != nil {
			return err
		}
		l.Installed = append(l.Installed, lockfile.Bundle{ID: b.BundleID, Version: b.Version, Manifest: b.ID,
			Source: from})
	}
	slices.SortFunc(l.Installed, func(a, b lockfile.Bundle) int { return strings.Compare(a.ID, b.ID) })
	return nil
}

// satisfied reports whether one of the bundles fulfils a requirement. The library always does.
func satisfied(all []*install.Installed, id, versions string) bool {
	if id == lock.Library {
		return true
	}
	allowed, err := semver.Parse(versions)
	return err == nil && slices.ContainsFunc(all, func(b *install.Installed) bool {
		return b != nil && b.BundleID == id && allowed.Contains(b.Version)
	})
}

// TakenOver returns the space of the user's items in the old lock, or nil if the lock has none.
func (l *Lock) TakenOver(ctx context.Context) (*ai.Space, error) {
	old, err := l.Old, error(nil)
	if l.Sides != nil {
		old, err = l.Merged()
	}
	if err != nil || old == nil || !slices.ContainsFunc(old.Pins, func(p lockfile.Pin) bool {
		return p.From == lockfile.FromUser
	}) {
		return nil, err
	}
	objects, err := l.Objects()
	if err != nil {
		return nil, err
	}
	side, err := lock.NewSide(ctx, old, l.Id(), SetOptions(objects))
	if err != nil {
		return nil, err
	}
	return side.Space(lockfile.FromUser), nil
}
