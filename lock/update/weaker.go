package update

import (
	"context"
	"io/fs"
	"os"
	"slices"

	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/relock"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest"
)

// This file finds and refuses changes that weaken the lock.

// weaker refuses weaknesses that weren't accepted.
func (r *Result) weaker(ctx context.Context, locked *workspace.Lock, accept []string) error {
	var all []lock.Weakness
	var err error
	switch {
	case !r.Changed:
	case locked.Id().IsZero():
		all, err = r.takeOver(ctx, locked)
	case locked.Sides != nil:
		all, err = weakerThanSides(ctx, locked, r.Made)
	default:
		all, err = weakenings(ctx, locked, locked.Old, r.Made)
	}
	if err != nil {
		return err
	}
	names, why, refused := []string{}, []string{}, int64(0)
	for _, weakness := range all {
		weakness.Details = append([]string{}, weakness.Details...)
		line := Weakening{weakness, slices.Contains(accept, weakness.Name)}
		r.Weakenings = append(r.Weakenings, line)
		if line.Accepted {
			continue
		}
		refused++
		why = append(why, ChangeText(lockfile.Change{Kind: line.Kind, Name: line.Name, From: line.From, To: line.To}))
		for _, d := range line.Details {
			why = append(why, "  "+d)
		}
		if !slices.Contains(names, weakness.Name) {
			names = append(names, weakness.Name)
		}
	}
	if err := unused(accept, all); err != nil {
		return err
	}
	if len(names) == 0 {
		return nil
	}
	return fault.New(fault.LockMismatch, "the new lock would be weaker: %s", fault.Count(refused, "change")).
		Because(why...).On("reason", "weaker").On("names", names).On("weakenings", r.Weakenings).
		Try(locked.LockAgain(names))
}

// unused refuses names that match no weakness: a misspelt name would silently accept a later one.
func unused(accept []string, all []lock.Weakness) error {
	for _, name := range accept {
		if !slices.ContainsFunc(all, func(w lock.Weakness) bool { return w.Name == name }) {
			return fault.New(fault.Validation, "nothing about %q weakens the lock", name).Try("rye lock").
				On("name", name)
		}
	}
	return nil
}

// weakenings returns the weaknesses of a new lock compared with the existing one.
func weakenings(ctx context.Context, l *workspace.Lock, old *lockfile.Lock, made *relock.Made) ([]lock.Weakness,
	error) {
	objects, err := l.Objects()
	if err != nil {
		return nil, err
	}
	from, err := lock.NewSide(ctx, old, l.Id(), workspace.SetOptions(objects))
	if err != nil {
		return nil, err
	}
	to, err := Side(ctx, l, made, objects)
	if err != nil {
		return nil, err
	}
	return lock.Weakening(ctx, from, to)
}

// Side returns a side of a new lock, for comparing.
func Side(ctx context.Context, l *workspace.Lock, made *relock.Made, objects lock.Source) (*lock.Side, error) {
	return lock.NewSide(ctx, made.Lock, made.ID, workspace.SetOptions(with(l, made, objects)))
}

// with adds the files of the project and the user, which the store may not have yet.
func with(locked *workspace.Lock, made *relock.Made, objects lock.Source) lock.Source {
	all := []lock.Source{objects}
	add := func(dir, from string) {
		files := &find.Blobs{FS: os.DirFS(dir), At: make(map[cas.Digest]manifest.File, len(made.Lock.Pins))}
		for i := range made.Lock.Pins {
			if p := &made.Lock.Pins[i]; p.From == from {
				files.At[p.Digest] = manifest.File{Path: p.Path, Size: p.Size}
			}
		}
		all = append(all, nameless{files})
	}
	if !locked.User {
		add(locked.DotAI, lockfile.FromProject)
	}
	if s := locked.UserSpace(); s.Err == nil && (locked.User || locked.AllowUser) {
		add(s.Path, lockfile.FromUser)
	}
	return lock.First(all...)
}

// nameless provides objects but no refs.
type nameless struct{ cas.Getter }

func (nameless) Ref(string) (cas.ID, error) { return cas.ID{}, fs.ErrNotExist }

// weakerThanSides returns the weaknesses of a new lock compared with the sides of a merge. An unreadable side may
// have had any check; the user accepts that by the name of the file.
func weakerThanSides(ctx context.Context, l *workspace.Lock, made *relock.Made) (all []lock.Weakness, err error) {
	unread := lock.Weakness{Name: lockfile.Name, Kind: workspace.SideUnreadable,
		Details: []string{"a side of the merge is unreadable"}}
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
