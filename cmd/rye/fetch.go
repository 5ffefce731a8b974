package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/registry"
	versions "github.com/rye-build/rye/lock/resolve"
	sources "github.com/rye-build/rye/lock/source"
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
	if f.Fetched == 0 && f.Objects == 1 {
		t.note("the one object of the lock is in the store")
		return
	}
	if f.Fetched == 0 {
		t.note("all %s of the lock are in the store", fault.Count(f.Objects, "object"))
		return
	}
	t.printf("fetched  %s  %s\n", fault.Count(f.Fetched, "object"), byteSize(float64(f.Bytes)))
}

func (*fetchRun) run(ctx context.Context, a *app) (answer, error) {
	unlock, err := a.alone(ctx, false) // what the store is to keep is said by the lock that is there in the end
	if err != nil {
		return nil, err
	}
	defer unlock()
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
// project. What is damaged in .ai/vendor may be whole elsewhere, and is told where it isn't.
func (l *locking) fetch(ctx context.Context, ans *fetchAnswer) error {
	v, err := l.vendored()
	if err != nil {
		return err
	}
	l.shown = l.app.progress("fetching", 0)
	defer l.shown.Done()
	var damaged error
	if v != nil {
		if damaged = l.takeVendored(ctx, v, ans); damaged != nil && !isDamaged(damaged) {
			return damaged
		}
	}
	objects, missing, err := l.missing(ctx)
	// Signatures aren't among the objects: those that .ai/vendor lost may still be had where the bundle comes from.
	unsure := err == nil && len(l.old.Bundles) > 0 && l.pinned(ctx) == nil
	if unsure || err == nil && len(missing) > 0 || isMissing(err) {
		objects, err = l.bring(ctx, ans)
	}
	if err != nil {
		return cmp.Or(damaged, l.needed(ctx, err))
	}
	ans.Objects = int64(len(objects))
	return lock.Keep(ctx, l.store(), l.lockPath(), objects)
}

// isDamaged reports whether an error says that bytes aren't what they were.
func isDamaged(err error) bool {
	_, inVendor := errors.AsType[*vendor.Error](err)
	_, object := errors.AsType[*cas.DamagedError](err)
	return inVendor || object
}

// needed says of bytes that can't be brought which items need them, and how to have them the next time.
func (l *locking) needed(ctx context.Context, err error) error {
	if gone, ok := errors.AsType[*lock.MissingError](err); ok {
		return l.gone(gone)
	}
	_, offline := errors.AsType[*sources.OfflineError](err)
	_, unfetched := errors.AsType[*registry.OfflineError](err)
	offline = offline || unfetched
	_, known := errors.AsType[*sources.Error](err)
	if !offline && !(known && errors.Is(err, fs.ErrNotExist)) {
		return err
	}
	f := l.ofBundle(err)
	f.Why = append(f.Why, l.lacking(ctx)...)
	f.Why = append(f.Why, "where it is there, rye vendor puts it into the project, to be committed")
	if offline { // else it ends as this did
		f.Hint = append(f.Hint, "rye vendor")
	}
	return f
}

// ofBundle says of a source that is gone which bundle of the lock came from there.
func (l *locking) ofBundle(err error) *fault.Error {
	f := classify(err)
	at, known := errors.AsType[*sources.Error](err)
	if !known || at.ID != "" || l.old == nil {
		return f
	}
	if _, told := errors.AsType[*versions.NoVersionError](err); told {
		return f
	}
	for i := range l.old.Bundles {
		b := &l.old.Bundles[i]
		if b.Source.Where != at.Where {
			continue
		}
		f.Text = bundleRef(b) + ": " + f.Text
		if len(f.Hint) == 0 && errors.Is(err, fs.ErrNotExist) {
			f.Hint = []string{"rye add " + b.ID + " --from PLACE"}
		}
		break
	}
	return f
}

// lacking says what the store lacks of the lock, and who needs it. What a manifest lists that isn't there nobody knows
// but for what is pinned.
func (l *locking) lacking(ctx context.Context) (lines []string) {
	add := func(id cas.ID, by string) {
		if len(lines) < fault.MaxLines {
			lines = append(lines, id.String()+" is needed by "+by)
		}
	}
	_, missing, err := l.missing(ctx)
	for _, m := range missing {
		add(m.ID, m.NeededBy)
	}
	for _, e := range each(err) {
		gone, ok := errors.AsType[*lock.MissingError](e)
		if !ok {
			continue
		}
		add(gone.ID, gone.NeededBy)
		for i := range l.old.Bundles {
			b := &l.old.Bundles[i]
			if b.Manifest != gone.ID.Digest {
				continue
			}
			for j := range l.old.Pins {
				if p := &l.old.Pins[j]; p.From == lockfile.System+b.ID {
					add(cas.ID{Kind: cas.Blob, Digest: p.Digest}, p.Ref.String())
				}
			}
		}
	}
	return lines
}

// gone says of bytes that nobody has any more how to go on without them.
func (l *locking) gone(err *lock.MissingError) error {
	f := classify(err)
	f.Hint = []string{"rye lock"}
	ref, bad := model.ParseRef(err.NeededBy)
	if p := l.old.Pin(ref); bad == nil && p != nil && p.From == lockfile.FromProject {
		file := path.Join(markerDir, p.Path)
		f.Why = append(f.Why, fmt.Sprintf("%q isn't as it is locked", file))
		f.Hint = l.fromGit(p.Path)
	}
	return f
}

// fromGit is how to go on without bytes of the project's own, which fetch can't bring: git may have them. Paths are
// those in .ai.
func (l *locking) fromGit(paths ...string) []string {
	args := make([]string, len(paths))
	for i, p := range paths {
		args[i] = l.app.fromHere(filepath.Join(l.dir, markerDir, filepath.FromSlash(p)))
	}
	return []string{"git restore " + joinArgs(args), "rye lock"}
}

func bundleRef(b *lockfile.Bundle) string { return "bundle:" + b.ID + "@" + b.Version }

// bring gets what is neither vendored nor in the store, and returns all objects of the lock.
func (l *locking) bring(ctx context.Context, ans *fetchAnswer) ([]lock.Object, error) {
	brought, err := lock.Bring(ctx, l.request(ctx))
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
	if err := l.bringPackages(ctx, ans); err != nil {
		return nil, err
	}
	objects, missing, err := l.missing(ctx)
	if err == nil && len(missing) > 0 {
		err = missing[0]
	}
	return objects, err
}

// bringPackages gets the files of packages that are neither vendored nor in the store.
func (l *locking) bringPackages(ctx context.Context, ans *fetchAnswer) error {
	var lacking []lockfile.Artifact
	for _, a := range l.old.Artifacts {
		missing, err := l.store().Missing(ctx, []cas.ID{{Kind: cas.Blob, Digest: a.Digest}})
		if err != nil {
			return err
		}
		if len(missing) > 0 {
			lacking = append(lacking, a)
			ans.Fetched++
			ans.Bytes += a.Size
		}
	}
	_, err := l.registry.Bring(ctx, lacking)
	return err
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

// takeVendored copies what is vendored into the store. What is damaged is left out, and the error.
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
	var damaged error
	for _, id := range lacking {
		size, err := copyObject(ctx, v, batch, id)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil && isDamaged(err):
			damaged = cmp.Or(damaged, err)
		case err != nil:
			return err
		default:
			ans.Fetched++
			ans.Bytes += size
			l.shown.Add(size)
		}
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
	return damaged
}

func copyObject(ctx context.Context, from cas.Getter, to cas.Batch, id cas.ID) (int64, error) {
	o, err := from.Get(ctx, id)
	if err != nil {
		return 0, err
	}
	defer o.Close()
	_, err = to.Put(ctx, id.Kind, o)
	return o.Size, err
}

// takeProject puts the items of the project into the store that are as they are pinned: others are missing, and that is
// told later.
func (l *locking) takeProject(ctx context.Context) error {
	r := l.request(ctx)
	r.Packages = nil
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
		l.app.term.detail("the project's items: %s", classify(err).Text)
	}
	return batch.Commit(ctx)
}
