package locate

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/bundle/legacy"
	"github.com/rye-build/rye/bundle/snapshot"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest"
)

// Stored is a bundle of the store.
func (f *Finder) Stored(ctx context.Context, id cas.Digest) (*Bundle, error) {
	s, err := f.OpenStore(false)
	if err != nil {
		return nil, err
	}
	if b, err := f.storedV1(ctx, s, id); b != nil || err != nil {
		return b, err
	}
	read, err := bundle.ReadStored(ctx, s, s, id)
	if err != nil {
		return nil, err
	}
	return &Bundle{Where: InStore, Place: "store", ID: read.BundleID, Read: read, Has: s, w: f.Workspace}, nil
}

// Latest finds a bundle in the store by its id; a zero digest if there is none.
func (f *Finder) Latest(ctx context.Context, id, version string) (cas.Digest, error) {
	all, err := f.Lists(ctx)
	if err != nil {
		return cas.Digest{}, err
	}
	return latest(all, id, version, func(l *manifest.FileList) (string, string, cas.Digest) { return l.BundleID, l.Version, l.ID })
}

// latest returns the digest of the newest manifest with an id, and a version if one is given.
func latest[T any](all []T, id, version string, of func(T) (id, version string, digest cas.Digest)) (last cas.Digest, err error) {
	newest := ""
	var same []string // the digests of the newest
	for _, m := range all {
		name, at, digest := of(m)
		if name != id || version != "" && at != version {
			continue
		}
		switch c := manifest.CompareVersions(at, newest); {
		case last.IsZero() || c > 0:
			last, newest, same = digest, at, []string{digest.String()}
		case c == 0:
			last, same = digest, append(same, digest.String())
		}
	}
	if len(same) > 1 {
		return cas.Digest{}, fault.New(fault.Ambiguous, "the store has several bundles %s@%s", id, newest).Because(same...).
			Try("rye bundle inspect " + last.String())
	}
	return last, nil
}

const bundleRefs = "bundles/"

// Lists reads what the manifests in the store say, without their signatures, sorted by id and version.
func (f *Finder) Lists(ctx context.Context) ([]*manifest.FileList, error) {
	all, err := storedDocuments(ctx, f, func(r disk.Ref) bool {
		rest, ok := strings.CutPrefix(r.Name, bundleRefs)
		return ok && !strings.Contains(rest, "/")
	}, func(o cas.Object) (*manifest.FileList, error) {
		return manifest.ReadFileList(o, func(*manifest.File) error { return nil })
	})
	slices.SortFunc(all, func(x, y *manifest.FileList) int {
		return cmp.Or(cmp.Compare(x.BundleID, y.BundleID), manifest.CompareVersions(x.Version, y.Version), x.ID.Compare(y.ID))
	})
	return all, err
}

// A V1List is a v1 manifest in the store.
type V1List struct {
	*legacy.Manifest
	Digest cas.Digest
}

// V1Lists reads the v1 manifests in the store.
func (f *Finder) V1Lists(ctx context.Context) ([]V1List, error) {
	return storedDocuments(ctx, f, func(r disk.Ref) bool { return r.Name == install.V1Ref(r.ID.Digest) }, func(o cas.Object) (V1List, error) {
		text, err := io.ReadAll(io.LimitReader(o, legacy.MaxBytes+1))
		if err != nil {
			return V1List{}, err
		}
		m, err := legacy.Parse(text)
		return V1List{m, o.ID.Digest}, err
	})
}

// storedDocuments reads the documents in the store that some refs name. Without a store there are none; one that can't
// be read is a warning.
func storedDocuments[T any](ctx context.Context, f *Finder, wanted func(disk.Ref) bool, read func(cas.Object) (T, error)) (all []T, err error) {
	s, err := f.OpenStore(false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	refs, err := s.Refs()
	if err != nil {
		return nil, err
	}
	for _, r := range refs {
		if r.ID.Kind != cas.Document || !wanted(r) {
			continue
		}
		var document T
		o, err := s.Get(ctx, r.ID)
		if err == nil {
			document, err = read(o)
			o.Close()
		}
		if err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			if f.Warn != nil {
				f.Warn("the bundle "+r.ID.Digest.Short()+" in the store", err)
			}
			continue
		}
		all = append(all, document)
	}
	return all, nil
}

// storedV1 finds a v1 bundle in the store by its digest; nil if there is none.
func (f *Finder) storedV1(ctx context.Context, s *disk.Store, id cas.Digest) (*Bundle, error) {
	root, err := s.Ref(install.V1Ref(id) + "/files")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b := &Bundle{Where: InStore, Place: "store", w: f.Workspace}
	var files []manifest.File
	err = cas.Walk(ctx, s, root, func(name string, e cas.Entry) error {
		if e.Mode == cas.Dir {
			return nil
		}
		files = append(files, manifest.File{Path: name, Digest: e.Digest, Size: e.Size, Mode: e.Mode})
		if id, ok := strings.CutPrefix(path.Dir(name), workspace.MarkerDir+"/bundles/"); ok && path.Base(name) == workspace.BundleManifest {
			b.ID = id
		}
		return nil
	})
	slices.SortFunc(files, func(x, y manifest.File) int { return strings.Compare(x.Path, y.Path) })
	b.V1 = snapshot.FS(ctx, s, files, ".")
	return b, err
}

// latestV1 finds a v1 bundle in the store by its id; nil if there is none.
func (f *Finder) latestV1(ctx context.Context, id, version string) (*Bundle, error) {
	all, err := f.V1Lists(ctx)
	if err != nil {
		return nil, err
	}
	digest, err := latest(all, id, version, func(l V1List) (string, string, cas.Digest) { return l.ID, l.Version, l.Digest })
	if err != nil || digest.IsZero() {
		return nil, err
	}
	s, err := f.OpenStore(false)
	if err != nil {
		return nil, err
	}
	return f.storedV1(ctx, s, digest)
}
