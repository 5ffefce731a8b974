package legacy

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/policy"
)

// Options are the requirements of Verify.
type Options struct {
	Trust *admission.Trust
	Below []*ai.Space // spaces that the bundle's items may use, as in bundle.VerifyOptions
	// Progress receives the number of files hashed so far and their bytes. It may be nil.
	Progress func(files, bytes int64)
}

// A Report has the checked content, its signers and all failures.
type Report struct {
	*Content
	Exam    *admission.Exam  // signers and decision of the policy; nil without a Manifest
	Vouched []bundle.Vouched // admitted items, sorted by path

	listed map[cas.Digest]bool // digests of files that match
}

// OK reports whether nothing failed.
func (r *Report) OK() bool { return len(r.Failures) == 0 }

// Listed reports whether the manifest is admitted and lists bytes with this digest.
func (r *Report) Listed(raw cas.Digest) bool { return r.admitted() && r.listed[raw] }

func (r *Report) admitted() bool {
	return r.Exam != nil && r.Exam.Decision.Allowed && r.Exam.Identity.Name != ""
}

// Verify checks a bundle completely; its files are below the root of fsys. Failures are in the report. An error is
// one of the context, the file system or the spaces in Below, or fs.ErrNotExist for a missing manifest.
func Verify(ctx context.Context, fsys fs.FS, id string, o Options) (*Report, error) {
	r, err := List(ctx, fsys, id, o)
	if err != nil || r.Manifest == nil {
		return r, err
	}
	return r, r.items(ctx, o)
}

// List is Verify without the signatures of items. It is enough to know the bytes that the manifest lists.
func List(ctx context.Context, fsys fs.FS, id string, options Options) (*Report, error) {
	if options.Trust == nil {
		return nil, bundle.ErrNoTrust
	}
	content, err := read(ctx, fsys, id, options.Progress)
	if err != nil {
		return nil, err
	}
	report := &Report{Content: content, listed: make(map[cas.Digest]bool, len(content.Good))}
	if content.Manifest == nil {
		return report, nil
	}
	for i := range content.Good {
		report.listed[content.Good[i].Digest] = true
	}
	report.Exam, err = options.Trust.Examine(admission.Subject{Name: content.Name(), V1: Identify},
		bytes.NewReader(content.Text),
		policy.ToUse)
	if err == nil && !report.Exam.Decision.Allowed {
		err = &bundle.NotAdmittedError{Name: content.Name(), Decision: report.Exam.Decision}
	}
	if err != nil {
		report.Failures = slices.Insert(report.Failures, 0, &bundle.Failure{Check: bundle.CheckSignatures, Err: err})
	}
	return report, nil
}

// items checks the signatures of items, in a space of the manifest's files.
func (r *Report) items(ctx context.Context, o Options) error {
	trust := &bundle.Listing{Trust: o.Trust, Listed: r.Listed}
	space, view, err := bundle.View(ctx, r, &manifest.FileList{BundleID: r.Manifest.ID}, r.Good, o.Below, trust)
	if err != nil {
		return err
	}
	admitter := ai.NewAdmitter(view, trust)
	next := 0
	for i := range r.Files {
		f := &r.Files[i]
		if next == len(r.Good) || r.Good[next].Path != f.Path {
			continue // missing, or with other bytes
		}
		if next++; !f.Signed || !ofKind(f.Path) {
			continue
		}
		if err := r.item(ctx, view, space, admitter, f.Path); ctx.Err() != nil {
			return context.Cause(ctx)
		} else if err != nil {
			r.fail(&bundle.Failure{Check: bundle.CheckItem, Path: f.Path, Err: err})
		}
	}
	return nil
}

// ofKind reports whether a path is in the directory of a v1 kind.
func ofKind(p string) bool {
	return strings.HasPrefix(p, ".ai/directives/") || strings.HasPrefix(p, ".ai/tools/") ||
		strings.HasPrefix(p, ".ai/knowledge/")
}

func (r *Report) item(ctx context.Context, view *ai.View, space *ai.Space, admitter *ai.Admitter, path string) error {
	at, err := view.At(space, strings.TrimPrefix(path, ".ai/"))
	if err != nil {
		return nil // an asset, by its path
	}
	it, err := view.Load(ctx, at)
	if errors.Is(err, ai.ErrAsset) {
		return nil
	}
	if err != nil {
		return err
	}
	admission, err := admitter.Admit(ctx, it, policy.ToUse)
	if err != nil {
		return err
	}
	if !admission.Decision.Allowed {
		return ai.NotAdmitted(it.Ref, path, admission.Decision)
	}
	w := bundle.Vouched{Path: path, Ref: it.Ref.String(), Format: admission.Signed.Format, Listed: admission.Listed,
		Signers: admission.Signers,
		Reason:  admission.Decision.Reason()}
	if admission.Tree != nil {
		w.Tree, w.Files = admission.Tree.Digest, len(admission.Tree.Files)
	}
	r.Vouched = append(r.Vouched, w)
	return nil
}
