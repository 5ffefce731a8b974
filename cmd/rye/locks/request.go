package locks

import (
	"context"
	"fmt"
	"slices"

	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/lock"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/workspace"
)

// elsewhere is the answer to --check where other bundles are needed than those that the lock has.
func (c *lockRun) elsewhere(ctx context.Context, l *places.Lock, ans *LockAnswer) (cli.Answer, error) {
	describe(l, ans, l.Old, l.File)
	ans.Changes, ans.Changed = append(ans.Changes, l.RequirementChanges()...), true
	if len(ans.Changes) > 0 {
		return c.checked(ctx, l, ans, nil)
	}
	var f *fault.Error
	if l.Here.Unfit != nil {
		f = fault.Of(l.Here.Unfit)
	} else {
		f = &fault.Error{Code: fault.LockMismatch, Text: fmt.Sprintf("%q: %s", l.LockPath(), workspace.ErrElsewhere)}
	}
	f.Hint = []string{"rye lock"}
	return ans, f.Asked()
}

// weakerThanSides says in what a new lock asks for less than one of the sides. A side that can't be read may have asked
// for anything, and that is accepted by the name of the file.
func weakerThanSides(ctx context.Context, l *places.Lock, made *lock.Made) (all []lock.Weakness, err error) {
	unread := lock.Weakness{Name: lockfile.Name, Kind: workspace.SideUnreadable, Details: []string{"what a side of the merge asked for can't be read"}}
	for _, side := range l.Sides {
		more := []lock.Weakness{unread}
		if side != nil {
			if more, err = weakenings(ctx, l, side, made); err != nil {
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

// Request is what a lock of this project is to be made of.
func Request(ctx context.Context, l *places.Lock) lock.Request {
	r := lock.Request{Project: l.Yaml, Old: l.Old, Pinned: l.Pinned(ctx), Library: find.LibrarySpace(), View: l.View}
	if l.Here != nil {
		r.Sources, r.Files = l.Here, l.Here.Objects
	} else {
		r.Sources, r.Files, r.Packages = workspace.Bringing{Sources: l.Sources, Listed: &l.Listed}, l.DiskStore(), l.Registry
	}
	r.User, r.Installed = l.User, l.Installed
	if session.PoliciesOf(l.Trust).Floor().Enforce {
		r.Toolchain = session.Toolchain(l.Lock, places.MachineHost(l.App))
	}
	return r
}
