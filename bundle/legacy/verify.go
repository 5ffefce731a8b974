package legacy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/exam"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

// Options say what a bundle has to pass.
type Options struct {
	Trust *exam.Trust
	Below []*ai.Space // what the bundle's items may use, as in bundle.VerifyOptions
}

// A Report is what was looked at, who vouches for it, and all that is wrong.
type Report struct {
	*Manifest            // nil if there is none that can be read
	Exam      *exam.Exam // who signed it, and what policy says; nil without a Manifest

	Good     int              // files that have their digests
	Read     int64            // bytes of them
	Vouched  []bundle.Vouched // the items that hold, sorted by path
	Failures []*bundle.Failure

	listed map[cas.Digest]bool // of files that have their digests
}

// OK reports whether nothing is wrong.
func (r *Report) OK() bool { return len(r.Failures) == 0 }

// Listed reports whether the manifest is admitted and lists bytes with this digest.
func (r *Report) Listed(raw cas.Digest) bool { return r.admitted() && r.listed[raw] }

func (r *Report) admitted() bool {
	return r.Exam != nil && r.Exam.Decision.Allowed && r.Exam.Identity.Name != ""
}

func (r *Report) fail(f *bundle.Failure) { r.Failures = append(r.Failures, f) }

// Verify looks at everything in a bundle, whose files are below dir. An error is about something else: the context, the
// directory or the spaces below; a manifest that isn't there is fs.ErrNotExist.
func Verify(ctx context.Context, dir, id string, o Options) (*Report, error) {
	if o.Trust == nil {
		return nil, bundle.ErrNoTrust
	}
	at, err := bundle.ManifestPath(id)
	if err != nil {
		return nil, err
	}
	// What opens spaces follows no link.
	root, err := ai.OpenDir(dir, id, ai.Project)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	b, err := readFile(root.FS, at)
	if err != nil {
		return nil, err
	}
	v := &verification{fs: root.FS, Options: o, report: &Report{listed: map[cas.Digest]bool{}}, at: map[cas.Digest]string{}}
	if !v.manifest(b, id) {
		return v.report, nil
	}
	if err := v.files(ctx); err != nil {
		return nil, err
	}
	return v.report, v.items(ctx)
}

// readFile reads no more than a manifest may have, and one byte to tell.
func readFile(fsys fs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxBytes+1))
}

type verification struct {
	Options
	fs     fs.FS
	report *Report
	good   []manifest.File // those that have their digests, sorted by path
	at     map[cas.Digest]string
}

// manifest reports whether there is one whose files can be looked at.
func (v *verification) manifest(b []byte, id string) bool {
	m, err := Parse(b)
	if err == nil && m.ID != id {
		err = &exam.NameError{Want: "bundle:" + id, Found: m.Name()}
	}
	if err != nil {
		v.report.fail(&bundle.Failure{Check: bundle.CheckManifest, Err: err})
		return false
	}
	v.report.Manifest = m
	v.report.Exam, err = v.Trust.Examine(exam.Subject{Name: m.Name(), FirstFormat: Identify}, bytes.NewReader(b), policy.ToUse)
	if err == nil && !v.report.Exam.Decision.Allowed {
		err = &bundle.NotAdmittedError{Name: m.Name(), Decision: v.report.Exam.Decision}
	}
	if err != nil {
		v.report.fail(&bundle.Failure{Check: bundle.CheckSignatures, Err: err})
	}
	return true
}

// files hashes all files, by the digests of the manifest and by today's.
func (v *verification) files(ctx context.Context) error {
	for i := range v.report.Files {
		f := &v.report.Files[i]
		good, failure := v.file(ctx, f)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if failure != nil {
			failure.Path = f.Path
			v.report.fail(failure)
			continue
		}
		v.report.Good++
		v.report.Read += good.Size
		v.report.listed[good.Digest] = true
		v.good = append(v.good, good)
		v.at[good.Digest] = f.Path
	}
	return nil
}

func (v *verification) file(ctx context.Context, f *File) (good manifest.File, failure *bundle.Failure) {
	file, err := v.fs.Open(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return good, &bundle.Failure{Check: bundle.CheckMissing, Expected: text(f.SHA256), Err: err}
	}
	if err != nil {
		return good, &bundle.Failure{Check: bundle.CheckRead, Err: err}
	}
	defer file.Close()
	fi, err := file.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		return good, &bundle.Failure{Check: bundle.CheckType, Expected: "a file", Found: fi.Mode().Type().String()}
	}
	old, today := sha256.New(), cas.NewHasher()
	if err == nil {
		good.Size, err = io.Copy(io.MultiWriter(old, today), ending{ctx, file})
	}
	if err != nil {
		return good, &bundle.Failure{Check: bundle.CheckRead, Err: err}
	}
	if found := [32]byte(old.Sum(nil)); found != f.SHA256 {
		return good, &bundle.Failure{Check: bundle.CheckDigest, Expected: text(f.SHA256), Found: text(found)}
	}
	good.Path, good.Digest, good.Mode = f.Path, today.Digest(), cas.File
	if fi.Mode()&0o100 != 0 {
		good.Mode = cas.Exec
	}
	return good, nil
}

func text(sum [32]byte) string { return "sha256:" + hex.EncodeToString(sum[:]) }

// An ending reader ends with its context.
type ending struct {
	ctx context.Context
	r   io.Reader
}

func (e ending) Read(b []byte) (int, error) {
	if err := e.ctx.Err(); err != nil {
		return 0, err
	}
	return e.r.Read(b)
}

// Get implements cas.Getter with the files that had the digests, which are hashed again as they are read.
func (v *verification) Get(_ context.Context, id cas.ID) (cas.Object, error) {
	at, ok := v.at[id.Digest]
	if !ok || id.Kind != cas.Blob {
		return cas.Object{}, fmt.Errorf("%s: %w", id, fs.ErrNotExist)
	}
	f, err := v.fs.Open(at)
	if err != nil {
		return cas.Object{}, err
	}
	fi, err := f.Stat()
	if err != nil {
		f.Close()
		return cas.Object{}, err
	}
	return cas.Verify(cas.Info{ID: id, Size: fi.Size()}, f), nil
}

// Examine implements ai.Examiner: a signature of the first format counts beside the manifest that lists the file.
func (v *verification) Examine(s exam.Subject, r io.ReadSeeker, purpose policy.Purpose) (*exam.Exam, error) {
	e, err := v.Trust.Examine(s, r, purpose)
	if err != nil || e.Decision.Allowed || e.Signed.Format != sign.V1 || !v.report.Listed(e.Signed.Raw) {
		return e, err
	}
	s.Listed = true
	return v.Trust.Examine(s, r, purpose)
}

// items looks at the signatures of items, seen as the space that the files of the manifest make.
func (v *verification) items(ctx context.Context) error {
	space := &ai.Space{Label: "bundle:" + v.report.ID, Level: ai.System, FS: bundle.FS(ctx, v, v.good, ".ai")}
	for _, o := range v.Below {
		space.Requires = append(space.Requires, o.Label)
	}
	view, err := ai.NewView(ctx, ai.Options{Spaces: append([]*ai.Space{space}, v.Below...), Trust: v})
	if err != nil {
		return err
	}
	admitter := ai.NewAdmitter(view, v)
	next := 0
	for i := range v.report.Files {
		f := &v.report.Files[i]
		if next == len(v.good) || v.good[next].Path != f.Path {
			continue // whose bytes are others
		}
		if next++; !f.Signed || !ofKind(f.Path) {
			continue
		}
		if err := v.item(ctx, view, space, admitter, f.Path); ctx.Err() != nil {
			return context.Cause(ctx)
		} else if err != nil {
			v.report.fail(&bundle.Failure{Check: bundle.CheckItem, Path: f.Path, Err: err})
		}
	}
	return nil
}

// ofKind reports whether a path is in the directory of one of the kinds that there were.
func ofKind(p string) bool {
	for _, dir := range []string{".ai/directives/", ".ai/tools/", ".ai/knowledge/"} {
		if strings.HasPrefix(p, dir) {
			return true
		}
	}
	return false
}

func (v *verification) item(ctx context.Context, view *ai.View, space *ai.Space, admitter *ai.Admitter, p string) error {
	at, err := view.At(space, strings.TrimPrefix(p, ".ai/"))
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
	a, err := admitter.Admit(ctx, it, policy.ToUse)
	if err != nil {
		return err
	}
	if !a.Decision.Allowed {
		return &ai.NotAdmittedError{Ref: it.Ref, Place: p, Decision: a.Decision}
	}
	w := bundle.Vouched{Path: p, Ref: it.Ref.String(), Format: a.Signed.Format, Listed: a.Listed, Signers: a.Signers, Reason: a.Decision.Reason()}
	if a.Tree != nil {
		w.Tree, w.Files = a.Tree.Digest, len(a.Tree.Files)
	}
	v.report.Vouched = append(v.report.Vouched, w)
	return nil
}
