package spaces

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
)

// A Selection is what the arguments of a command about items stand for: files, and what is no item although it looks
// like one.
type Selection struct {
	Files    []Chosen
	Problems []*ai.ItemError
	dirs     []ItemArg // the arguments that are directories
}

// A Chosen file is named when an argument is about this very one: then it must be an item. What a glob or a directory
// covers may be an asset.
type Chosen struct {
	ai.File
	Named bool
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
	args := make([]ItemArg, len(texts))
	for i, text := range texts {
		if args[i], err = v.Arg(text); err != nil {
			return nil, err
		}
		if args[i].Dir {
			sel.dirs = append(sel.dirs, args[i])
		}
	}
	taken := map[model.Ref]bool{} // refs whose item was found: what it hides isn't meant
	for _, f := range l.Files {
		c := Chosen{File: f}
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
		named := slices.ContainsFunc(args, func(arg ItemArg) bool { return arg.Glob == nil && arg.Covers(p.Ref, p.Space, p.Path) })
		if only == nil || p.Space == only || named {
			sel.Problems = append(sel.Problems, p)
		}
	}
	return sel, nil
}

// A remembering resolver finds each executor once, for a command that looks at many tools. It is for what is told,
// never for what is run.
type remembering struct {
	ai.Resolver

	mu           sync.Mutex
	found        map[soughtLink]foundLink
	hits, misses int64
}

// maxLinks bounds what a remembering resolver keeps.
const maxLinks = 500

type soughtLink struct {
	ref  model.Ref
	from *ai.Space
}

type foundLink struct {
	it  *ai.Item
	err error
}

// Resolve implements ai.Resolver.
func (r *remembering) Resolve(ctx context.Context, ref model.Ref, from *ai.Space) (*ai.Item, error) {
	key := soughtLink{ref, from}
	r.mu.Lock()
	l, ok := r.found[key]
	if ok {
		r.hits++
	} else {
		r.misses++
	}
	r.mu.Unlock()
	if ok {
		return l.it, l.err
	}
	it, err := r.Resolver.Resolve(ctx, ref, from)
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() == nil && len(r.found) < maxLinks {
		r.found[key] = foundLink{it, err}
	}
	return it, err
}

// Remember makes what follows find each executor once, and returns what finds them.
func (v *Items) Remember() *remembering {
	links := &remembering{Resolver: v.View, found: map[soughtLink]foundLink{}}
	var x ai.Examiner
	if v.Asked != nil {
		x = v.Asked
	}
	v.Admit = ai.NewAdmitter(links, x)
	return links
}

// Shadow returns why an item may not stand where it does: in front of a protected one, without override.
func (v *Items) Shadow(ctx context.Context, it *ai.Item) error {
	if it.Space.Builtin || !ai.Protected(it.ID) {
		return nil
	}
	_, err := v.Resolve(ctx, it.Ref, it.Space)
	if e, ok := errors.AsType[*ai.ShadowError](err); ok {
		return e
	}
	return nil
}
