// Package restore moves the bytes of a lock: into the store (Fetch), into .ai/vendor (Vendor), and back into the
// working tree (Restore). It changes neither rye.yaml nor rye.lock.
//
// How a call goes through here: Fetch lists the lock's objects that the store lacks (missing), copies vendored ones
// (takeVendored), fetches bundles and packages (bring, bringPackages) and adds the project's own files (takeProject).
// Vendor writes all objects from the store with package vendor. Restore compares the pinned files with the working
// tree (compare), saves the current ones in the store (keep), stages all new files (stageAll) and then replaces the
// old ones (write).
package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/drift"
	"github.com/rye-build/rye/lock/relock"
	"github.com/rye-build/rye/lock/workspace"
)

// Request returns the request for a project's lock. With l.Here it fetches nothing.
func Request(ctx context.Context, l *workspace.Lock) relock.Request {
	r := relock.Request{Project: l.Yaml, Old: l.Old,
		Env: relock.Env{Pinned: l.Pinned(ctx), Library: find.LibrarySpace(), View: l.View}}
	if l.Here != nil {
		r.Sources, r.Files = l.Here, l.Here.Objects
	} else {
		r.Sources, r.Files, r.Packages = workspace.Bringing{Sources: l.Sources, Listed: l.Listed}, l.DiskStore(),
			l.Registry
	}
	return r
}

// Make makes the lock of a request: the project's, or the user's own from the installed bundles. It heals damaged
// objects in the store.
func Make(ctx context.Context, l *workspace.Lock, r relock.Request) (made *relock.Made, err error) {
	err = healing(ctx, l, func() error {
		if l.Here == nil {
			now := Request(ctx, l)
			r.Sources, r.Packages = now.Sources, now.Packages
		}
		made, err = makeLock(ctx, l, r)
		return err
	})
	return made, err
}

func makeLock(ctx context.Context, l *workspace.Lock, r relock.Request) (*relock.Made, error) {
	if l.User {
		return relock.MakeUser(ctx, r, l.Installed)
	}
	return relock.Make(ctx, r)
}

// healing runs do. If do finds a damaged object in the store, healing fetches it again, from .ai/vendor or from the
// lock's sources, and repeats do.
func healing(ctx context.Context, lock *workspace.Lock, do func() error) error {
	tried := map[cas.ID]bool{}
	for {
		err := do()
		d, damaged := errors.AsType[*cas.DamagedError](err)
		if !damaged || tried[d.ID] || lock.Here != nil || lock.DiskStore() == nil {
			if lock.Rereads() && err == nil {
				lock.Warn("healed damaged objects in the store from the sources of the lock", nil)
			}
			return err
		}
		tried[d.ID] = true
		if ok, broken := heal(ctx, lock, d.ID); broken != nil || !ok {
			return cmp.Or(broken, err)
		}
	}
}

// heal replaces a damaged object, or makes the lock's sources do so. It reports whether a retry may succeed.
func heal(ctx context.Context, lock *workspace.Lock, id cas.ID) (bool, error) {
	v, err := lock.Vendored()
	if err != nil {
		return false, err
	}
	if v != nil {
		if n, err := lock.DiskStore().Heal(ctx, v, id); err == nil && n > 0 {
			lock.Warn(fmt.Sprintf("healed %s in the store from %q", fault.Count(n, "damaged object"),
				lock.Show(lock.VendorDir())), nil)
			return true, nil
		}
	}
	return lock.Reread()
}

// Stored returns the set of a lock with all objects from the store.
func Stored(ctx context.Context, l *workspace.Lock) (*lock.Set, error) {
	return setOf(ctx, l, l.DiskStore())
}

// setOf returns the set of a lock with the objects from src.
func setOf(ctx context.Context, l *workspace.Lock, src lock.Source) (*lock.Set, error) {
	return lock.NewSet(ctx, l.Old, l.Id(), workspace.SetOptions(src))
}

// Drift lists the files of the working tree that differ from their pins, for all items or for some. Look must have
// been called.
func Drift(ctx context.Context, lock *workspace.Lock, refs ...model.Ref) ([]*drift.Difference, error) {
	set, err := lock.Set(ctx)
	if err != nil {
		return nil, err
	}
	lock.AddBundles(set)
	pinned, err := set.View(ctx, lock.Asked(ctx, lock.Dir), lock.Trust.Root.Side.Policy.MayOverride)
	if err != nil {
		return nil, err
	}
	working, admit, done, err := lock.WorkingView(ctx, set, nil)
	if err != nil {
		return nil, err
	}
	defer done()
	return drift.Find(ctx, set, drift.Options{Pinned: pinned, Working: working, Admit: admit}, refs...)
}
