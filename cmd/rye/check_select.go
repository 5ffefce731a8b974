package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
)

// A selection is what the arguments of a command about items stand for: files, and what is no item although it looks
// like one.
type selection struct {
	files    []chosen
	problems []*ai.ItemError
	dirs     []itemArg // the arguments that are directories
}

// A chosen file is named when an argument is about this very one: then it must be an item. What a glob or a directory
// covers may be an asset.
type chosen struct {
	ai.File
	named bool
}

// own is the space whose items this user changes here: the project's, or the user's outside of projects. Nil if there
// is none.
func (v *items) own() *ai.Space {
	if v.project != nil || v.root.root != "" {
		return v.project
	}
	return v.user
}

// selected returns what arguments stand for: of a ref the item that it means, of a path the one there, of globs and
// directories all they cover, globs in one space alone if only isn't nil. Without arguments it is all in that space.
func (v *items) selected(ctx context.Context, only *ai.Space, texts ...string) (*selection, error) {
	sel := &selection{}
	if len(texts) == 0 && only == nil {
		return sel, nil
	}
	l, err := v.list(ctx, texts...)
	if err != nil {
		return nil, err
	}
	args := make([]itemArg, len(texts))
	for i, text := range texts {
		if args[i], err = v.arg(text); err != nil {
			return nil, err
		}
		if args[i].dir {
			sel.dirs = append(sel.dirs, args[i])
		}
	}
	taken := map[model.Ref]bool{} // refs whose item was found: what it hides isn't meant
	for _, f := range l.Files {
		c := chosen{File: f}
		in := len(args) == 0 && f.Space == only
		for i := range args {
			arg := &args[i]
			switch {
			case !arg.covers(f.Ref, f.Space, f.Path):
			case arg.glob != nil:
				in = in || only == nil || f.Space == only
			case arg.space != nil:
				in, c.named = true, c.named || !arg.dir
			case !taken[f.Ref]:
				in, c.named, taken[f.Ref] = true, true, true
			}
		}
		if in {
			sel.files = append(sel.files, c)
		}
	}
	for _, p := range l.Problems {
		named := slices.ContainsFunc(args, func(arg itemArg) bool { return arg.glob == nil && arg.covers(p.Ref, p.Space, p.Path) })
		if only == nil || p.Space == only || named {
			sel.problems = append(sel.problems, p)
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

// remember makes what follows find each executor once, and returns what finds them.
func (v *items) remember() *remembering {
	links := &remembering{Resolver: v.View, found: map[soughtLink]foundLink{}}
	var x ai.Examiner
	if v.asked != nil {
		x = v.asked
	}
	v.admit = ai.NewAdmitter(links, x)
	return links
}

// shadow returns why an item may not stand where it does: in front of a protected one, without override.
func (v *items) shadow(ctx context.Context, it *ai.Item) error {
	if it.Space.Builtin || !protectedID(it.ID) {
		return nil
	}
	_, err := v.Resolve(ctx, it.Ref, it.Space)
	if e, ok := errors.AsType[*ai.ShadowError](err); ok {
		return e
	}
	return nil
}

// protectedID reports whether an id is below rye/, in any case.
func protectedID(id string) bool {
	first, _, _ := strings.Cut(id, "/")
	return strings.EqualFold(first, "rye")
}
