package items

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/check"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
)

// This file finds the items that arguments name.

// List returns the files that arguments name, each once and in the order of a listing, and problems found there;
// without arguments, those of all items. An argument without a match is an error. The files may include assets, which
// only loading them detects (ai.ErrAsset).
func (v *Items) List(ctx context.Context, texts ...string) (*ai.Listing, error) {
	args := make([]Arg, len(texts))
	var kinds []string // to list; none means all
	for i, text := range texts {
		var err error
		if args[i], err = v.Parse(text); err != nil {
			return nil, err
		}
		if args[i].ref.Kind != "" {
			kinds = append(kinds, args[i].ref.Kind)
		}
	}
	if len(kinds) < len(args) {
		kinds = nil
	}
	listing, err := v.Files(ctx, kinds...)
	if err != nil {
		return nil, err
	}
	own := map[model.Ref]bool{}
	for _, f := range listing.Files {
		own[f.Ref] = own[f.Ref] || !f.Space.Builtin
	}
	// the library's items are left out, except those that another one hides
	hidden := func(f ai.File) bool { return f.Space.Builtin && !own[f.Ref] }
	if len(args) == 0 {
		if !v.Library {
			listing.Files = slices.DeleteFunc(slices.Clone(listing.Files), hidden)
		}
		return listing, nil
	}
	found := make([]bool, len(args))
	covered := func(ref model.Ref, s *ai.Space, path string, hidden bool) (any bool) {
		for i := range args {
			if args[i].Covers(ref, s, path) {
				found[i] = true
				any = any || !hidden || args[i].Glob == nil || args[i].library
			}
		}
		return any
	}
	out := &ai.Listing{}
	for _, f := range listing.Files {
		if covered(f.Ref, f.Space, f.Path, hidden(f)) {
			out.Files = append(out.Files, f)
		}
	}
	for _, p := range listing.Problems {
		ref := p.Ref
		if ref == (model.Ref{}) {
			if f, err := v.At(p.Space, p.Path); err == nil {
				ref = f.Ref
			}
		}
		if covered(ref, p.Space, p.Path, false) || ref.Kind == "" && v.unread(p, args, found) {
			out.Problems = append(out.Problems, p)
		}
	}
	for i := range args {
		if !found[i] {
			return nil, v.NothingAt(ctx, &args[i])
		}
	}
	return out, nil
}

// unread reports whether a problem is a directory that can't be read and in which globs may cover items; found has
// those.
func (v *Items) unread(p *ai.ItemError, args []Arg, found []bool) (any bool) {
	if _, failed := errors.AsType[*fs.PathError](p.Err); !failed {
		return false
	}
	dir, id, _ := strings.Cut(p.Path, "/")
	for _, k := range v.Kinds() {
		for i := range args {
			if k.Dir == dir && args[i].Reaches(k.Name, id) {
				found[i], any = true, true
			}
		}
	}
	return any
}

// NothingAt returns why an argument matches nothing.
func (v *Items) NothingAt(ctx context.Context, arg *Arg) error {
	return v.w.OrNoProject(v.nothingAt(ctx, arg), cmp.Or(arg.ref.ID, arg.Text))
}

func (v *Items) nothingAt(ctx context.Context, arg *Arg) error {
	switch {
	case arg.Glob != nil || arg.Dir:
		failure := fault.New(fault.NotFound, "%q matches no item", arg.Text).On("ref", arg.Text).Try("rye ls").
			From(fs.ErrNotExist)
		if arg.Dir {
			strays, err := check.StraysBelow(ctx, v.View, v.Admit, arg.Space, arg.Path, new(check.Known))
			if err != nil {
				return err
			}
			for _, g := range check.Group(strays) {
				failure.Because(v.Name(arg.Space, g.Path) + " " + g.Why())
			}
		}
		return failure
	case arg.Space != nil:
		f, err := v.At(arg.Space, arg.Path)
		if err == nil {
			err = &ai.ItemError{Ref: f.Ref, Space: f.Space, Path: f.Path, Err: ai.ErrAsset}
		}
		return err
	}
	_, err := v.Find(ctx, arg.ref)
	return cmp.Or(err, fmt.Errorf("%q: %w", arg.ref, fs.ErrNotExist))
}

// Nothing is the error of a command that found no item to work on: there is no project, or the arguments match
// nothing. In a project without items, no arguments and globs that only cover the library are no error.
func (v *Items) Nothing(ctx context.Context, texts []string) error {
	if v.Root.Root == "" {
		return v.w.NoProject()
	}
	for _, text := range texts {
		arg, err := v.Parse(text)
		if err != nil {
			return err
		}
		l, err := v.Files(ctx)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(l.Files, func(f ai.File) bool {
			return arg.Glob != nil && f.Space.Builtin && arg.Covers(f.Ref, f.Space, f.Path)
		}) {
			return v.NothingAt(ctx, &arg)
		}
	}
	return nil
}

// A Selection is the result for the arguments of a command about items: the files, and the files that look like items
// but are invalid.
type Selection struct {
	Files    []check.Chosen
	Problems []*ai.ItemError
	Dirs     []Arg // the arguments that are directories
}

// Own returns the space whose items the user changes here: the project's, or the user's outside of projects. It is
// nil if there is none.
func (v *Items) Own() *ai.Space {
	if v.Project != nil || v.Root.Root != "" {
		return v.Project
	}
	return v.User
}

// Selected returns the items that arguments name: for a ref the item that it resolves to, for a path the item there,
// for globs and directories all that they cover, limited to the space only if that isn't nil. Without arguments it
// returns all items in that space.
func (v *Items) Selected(ctx context.Context, only *ai.Space, texts ...string) (*Selection, error) {
	sel := &Selection{}
	if len(texts) == 0 && only == nil {
		return sel, nil
	}
	listing, err := v.List(ctx, texts...)
	if err != nil {
		return nil, err
	}
	args := make([]Arg, len(texts))
	for i, text := range texts {
		if args[i], err = v.Parse(text); err != nil {
			return nil, err
		}
		if args[i].Dir {
			sel.Dirs = append(sel.Dirs, args[i])
		}
	}
	taken := map[model.Ref]bool{} // refs already found: items that they hide are skipped
	for _, file := range listing.Files {
		chosen := check.Chosen{File: file}
		in := len(args) == 0 && file.Space == only
		for i := range args {
			arg := &args[i]
			switch {
			case !arg.Covers(file.Ref, file.Space, file.Path):
			case arg.Glob != nil:
				in = in || only == nil || file.Space == only
			case arg.Space != nil:
				in, chosen.Named = true, chosen.Named || !arg.Dir
			case !taken[file.Ref]:
				in, chosen.Named, taken[file.Ref] = true, true, true
			}
		}
		if in {
			sel.Files = append(sel.Files, chosen)
		}
	}
	for _, p := range listing.Problems {
		named := slices.ContainsFunc(args, func(arg Arg) bool {
			return arg.Glob == nil && arg.Covers(p.Ref, p.Space, p.Path)
		})
		if only == nil || p.Space == only || named {
			sel.Problems = append(sel.Problems, p)
		}
	}
	return sel, nil
}
