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
	Name  string
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
		if _, _, ok := placed(f.Ref); !ok {
			continue
		}
		it, err := editor.Load(ctx, f)
		switch {
		case errors.Is(err, ai.ErrAsset):
			continue
		case err != nil && path.Dir(f.ID) == ServersDir:
			wrong[f.Name()] = err
			continue
		case err != nil:
			continue // rye check reports why it is invalid
		}
		items = append(items, it)
	}
	all := serversOf(items)
	for name, err := range wrong {
		if !slices.ContainsFunc(all, func(s *Server) bool { return s.Name == name }) {
			all = append(all, &Server{Name: name, Wrong: err})
		}
	}
	slices.SortFunc(all, func(x, y *Server) int { return compare(x.Name, y.Name) })
	return all, nil
}

// placed returns the server of an item by its id, and whether the item is the server itself.
func placed(ref model.Ref) (server string, itself, ok bool) {
	parts := strings.Split(ref.ID, "/")
	switch {
	case len(parts) != 3 || parts[0] != toolsDir:
		return "", false, false
	case parts[1] == path.Base(ServersDir):
		return parts[2], true, true
	}
	return parts[1], false, true
}

// serversOf finds the servers among items, those of higher spaces first.
func serversOf(items []*ai.Item) (all []*Server) {
	byName := map[string]*Server{}
	for _, it := range items {
		if name, itself, ok := placed(it.Ref); ok && itself && byName[name] == nil {
			s := &Server{Name: name, Item: it}
			s.Spec, s.Wrong = SpecOf(it.Model)
			byName[name], all = s, append(all, s)
		}
	}
	for _, it := range items {
		name, itself, ok := placed(it.Ref)
		s := byName[name]
		if !ok || itself || s == nil || it.Space != s.Item.Space {
			continue
		}
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
