package items

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"slices"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/check"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
)

// List returns the files that arguments stand for, each once and in the order of a listing, and what is wrong there;
// without arguments those of all items. An argument that stands for nothing is an error. Among the files are such
// that carry no mark, which only loading them tells (ai.ErrAsset).
func (v *Items) List(ctx context.Context, texts ...string) (*ai.Listing, error) {
	args := make([]Arg, len(texts))
	var kinds []string // to look at; none for all
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
	l, err := v.Files(ctx, kinds...)
	if err != nil || len(args) == 0 {
		return l, err
	}
	found := make([]bool, len(args))
	covered := func(ref model.Ref, s *ai.Space, path string) (any bool) {
		for i := range args {
			if args[i].Covers(ref, s, path) {
				found[i], any = true, true
			}
		}
		return any
	}
	out := &ai.Listing{}
	for _, f := range l.Files {
		if covered(f.Ref, f.Space, f.Path) {
			out.Files = append(out.Files, f)
		}
	}
	for _, p := range l.Problems {
		ref := p.Ref
		if ref == (model.Ref{}) {
			if f, err := v.At(p.Space, p.Path); err == nil {
				ref = f.Ref
			}
		}
		if covered(ref, p.Space, p.Path) {
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

// NothingAt says why an argument stands for nothing.
func (v *Items) NothingAt(ctx context.Context, arg *Arg) error {
	switch {
	case arg.Glob != nil || arg.Dir:
		f := fault.New(fault.NotFound, "%q matches no item", arg.Text).On("ref", arg.Text).Try("rye ls")
		if arg.Dir {
			strays, err := check.StraysBelow(ctx, v.View, v.Admit, arg.Space, arg.Path, new(check.Known))
			if err != nil {
				return err
			}
			for _, g := range check.Group(strays) {
				f.Because(v.Name(arg.Space, g.Path) + " " + g.Why())
			}
		}
		return f
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

// A Selection is what the arguments of a command about items stand for: files, and what is no item although it looks
// like one.
type Selection struct {
	Files    []check.Chosen
	Problems []*ai.ItemError
	Dirs     []Arg // the arguments that are directories
}

// Own is the space whose items this user changes here: the project's, or the user's outside of projects. Nil if there
// is none.
func (v *Items) Own() *ai.Space {
	if v.Project != nil || v.Root.Root != "" {
		return v.Project
	}
	return v.User
}

// Selected returns what arguments stand for: of a ref the item that it means, of a path the one there, of globs and
// directories all they cover, globs in one space alone if only isn't nil. Without arguments it is all in that space.
func (v *Items) Selected(ctx context.Context, only *ai.Space, texts ...string) (*Selection, error) {
	sel := &Selection{}
	if len(texts) == 0 && only == nil {
		return sel, nil
	}
	l, err := v.List(ctx, texts...)
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
	taken := map[model.Ref]bool{} // refs whose item was found: what it hides isn't meant
	for _, f := range l.Files {
		c := check.Chosen{File: f}
		in := len(args) == 0 && f.Space == only
		for i := range args {
			arg := &args[i]
			switch {
			case !arg.Covers(f.Ref, f.Space, f.Path):
			case arg.Glob != nil:
				in = in || only == nil || f.Space == only
			case arg.Space != nil:
				in, c.Named = true, c.Named || !arg.Dir
			case !taken[f.Ref]:
				in, c.Named, taken[f.Ref] = true, true, true
			}
		}
		if in {
			sel.Files = append(sel.Files, c)
		}
	}
	for _, p := range l.Problems {
		named := slices.ContainsFunc(args, func(arg Arg) bool {
			return arg.Glob == nil && arg.Covers(p.Ref, p.Space, p.Path)
		})
		if only == nil || p.Space == only || named {
			sel.Problems = append(sel.Problems, p)
		}
	}
	return sel, nil
}
