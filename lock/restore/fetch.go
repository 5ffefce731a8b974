package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/gcroot"
	"github.com/rye-build/rye/lock/packages/fetch"
	"github.com/rye-build/rye/lock/relock"
	versions "github.com/rye-build/rye/lock/resolve"
	sources "github.com/rye-build/rye/lock/source"
	"github.com/rye-build/rye/lock/vendor"
	"github.com/rye-build/rye/lock/workspace"
)

// A FetchResult counts the objects that Fetch found and fetched.
type FetchResult struct {
	Bundles int   `json:"bundles"`
	Objects int64 `json:"objects"`
	Fetched int64 `json:"fetched"` // objects that weren't in the store
	Bytes   int64 `json:"bytes"`   // of these

	all []lock.Object // that the lock names
}

// Fetch brings the lock's objects into the store: from .ai/vendor, then from the bundles' sources and from the
// project. Damaged files in .ai/vendor are an error only if no other source has the object.
func Fetch(ctx context.Context, l *workspace.Lock) (FetchResult, error) {
	ans := FetchResult{Bundles: len(l.Old.Bundles)}
	err := l.Stranger() // before bytes are missed that only the trust is missing for
	if err == nil {
		err = ans.fetch(ctx, l)
	}
	return ans, err
}

func (ans *FetchResult) fetch(ctx context.Context, lock *workspace.Lock) error {
	v, err := lock.Vendored()
	if err != nil {
		return err
	}
	if lock.Progress == nil {
		lock.Progress = func(int64) {}
	}
	var damaged error
	if v != nil {
		if damaged = takeVendored(ctx, lock, v, ans); damaged != nil && !errors.Is(damaged, cas.ErrDamaged) {
			return damaged
		}
	}
	objects, missing, broken, err := missing(ctx, lock)
	unread := errors.Is(err, cas.ErrDamaged)
	if broken > 0 || unread {
		if _, err := lock.Reread(); err != nil {
			return err
		}
	}
	// Signatures aren't objects of the lock: those missing in .ai/vendor may still be at the bundle's source.
	unsure := err == nil && len(lock.Old.Bundles) > 0 && lock.Pinned(ctx) == nil
	if unsure || err == nil && len(missing) > 0 || isMissing(err) || unread {
		objects, err = bring(ctx, lock, ans)
	}
	if err != nil {
		return cmp.Or(damaged, needed(ctx, lock, err))
	}
	if broken > 0 || unread {
		lock.Warn("healed damaged objects in the store from the sources of the lock", nil)
	}
	if err := takeProofs(ctx, lock, v); err != nil {
		return err
	}
	ans.Objects, ans.all = int64(len(objects)), objects
	return gcroot.Lock(ctx, lock.DiskStore(), lock.LockPath(), objects)
}

// needed adds to the error for missing objects the items that need them, and how to get the objects.
func needed(ctx context.Context, locked *workspace.Lock, err error) error {
	if gone, ok := errors.AsType[*lock.MissingError](err); ok {
		return explainGone(locked, gone)
	}
	_, offline := errors.AsType[*sources.OfflineError](err)
	_, unfetched := errors.AsType[*fetch.OfflineError](err)
	offline = offline || unfetched
	_, known := errors.AsType[*sources.Error](err)
	if !offline && !(known && errors.Is(err, fs.ErrNotExist)) {
		return err
	}
	f := OfBundle(locked, err)
	f.Why = append(f.Why, lacking(ctx, locked)...)
	f.Why = append(f.Why, "on a machine that has it, run rye vendor and commit the result")
	if offline { // otherwise it would fail in the same way
		f.Hint = append(f.Hint, "rye vendor")
	}
	return f
}

// OfBundle adds to the error of a source the bundle of the lock that comes from it.
func OfBundle(l *workspace.Lock, err error) *fault.Error {
	failure := fault.Of(err)
	at, known := errors.AsType[*sources.Error](err)
	if !known || at.ID != "" || l.Old == nil {
		return failure
	}
	if _, named := errors.AsType[*versions.NoVersionError](err); named {
		return failure
	}
	for i := range l.Old.Bundles {
		b := &l.Old.Bundles[i]
		if b.Source.Where != at.Where {
			continue
		}
		failure.Text = bundleRef(b) + ": " + failure.Text
		if len(failure.Hint) == 0 && errors.Is(err, fs.ErrNotExist) {
			failure.Hint = []string{"rye docs sources"}
		}
		break
	}
	return failure
}

// lacking lists the objects that the store lacks, with the items that need them. If a manifest is missing, only the
// pinned files are known.
func lacking(ctx context.Context, locked *workspace.Lock) (lines []string) {
	add := func(id cas.ID, by string) {
		if len(lines) < fault.MaxLines {
			lines = append(lines, id.String()+" is needed by "+by)
		}
	}
	_, missing, _, err := missing(ctx, locked)
	for _, m := range missing {
		add(m.ID, m.NeededBy)
	}
	for _, e := range workspace.Each(err) {
		gone, ok := errors.AsType[*lock.MissingError](e)
		if !ok {
			continue
		}
		add(gone.ID, gone.NeededBy)
		for i := range locked.Old.Bundles {
			b := &locked.Old.Bundles[i]
			if b.Manifest != gone.ID.Digest {
				continue
			}
			for j := range locked.Old.Pins {
				if p := &locked.Old.Pins[j]; p.From == lockfile.System+b.ID {
					add(cas.ID{Kind: cas.Blob, Digest: p.Digest}, p.Ref.String())
				}
			}
		}
	}
	return lines
}

// explainGone adds hints to the error for lost objects.
func explainGone(l *workspace.Lock, err *lock.MissingError) error {
	failure := fault.Of(err)
	failure.Hint = []string{"rye lock"}
	ref, bad := model.ParseRef(err.NeededBy)
	if p := l.Old.Pin(ref); bad == nil && p != nil && p.From == lockfile.FromProject {
		file := path.Join(workspace.MarkerDir, p.Path)
		failure.Hint = fromGit(l, p.Path)
		if b, err := os.ReadFile(filepath.Join(l.DotAI, filepath.FromSlash(p.Path))); err != nil ||
			cas.Sum(b) != p.Digest {
			failure.Why = append(failure.Why, fmt.Sprintf("%q differs from the lock", file))
		} else { // git can't help
			failure.Hint = []string{fault.Command("rye verify", p.Ref.String()), "rye lock"}
		}
	}
	return failure
}

// mostNamed is how many files a hint names. For more files it uses git status: restoring a whole directory would
// revert other changes.
const mostNamed = 8

// fromGit returns hints for missing bytes of the project's own files, which fetch can't get: git may have them. Paths
// are relative to .ai.
func fromGit(l *workspace.Lock, paths ...string) []string {
	if len(paths) > mostNamed {
		return []string{fault.Command("git status", l.Show(filepath.Join(l.Dir, workspace.MarkerDir))), "rye lock"}
	}
	args := make([]string, len(paths))
	for i, p := range paths {
		args[i] = l.Show(filepath.Join(l.Dir, workspace.MarkerDir, filepath.FromSlash(p)))
	}
	return []string{fault.Command("git restore", args...), "rye lock"}
}

func bundleRef(b *lockfile.Bundle) string { return "bundle:" + b.ID + "@" + b.Version }

// bring fetches bundles that are neither vendored nor in the store, and returns all objects of the lock.
func bring(ctx context.Context, lock *workspace.Lock, ans *FetchResult) ([]lock.Object, error) {
	brought, err := relock.Bring(ctx, Request(ctx, lock))
	if err != nil {
		return nil, err
	}
	for _, b := range brought {
		ans.Fetched += int64(len(b.Files)) + 1
		ans.Bytes += b.FileList.Bytes
	}
	left, err := takeProject(ctx, lock)
	if err != nil {
		return nil, err
	}
	if left != nil {
		lock.Detail("the project's items", left)
	}
	if err := bringPackages(ctx, lock, ans); err != nil {
		return nil, err
	}
	objects, missing, _, err := missing(ctx, lock)
	if err == nil && len(missing) > 0 {
		err = missing[0]
	}
	return objects, err
}

// bringPackages fetches package files that are neither vendored nor in the store.
func bringPackages(ctx context.Context, lock *workspace.Lock, ans *FetchResult) error {
	var lacking []lockfile.Artifact
	for _, a := range lock.Old.Artifacts {
		missing, err := lock.Into.Missing(ctx, []cas.ID{{Kind: cas.Blob, Digest: a.Digest}})
		if err != nil {
			return err
		}
		if len(missing) > 0 {
			lacking = append(lacking, a)
			ans.Fetched++
			ans.Bytes += a.Size
		}
	}
	_, err := lock.Registry.Bring(ctx, lacking)
	return err
}

// isMissing reports whether an error means that an object of the lock is missing.
func isMissing(err error) bool {
	_, missing := errors.AsType[*lock.MissingError](err)
	return missing
}

// missing returns the objects of the lock, those that the store lacks, and how many of these are damaged.
func missing(ctx context.Context, locked *workspace.Lock) (objects []lock.Object, missing []*lock.MissingError,
	damaged int,
	err error) {
	set, err := Stored(ctx, locked)
	if err != nil {
		return nil, nil, 0, err
	}
	if objects, err = set.Objects(ctx); err != nil {
		return nil, nil, 0, err
	}
	ids, by := make([]cas.ID, len(objects)), make(map[cas.ID]string, len(objects))
	for i, o := range objects {
		ids[i], by[o.ID] = o.ID, o.NeededBy
	}
	batch, err := locked.Into.Batch(ctx)
	if err != nil {
		return nil, nil, 0, err
	}
	defer batch.Close()
	lacking, err := batch.Missing(ctx, ids) // unlike the store's method, it doesn't trust a changed pack
	if err != nil {
		return nil, nil, 0, err
	}
	for _, id := range lacking {
		missing = append(missing, &lock.MissingError{ID: id, NeededBy: by[id]})
	}
	absent, err := locked.DiskStore().Missing(ctx, lacking)
	return objects, missing, len(lacking) - len(absent), err
}

// takeVendored copies vendored objects into the store. It skips damaged ones, without an error.
func takeVendored(ctx context.Context, locked *workspace.Lock, vendor *vendor.Vendor, ans *FetchResult) error {
	set, err := setOf(ctx, locked, lock.First(vendor, locked.DiskStore()))
	if isMissing(err) {
		return nil // incomplete; a missing object is an error if it can't be fetched either
	}
	if err != nil {
		return err
	}
	objects, err := set.Objects(ctx)
	if err != nil {
		return err
	}
	batch, err := locked.DiskStore().Batch(ctx)
	if err != nil {
		return err
	}
	defer batch.Close()
	ids := make([]cas.ID, len(objects))
	for i, o := range objects {
		ids[i] = o.ID
	}
	lacking, err := batch.Missing(ctx, ids) // unlike the store's method, it doesn't trust a changed pack
	if err != nil {
		return err
	}
	absent, err := locked.DiskStore().Missing(ctx, lacking)
	if err != nil {
		return err
	}
	broken := map[cas.ID]bool{}
	for _, id := range lacking {
		broken[id] = true
	}
	for _, id := range absent {
		delete(broken, id)
	}
	var damaged error
	healed := int64(0)
	for _, id := range lacking {
		size, err := copyObject(ctx, vendor, batch, id)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil && errors.Is(err, cas.ErrDamaged):
			damaged = cmp.Or(damaged, err)
		case err != nil:
			return err
		default:
			if ans.Fetched++; broken[id] {
				healed++
			}
			ans.Bytes += size
			locked.Progress(size)
		}
	}
	if err := batch.Commit(ctx); err != nil {
		return err
	}
	if healed > 0 {
		locked.Warn(fmt.Sprintf("healed %s in the store from %q", fault.Count(healed, "damaged object"),
			locked.Show(locked.VendorDir())), nil)
	}
	for _, line := range locked.Old.Bundles {
		if b := set.Bundle(line.ID); b != nil {
			if err := install.KeepSignatures(ctx, locked.DiskStore(), b,
				bundle.VerifyOptions{Trust: locked.Exam()}); err != nil {
				return err
			}
		}
	}
	return damaged
}

// TakeVendored copies the vendored objects of a lock into the store.
func TakeVendored(ctx context.Context, l *workspace.Lock) error {
	if l.Progress == nil {
		l.Progress = func(int64) {}
	}
	return takeVendored(ctx, l, l.Vendor, new(FetchResult))
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

// TakeProject copies pinned objects that the store lacks from the working tree, where it has the pinned bytes of
// admitted items. It asks no source. left says why items were not taken.
func TakeProject(ctx context.Context, l *workspace.Lock) (left, err error) {
	if _, err := l.OpenStore(true); err != nil {
		return nil, err
	}
	now, err := l.Current()
	if err != nil {
		return nil, err
	}
	defer now.Close()
	if err := now.Look(ctx); err != nil {
		return nil, err
	}
	return takeProject(ctx, now)
}

// takeProject stores the project's items that match their pins; the caller reports the others as missing.
func takeProject(ctx context.Context, lock *workspace.Lock) (left, err error) {
	request := Request(ctx, lock)
	request.Packages = nil
	batch, err := lock.DiskStore().Batch(ctx)
	if lock.Into != nil {
		batch, err = lock.Into.Batch(ctx)
	}
	if err != nil {
		return nil, err
	}
	defer batch.Close()
	request.Store = batch
	if _, left = makeLock(ctx, lock, request); left != nil && ctx.Err() != nil {
		return nil, left
	}
	return left, batch.Commit(ctx)
}
