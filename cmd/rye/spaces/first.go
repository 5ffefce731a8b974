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
	"github.com/rye-build/rye/cmd/rye/locking"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest"
)

// Bundles of the first format (v1) are listed, inspected, compared, verified and imported. Nothing else is done with
// them: rye bundle create makes one of today from the same files, whose items count because the old manifest lists them.

// InDir is a bundle of a project, or of the user's directory, in either format.
func InDir(b *locking.Bundles, where, dir, id string) (*locking.Located, error) {
	l := &locking.Located{Where: where, Place: dir, Id: id, Dir: dir}
	first, err := locking.IsFirst(dir, id)
	if err != nil || !first {
		return l, err
	}
	space, err := ai.OpenDir(dir, id, ai.Project)
	if err != nil {
		return nil, err
	}
	b.Opened = append(b.Opened, space)
	l.First = space.FS
	return l, nil
}

// NeedToday refuses a bundle of the first format where only one of today will do.
func NeedToday(l *locking.Located) error {
	if l.First == nil {
		return nil
	}
	hint := []string{"rye bundle create " + fault.Quote(l.Id)}
	if l.Where != locking.InProject {
		hint = []string{"rye bundle create " + fault.Quote(l.Id) + " --package DIR"}
	}
	return &fault.Error{Code: fault.Denied, Text: fmt.Sprintf("%q is a bundle of the first format (v1), which is verified and imported, and not written", l.Id),
		Why: []string{"a bundle of today can be made of its files"}, Hint: hint, Details: map[string]any{"reason": "v1", "bundle": l.Id}}
}

// ReadFirst reads a bundle of the first format as one of today, with what is wrong with its files.
func ReadFirst(ctx context.Context, b *locking.Bundles, l *locking.Located) (*legacy.Content, error) {
	c, err := legacy.Read(ctx, l.First, l.Id)
	if err != nil {
		return nil, err
	}
	if c.Manifest == nil {
		return nil, c.Failures[0].Err // it can't be read
	}
	l.Read, err = c.Bundle(ctx, []*ai.Space{locking.LibrarySpace()})
	l.Has = c
	return c, err
}

// VerifyFirst verifies a bundle of the first format.
func VerifyFirst(ctx context.Context, b *locking.Bundles, l *locking.Located, v *Vouching) (*legacy.Report, error) {
	if v.Trust == nil {
		return nil, &fault.Error{Code: fault.Denied, Text: fmt.Sprintf("%q is a bundle of the first format (v1): that is for a policy to accept, and not for --signer", l.Id),
			Why: []string{"its signature binds no name, and its items need one that says \"accept: [v1, v2]\""}, Details: map[string]any{"reason": "v1", "bundle": l.Id}}
	}
	p := b.App.Progress("verifying", 0)
	defer p.Done()
	return legacy.Verify(ctx, l.First, l.Id, legacy.Options{Trust: v.Options.Trust, Below: []*ai.Space{locking.LibrarySpace()}, Progress: p.Reached()})
}

// AsToday is a report on a bundle of the first format as one of today has it.
func AsToday(ctx context.Context, r *legacy.Report) (*bundle.Report, error) {
	same := &bundle.Report{Manifest: r.Exam, Good: int64(len(r.Good)), Read: r.Read, Vouched: r.Vouched, Failures: r.Failures}
	if r.Manifest == nil {
		return same, nil
	}
	var err error
	same.Bundle, err = r.Bundle(ctx, []*ai.Space{locking.LibrarySpace()})
	return same, err
}

// Put brings a file from one place to another.
func Put(ctx context.Context, to cas.Batch, from cas.Getter, d cas.Digest) error {
	o, err := from.Get(ctx, cas.ID{Kind: cas.Blob, Digest: d})
	if err != nil {
		return err
	}
	defer o.Close()
	_, err = to.Put(ctx, cas.Blob, o)
	return err
}

// storedFirst is a bundle of the first format in the store; nil if there is none of this digest.
func storedFirst(ctx context.Context, b *locking.Bundles, s *disk.Store, id cas.Digest) (*locking.Located, error) {
	root, err := s.Ref(install.FirstRef(id) + "/files")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	l := &locking.Located{Where: locking.InStore, Place: "store"}
	var files []manifest.File
	err = cas.Walk(ctx, s, root, func(name string, e cas.Entry) error {
		if e.Mode == cas.Dir {
			return nil
		}
		files = append(files, manifest.File{Path: name, Digest: e.Digest, Size: e.Size, Mode: e.Mode})
		if id, ok := strings.CutPrefix(path.Dir(name), workspace.MarkerDir+"/bundles/"); ok && path.Base(name) == locking.BundleManifest {
			l.Id = id
		}
		return nil
	})
	slices.SortFunc(files, func(x, y manifest.File) int { return strings.Compare(x.Path, y.Path) })
	l.First = snapshot.FS(ctx, s, files, ".")
	return l, err
}

// A firstList is what a manifest of the first format in the store says.
type firstList struct {
	*legacy.Manifest
	Id cas.Digest
}

// StoredFirsts reads the manifests of the first format in the store.
func StoredFirsts(ctx context.Context, b *locking.Bundles) ([]firstList, error) {
	return storedDocuments(ctx, b, func(r disk.Ref) bool { return r.Name == install.FirstRef(r.ID.Digest) }, func(o cas.Object) (firstList, error) {
		text, err := io.ReadAll(io.LimitReader(o, legacy.MaxBytes+1))
		if err != nil {
			return firstList{}, err
		}
		m, err := legacy.Parse(text)
		return firstList{m, o.ID.Digest}, err
	})
}

// latestFirst finds a bundle of the first format in the store by its name; nil if there is none.
func latestFirst(ctx context.Context, b *locking.Bundles, id, version string) (*locking.Located, error) {
	all, err := StoredFirsts(ctx, b)
	if err != nil {
		return nil, err
	}
	var last *firstList
	for i := range all {
		m := &all[i]
		if m.ID != id || version != "" && m.Version != version {
			continue
		}
		if last == nil || manifest.CompareVersions(m.Version, last.Version) > 0 {
			last = m
		} else if m.Version == last.Version {
			return nil, &fault.Error{Code: fault.Ambiguous, Text: fmt.Sprintf("there are several bundles %s@%s in the store", id, m.Version),
				Why: []string{last.Id.String(), m.Id.String()}, Hint: []string{"rye bundle inspect " + m.Id.String()}}
		}
	}
	if last == nil {
		return nil, nil
	}
	s, err := b.Store(false)
	if err != nil {
		return nil, err
	}
	return storedFirst(ctx, b, s, last.Id)
}
