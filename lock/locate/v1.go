package locate

import (
	"context"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/legacy"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/exam"
)

// V1 bundles can be listed, inspected, compared, verified and imported. To change one, rye bundle create makes a v2
// bundle from the same files: their items count because the v1 manifest lists them.

// InDir returns a v1 or v2 bundle of a project or of the user's directory.
func (f *Finder) InDir(where, dir, id string) (*Bundle, error) {
	b := &Bundle{Where: where, Place: dir, ID: id, Dir: dir, w: f.Workspace}
	v1, err := workspace.IsV1(dir, id)
	if err != nil || !v1 {
		return b, err
	}
	space, err := ai.OpenDir(dir, id, ai.Project)
	if err != nil {
		return nil, err
	}
	f.Keep(space)
	b.V1 = space.FS
	return b, nil
}

// NeedV2 returns an error for a v1 bundle.
func (b *Bundle) NeedV2() error {
	if b.V1 == nil {
		return nil
	}
	hint := "rye bundle create " + fault.Quote(b.ID)
	if b.Where != InProject {
		hint += " --package DIR"
	}
	return fault.New(fault.Denied, "%q is a v1 bundle: it can be verified and imported, but not changed", b.ID).
		Because("rye bundle create makes a v2 bundle of its files").Try(hint).On("reason", "v1").On("bundle", b.ID)
}

// LoadV1 reads a v1 bundle as a v2 bundle, and returns its content with the failures of its files.
func (b *Bundle) LoadV1(ctx context.Context) (*legacy.Content, error) {
	c, err := legacy.Read(ctx, b.V1, b.ID)
	if err != nil {
		return nil, err
	}
	if c.Manifest == nil {
		return nil, c.Failures[0].Err // it can't be read
	}
	b.Read, err = c.Bundle(ctx, []*ai.Space{workspace.LibrarySpace()})
	b.Has = c
	return c, err
}

// VerifyV1 verifies a v1 bundle against policies, and returns the report as that of a v2 bundle too.
func (b *Bundle) VerifyV1(ctx context.Context, t *exam.Trust, progress func(files, bytes int64)) (*legacy.Report, *bundle.Report, error) {
	if t == nil {
		return nil, nil, fault.New(fault.Denied, "%q is a v1 bundle, which --signer can't verify: only a policy can accept v1", b.ID).
			Because("its signature doesn't cover its name, and its items need a rule with \"accept: [v1, v2]\"").On("reason", "v1").On("bundle", b.ID)
	}
	library := []*ai.Space{workspace.LibrarySpace()}
	r, err := legacy.Verify(ctx, b.V1, b.ID, legacy.Options{Trust: t, Below: library, Progress: progress})
	if err != nil {
		return nil, nil, err
	}
	v2 := &bundle.Report{Manifest: r.Exam, Good: int64(len(r.Good)), Read: r.Read, Vouched: r.Vouched, Failures: r.Failures}
	if r.Manifest != nil {
		v2.Bundle, err = r.Bundle(ctx, library)
	}
	return r, v2, err
}

// CopyBlob copies a file into a store.
func CopyBlob(ctx context.Context, to cas.Batch, from cas.Getter, d cas.Digest) error {
	o, err := from.Get(ctx, cas.ID{Kind: cas.Blob, Digest: d})
	if err != nil {
		return err
	}
	defer o.Close()
	_, err = to.Put(ctx, cas.Blob, o)
	return err
}
