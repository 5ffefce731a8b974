package bundles

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/bundle/legacy"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/lock/locate"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/sign"
)

// verifyV1 verifies a v1 bundle and reports as for v2.
func (c *BundleVerifyRun) verifyV1(ctx context.Context, b *places.Workspace, l *locate.Bundle, v *spaces.Vouching) (cli.Answer, error) {
	if len(c.Require)+len(c.Statement) > 0 {
		return nil, &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("%q is a v1 bundle, which has no evidence", l.ID)}
	}
	p := b.App.Progress("verifying", 0)
	defer p.Done()
	r, same, err := l.VerifyV1(ctx, v.Options.Trust, p.Reached())
	if err != nil {
		return nil, err
	}
	p.Done()
	ans := newBundleReport(l, v, same)
	ans.Format = sign.V1.String()
	ans.Extra = true // what else is there was never looked for
	if r.Manifest != nil {
		ans.Of = len(r.Files)
		if ans.Trust == "unsigned" && r.Exam.Signed.Format != sign.None {
			ans.Trust = "refused"
		}
	}
	return c.answer(b.App, ans, same.Failures)
}

// importV1 brings a v1 bundle into the store, once it is verified: its files, with the manifest
// among them as it stands in a project.
func importV1(ctx context.Context, b *places.Workspace, l *locate.Bundle, v *spaces.Vouching) (cli.Answer, error) {
	p := b.App.Progress("verifying", 0)
	defer p.Done()
	r, same, err := l.VerifyV1(ctx, v.Options.Trust, p.Reached())
	if err != nil {
		return nil, err
	}
	p.Done()
	if !r.OK() {
		return nil, &install.RefusedError{Report: same}
	}
	s, err := b.OpenStore(true)
	if err != nil {
		return nil, err
	}
	batch, err := s.Batch(ctx)
	if err != nil {
		return nil, err
	}
	defer batch.Close() // when the refs are there: until then gc leaves alone what is in it
	at, err := bundle.ManifestPath(l.ID)
	if err != nil {
		return nil, err
	}
	files := []manifest.File{{Path: at, Size: int64(len(r.Text)), Mode: cas.File}}
	if files[0].Digest, err = batch.PutBytes(ctx, cas.Blob, r.Text); err != nil {
		return nil, err
	}
	for _, f := range r.Good {
		// Each is hashed as it is read, so that what was verified is what is kept.
		if err := locate.CopyBlob(ctx, batch, r, f.Digest); err != nil {
			return nil, fmt.Errorf("%q: %w", f.Path, err)
		}
		files = append(files, f)
	}
	if err := batch.Commit(ctx); err != nil {
		return nil, err
	}
	if err := install.KeepV1(ctx, s, r.Document, r.Body(), files); err != nil {
		return nil, err
	}
	return bundleImport{Bundle: r.Manifest.ID, Version: r.Version, Manifest: r.Document.String(), Format: sign.V1.String(), Files: len(r.Good), Items: len(r.Vouched), Bytes: r.Read}, nil
}

// newV1Line is a v1 bundle in a list.
func newV1Line(where string, m *legacy.Manifest, document string) bundleLine {
	return bundleLine{Bundle: m.ID, Version: m.Version, Manifest: document, Format: sign.V1.String(), Where: where, Description: m.Description, Entrypoint: m.Entrypoint, Files: len(m.Files),
		SignedBy: []string{}, Previous: []versionLink{}}
}

// firstLine is one of a directory.
func firstLine(where, dir, id string) (bundleLine, error) {
	at, err := bundle.ManifestPath(id)
	if err != nil {
		return bundleLine{}, err
	}
	text, err := osfile.ReadSmall(filepath.Join(dir, filepath.FromSlash(at)), legacy.MaxBytes)
	if err != nil {
		return bundleLine{}, err
	}
	m, err := legacy.Parse(text)
	if err != nil {
		return bundleLine{}, err
	}
	return newV1Line(where, m, cas.Sum(legacy.Body(text)).String()), nil
}
