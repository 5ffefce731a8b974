package session

import (
	"context"
	"errors"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/capability"
	aifind "github.com/rye-build/rye/ai/find"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/search"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/chain"
	"github.com/rye-build/rye/exec/thread/loop"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// Item returns an admitted item as calls see it: the pinned one, from which the working tree must not differ, or
// without a lock the one of the spaces.
func (s *Session) Item(ctx context.Context, ref model.Ref) (*ai.Item, error) {
	from, err := s.resolve(ctx, ref)
	if err != nil {
		return nil, err
	}
	defer from.close()
	return from.item(ctx, ref)
}

// Chosen returns an item that rye itself selects, such as the loop of threads. If the lock doesn't pin it, it is the
// library's.
func (s *Session) Chosen(ctx context.Context, ref model.Ref) (*ai.Item, error) {
	from, err := s.chosen(ctx, ref)
	if err != nil {
		return nil, err
	}
	defer from.close()
	return from.item(ctx, ref)
}

// Owns reports whether an item of Item or Chosen counts as the user's own: one of the library, or signed by a key of
// theirs, and not made of an unsigned plugin.
func (s *Session) Owns(ctx context.Context, it *ai.Item) (bool, error) {
	from, err := s.chosen(ctx, it.Ref)
	if err != nil {
		return false, err
	}
	defer from.close()
	k, err := s.Kernel()
	if err != nil {
		return false, err
	}
	a, err := from.base.Admit.Admit(ctx, it, policy.ToUse)
	return err == nil && chain.Owned(it, a, k.Own), err
}

// Permitted returns the permissions that a directive declares and the current policies grant. Without an entry in the
// policies it returns all for the user's own directive, and none for another's.
func (s *Session) Permitted(ctx context.Context, directive model.Ref, own bool,
	declared capability.Set) (capability.Set, error) {
	from, err := s.source(ctx)
	if err != nil {
		return declared, err
	}
	defer from.close()
	g, err := from.base.Allowed(&model.Tool{Permissions: declared.List()}, directive, !own, nil)
	return g.Permissions, err
}

// item returns an item that is admitted.
func (f source) item(ctx context.Context, ref model.Ref) (*ai.Item, error) {
	if it := f.base.Known.Item(ref); it != nil {
		return it, nil
	}
	it, err := f.base.Resolver.Resolve(ctx, ref, nil)
	if err != nil {
		return nil, err
	}
	admitted, err := f.base.Admit.Admit(ctx, it, policy.ToUse)
	if err == nil && !admitted.Decision.Allowed {
		err = ai.NotAdmitted(ref, it.Path, admitted.Decision)
	}
	if err != nil {
		return nil, &ai.ItemError{Ref: ref, Space: it.Space, Path: it.Path, Err: err}
	}
	for _, p := range it.Model.Problems {
		if !p.Warning {
			return nil, &ai.ItemError{Ref: ref, Space: it.Space, Path: it.Path, Err: p}
		}
	}
	f.base.Known.Keep(it, admitted)
	return it, nil
}

// chosen opens the source of an item that rye itself selects, such as the loop: the lock's if it pins the item, else
// the library's.
func (s *Session) chosen(ctx context.Context, ref model.Ref) (source, error) {
	if s.set == nil || s.set.Pin(ref) != nil {
		return s.resolve(ctx, ref)
	}
	from, err := s.source(ctx)
	if err != nil {
		return source{}, err
	}
	library, err := from.library(ctx)
	if err != nil {
		from.close()
	}
	return library, err
}

// Set is the id of the lock that calls run from; zero without one.
func (s *Session) Set() (id cas.Digest) {
	if s.set != nil {
		id = s.set.ID()
	}
	return id
}

// Bundle returns the bundle of the lock that an item comes from, and its version; "" for any other item.
func (s *Session) Bundle(it *ai.Item) (id, version string) {
	id, is := strings.CutPrefix(it.Space.Label, file.System)
	if !is || s.set == nil {
		return "", ""
	}
	b := s.set.Bundle(id)
	if b == nil {
		return "", ""
	}
	return id, b.Version
}

// Policies are the ids of those that decide about calls now, the root's first.
func (s *Session) Policies(ctx context.Context) (ids []cas.Digest, err error) {
	from, err := s.source(ctx)
	if err != nil {
		return nil, err
	}
	defer from.close()
	for _, p := range []*policy.Policy{from.base.Root, from.base.Project} {
		if p != nil {
			ids = append(ids, p.ID())
		}
	}
	return ids, nil
}

// Own returns the limits of a process that runs a thread in the background, by the current policies.
func (s *Session) Own(ctx context.Context) (floor.Own, error) {
	from, err := s.source(ctx)
	if err != nil {
		return floor.Own{}, err
	}
	defer from.close()
	return floor.OwnLimits.Narrow(from.base.Floor().Limits), nil
}

// Secret reports whether the policies, as they are now, allow a tool a secret, and whether that has a value.
func (s *Session) Secret(ctx context.Context, name string, tool model.Ref) (allowed, set bool, err error) {
	from, err := s.source(ctx)
	if err != nil {
		return false, false, err
	}
	defer from.close()
	p := from.base.Policies
	_, err = s.secrets().Get(ctx, name)
	return p.Root != nil && policy.MayHave(name, tool.String(), p.Root, p.Project), err == nil, nil
}

// Kernel returns what runs calls: it has the machine's key and the voucher for it.
func (s *Session) Kernel() (*exec.Kernel, error) { return s.ready(model.Ref{}) }

// Loops returns what runs the loops of threads. The caller closes it.
func (s *Session) Loops() *loop.Host {
	return &loop.Host{Machine: Machine(s.o.Self, s.o.Host.Vars), Self: guest(s.o.Self, "loop")}
}

// Root is that of the project; "" outside of any.
func (s *Session) Root() string { return s.w.Root.Root }

// State is the directory of what can't be made again.
func (s *Session) State() workspace.Place { return s.w.State }

// Principal returns the name of the caller; "" if the system has none.
func (s *Session) Principal() string { return s.principal }

// Threads is the directory of the threads of the project, or outside of any of the user.
func (s *Session) Threads() string {
	if s.w.Root.Root != "" {
		return filepath.Join(s.w.Root.Root, workspace.MarkerDir, "threads")
	}
	return filepath.Join(s.w.UserSpace().Path, "threads")
}

// Providers are the providers of language models that calls can use: the tools in a directory named "providers", those
// of the library last.
func (s *Session) Providers(ctx context.Context) ([]*ai.Item, error) {
	from, err := s.source(ctx)
	if err != nil {
		return nil, err
	}
	defer from.close()
	library, err := find.LibraryView(ctx)
	if err != nil {
		return nil, err
	}
	var refs []model.Ref
	for _, v := range []*ai.View{from.view, library} {
		l, err := v.Files(ctx, "tool")
		if err != nil {
			return nil, err
		}
		var more []model.Ref
		for _, f := range l.Files {
			if path.Base(path.Dir(f.Ref.ID)) == "providers" && !slices.Contains(refs, f.Ref) &&
				!slices.Contains(more, f.Ref) {
				more = append(more, f.Ref)
			}
		}
		slices.SortFunc(more, func(a, b model.Ref) int { return strings.Compare(a.ID, b.ID) })
		refs = append(refs, more...)
	}
	var all []*ai.Item
	item := s.Chosen
	if s.set == nil {
		item = from.item // without a lock there is no drift to check
	}
	for _, ref := range refs {
		it, err := item(ctx, ref)
		if missing := (*ai.NotFoundError)(nil); errors.As(err, &missing) {
			continue
		} else if err != nil {
			return nil, err
		}
		all = append(all, it)
	}
	return all, nil
}

// Items are the items of a kind that calls see and the policies admit, sorted by their ids. Others are left out.
func (s *Session) Items(ctx context.Context, kind string) (all []*ai.Item, err error) {
	from, err := s.source(ctx)
	if err != nil {
		return nil, err
	}
	defer from.close()
	l, err := from.view.Files(ctx, kind)
	if err != nil {
		return nil, err
	}
	for i, f := range l.Files {
		if i > 0 && f.Ref == l.Files[i-1].Ref {
			continue // hidden
		}
		if it, err := from.item(ctx, f.Ref); err == nil {
			all = append(all, it)
		} else if ctx.Err() != nil {
			return nil, err
		}
	}
	return all, nil
}

// Search searches what calls see.
func (s *Session) Search(ctx context.Context, request search.Request) (*aifind.Found, error) {
	from, err := s.source(ctx)
	if err != nil {
		return nil, err
	}
	defer from.close()
	if err := s.w.Cache.Err; err != nil {
		return nil, err
	}
	name := func(_ *ai.Space, p string) string { return p }
	in := aifind.Searcher{View: from.view, Name: name, Dir: filepath.Join(s.w.Cache.Path, "search"),
		Version: s.version(), Now: s.w.Now()}
	return in.Search(ctx, request)
}
