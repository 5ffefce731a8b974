package workspace

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/semver"
	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/bundle/legacy"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/trust"
)

// LibraryID is the bundle that the binary carries.
const LibraryID = "rye/std"

// LibraryLabel is the label of the library's space.
const LibraryLabel = "system:" + LibraryID

// LibrarySpace is the space of the library.
func LibrarySpace() *ai.Space {
	return &ai.Space{Label: LibraryLabel, Level: ai.System, FS: std.FS(), Builtin: true}
}

// Space is where the user's bundles are installed. Its manifests can be read without a store.
func (w *Workspace) Space() (*install.Space, error) {
	s := w.UserSpace()
	if s.Err != nil {
		return nil, s.Err
	}
	if w.State.Err != nil {
		return nil, w.State.Err
	}
	space := &install.Space{Dir: s.Path, Journal: w.journal(), Now: w.now}
	if w.store != nil {
		space.Store = w.store
	}
	return space, nil
}

// Installed reads what is installed under an id; nil if nothing is.
func (w *Workspace) Installed(id string) (*install.Installed, error) {
	space, err := w.Space()
	if err != nil {
		return nil, nil // no home, nothing installed
	}
	at, err := space.Get(id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if bad, ok := errors.AsType[*install.ManifestError](err); ok && w.isUserV1(bad) {
		return nil, nil
	}
	return at, err
}

// Below are the spaces that the items of a bundle may use: the library, and of the bundles that it requires those that
// the project's lock has, or else that are installed, in a version that will do.
func (w *Workspace) Below(ctx context.Context, id string, requires []manifest.Require) ([]*ai.Space, error) {
	all := []*ai.Space{LibrarySpace()}
	for _, r := range requires {
		if locked, err := w.lockedBelow(ctx, id, r); err != nil {
			return nil, err
		} else if locked != nil {
			all = append(all, locked...)
			continue
		}
		at, err := w.Installed(r.BundleID)
		if err != nil {
			return nil, err
		}
		allowed, err := semver.Parse(r.Version)
		switch {
		case err != nil:
			return nil, err
		case at == nil:
			w.note("%q, which %q requires, is not installed", r.BundleID, id)
			continue
		case !allowed.Contains(at.Version):
			w.note("%q requires %q %s, and %s is installed", id, r.BundleID, r.Version, at.Version)
			continue
		}
		if _, err := w.OpenStore(false); err != nil {
			return nil, err
		}
		space, err := w.Space()
		if err != nil {
			return nil, err
		}
		s, err := space.Open(ctx, r.BundleID)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// ProjectLock is the project's lock; nil where there is none that can be read.
func (w *Workspace) ProjectLock() *Lock {
	if w.Root.Root == "" {
		return nil
	}
	l := w.LockIn(w.Root.Root, w.Root.DotAI())
	if err := l.ReadLock(false); err != nil || l.Old == nil {
		return nil
	}
	return l
}

// lockedBelow are the spaces of a bundle that the project's lock has, and of all that it needs; nil if it has none in a
// version that will do.
func (w *Workspace) lockedBelow(ctx context.Context, id string, r manifest.Require) (spaces []*ai.Space, err error) {
	l := w.ProjectLock()
	if l == nil || l.Old.Bundle(r.BundleID) == nil {
		return nil, nil
	}
	allowed, err := semver.Parse(r.Version)
	if err != nil {
		return nil, err
	}
	if at := l.Old.Bundle(r.BundleID).Version; !allowed.Contains(at) {
		w.note("%q requires %q %s, and %s is locked", id, r.BundleID, r.Version, at)
		return nil, nil
	}
	objects, err := l.Objects()
	if err != nil {
		return nil, err
	}
	if l.Vendor != nil {
		w.Keep(l.Vendor)
	}
	seen := map[string]bool{}
	var add func(id string) error
	add = func(id string) error {
		line := l.Old.Bundle(id)
		if seen[id] || line == nil {
			return nil
		}
		seen[id] = true
		read, err := readBundle(ctx, objects, *line)
		if err != nil {
			return err
		}
		spaces = append(spaces, lock.BundleSpace(ctx, objects, read))
		for _, need := range read.Requires {
			if err := add(need.BundleID); err != nil {
				return err
			}
		}
		return nil
	}
	err = add(r.BundleID)
	return spaces, err
}

// ReadManifest reads the manifest of a project's bundle.
func ReadManifest(dir, id string) (*bundle.Bundle, error) {
	at, err := bundle.ManifestPath(id)
	if err != nil {
		return nil, err
	}
	f, err := osfile.OpenRegular(filepath.Join(dir, filepath.FromSlash(at)))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return bundle.Read(io.LimitReader(f, maxBundleManifest))
}

// maxBundleManifest is more than a manifest with its signatures has.
const maxBundleManifest = manifest.MaxListBytes + 1<<20

// ProjectBundles are the ids of the bundles of a project, sorted.
func ProjectBundles(dir string) (ids []string, err error) {
	root := filepath.Join(dir, MarkerDir, "bundles")
	err = fs.WalkDir(os.DirFS(root), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case e.Type().IsRegular() && path.Base(name) == BundleManifest && path.Dir(name) != ".":
			if id := path.Dir(name); ValidBundleID(id) {
				ids = append(ids, id)
			}
		}
		return nil
	})
	slices.Sort(ids)
	return ids, err
}

const BundleManifest = "manifest.yaml"

func ValidBundleID(id string) bool {
	_, err := bundle.ManifestPath(id)
	return err == nil
}

// ContentBlobs are files under their digests, as a manifest has them.
type ContentBlobs struct {
	Fs fs.FS
	At map[cas.Digest]manifest.File
}

// BlobsOf takes the files of a list from below a directory; evidence stands beside the manifest.
func BlobsOf(fsys fs.FS, b *bundle.Bundle, prefix string) *ContentBlobs {
	c := &ContentBlobs{fsys, make(map[cas.Digest]manifest.File, len(b.Files))}
	for _, f := range b.Files {
		f.Path = strings.TrimPrefix(f.Path, prefix)
		c.At[f.Digest] = f
	}
	home, _ := bundle.ManifestPath(b.BundleID)
	for _, e := range b.Evidence {
		c.At[e.Digest] = manifest.File{Path: path.Join(path.Dir(home), e.Name), Size: e.Size}
	}
	return c
}

// Get implements cas.Getter.
func (c *ContentBlobs) Get(_ context.Context, id cas.ID) (cas.Object, error) {
	f, ok := c.At[id.Digest]
	if !ok || id.Kind != cas.Blob {
		return cas.Object{}, cas.NotFound(id)
	}
	r, err := c.Fs.Open(f.Path)
	if err != nil {
		return cas.Object{}, err
	}
	return cas.Verify(cas.Info{ID: id, Size: f.Size}, r), nil
}

// IsV1 reports whether the manifest of a bundle below a directory is one of the first format. One that can't be read
// is none, and for others to report.
func IsV1(dir, id string) (bool, error) {
	at, err := bundle.ManifestPath(id)
	if err != nil {
		return false, err
	}
	f, err := osfile.OpenRegular(filepath.Join(dir, filepath.FromSlash(at)))
	if err != nil {
		return false, nil
	}
	defer f.Close()
	head, _ := io.ReadAll(io.LimitReader(f, maxHead))
	return legacy.IsV1(head), nil
}

// maxHead is more than what stands before the first key of a manifest: lines of signatures.
const maxHead = 64 << 10

// Listing is what examines items where a v1 signature counts beside an admitted manifest that lists
// them, be it one of v2 or of the first format. The manifests are those below the directories, and are looked at when
// the first such signature is.
func Listing(ctx context.Context, t *trust.Trust, dirs ...string) *bundle.Listing {
	all := sync.OnceValue(func() (found []func(cas.Digest) bool) {
		for _, dir := range dirs {
			ids, _ := ProjectBundles(dir)
			for _, id := range ids {
				if lists := listedBy(ctx, t, dir, id); lists != nil {
					found = append(found, lists)
				}
			}
		}
		return found
	})
	return &bundle.Listing{Trust: t.Exam(), Listed: func(d cas.Digest) bool {
		return slices.ContainsFunc(all(), func(lists func(cas.Digest) bool) bool { return lists(d) })
	}}
}

// listedBy says what a manifest lists, if the policy admits it; else nil.
func listedBy(ctx context.Context, t *trust.Trust, dir, id string) func(cas.Digest) bool {
	if first, err := IsV1(dir, id); err != nil || first {
		space, err := ai.OpenDir(dir, id, ai.Project)
		if err != nil {
			return nil
		}
		defer space.Close()
		r, err := legacy.List(ctx, space.FS, id, legacy.Options{Trust: t.Exam()})
		if err != nil {
			return nil
		}
		return r.Listed
	}
	read, err := ReadManifest(dir, id)
	if err != nil {
		return nil
	}
	e, err := t.Exam().ExamineDocument(&read.Document, read.Expires, policy.ToUse)
	if err != nil || !e.Decision.Allowed {
		return nil
	}
	digests := make(map[cas.Digest]bool, len(read.Files))
	for i := range read.Files {
		digests[read.Files[i].Digest] = true
	}
	return func(d cas.Digest) bool { return digests[d] }
}

// InstalledAll are the installed bundles. V1 manifests, which older programs have put there, are no
// error: they are no installed bundles.
func (w *Workspace) InstalledAll(ctx context.Context, space *install.Space) ([]*install.Installed, error) {
	all, err := space.List(ctx)
	if err == nil {
		return all, nil
	}
	var others []error
	for _, e := range Each(err) {
		if bad, ok := errors.AsType[*install.ManifestError](e); !ok || !w.isUserV1(bad) {
			others = append(others, e)
		}
	}
	return all, errors.Join(others...)
}

// isUserV1 reports whether what can't be read as the manifest of an installed bundle is one of the first format.
func (w *Workspace) isUserV1(e *install.ManifestError) bool {
	id, ok := strings.CutPrefix(path.Dir(e.Path), "bundles/")
	if !ok || w.User.Err != nil {
		return false
	}
	first, err := IsV1(w.User.Path, id)
	return err == nil && first
}

// Each takes joined errors apart.
func Each(err error) []error {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return many.Unwrap()
	}
	return []error{err}
}
