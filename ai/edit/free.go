package edit

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest/sign"
)

// CheckFree refuses an id for a new item if it is one of rye's own or if a file of the space has it, with any
// extension.
func (e *Editor) CheckFree(ctx context.Context, ref model.Ref, space *ai.Space) error {
	if err := e.CheckProtected(ref); err != nil {
		return err
	}
	if k, ok := e.Kind(ref.Kind); ok {
		if err := e.CheckFolders(space, path.Dir(k.Dir+"/"+ref.ID)); err != nil {
			return err
		}
	}
	listing, err := e.Files(ctx, ref.Kind)
	if err != nil {
		return err
	}
	for _, f := range listing.Files {
		if f.Space != space || portable.Fold(f.ID) != portable.Fold(ref.ID) {
			continue
		}
		if _, err := e.Load(ctx, f); !errors.Is(err, ai.ErrAsset) {
			return e.taken(f, "rye show "+fault.Quote(f.Ref.String()))
		}
	}
	for _, p := range listing.Problems {
		if f, err := e.At(p.Space, p.Path); err == nil && p.Space == space &&
			portable.Fold(f.ID) == portable.Fold(ref.ID) {
			return e.taken(f, "rye show "+fault.Quote(f.Ref.String()))
		}
	}
	return nil
}

// taken returns the error for an id that a file has.
func (e *Editor) taken(f ai.File, hint string) error {
	place := e.Name(f.Space, f.Path)
	return fault.New(fault.Validation, "%s exists already", f.Ref).From(fs.ErrExist).Because(place).Try(hint).
		On("reason", "exists").On("ref", f.Ref.String()).On("file", place)
}

// CheckFolders refuses a directory if the space has one that differs only in case: some systems would merge both, and
// their items' ids.
func (e *Editor) CheckFolders(s *ai.Space, dir string) error {
	above := "."
	for segment := range strings.SplitSeq(dir, "/") {
		entries, err := fs.ReadDir(s.FS, above)
		if err != nil {
			return nil // it doesn't exist yet, or writing to it says why it can't
		}
		for _, entry := range entries {
			if entry.IsDir() && entry.Name() != segment && portable.Fold(entry.Name()) == portable.Fold(segment) {
				has, place := e.Name(s, path.Join(above, entry.Name())), e.Name(s, path.Join(above, segment))
				return fault.New(fault.Validation,
					"%q differs from %q in case alone, and is the same directory on some systems", place, has).
					From(fs.ErrExist).Try("rye ls "+fault.Quote(has)).On("reason", "case").On("path",
					place).On("there", has)
			}
		}
		above = path.Join(above, segment)
	}
	return nil
}

// CheckProtected refuses an id of the library, unless the root policy lets another item have it.
func (e *Editor) CheckProtected(ref model.Ref) error {
	if !e.Refuses(ref) {
		return nil
	}
	return fault.New(fault.Policy, "%s is protected: ids below rye/ are the library's", ref).
		Because("your own policy can allow it with the line:", "override: ["+ref.String()+"]").
		Try("rye help trust", "rye docs policy").On("reason", "protected").On("ref", ref.String())
}

// Disturbed returns the signed tools of a space, except some, whose tree contains a path: writing or removing it
// invalidates their signatures.
func (e *Editor) Disturbed(ctx context.Context, s *ai.Space, moved string, but ...model.Ref) (refs []model.Ref) {
	l, err := e.Files(ctx, "tool")
	if err != nil {
		return nil
	}
	for _, f := range l.Files {
		// It checks only tools in the same directory or above. A tool below may work from its parent, too, but
		// finding it would require reading every tool: rye verify does.
		if f.Space != s || slices.Contains(but, f.Ref) || !strings.HasPrefix(moved, path.Dir(f.Path)+"/") {
			continue
		}
		it, err := e.Load(ctx, f)
		if err != nil {
			continue
		}
		if a, err := e.Admit.Anchor(ctx, it); err == nil && a != nil && strings.HasPrefix(moved, a.Dir+"/") &&
			it.Signed.Format != sign.None {
			refs = append(refs, it.Ref)
		}
	}
	return refs
}
