package catalog

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/edit"
	"github.com/rye-build/rye/ai/flags"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
)

// A Server is one that has an item in a space.
type Server struct {
	Name  string // of At
	At    Place
	Item  *ai.Item
	Spec  *Spec
	Tools []*Pinned // sorted by their names
	Wrong error     // why the item can't be used; Spec is nil
	Stray []error   // of other files among its tools
}

// Servers returns the servers that a view has, and their tools, sorted by name. Of several spaces with one server the
// highest counts.
func Servers(ctx context.Context, editor *edit.Editor) ([]*Server, error) {
	l, err := editor.Files(ctx, "tool")
	if err != nil {
		return nil, err
	}
	var items []*ai.Item
	wrong := map[string]error{}
	for _, f := range l.Files {
		if !mayBe(f.ID) {
			continue
		}
		it, err := editor.Load(ctx, f)
		switch {
		case errors.Is(err, ai.ErrAsset):
			continue
		case err != nil && path.Dir(f.ID) == ServersDir:
			wrong[path.Base(f.ID)] = err
			continue
		case err != nil:
			continue // rye check reports why it is invalid
		}
		items = append(items, it)
	}
	all := serversOf(items)
	for name, err := range wrong {
		if !slices.ContainsFunc(all, func(s *Server) bool { return s.Name == name }) {
			all = append(all, &Server{Name: name, At: PlaceOf(name), Wrong: err})
		}
	}
	slices.SortFunc(all, func(x, y *Server) int { return compare(x.Name, y.Name) })
	return all, nil
}

// serversOf finds the servers among items, those of higher spaces first.
func serversOf(items []*ai.Item) (all []*Server) {
	of := map[string]*Server{} // by the directories of their tools
	for _, it := range items {
		if at, ok := placeOf(it.Model); ok && of[at.tools()] == nil {
			s := &Server{Name: at.Name(), At: at, Item: it}
			s.Spec, s.Wrong = SpecOf(it.Model)
			of[at.tools()], all = s, append(all, s)
		}
	}
	has := map[model.Ref]bool{}
	for _, it := range items {
		s := of[path.Dir(it.Ref.ID)]
		if s == nil || it.Ref == s.At.Ref() || has[it.Ref] || it.Space != s.Item.Space && !s.accepts(it.Space) {
			continue
		}
		has[it.Ref] = true
		if p, err := PinnedOf(it); err != nil {
			s.Stray = append(s.Stray, err)
		} else {
			s.Tools = append(s.Tools, p)
		}
	}
	for _, s := range all {
		slices.SortFunc(s.Tools, func(x, y *Pinned) int { return compare(x.Tool, y.Tool) })
	}
	slices.SortFunc(all, func(x, y *Server) int { return compare(x.Name, y.Name) })
	return all
}

// accepts reports whether the items of a space can be tools of the server: those of a plugin that is a bundle can be
// accepted into the project that uses it.
func (s *Server) accepts(space *ai.Space) bool {
	return s.At.Plugin != "" && s.Item.Space.Level == ai.System && space.Level == ai.Project
}

// Find returns the server of a name.
func Find(all []*Server, name string) (*Server, error) {
	var names []string
	for _, s := range all {
		if s.Name == name {
			return s, s.Wrong
		}
		names = append(names, s.Name)
	}
	f := fault.New(fault.NotFound, "no MCP server %q", name).On("name", name)
	if len(names) > 0 {
		f.Because("there are " + strings.Join(names, ", "))
	}
	return nil, f.Try("rye mcp list")
}

// OthersOf are the names of the tools of all servers but one.
func OthersOf(all []*Server, name string) flags.Others {
	others := flags.Others{}
	for _, s := range all {
		if s.Name == name {
			continue
		}
		for _, p := range s.Tools {
			others[s.Name] = append(others[s.Name], p.Tool)
		}
	}
	return others
}

// ID is the digest of a server's item without its signatures.
func ID(it *ai.Item) cas.Digest { return it.Stripped }
