package parts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/flags"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/bundle/skill"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/catalog"
	"github.com/rye-build/rye/exec/catalog/launcher"
)

// A State is where the definitions of a server's tools come from.
type State string

// The states.
const (
	Asked    State = "asked"    // the server announced them now
	Kept     State = "kept"     // from the items that were made before: nothing of the plugin has changed
	Unpinned State = "unpinned" // they aren't pinned
)

// A Server is a server that became an item.
type Server struct {
	*catalog.Server // with the tools that became items
	State           State
	Why             string // why its tools aren't pinned

	announced *catalog.Announcement // nil: nothing is known
}

// An Asker asks servers, whose items are on the stage, for their tools, once a person has agreed. It returns an
// announcement for each, nil for one whose tools aren't pinned.
type Asker func(ctx context.Context, servers []*catalog.Server) ([]*catalog.Announcement, error)

// servers makes the items of the servers that are called once, and of their tools.
func (m *maker) servers(ctx context.Context) error {
	var ask []*Server
	for i := range m.Plugin.Servers {
		s := &m.Plugin.Servers[i]
		made, err := m.server(ctx, s)
		if err != nil {
			return err
		}
		if made == nil {
			continue
		}
		m.made.Servers = append(m.made.Servers, made)
		known := m.known(made.Server) // of a server that isn't asked here, a user has accepted the tools
		switch made.State, made.Why = Unpinned, Unasked(made.Spec); {
		case known != nil:
			made.State, made.Why, made.announced = Kept, "", known
		case made.Why == "":
			ask = append(ask, made)
		}
	}
	slices.SortFunc(m.made.Servers, func(a, b *Server) int { return strings.Compare(a.Name, b.Name) })
	if err := m.ask(ctx, ask); err != nil {
		return err
	}
	for _, s := range m.made.Servers {
		if s.announced == nil {
			continue
		}
		if err := m.tools(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// Unasked returns why a publisher doesn't pin the tools of a server: they are those of a user's account. It is empty
// for a server whose tools its publisher pins.
func Unasked(s *catalog.Spec) string {
	switch {
	case s.Transport == catalog.HTTP:
		return "it is reached by HTTP, and can announce other tools to each user"
	case len(s.Secrets) > 0:
		return "it needs a secret, and can announce other tools to each user"
	}
	return ""
}

// serverPart is a server as a part of the plugin.
func serverPart(s *plugin.Server) string { return "servers/" + fault.Clip(s.Name, 100) }

// place is the place of a server.
func (m *maker) place(s *plugin.Server) catalog.Place {
	return catalog.Place{Plugin: m.ID, Server: catalog.Segment(s.Name)}
}

// server makes the item of a server; nil for one that is skipped.
func (m *maker) server(ctx context.Context, s *plugin.Server) (*Server, error) {
	at := m.place(s)
	skip := func(why string) (*Server, error) {
		m.skip(serverPart(s), plugin.ServersFile, why, plugin.SkipsServer)
		return nil, nil
	}
	if why := m.unfit(at.Ref()); why != "" {
		return skip(why)
	}
	spec, err := SpecOf(m.ID, s, m.Plugin.Manifest.Extension.Wishes[s.Name])
	if err != nil {
		return skip(fault.Of(err).Text)
	}
	spec, beside, err := m.pinned(ctx, s, spec)
	if unpinned, ok := errors.AsType[*launcher.Skip](err); ok {
		why := "it can't be pinned: " + unpinned.Reason
		if len(unpinned.Form) > 0 {
			why += "; what would be pinned: " + strings.Join(unpinned.Form, " ")
		}
		return skip(why)
	}
	if err != nil || spec == nil {
		return nil, err
	}
	for i := range beside {
		f := skill.File{Path: path.Join(at.Dir(), beside[i].Path), Bytes: beside[i].Bytes}
		if err := m.file(serverPart(s), f); err != nil {
			return nil, err
		}
	}
	it, err := m.add(ctx, serverPart(s), at.Ref(), ".yaml", spec.File(at))
	if err != nil {
		return nil, err
	}
	return &Server{Server: &catalog.Server{Name: at.Name(), At: at, Item: it, Spec: spec}}, nil
}

// pinned returns the specification that starts a server from pinned packages, if a launcher would download it, and the
// files to write beside its item. They stay as they were made before while nothing of the plugin has changed. The
// specification is nil for a server that would have to be listed, and can't be.
func (m *maker) pinned(ctx context.Context, s *plugin.Server, spec *catalog.Spec) (*catalog.Spec, []catalog.Beside,
	error) {
	if s.Type != plugin.Stdio {
		return spec, nil, nil
	}
	pack, skip := launcher.Read(s.Command, s.Args)
	switch {
	case skip != nil:
		return nil, nil, skip
	case pack == nil:
		return spec, nil, nil
	}
	if listed, beside := m.listed(pack, m.place(s), spec); listed != nil {
		return listed, beside, nil
	}
	if m.List == nil {
		return nil, nil, nil
	}
	return catalog.FromLauncher(ctx, spec, m.place(s).Server, m.List)
}

// before returns the item of a tool or a server as it was made before; nil if there is none, or no from.
func (m *maker) before(from fs.FS, ref model.Ref) *ai.Item {
	if from == nil {
		return nil
	}
	text, err := fs.ReadFile(from, "tools/"+ref.ID+".yaml")
	if err != nil {
		return nil
	}
	it, err := m.draft(ref, ".yaml", text)
	if err != nil || it.Broken != nil || it.Model.Invalid() {
		return nil
	}
	return it
}

// listed returns the specification of a server with the packages that were listed before, and the files beside it.
func (m *maker) listed(pack *launcher.Package, at catalog.Place, spec *catalog.Spec) (*catalog.Spec,
	[]catalog.Beside) {
	if m.Same == nil {
		return nil, nil
	}
	list, err := fs.ReadFile(m.Same, path.Join(at.Dir(), catalog.ListOf(pack, at.Server)))
	if err != nil {
		return nil, nil
	}
	pinned, beside, err := catalog.FromList(spec, at.Server, list)
	if err != nil {
		return nil, nil
	}
	return pinned, beside
}

// known returns what a server announced when its items were made before; nil if that isn't known, or wouldn't be what
// it announces now.
func (m *maker) known(s *catalog.Server) *catalog.Announcement {
	from := m.Same
	if from == nil {
		from = m.Pinned
	}
	if before := m.before(from, s.At.Ref()); before == nil || before.Stripped != s.Item.Stripped {
		return nil
	}
	entries, err := fs.ReadDir(from, path.Join(s.At.Dir(), s.At.Server))
	if err != nil || len(entries) == 0 {
		return nil
	}
	known := new(catalog.Announcement)
	for _, entry := range entries {
		it := m.before(from, s.At.Tool(strings.TrimSuffix(entry.Name(), ".yaml")))
		if it == nil {
			return nil
		}
		tool, err := catalog.PinnedOf(it)
		if err != nil || tool.Accepted() == nil {
			return nil
		}
		known.Tools = append(known.Tools, tool.Accepted())
	}
	return known
}

// ask asks the servers that must be asked.
func (m *maker) ask(ctx context.Context, these []*Server) error {
	if len(these) == 0 || m.Ask == nil {
		return nil
	}
	var servers []*catalog.Server
	for _, s := range these {
		servers = append(servers, s.Server)
	}
	all, err := m.Ask(ctx, servers)
	if err != nil {
		return err
	}
	for i, s := range these {
		if s.announced = all[i]; s.announced != nil {
			s.State = Asked
		} else {
			s.Why = "it wasn't asked"
		}
	}
	return nil
}

// tools makes the items of the tools that a server announced.
func (m *maker) tools(ctx context.Context, s *Server) error {
	others := flags.Others{}
	for _, other := range m.made.Servers {
		if other == s || other.announced == nil {
			continue
		}
		for _, tool := range other.announced.Tools {
			others[other.Name] = append(others[other.Name], tool.Name())
		}
	}
	changes, err := catalog.Compare(s.At, nil, s.announced, others)
	if err != nil {
		return err
	}
	catalog.CheckStubs(m.draft, s.At, s.Spec, changes)
	for i := range changes {
		change := &changes[i]
		switch {
		case change.Refused != "":
			m.skipTool(s, change.Refused)
			continue
		case change.Critical():
			why := ""
			for _, f := range change.Flags {
				if f.Critical {
					why = f.Where + " " + f.Why
				}
			}
			m.skipTool(s, fmt.Sprintf("the tool %q hides something: %s", fault.Clip(change.Tool, 100), why))
			continue
		}
		text, err := catalog.Stub(s.At, s.Spec, change.Announced())
		if err != nil {
			return err
		}
		it, err := m.add(ctx, "servers/"+s.At.Server, s.At.Tool(change.Tool), ".yaml", text)
		if err != nil {
			return err
		}
		tool, err := catalog.PinnedOf(it)
		if err != nil {
			return err
		}
		s.Tools = append(s.Tools, tool)
	}
	return nil
}

// skipTool reports a tool that doesn't become an item.
func (m *maker) skipTool(s *Server, why string) {
	m.skip("servers/"+s.At.Server, plugin.ServersFile, why, plugin.SkipsTool)
}
