package ai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/policy"
)

// An Examiner examines the signatures of a file under a name, as *admission.Trust does.
type Examiner interface {
	Examine(admission.Subject, io.ReadSeeker, policy.Purpose) (*admission.Exam, error)
}

// Options are the parts of a View.
type Options struct {
	Spaces []*Space
	// Trust admits extractors and the items that Admit is asked about. Without it nothing is admitted, and only
	// builtin extractors count.
	Trust Examiner
	// MayOverride reports whether an item may hide a protected one: Policy.MayOverride of the root policy. Without it
	// none may.
	MayOverride func(name string) bool
}

// A View is the spaces visible from a project, or from outside of any, and the kinds that their extractors make.
// NewView completes it, and it is safe for concurrent use. The files of its spaces may change: it reads them each
// time.
type View struct {
	spaces      []*Space // from the highest to the lowest
	kinds       []*model.Kind
	trust       Examiner
	mayOverride func(string) bool
	warnings    []*ItemError

	loaded, bytes atomic.Int64
}

// NewView looks for extractors in the spaces and admits them. An invalid extractor is a warning, not an error, and
// its kind stays as the lower spaces define it.
func NewView(ctx context.Context, o Options) (*View, error) {
	view := &View{spaces: slices.Clone(o.Spaces), trust: o.Trust, mayOverride: o.MayOverride}
	// Higher levels come first. The builtin space is the last of its level, so that bundles come before it.
	slices.SortStableFunc(view.spaces, func(a, b *Space) int {
		return cmp.Or(cmp.Compare(b.Level, a.Level), cmp.Compare(bit(a.Builtin), bit(b.Builtin)))
	})
	for i, s := range view.spaces {
		if slices.ContainsFunc(view.spaces[:i], func(o *Space) bool { return o.Label == s.Label }) {
			return nil, fmt.Errorf("two spaces are called %q", s.Label)
		}
	}
	if err := view.readKinds(ctx); err != nil {
		return nil, err
	}
	return view, nil
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Spaces returns the spaces, from the highest to the lowest.
func (v *View) Spaces() []*Space { return slices.Clone(v.spaces) }

// rank returns the position of a space, from the highest to the lowest.
func (v *View) rank(s *Space) int { return slices.Index(v.spaces, s) }

// Kinds returns the kinds, sorted by name.
func (v *View) Kinds() []*model.Kind { return slices.Clone(v.kinds) }

// Kind returns the kind of a name.
func (v *View) Kind(name string) (*model.Kind, bool) {
	i := slices.IndexFunc(v.kinds, func(k *model.Kind) bool { return k.Name == name })
	if i < 0 {
		return nil, false
	}
	return v.kinds[i], true
}

func (v *View) kindNames() []string {
	return collect(v.kinds, func(k *model.Kind) string { return k.Name })
}
func (v *View) kindDirs() []string {
	return collect(v.kinds, func(k *model.Kind) string { return k.Dir + "/" })
}

func collect[T, U any](all []T, f func(T) U) []U {
	made := make([]U, len(all))
	for i := range all {
		made[i] = f(all[i])
	}
	return made
}

// Warnings returns the extractors that are ignored, and why. A kernel kind without an extractor has Builtin.
func (v *View) Warnings() []*ItemError { return v.warnings }

const (
	extractors      = "rye/core/extractors" // the prefix of the ids of extractors
	extractorSuffix = "_extractor"
	extractorExt    = ".yaml"
)

// readKinds makes the kinds: the kernel's, changed by the extractors from the lowest space to the highest. The
// kernel's kind of tool reads all extractors, so that no extractor changes the meaning of another.
func (v *View) readKinds(ctx context.Context) error {
	v.kinds = model.Builtin()
	var starts []start
	tool, _ := v.Kind("tool")
	for _, s := range v.spaces {
		starts = append(starts, start{s, tool, path.Join(tool.Dir, extractors)})
	}
	listing, err := v.walk(ctx, starts)
	if err != nil {
		return err
	}
	v.warnings = listing.Problems
	slices.SortStableFunc(listing.Files, func(a, b File) int { return cmp.Compare(v.rank(b.Space), v.rank(a.Space)) })
	a := NewAdmitter(v, v.trust)
	made := map[string]File{} // the extractor of each kind
	below := map[model.Ref]File{}
	for i := 0; i < len(listing.Files); {
		j := i + 1
		for j < len(listing.Files) && listing.Files[j].Space == listing.Files[i].Space {
			j++
		}
		if err := v.readExtractors(ctx, a, listing.Files[i:j], made, below); err != nil {
			return err
		}
		for _, f := range listing.Files[i:j] {
			below[f.Ref] = f
		}
		i = j
	}
	slices.SortFunc(v.kinds, func(a, b *model.Kind) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}

// readExtractors adds the kinds of one space's extractors.
func (v *View) readExtractors(ctx context.Context, admitter *Admitter, files []File, made map[string]File,
	below map[model.Ref]File) error {
	type candidate struct {
		file File
		kind *model.Kind
	}
	var found []candidate
	for _, file := range files {
		if !strings.HasSuffix(file.ID, extractorSuffix) || path.Ext(file.Path) != extractorExt {
			continue
		}
		k, err := v.extractor(ctx, admitter, file)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			v.warn(file, err)
			continue
		}
		if k != nil {
			found = append(found, candidate{file, k})
		}
	}
	for _, candidate := range found {
		var same []File
		for _, o := range found {
			if o.kind.Name == candidate.kind.Name {
				same = append(same, o.file)
			}
		}
		err := error(nil)
		if len(same) > 1 {
			many := ambiguous(same)
			many.Ref = candidate.file.Ref
			err = many
		} else if hidden, ok := below[candidate.file.Ref]; ok {
			err = v.mayHide(candidate.file, hidden)
		}
		if err == nil {
			err = v.takeUp(candidate.file, candidate.kind, made)
		}
		if err != nil {
			v.warn(candidate.file, err)
		}
	}
	return nil
}

func (v *View) warn(f File, err error) {
	if e, ok := err.(*ItemError); ok && e.Space == f.Space && e.Path == f.Path {
		err = e.Err
	}
	v.warnings = append(v.warnings, &ItemError{Ref: f.Ref, Space: f.Space, Path: f.Path, Err: err})
}

// extractor reads and admits one extractor; it returns nil if the file is another tool.
func (v *View) extractor(ctx context.Context, admitter *Admitter, file File) (*model.Kind, error) {
	it, err := v.Load(ctx, file)
	if errors.Is(err, ErrAsset) && !errors.Is(err, ErrGone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !it.Model.IsExtractor() {
		return nil, nil
	}
	if err := admitter.Require(ctx, it, policy.ToUse); err != nil {
		return nil, err
	}
	k, problems := it.Model.Extractor()
	for _, p := range problems {
		if !p.Warning {
			return nil, p
		}
		v.warn(file, p)
	}
	return k, nil
}

// takeUp replaces the kind of the same name, or adds the kind.
func (v *View) takeUp(file File, k *model.Kind, made map[string]File) error {
	for _, o := range v.kinds {
		switch {
		case o.Name == k.Name && o.Dir != k.Dir:
			return fmt.Errorf("says that the kind %q is in %+q, which is in %+q", k.Name, k.Dir+"/", o.Dir+"/")
		case o.Name != k.Name && overlap(o.Dir, k.Dir):
			return fmt.Errorf("says that the kind %q is in %+q, which belongs to the kind %q", k.Name, k.Dir+"/",
				o.Name)
		}
	}
	// An extractor with another id replaces the kind as well.
	if below, ok := made[k.Name]; ok {
		if err := v.mayHide(file, below); err != nil {
			return err
		}
	}
	made[k.Name] = file
	if i := slices.IndexFunc(v.kinds, func(o *model.Kind) bool { return o.Name == k.Name }); i >= 0 {
		v.kinds[i] = k
	} else {
		v.kinds = append(v.kinds, k)
	}
	return nil
}

// Refuses reports whether a ref belongs to the library and the root policy lets no other item have it.
func (v *View) Refuses(ref model.Ref) bool {
	return Protected(ref.ID) && (v.mayOverride == nil || !v.mayOverride(ref.String()))
}

// mayHide returns nil if the root policy lets a file hide others.
func (v *View) mayHide(front File, hidden ...File) error {
	e := &ShadowError{Ref: hidden[0].Ref, Place: front.Space.where(front.Path), Space: front.Space.Label}
	for _, f := range hidden {
		e.Over = append(e.Over, f.Space.Label)
	}
	if v.Refuses(e.Ref) {
		return e
	}
	return nil
}

// overlap reports whether one of two directories is the other or contains it, ignoring case.
func overlap(a, b string) bool {
	a, b = portable.Fold(a)+"/", portable.Fold(b)+"/"
	return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
}
