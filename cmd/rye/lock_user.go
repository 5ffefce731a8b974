package main

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

// userLocking opens the user's space with its lock, which counts outside of projects. Nothing is required there: its
// bundles are those that are installed.
func (a *app) userLocking(conflict bool) (*locking, error) {
	s := userSpace(a.userBase())
	if s.err != nil {
		return nil, s.err
	}
	l := &locking{app: a, dir: s.value, dotAI: s.value, yaml: &ryeyaml.Project{}, found: &bundles{app: a}, user: true}
	return l, l.readLock(conflict)
}

// lockCommand is the command that makes this lock.
func (l *locking) lockCommand() string {
	if l.user {
		return "rye lock --user"
	}
	return "rye lock"
}

// findInstalled finds the bundles that the user's lock may use: those that are installed with all that they require. Of
// the others it warns; an item that uses one is a problem when the lock is made.
func (l *locking) findInstalled(ctx context.Context) error {
	space, err := l.found.space()
	if err != nil {
		return err
	}
	all, err := l.found.installedAll(ctx, space)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		l.app.term.warn("installed bundles: %s", classify(err).Text)
	}
	for n := -1; n != len(all); {
		n = len(all)
		all = slices.DeleteFunc(all, func(b *install.Installed) bool {
			for _, r := range b.Requires {
				if !satisfied(all, r.BundleID, r.Version) {
					l.app.term.warn("the bundle %q requires %q %s, which isn't installed, and isn't used", b.BundleID, r.BundleID, r.Version)
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
		l.installed = append(l.installed, lockfile.Bundle{ID: b.BundleID, Version: b.Version, Manifest: b.ID, Source: from})
	}
	slices.SortFunc(l.installed, func(a, b lockfile.Bundle) int { return strings.Compare(a.ID, b.ID) })
	return nil
}

// satisfied reports whether one of the bundles is what is required. The library always is.
func satisfied(all []*install.Installed, id, versions string) bool {
	if id == lock.Library {
		return true
	}
	allowed, err := semver.Parse(versions)
	return err == nil && slices.ContainsFunc(all, func(b *install.Installed) bool {
		return b != nil && b.BundleID == id && allowed.Contains(b.Version)
	})
}

// takenOver is the space of what the old lock has of the user's, nil if it has nothing.
func (l *locking) takenOver(ctx context.Context) (*ai.Space, error) {
	old, err := l.old, error(nil)
	if l.sides != nil {
		old, err = l.merged()
	}
	if err != nil || old == nil || !slices.ContainsFunc(old.Pins, func(p lockfile.Pin) bool { return p.From == lockfile.FromUser }) {
		return nil, err
	}
	objects, err := l.objects()
	if err != nil {
		return nil, err
	}
	side, err := lock.NewSide(ctx, old, l.id(), lock.SetOptions{Objects: objects, Std: librarySpace()})
	if err != nil {
		return nil, err
	}
	return side.Space(lockfile.FromUser), nil
}
