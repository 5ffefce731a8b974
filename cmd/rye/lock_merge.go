package main

import (
	"context"
	"slices"

	"github.com/rye-build/rye/lock"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/manifest"
)

// A lock in which git has left a merge unfinished is made anew. What it asked for is what both sides asked for: whichever
// of them is ours is a matter of who merges, so that the new lock is held against each.

// mergedSides are the two locks that git was to merge; nil for one that can't be read.
func mergedSides(b []byte) []*lockfile.Lock {
	sides := make([]*lockfile.Lock, 2)
	ours, theirs, ok := lockfile.Sides(b)
	if !ok {
		return sides
	}
	for i, side := range [][]byte{ours, theirs} {
		if one, err := lockfile.Parse(side); err == nil {
			sides[i] = one
		}
	}
	return sides
}

// mergedVersions are the versions of both sides, the higher one of each: they are kept as far as the requirements let
// them.
func (l *locking) mergedVersions() map[string]string {
	keep := map[string]string{}
	for _, side := range l.sides {
		if side == nil {
			continue
		}
		for _, b := range side.Bundles {
			if have, twice := keep[b.ID]; !twice || manifest.CompareVersions(have, b.Version) < 0 {
				keep[b.ID] = b.Version
			}
		}
	}
	return keep
}

// sideUnreadable is the weakness of a lock that is made where nobody can say what the one before asked for.
const sideUnreadable lock.WeaknessKind = "unreadable"

// weakerThanSides says in what a new lock asks for less than one of the sides. A side that can't be read may have asked
// for anything, and that is accepted by the name of the file.
func (l *locking) weakerThanSides(ctx context.Context, made *lock.Made) (all []lock.Weakness, err error) {
	unread := lock.Weakness{Name: lockfile.Name, Kind: sideUnreadable, Details: []string{"what a side of the merge asked for can't be read"}}
	for _, side := range l.sides {
		more := []lock.Weakness{unread}
		if side != nil {
			if more, err = l.weakenings(ctx, side, made); err != nil {
				return nil, err
			}
		}
		for _, w := range more {
			if !slices.ContainsFunc(all, func(o lock.Weakness) bool {
				return o.Name == w.Name && o.Kind == w.Kind && o.From == w.From && o.To == w.To
			}) {
				all = append(all, w)
			}
		}
	}
	return all, nil
}
