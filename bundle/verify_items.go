package bundle

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle/recipe"
	"github.com/rye-build/rye/bundle/snapshot"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/policy"
)

// items are the files of a bundle as a space.
type items struct {
	v        *verification
	space    *ai.Space
	view     *ai.View
	admitter *ai.Admitter
	listing  *Listing
	layout   Layout
}

// dotAI is the directory of items.
const dotAI = ".ai"

// newItems makes a view of the files that the manifest lists, and no others: unlisted files must not affect their
// meaning.
func (v *verification) newItems(ctx context.Context) (*items, error) {
	items := &items{v: v, layout: v.look.bundle.Layout()}
	listed := v.digests()
	examiner := &Listing{Trust: v.trust, Listed: func(raw cas.Digest) bool {
		_, ok := listed[raw]
		return ok && v.admitted()
	}}
	b := v.look.bundle
	var err error
	items.space, items.view, err = View(ctx, v.look.getter, b.FileList, b.Files, v.options.Below, examiner)
	if err == nil {
		items.admitter, items.listing = ai.NewAdmitter(items.view, examiner), examiner
	}
	return items, err
}

// View returns a view of a bundle as its users will see it: its files, with bytes from src, are a space of the system
// above the spaces below. Without t the bundle's extractors are ignored.
func View(ctx context.Context, src cas.Getter, list *manifest.FileList, files []manifest.File, below []*ai.Space,
	t ai.Examiner) (*ai.Space, *ai.View, error) {
	s := &ai.Space{Label: "bundle:" + list.BundleID, Level: ai.System,
		FS: snapshot.FS(ctx, src, files, LayoutOf(list).Items)}
	for _, o := range below {
		s.Requires = append(s.Requires, o.Label)
	}
	view, err := ai.NewView(ctx, ai.Options{Spaces: append([]*ai.Space{s}, below...), Trust: t})
	return s, view, err
}

// digests returns the digests of all files of the manifest.
func (v *verification) digests() map[cas.Digest]struct{} {
	all := make(map[cas.Digest]struct{}, len(v.look.bundle.Files))
	for i := range v.look.bundle.Files {
		all[v.look.bundle.Files[i].Digest] = struct{}{}
	}
	return all
}

// A Listing is an ai.Examiner that asks the trust. If a v1 signature requires a listing manifest, it asks once more
// with that fact.
type Listing struct {
	Trust *admission.Trust
	// Listed reports whether an admitted manifest lists bytes with this digest. Nil: none does. It must be safe for
	// concurrent use.
	Listed func(raw cas.Digest) bool
	// Refused returns why the bundle of a space, by its label, isn't admitted, or nil. A signature of an item doesn't
	// count for an item of such a bundle, or for one that was made of it as an unsigned plugin. Nil: all bundles are
	// admitted.
	Refused func(space, item string) error
	// Advice returns what a registry says about the bundle of a space, by its label, that came from it; or nil. It is
	// asked about an item of such a bundle, and about one that was made of it as an unsigned plugin. Nil: nothing.
	Advice func(space, item string) *policy.Advice
}

// Examine implements ai.Examiner.
func (l *Listing) Examine(s admission.Subject, r io.ReadSeeker, purpose policy.Purpose) (*admission.Exam, error) {
	if l.Advice != nil {
		s.Advice = l.Advice(s.From, s.Name)
	}
	e, err := l.examine(s, r, purpose)
	if err == nil && e.Decision.Allowed && purpose != policy.ToShow {
		err = l.Refuses(s.From, s.Name)
	}
	return e, err
}

// Refuses returns why an item of a space isn't admitted, whatever its signatures, or nil.
func (l *Listing) Refuses(space, item string) error {
	if l == nil || l.Refused == nil {
		return nil
	}
	return l.Refused(space, item)
}

func (l *Listing) examine(s admission.Subject, r io.ReadSeeker, purpose policy.Purpose) (*admission.Exam, error) {
	e, err := l.Trust.Examine(s, r, purpose)
	if err != nil || e.Decision.Code != policy.EvidenceOnly || l.Listed == nil || !l.Listed(e.Signed.Raw) {
		return e, err
	}
	s.Listed = true
	return l.Trust.Examine(s, r, purpose)
}

// Unlisted returns the other files of a tool that no signature covers: a v1 signature leaves them open, so that the
// manifest of the tool must list them too.
func (l *Listing) Unlisted(a *ai.Admission) (paths []string) {
	if l == nil || !a.Listed || a.Tree == nil {
		return nil
	}
	for i := range a.Tree.Files {
		if f := &a.Tree.Files[i]; !l.Listed(f.Raw) {
			paths = append(paths, f.Path)
		}
	}
	return paths
}

// places reports files where a bundle never has any: paths in .ai that only a project or a user has, and paths that
// differ only in case from .ai or a kind's directory. On a user's machine such files could be in another place than
// where they were verified.
func (s *items) places() {
	last, why := "", error(nil)
	for i := range s.v.look.bundle.Files {
		path := s.v.look.bundle.Files[i].Path
		dir, _, _ := strings.Cut(path, "/")
		if rest, ok := s.layout.In(path); ok {
			dir, _, _ = strings.Cut(rest, "/")
			dir = s.layout.Items + "/" + dir
		}
		if dir != last { // sorted paths mostly share the directory of the one before
			last, why = dir, s.misplaced(dir)
		}
		if why != nil {
			s.v.fail(&Failure{Check: CheckManifest, Path: path, Err: why})
		}
	}
}

func (s *items) misplaced(dir string) error {
	name, in := s.layout.In(dir)
	top, _, _ := strings.Cut(s.layout.Items, "/")
	switch {
	case !in && dir != top && strings.EqualFold(dir, top):
		return errOtherCase
	case !in && dir == top:
		return errNever
	case !in:
		return nil
	case name == "" || recipe.Never(name):
		return errNever
	}
	for _, k := range s.view.Kinds() {
		if name != k.Dir && strings.EqualFold(name, k.Dir) {
			return errOtherCase
		}
	}
	return nil
}

var (
	errNever     = errors.New("files here never belong to a bundle")
	errOtherCase = errors.New("differs from an item directory only in case")
)

// file checks one file, and reports whether it matches the manifest; read means that its bytes were hashed already.
func (s *items) file(ctx context.Context, file *manifest.File, read bool) (good bool, err error) {
	at, isItem := s.at(file)
	var it *ai.Item
	if isItem {
		// The getter returns only bytes that match the manifest, so they need not be read again.
		if it, err = s.view.Load(ctx, at); err != nil {
			it = nil
		}
	}
	failure := s.v.look.check(ctx, file, read || it != nil && it.Raw == file.Digest)
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if failure != nil {
		failure.Path, failure.Ref = file.Path, file.Ref
		s.v.fail(failure)
		if failure.Check != CheckMode {
			return false, nil
		}
	}
	return failure == nil, s.item(ctx, file, isItem, it, err)
}

// at returns the item of a file, if the file's path is an item's.
func (s *items) at(f *manifest.File) (ai.File, bool) {
	p, ok := s.layout.In(f.Path)
	if !ok {
		return ai.File{}, false
	}
	at, err := s.view.At(s.space, p)
	return at, err == nil
}

// admit decides whether an item is admitted. If its executor is missing along with a required bundle, the item's
// files are unknown: its signature then counts for the tree that it names.
func (s *items) admit(ctx context.Context, it *ai.Item) (*ai.Admission, error) {
	a, err := s.admitter.Admit(ctx, it, policy.ToUse)
	broken, ok := errors.AsType[*ai.ChainError](err)
	if !ok || broken.Code != fault.ExecutorNotFound || unmet(s.v.options.Needs) == nil {
		return a, err
	}
	subject := admission.Subject{Name: it.Ref.String(), Style: it.Kind.Style(it.Path)}
	if len(it.Signed.Lines) > 0 && !it.Signed.Lines[0].Tree.IsZero() {
		subject.Tree = it.Signed.Lines[0].Tree
		subject.Files = slices.Collect(maps.Keys(s.v.digests())) // any of them could be in the tree and revoked
	}
	e, err := s.listing.Examine(subject, bytes.NewReader(it.Bytes), policy.ToUse)
	return &ai.Admission{Exam: e}, err
}

// item compares an item with the manifest's entry, and checks its own signature.
func (s *items) item(ctx context.Context, file *manifest.File, isItem bool, it *ai.Item, err error) error {
	fail := func(c Check, expected, found string, err error) error {
		s.v.fail(&Failure{Check: c, Path: file.Path, Ref: file.Ref, Expected: expected, Found: found, Err: err})
		return nil
	}
	switch {
	case !isItem || errors.Is(err, ai.ErrAsset):
		if file.Ref != "" {
			return fail(CheckRef, "an asset", file.Ref, nil)
		}
		return nil
	case err != nil && file.Ref == "":
		return nil // too large, or otherwise not an item
	case err != nil:
		return fail(CheckItem, "", "", err)
	case file.Ref != it.Ref.String():
		return fail(CheckRef, it.Ref.String(), file.Ref, nil)
	case MayHave(s.v.look.bundle.FileList, it.Model) != nil:
		return fail(CheckItem, "", "", MayHave(s.v.look.bundle.FileList, it.Model))
	case file.Version != it.Model.Version && (file.Version != "" || manifest.CheckVersion(it.Model.Version) == nil):
		// A manifest can't contain an invalid version.
		fail(CheckVersion, it.Model.Version, file.Version, nil)
	}
	admission, err := s.admit(ctx, it)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fail(CheckItem, "", "", err)
	case !admission.Decision.Allowed:
		return fail(CheckItem, "", "", ai.NotAdmitted(it.Ref, file.Path, admission.Decision))
	}
	w := Vouched{Path: file.Path, Ref: file.Ref, Format: admission.Signed.Format, Listed: admission.Listed,
		Signers: admission.Signers,
		Reason:  admission.Decision.Reason()}
	if admission.Tree != nil {
		w.Tree, w.Files = admission.Tree.Digest, len(admission.Tree.Files)
	}
	s.v.mu.Lock()
	defer s.v.mu.Unlock()
	s.v.report.Vouched = append(s.v.report.Vouched, w)
	return nil
}
