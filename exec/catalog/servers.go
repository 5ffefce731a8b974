package catalog

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/edit"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/catalog/flags"
)

// A Server is one that has an item in a space.
type Server struct {
	Name  string
	Item  *ai.Item
	Spec  *Spec
	Tools []*Pinned // sorted by their names
	Wrong error     // why the item can't be used; Spec is nil
	Stray []error   // of files among its tools that are none
}

// Servers returns the servers that a view has, and their tools, sorted by name. Of several spaces with one server the highest
// counts.
func Servers(ctx context.Context, e *edit.Editor) ([]*Server, error) {
	l, err := e.Files(ctx, "tool")
	if err != nil {
		return nil, err
	}
	var all []*Server
	find := func(name string) *Server {
		if i := slices.IndexFunc(all, func(s *Server) bool { return s.Name == name }); i >= 0 {
			return all[i]
		}
		return nil
	}
	for _, f := range l.Files {
		if path.Dir(f.ID) != ServersDir || find(f.Name()) != nil {
			continue
		}
		s := &Server{Name: f.Name()}
		it, err := e.Load(ctx, f)
		switch {
		case errors.Is(err, ai.ErrAsset):
			continue
		case err != nil:
			s.Wrong = err
		default:
			s.Item = it
			s.Spec, s.Wrong = SpecOf(it.Model)
		}
		all = append(all, s)
	}
	for _, f := range l.Files {
		parts := strings.Split(f.ID, "/")
		if len(parts) != 3 || parts[0] != toolsDir || parts[1] == path.Base(ServersDir) {
			continue
		}
		s := find(parts[1])
		if s == nil || s.Item == nil || f.Space != s.Item.Space {
			continue
		}
		it, err := e.Load(ctx, f)
		if errors.Is(err, ai.ErrAsset) {
			continue
		}
		var p *Pinned
		if err == nil {
			p, err = PinnedOf(it)
		}
		if err != nil {
			s.Stray = append(s.Stray, err)
			continue
		}
		s.Tools = append(s.Tools, p)
	}
	for _, s := range all {
		slices.SortFunc(s.Tools, func(x, y *Pinned) int { return compare(x.Tool, y.Tool) })
	}
	slices.SortFunc(all, func(x, y *Server) int { return compare(x.Name, y.Name) })
	return all, nil
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
