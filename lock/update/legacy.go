package update

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/legacy"
	"github.com/rye-build/rye/lock/relock"
	"github.com/rye-build/rye/lock/workspace"
)

// This file compares the first rye.lock of a tree with its locks of the first format (v1).

// lockedV1 is the weakness of a tree's first rye.lock compared with its v1 locks.
const lockedV1 lock.WeaknessKind = "v1_lock_differs"

// takeOver compares the new pins with the tree's locks of the first format, if there is no rye.lock yet. It ignores
// their entries for tools in another version, for tools that no root reaches, and for the old library, which this
// binary's library replaces.
func (r *Result) takeOver(ctx context.Context, locked *workspace.Lock) ([]lock.Weakness, error) {
	locks, errs := legacy.Read(os.DirFS(locked.DotAI))
	if len(errs) > 0 {
		return nil, r.unreadableV1(errs)
	}
	if len(locks) == 0 {
		return nil, nil
	}
	now := &v1Integrities{made: r.Made, known: map[model.Ref]string{}}
	var err error
	if now.objects, err = locked.Objects(); err != nil {
		return nil, err
	}
	now.objects = with(locked, r.Made, now.objects)
	var all []lock.Weakness
	for i := range locks {
		old := &locks[i]
		pin := r.Made.Lock.Pin(old.Tool)
		if pin == nil || pin.From == lockfile.FromStd || versionV1(pin.Version) != old.Version {
			continue
		}
		r.TakenOver++
		weakness := lock.Weakness{Name: old.Tool.String(), Kind: lockedV1}
		for _, d := range old.Check(func(tool model.Ref, _ string) (string, error) {
			return now.integrity(ctx, tool)
		}) {
			if found := r.Made.Lock.Pin(d.Tool); found != nil && found.From == lockfile.FromStd ||
				slices.Contains(weakness.Details, d.String()) {
				continue
			}
			if d.Space != "" && d.Tool == old.Tool {
				continue // already reported for the tool itself
			}
			weakness.Details = append(weakness.Details, d.String())
		}
		if len(weakness.Details) > 0 {
			all = append(all, weakness)
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	r.V1 = len(locks)
	return all, nil
}

// versionV1 returns a version as the first format writes it.
func versionV1(v string) string {
	if v == "" {
		return "0.0.0"
	}
	return v
}

// unreadableV1 refuses unreadable locks: one of them may show that an item has changed.
func (r *Result) unreadableV1(errs []error) error {
	r.UnreadV1 = errs
	f := fault.New(fault.LockMismatch, "%s of the first format (v1) can't be read",
		fault.Count(int64(len(errs)), "lock")).
		On("reason", "v1-lock").Because("their pins would be lost")
	if e, ok := errs[0].(*legacy.Error); ok {
		f.Try(fault.Command("git rm", path.Join(workspace.MarkerDir, e.Path)))
	}
	return f
}

// v1Integrities computes the integrities that the first format would have for the new pins.
type v1Integrities struct {
	made    *relock.Made
	objects lock.Source
	known   map[model.Ref]string
}

func (i *v1Integrities) integrity(ctx context.Context, tool model.Ref) (string, error) {
	if s, ok := i.known[tool]; ok {
		return s, nil
	}
	pin := i.made.Lock.Pin(tool)
	if pin == nil {
		return "", fs.ErrNotExist
	}
	b := SignedBytes(ctx, i.objects, pin.Digest)
	if b == nil {
		return "", fmt.Errorf("its bytes are not available")
	}
	s, err := legacy.Integrity(i.name(pin), b)
	if err == nil {
		i.known[tool] = s
	}
	return s, err
}

// name returns the name of a pinned file, whose extension determines how it is signed.
func (i *v1Integrities) name(pin *lockfile.Pin) string {
	for _, b := range i.made.Bundles {
		if b == nil || lockfile.System+b.BundleID != pin.From {
			continue
		}
		for _, f := range b.Files {
			if f.Ref == pin.Ref.String() {
				return f.Path
			}
		}
	}
	return pin.Path
}
