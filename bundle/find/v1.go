package find

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/rye-build/rye/manifest"
)

// storedV1 finds a v1 bundle in the store by its digest, or returns nil.
func (f *Finder) storedV1(ctx context.Context, store *disk.Store, id cas.Digest) (*Found, error) {
	root, err := store.Ref(install.V1Ref(id) + "/files")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found := &Found{Where: InStore, Place: InStore, finder: f}
	var files []manifest.File
	err = cas.Walk(ctx, store, root, func(name string, e cas.Entry) error {
		if e.Mode == cas.Dir {
			return nil
		}
		files = append(files, manifest.File{Path: name, Digest: e.Digest, Size: e.Size, Mode: e.Mode})
		if id, ok := strings.CutPrefix(path.Dir(name), dotAI+"/bundles/"); ok && path.Base(name) == manifestName {
			found.ID = id
		}
		return nil
	})
	slices.SortFunc(files, func(x, y manifest.File) int { return strings.Compare(x.Path, y.Path) })
	found.V1 = snapshot.FS(ctx, store, files, ".")
	return found, err
}

// ReadV1 reads a v1 bundle as a v2 bundle, with the failures of its files.
func (f *Found) ReadV1(ctx context.Context) (*legacy.Content, error) {
	c, err := legacy.Read(ctx, f.V1, f.ID)
	if err != nil {
		return nil, err
	}
	if c.Manifest == nil {
		return nil, c.Failures[0].Err // an unreadable bundle
	}
	f.Bundle, err = c.Bundle(ctx, []*ai.Space{LibrarySpace()})
	f.Files = c
	return c, err
}

// VerifyV1 verifies a v1 bundle, and returns its report as that of a v2 bundle too.
func (f *Found) VerifyV1(ctx context.Context, o bundle.VerifyOptions) (*legacy.Report, *bundle.Report, error) {
	if o.Trust == nil {
		return nil, nil,
			fault.New(fault.Denied, "%q is a v1 bundle, which --signer can't verify: only a policy can accept v1",
				f.ID).
				Because("its signature doesn't cover its name, and its items need a rule with \"accept: [v1, v2]\"").
				On("reason", "v1").On("bundle", f.ID)
	}
	below := []*ai.Space{LibrarySpace()}
	r, err := legacy.Verify(ctx, f.V1, f.ID, legacy.Options{Trust: o.Trust, Below: below, Progress: o.Progress})
	if err != nil {
		return nil, nil, err
	}
	same := &bundle.Report{Manifest: r.Exam, Good: int64(len(r.Good)), Read: r.Read, Vouched: r.Vouched,
		Failures: r.Failures}
	if r.Manifest != nil {
		same.Bundle, err = r.Bundle(ctx, below)
	}
	return r, same, err
}

// importV1 copies a v1 bundle into the store once it is verified: its files, including its manifest.
func (f *Found) importV1(ctx context.Context, store install.Store, o bundle.VerifyOptions) (*bundle.Report, error) {
	report, same, err := f.VerifyV1(ctx, o)
	if err != nil {
		return nil, err
	}
	if !report.OK() {
		return same, &install.RefusedError{Report: same}
	}
	batch, err := store.Batch(ctx)
	if err != nil {
		return nil, err
	}
	defer batch.Close() // after the refs are set: until then gc keeps its objects
	at, err := bundle.ManifestPath(f.ID)
	if err != nil {
		return nil, err
	}
	files := []manifest.File{{Path: at, Size: int64(len(report.Text)), Mode: cas.File}}
	if files[0].Digest, err = batch.PutBytes(ctx, cas.Blob, report.Text); err != nil {
		return nil, err
	}
	for _, good := range report.Good {
		// Reading hashes it, so the stored bytes are the verified ones.
		o, err := report.Get(ctx, cas.ID{Kind: cas.Blob, Digest: good.Digest})
		if err == nil {
			_, err = batch.Put(ctx, cas.Blob, o)
			o.Close()
		}
		if err != nil {
			return nil, fmt.Errorf("%q: %w", good.Path, err)
		}
		files = append(files, good)
	}
	if err := batch.Commit(ctx); err != nil {
		return nil, err
	}
	return same, install.KeepV1(ctx, store, report.Document, report.Body(), files)
}
