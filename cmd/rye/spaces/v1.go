package spaces

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/bundle/legacy"
	"github.com/rye-build/rye/bundle/snapshot"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest"
)

// V1 bundles can be listed, inspected, compared, verified and imported. To change one, rye bundle create makes a v2
// bundle from the same files: their items count because the v1 manifest lists them.

// InDir returns a v1 or v2 bundle of a project or of the user's directory.
func InDir(b *places.Workspace, where, dir, id string) (*Located, error) {
	l := &Located{Where: where, Place: dir, Id: id, Dir: dir}
	first, err := workspace.IsV1(dir, id)
	if err != nil || !first {
		return l, err
	}
	space, err := ai.OpenDir(dir, id, ai.Project)
	if err != nil {
		return nil, err
	}
	b.Keep(space)
	l.V1 = space.FS
	return l, nil
}

// NeedV2 returns an error for a v1 bundle.
func NeedV2(l *Located) error {
	if l.V1 == nil {
		return nil
	}
	hint := []string{"rye bundle create " + fault.Quote(l.Id)}
	if l.Where != InProject {
		hint = []string{"rye bundle create " + fault.Quote(l.Id) + " --package DIR"}
	}
	return &fault.Error{Code: fault.Denied, Text: fmt.Sprintf("%q is a v1 bundle: it can be verified and imported, but not changed", l.Id),
		Why: []string{"rye bundle create makes a v2 bundle of its files"}, Hint: hint, Details: map[string]any{"reason": "v1", "bundle": l.Id}}
}

// ReadV1 reads a v1 bundle as a v2 bundle, with the failures of its files.
func ReadV1(ctx context.Context, b *places.Workspace, l *Located) (*legacy.Content, error) {
	c, err := legacy.Read(ctx, l.V1, l.Id)
	if err != nil {
		return nil, err
	}
	if c.Manifest == nil {
		return nil, c.Failures[0].Err // it can't be read
	}
	l.Read, err = c.Bundle(ctx, []*ai.Space{workspace.LibrarySpace()})
	l.Has = c
	return c, err
}

// VerifyV1 verifies a v1 bundle.
func VerifyV1(ctx context.Context, b *places.Workspace, l *Located, v *Vouching) (*legacy.Report, error) {
	if v.Trust == nil {
		return nil, &fault.Error{Code: fault.Denied, Text: fmt.Sprintf("%q is a v1 bundle, which --signer can't verify: only a policy can accept v1", l.Id),
			Why: []string{"its signature doesn't cover its name, and its items need a rule with \"accept: [v1, v2]\""}, Details: map[string]any{"reason": "v1", "bundle": l.Id}}
	}
	p := b.App.Progress("verifying", 0)
	defer p.Done()
	return legacy.Verify(ctx, l.V1, l.Id, legacy.Options{Trust: v.Options.Trust, Below: []*ai.Space{workspace.LibrarySpace()}, Progress: p.Reached()})
}

// AsV2 converts the report on a v1 bundle to that of a v2 bundle.
func AsV2(ctx context.Context, r *legacy.Report) (*bundle.Report, error) {
	same := &bundle.Report{Manifest: r.Exam, Good: int64(len(r.Good)), Read: r.Read, Vouched: r.Vouched, Failures: r.Failures}
	if r.Manifest == nil {
		return same, nil
	}
	var err error
	same.Bundle, err = r.Bundle(ctx, []*ai.Space{workspace.LibrarySpace()})
	return same, err
}

// Put copies a file into a store.
func Put(ctx context.Context, to cas.Batch, from cas.Getter, d cas.Digest) error {
	o, err := from.Get(ctx, cas.ID{Kind: cas.Blob, Digest: d})
	if err != nil {
		return err
	}
	defer o.Close()
	_, err = to.Put(ctx, cas.Blob, o)
	return err
}

// storedV1 finds a v1 bundle in the store by its digest; nil if there is none.
func storedV1(ctx context.Context, b *places.Workspace, s *disk.Store, id cas.Digest) (*Located, error) {
	root, err := s.Ref(install.V1Ref(id) + "/files")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	l := &Located{Where: InStore, Place: "store"}
	var files []manifest.File
	err = cas.Walk(ctx, s, root, func(name string, e cas.Entry) error {
		if e.Mode == cas.Dir {
			return nil
		}
		files = append(files, manifest.File{Path: name, Digest: e.Digest, Size: e.Size, Mode: e.Mode})
		if id, ok := strings.CutPrefix(path.Dir(name), workspace.MarkerDir+"/bundles/"); ok && path.Base(name) == workspace.BundleManifest {
			l.Id = id
		}
		return nil
	})
	slices.SortFunc(files, func(x, y manifest.File) int { return strings.Compare(x.Path, y.Path) })
	l.V1 = snapshot.FS(ctx, s, files, ".")
	return l, err
}

// A v1List is a v1 manifest in the store.
type v1List struct {
	*legacy.Manifest
	Id cas.Digest
}

// StoredV1 reads the v1 manifests in the store.
func StoredV1(ctx context.Context, b *places.Workspace) ([]v1List, error) {
	return storedDocuments(ctx, b, func(r disk.Ref) bool { return r.Name == install.V1Ref(r.ID.Digest) }, func(o cas.Object) (v1List, error) {
		text, err := io.ReadAll(io.LimitReader(o, legacy.MaxBytes+1))
		if err != nil {
			return v1List{}, err
		}
		m, err := legacy.Parse(text)
		return v1List{m, o.ID.Digest}, err
	})
}

// latestV1 finds a v1 bundle in the store by its name; nil if there is none.
func latestV1(ctx context.Context, b *places.Workspace, id, version string) (*Located, error) {
	all, err := StoredV1(ctx, b)
	if err != nil {
		return nil, err
	}
	var last *v1List
	for i := range all {
		m := &all[i]
		if m.ID != id || version != "" && m.Version != version {
			continue
		}
		if last == nil || manifest.CompareVersions(m.Version, last.Version) > 0 {
			last = m
		} else if m.Version == last.Version {
			return nil, &fault.Error{Code: fault.Ambiguous, Text: fmt.Sprintf("the store has several bundles %s@%s", id, m.Version),
				Why: []string{last.Id.String(), m.Id.String()}, Hint: []string{"rye bundle inspect " + m.Id.String()}}
		}
	}
	if last == nil {
		return nil, nil
	}
	s, err := b.OpenStore(false)
	if err != nil {
		return nil, err
	}
	return storedV1(ctx, b, s, last.Id)
}
