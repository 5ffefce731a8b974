package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
)

// weaker refuses what weakens the lock and wasn't accepted.
func (c *lockRun) weaker(ctx context.Context, l *locking, made *lock.Made, ans *lockAnswer) error {
	var all []lock.Weakness
	var err error
	switch {
	case !ans.Changed:
	case l.file == nil:
		all, err = l.takeOver(ctx, made, ans)
	case l.sides != nil:
		all, err = l.weakerThanSides(ctx, made)
	default:
		all, err = l.weakenings(ctx, l.old, made)
	}
	if err != nil {
		return err
	}
	f := &fault.Error{Code: fault.LockMismatch, Details: map[string]any{"reason": "weaker"}}
	names, refused := []string{}, int64(0)
	for _, w := range all {
		line := weakeningLine{w.Name, string(w.Kind), w.From, w.To, slices.Clone(w.Details), slices.Contains(c.Accept, w.Name)}
		if line.Details == nil {
			line.Details = []string{}
		}
		ans.Weakenings = append(ans.Weakenings, line)
		if line.Accepted {
			continue
		}
		refused++
		f.Why = append(f.Why, changeText(lockfile.Change{Kind: lockfile.Kind(line.Kind), Name: line.Name, From: line.From, To: line.To}))
		for _, d := range line.Details {
			f.Why = append(f.Why, "  "+d)
		}
		if !slices.Contains(names, w.Name) {
			names = append(names, w.Name)
		}
	}
	if err := c.unused(all); err != nil {
		return err
	}
	if len(names) == 0 {
		return nil
	}
	f.Text = fmt.Sprintf("the new lock would be weaker: %s", fault.Count(refused, "change"))
	f.Hint = []string{"rye diff", l.app.with(accepting(names)...)}
	if l.sides != nil {
		f.Hint = f.Hint[1:] // the lock that is there can't be read before it is resolved
	}
	f.Details["names"], f.Details["weakenings"] = names, ans.Weakenings
	return f
}

// accepting are the flags that accept what weakens a lock.
func accepting(names []string) (flags []string) {
	for _, n := range names {
		flags = append(flags, "--accept", n)
	}
	return flags
}

// lockAgain is the command that makes the lock anew, with what it has to accept.
func (l *locking) lockAgain(names []string) string {
	if len(names) == 0 {
		return l.lockCommand()
	}
	return l.lockCommand() + " " + joinArgs(accepting(names))
}

// outlived are the project's own items, or the user's, that the lock has by a key which doesn't count any more, as
// after a rotation. Whoever else signs them makes a weaker lock.
func (l *locking) outlived() (refs []string) {
	t, err := l.app.trust()
	if err != nil || l.old == nil {
		return nil
	}
	for i := range l.old.Pins {
		p := &l.old.Pins[i]
		if p.From != lockfile.FromProject && p.From != lockfile.FromUser {
			continue
		}
		if slices.ContainsFunc(p.Signers, func(f key.Fingerprint) bool {
			k, ok := t.root.side.Policy.Key(f)
			return !ok || t.root.side.KeyFault(k, t.now) != policy.Admitted
		}) {
			refs = append(refs, p.Ref.String())
		}
	}
	return refs
}

// unused refuses to accept what isn't there: a name that is misspelt would be taken for a yes one day.
func (c *lockRun) unused(all []lock.Weakness) error {
	for _, name := range c.Accept {
		if !slices.ContainsFunc(all, func(w lock.Weakness) bool { return w.Name == name }) {
			return &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("nothing about %q weakens the lock", name), Hint: []string{"rye lock"}, Details: map[string]any{"name": name}}
		}
	}
	return nil
}

// weakenings says in what a new lock asks for less than the one that is there.
func (l *locking) weakenings(ctx context.Context, old *lockfile.Lock, made *lock.Made) ([]lock.Weakness, error) {
	objects, err := l.objects()
	if err != nil {
		return nil, err
	}
	from, err := lock.NewSide(ctx, old, l.id(), lock.SetOptions{Objects: objects, Std: librarySpace()})
	if err != nil {
		return nil, err
	}
	to, err := l.side(ctx, made, objects)
	if err != nil {
		return nil, err
	}
	return lock.Weakening(ctx, from, to)
}

// side is a lock that was made, to be compared.
func (l *locking) side(ctx context.Context, made *lock.Made, objects lock.Source) (*lock.Side, error) {
	return lock.NewSide(ctx, made.Lock, cas.Sum(made.Bytes), lock.SetOptions{Objects: l.with(made, objects), Std: librarySpace()})
}

// with adds the files of the project and the user for what the store doesn't have yet.
func (l *locking) with(made *lock.Made, objects lock.Source) lock.Source {
	all := []lock.Source{objects}
	add := func(dir, from string) {
		files := &contentBlobs{os.DirFS(dir), make(map[cas.Digest]manifest.File, len(made.Lock.Pins))}
		for i := range made.Lock.Pins {
			if p := &made.Lock.Pins[i]; p.From == from {
				files.at[p.Digest] = manifest.File{Path: p.Path, Size: p.Size}
			}
		}
		all = append(all, nameless{files})
	}
	if !l.user {
		add(l.dotAI, lockfile.FromProject)
	}
	if s := userSpace(l.app.userBase()); s.err == nil && (l.user || l.allowUser) {
		add(s.value, lockfile.FromUser)
	}
	return lock.First(all...)
}

// nameless has objects, and names for none.
type nameless struct{ cas.Getter }

func (nameless) Ref(string) (cas.ID, error) { return cas.ID{}, fs.ErrNotExist }
