package workspace

import (
	"maps"
	"slices"

	"github.com/rye-build/rye/lock"
	lockfile "github.com/rye-build/rye/lock/file"
	ryeyaml "github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/manifest"
)

// mergedSides returns the two locks that git was to merge; an unreadable one is nil.
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

// Merged returns the lock that making a new one starts from, built from the readable sides of a merge. Of each bundle
// it has the higher version, and of everything else the line of the first side that has it. Items are pinned again,
// except those of the user's space.
func (l *Lock) Merged() (*lockfile.Lock, error) {
	merged := &lockfile.Lock{}
	bundles, requires := map[string]lockfile.Bundle{}, map[string]ryeyaml.Requirement{}
	for _, side := range l.Sides {
		if side == nil {
			continue
		}
		higher := map[string]bool{}
		for _, b := range side.Bundles {
			if have, twice := bundles[b.ID]; !twice || manifest.CompareVersions(have.Version, b.Version) < 0 {
				bundles[b.ID], higher[b.ID] = b, true
			}
		}
		for _, r := range side.Requires { // it is the branch of its bundle's commit
			if _, known := requires[r.ID]; !known || higher[r.ID] {
				requires[r.ID] = r
			}
		}
		// A program may have several lines on a platform, all from the same side.
		merged.Toolchain = join(merged.Toolchain, side.Toolchain, func(p lockfile.Program) string {
			return lock.PlainName(p.Name) + " " + p.Platform
		})
		of := slices.DeleteFunc(slices.Clone(side.Pins), func(p lockfile.Pin) bool {
			return p.From != lockfile.FromUser
		})
		merged.Pins = join(merged.Pins, of, func(p lockfile.Pin) string { return p.Ref.String() })
		merged.Artifacts = join(merged.Artifacts, side.Artifacts, lockfile.Artifact.String)
		merged.Definitions = join(merged.Definitions, side.Definitions,
			func(d lockfile.Definition) string { return d.Name })
	}
	merged.Bundles, merged.Requires = slices.Collect(maps.Values(bundles)), slices.Collect(maps.Values(requires))
	b, err := lockfile.Append(nil, merged)
	if err != nil {
		return nil, err
	}
	return lockfile.Parse(b) // which sorts it
}

// join appends the elements of more whose names list lacks.
func join[T any](list, more []T, name func(T) string) []T {
	has := map[string]bool{}
	for _, x := range list {
		has[name(x)] = true
	}
	for _, x := range more {
		if !has[name(x)] {
			list = append(list, x)
		}
	}
	return list
}

// SideUnreadable is the weakness of a lock made from a merge with an unreadable side.
const SideUnreadable lock.WeaknessKind = "unreadable"
