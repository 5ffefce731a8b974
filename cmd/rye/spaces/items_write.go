package spaces

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/manifest/exam"
	"github.com/rye-build/rye/manifest/sign"
)

// Subject is what signatures of an item are about, also of one whose directory isn't there yet, which has no tree.
func (v *Items) Subject(ctx context.Context, it *ai.Item) (exam.Subject, error) {
	if _, err := fs.Stat(it.Space.FS, path.Dir(it.Path)); errors.Is(err, fs.ErrNotExist) {
		return exam.Subject{Name: it.Ref.String(), Style: it.Kind.Style(it.Path)}, nil
	}
	s, _, err := v.Admit.Subject(ctx, it)
	return s, err
}

// CheckSignable refuses a tool whose executors can't be found: they decide which other files a signature covers.
func (v *Items) CheckSignable(ctx context.Context, it *ai.Item) error {
	if it.Model.Tool == nil {
		return nil
	}
	_, err := ai.WalkFrom(ctx, v, it)
	if e, ok := errors.AsType[*ai.ChainError](err); ok && (e.Code == fault.Validation || e.Code == fault.VersionMismatch) {
		return nil // there is a chain; what doesn't fit in it is for rye check to say
	}
	return err
}

// CheckFree refuses an id that cannot be given to a new item of a space: one that is rye's own, or that some file of
// the space has, whatever its extension.
func (v *Items) CheckFree(ctx context.Context, ref model.Ref, s *ai.Space) error {
	if err := v.CheckProtected(ref); err != nil {
		return err
	}
	if k, ok := v.Kind(ref.Kind); ok {
		if err := v.CheckFolders(s, path.Dir(k.Dir+"/"+ref.ID)); err != nil {
			return err
		}
	}
	l, err := v.Files(ctx, ref.Kind)
	if err != nil {
		return err
	}
	taken := func(has model.Ref, p string) error {
		return &fault.Error{Code: fault.Validation, Err: fs.ErrExist, Text: fmt.Sprintf("there is a %q already", has),
			Why: []string{v.Place(s, p)}, Hint: []string{"rye show " + fault.Quote(has.String())},
			Details: map[string]any{"reason": "exists", "ref": has.String(), "file": v.Place(s, p)}}
	}
	same := func(o model.Ref) bool { return portable.Fold(o.ID) == portable.Fold(ref.ID) }
	for _, f := range l.Files {
		if f.Space != s || !same(f.Ref) {
			continue
		}
		if _, err := v.Load(ctx, f); !errors.Is(err, ai.ErrAsset) {
			return taken(f.Ref, f.Path)
		}
	}
	for _, p := range l.Problems {
		if f, err := v.At(p.Space, p.Path); err == nil && p.Space == s && same(f.Ref) {
			return taken(f.Ref, p.Path)
		}
	}
	return nil
}

// CheckFolders refuses a directory if there is one in a space which differs from it in case alone: on some systems they
// are one, and what is in them has other ids there.
func (v *Items) CheckFolders(s *ai.Space, dir string) error {
	above := "."
	for segment := range strings.SplitSeq(dir, "/") {
		entries, err := fs.ReadDir(s.FS, above)
		if err != nil {
			return nil // what writes there says why, if it isn't made first
		}
		for _, e := range entries {
			if e.IsDir() && e.Name() != segment && portable.Fold(e.Name()) == portable.Fold(segment) {
				has, place := path.Join(above, e.Name()), v.Place(s, path.Join(above, segment))
				return &fault.Error{Code: fault.Validation, Err: fs.ErrExist,
					Text:    fmt.Sprintf("%q differs from %q in upper and lower case alone, and is the same directory on some systems", place, v.Place(s, has)),
					Hint:    []string{"rye ls " + fault.Quote(v.Place(s, has))},
					Details: map[string]any{"reason": "case", "path": place, "there": v.Place(s, has)}}
			}
		}
		above = path.Join(above, segment)
	}
	return nil
}

// CheckProtected refuses an id of the library's own, unless the root policy lets another item have it.
func (v *Items) CheckProtected(ref model.Ref) error {
	if !places.ProtectedID(ref.ID) || v.Trust != nil && v.Trust.Root.Side.Policy.MayOverride(ref.String()) {
		return nil
	}
	return &fault.Error{Code: fault.Policy, Text: fmt.Sprintf("%q is protected: what is below rye/ is the library's", ref),
		Why:  []string{"an item with this id is refused, unless the root policy has a line that covers it:", "override: [" + ref.String() + "]"},
		Hint: []string{"rye help trust", "rye docs policy"}, Details: map[string]any{"reason": "protected", "ref": ref.String()}}
}

// WarnTrees says which tools of a space have a file in their tree now, or no more: what they were signed with is
// another listing.
func (v *Items) WarnTrees(ctx context.Context, s *ai.Space, p string, but ...model.Ref) {
	l, err := v.Files(ctx, "tool")
	if err != nil {
		return
	}
	for _, f := range l.Files {
		// A tool in the same directory or one above it. That one below may work from its parent is for rye verify to
		// find: here every tool of the project would have to be read.
		if f.Space != s || slices.Contains(but, f.Ref) || !strings.HasPrefix(p, path.Dir(f.Path)+"/") {
			continue
		}
		it, err := v.Load(ctx, f)
		if err != nil {
			continue
		}
		if a, err := v.Admit.Anchor(ctx, it); err == nil && a != nil && strings.HasPrefix(p, a.Dir+"/") && it.Signed.Format != sign.None {
			v.App.Term.Warn("%q belongs to the tree of %q, whose signature no longer holds: rye sign %s", v.Place(s, p), it.Ref, fault.Quote(it.Ref.String()))
		}
	}
}
