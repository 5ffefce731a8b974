package main

import (
	"context"
	"errors"
	"io/fs"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/vendor"
)

func fetchCommand() command {
	return command{
		path: "fetch", group: "lock", help: "Bring everything that the lock names into the store.",
		more: "What is vendored is taken from there, bundles from where the lock says, and the project's own items from the project. Everything is " +
			"verified before it is there. It changes neither rye.yaml nor rye.lock.\n\nExamples:\n\n    rye fetch\n    rye fetch --offline",
		aka: []string{"download", "sync"},
		new: func() runner { return new(fetchRun) }, schema: "fetch/1", output: fetchAnswer{},
	}
}

type fetchRun struct{}

type fetchAnswer struct {
	Bundles int   `json:"bundles"`
	Objects int64 `json:"objects"`
	Fetched int64 `json:"fetched"` // objects that weren't in the store
	Bytes   int64 `json:"bytes"`   // of these
}

func (f fetchAnswer) text(t *terminal) {
	if f.Fetched == 0 {
		t.note("all %s of the lock are in the store", counted(f.Objects, "object"))
		return
	}
	t.printf("fetched  %s  %s\n", counted(f.Fetched, "object"), byteSize(float64(f.Bytes)))
}

func (*fetchRun) run(ctx context.Context, a *app) (answer, error) {
	l, err := a.locking(false)
	if err != nil {
		return nil, err
	}
	defer l.close()
	if err := l.needLock(); err != nil {
		return nil, err
	}
	if err := l.open(); err != nil {
		return nil, err
	}
	ans := fetchAnswer{Bundles: len(l.old.Bundles)}
	if err := l.fetch(ctx, &ans); err != nil {
		return nil, err
	}
	return ans, nil
}

// fetch brings into the store what the lock names: from .ai/vendor, then from where the bundles come from, and from the
// project.
func (l *locking) fetch(ctx context.Context, ans *fetchAnswer) error {
	v, err := l.vendored()
	if err != nil {
		return err
	}
	if v != nil {
		defer v.Close()
		if err := l.takeVendored(ctx, v, ans); err != nil {
			return err
		}
	}
	objects, missing, err := l.missing(ctx)
	if err == nil && len(missing) > 0 || isMissing(err) {
		objects, err = l.bring(ctx, ans)
	}
	if err != nil {
		return err
	}
	ans.Objects = int64(len(objects))
	return lock.Keep(ctx, l.store(), l.lockPath(), objects)
}

// bring gets what is neither vendored nor in the store, and returns all objects of the lock.
func (l *locking) bring(ctx context.Context, ans *fetchAnswer) ([]lock.Object, error) {
	brought, err := lock.Bring(ctx, l.request())
	if err != nil {
		return nil, err
	}
	for _, b := range brought {
		ans.Fetched += int64(len(b.Files)) + 1
		ans.Bytes += b.FileList.Bytes
	}
	if err := l.takeProject(ctx); err != nil {
		return nil, err
	}
	objects, missing, err := l.missing(ctx)
	if err == nil && len(missing) > 0 {
		err = missing[0]
	}
	return objects, err
}

// isMissing reports whether something isn't there that the lock names.
func isMissing(err error) bool {
	_, missing := errors.AsType[*lock.MissingError](err)
	return missing
}

// missing returns the objects of the lock, and which of them the store lacks.
func (l *locking) missing(ctx context.Context) (objects []lock.Object, missing []*lock.MissingError, err error) {
	set, err := lock.NewSet(ctx, l.old, l.id(), lock.SetOptions{Objects: l.store(), Std: librarySpace()})
	if err != nil {
		return nil, nil, err
	}
	if objects, err = set.Objects(ctx); err != nil {
		return nil, nil, err
	}
	ids, by := make([]cas.ID, len(objects)), make(map[cas.ID]string, len(objects))
	for i, o := range objects {
		ids[i], by[o.ID] = o.ID, o.NeededBy
	}
	lacking, err := l.store().Missing(ctx, ids)
	for _, id := range lacking {
		missing = append(missing, &lock.MissingError{ID: id, NeededBy: by[id]})
	}
	return objects, missing, err
}

// takeVendored copies what is vendored into the store.
func (l *locking) takeVendored(ctx context.Context, v *vendor.Vendor, ans *fetchAnswer) error {
	set, err := lock.NewSet(ctx, l.old, l.id(), lock.SetOptions{Objects: lock.First(v, l.store()), Std: librarySpace()})
	if isMissing(err) {
		return nil // not all of it is vendored: what is missing is told when it can't be brought
	}
	if err != nil {
		return err
	}
	objects, err := set.Objects(ctx)
	if err != nil {
		return err
	}
	batch, err := l.store().Batch(ctx)
	if err != nil {
		return err
	}
	defer batch.Close()
	ids := make([]cas.ID, len(objects))
	for i, o := range objects {
		ids[i] = o.ID
	}
	lacking, err := batch.Missing(ctx, ids)
	if err != nil {
		return err
	}
	for _, id := range lacking {
		o, err := v.Get(ctx, id)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		_, err = batch.Put(ctx, id.Kind, o)
		o.Close()
		if err != nil {
			return err
		}
		ans.Fetched++
		ans.Bytes += o.Size
	}
	if err := batch.Commit(ctx); err != nil {
		return err
	}
	for _, line := range l.old.Bundles {
		if b := set.Bundle(line.ID); b != nil {
			if err := install.KeepSignatures(ctx, l.store(), b, bundle.VerifyOptions{Trust: l.exam()}); err != nil {
				return err
			}
		}
	}
	return nil
}

// takeProject puts the items of the project into the store that are as they are pinned: others are missing, and that is
// told later.
func (l *locking) takeProject(ctx context.Context) error {
	r := l.request()
	batch, err := l.store().Batch(ctx)
	if err != nil {
		return err
	}
	defer batch.Close()
	r.Store = batch
	if _, err := lock.Make(ctx, r); err != nil {
		if ctx.Err() != nil {
			return err
		}
		l.app.term.detail("the project's items: %s", classify(err).message)
	}
	return batch.Commit(ctx)
}
