// What the commands share: finding a server, checking its trust, and asking it for its tools.

package catalogs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/runs"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/exec/catalog"
	"github.com/rye-build/rye/exec/chain"
	"github.com/rye-build/rye/exec/secret"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/policy"
)

// opened holds the items and servers that a command sees. Close of Items must be called.
type opened struct {
	*spaces.Items
	a       *cli.App
	servers []*catalog.Server
}

// openServers opens the servers of the project. With user, and outside of projects, it opens those of the user
// space. The caller closes the result.
func openServers(ctx context.Context, app *cli.App, user bool) (*opened, error) {
	w := paths.UnreadWorkspace(app)
	if !user {
		var err error
		if w, err = paths.OpenWorkspace(app); err != nil {
			return nil, err
		}
	}
	v, err := spaces.ItemsOf(ctx, w)
	if err != nil {
		w.Close()
		return nil, err
	}
	all, err := catalog.Servers(ctx, v.Editor)
	if err != nil {
		v.Close()
		return nil, err
	}
	return &opened{v, app, all}, nil
}

// openServer finds a server by name. It searches the visible spaces first, then the user space, which rye.yaml may
// hide. The caller closes the result.
func openServer(ctx context.Context, a *cli.App, name string) (*opened, *catalog.Server, error) {
	view, err := openServers(ctx, a, false)
	if err != nil {
		return nil, nil, err
	}
	server, err := catalog.Find(view.servers, name)
	if f, ok := fault.Find(err); ok && f.Code == fault.NotFound && view.User == nil {
		if own, e := openServers(ctx, a, true); e == nil {
			if server, e := catalog.Find(own.servers, name); e == nil {
				view.Close()
				return own, server, nil
			}
			own.Close()
		}
	}
	if err != nil {
		view.Close()
		return nil, nil, err
	}
	return view, server, nil
}

// trusted returns an error if the policy doesn't admit the server's item, for example after a change to the signed
// file.
func (o *opened) trusted(ctx context.Context, s *catalog.Server) error {
	err := o.Admit.Require(ctx, s.Item, policy.ToUse)
	if err == nil {
		return nil
	}
	ref := s.Item.Ref.String()
	f := fault.Of(err)
	if name := o.Name(s.Item.Space, s.Item.Path); !strings.Contains(f.Text, s.Item.Path) &&
		!strings.Contains(f.Text, ref) {
		f.Text = fmt.Sprintf("%q %s", name, f.Text)
	}
	f.Hint = []string{fault.Command("rye verify", ref), fault.Command("rye sign", ref)}
	return f.On("ref", ref)
}

// memory opens the stored announcements of the servers of a space, and returns its directory. The servers of a bundle
// have those of the project that uses it.
func (o *opened) memory(s *ai.Space) (catalog.Memory, string, error) {
	dir := s.Dir
	if dir == "" {
		dir = o.Root.DotAI()
	}
	state := o.a.Dir(cli.StatePlace)
	if state.Err != nil {
		return catalog.Memory{}, "", state.Err
	}
	return catalog.MemoryIn(state.Value, dir), dir, nil
}

// changes compares a server's last announcement with its items. It returns nil without an announcement.
func (o *opened) changes(server *catalog.Server) (*catalog.Known, []catalog.Change, error) {
	if server.Item == nil {
		return nil, nil, nil
	}
	m, _, err := o.memory(server.Item.Space)
	if err != nil {
		return nil, nil, err
	}
	k, err := m.Get(server.Name)
	if err != nil || k == nil {
		return nil, nil, err
	}
	all, err := catalog.Compare(server.At, server.Tools, k.Announcement, catalog.OthersOf(o.servers, server.Name))
	return k, all, err
}

// Stage opens a stage for the project, or outside of projects one without. The caller closes it.
func Stage(ctx context.Context, a *cli.App) (*catalog.Stage, error) { return StageWith(ctx, a, nil) }

// StageWith opens a stage like Stage, whose items may run with the files of plugins.
func StageWith(ctx context.Context, a *cli.App, plugins chain.Plugins) (*catalog.Stage, error) {
	p, err := paths.Paths(a).FindProject()
	if err != nil && !errors.Is(err, workspace.ErrNoProject) {
		return nil, err
	}
	options := paths.Session(a)
	options.Plugins = plugins
	return catalog.NewStage(ctx, *paths.Paths(a), paths.Options(a), options, p.Root)
}

// ask calls a server's item, which p prepares, and returns what the server announces and the id of the call.
func ask(ctx context.Context, app *cli.App, p catalog.Preparer, server *catalog.Server) (*catalog.Announcement, string,
	error) {
	if server.Spec.Transport == catalog.HTTP && app.IsOffline() {
		return nil, "", fault.New(fault.Offline, "the server %q can't be asked: %s", server.Name,
			app.Offline().Origin).Try(fault.Command("rye mcp show", server.Name)).On("name", server.Name)
	}
	plan, err := p.Prepare(ctx, server.Item.Ref, false)
	if err != nil {
		return nil, "", err
	}
	defer plan.Close()
	r, err := plan.Run(ctx, nil)
	if err == nil && r.Status != record.OK {
		err = failed(app, plan, r, server)
	}
	if err != nil {
		return nil, "", unasked(app, server, err)
	}
	announced, err := catalog.Parse(r.Value)
	return announced, r.ID, err
}

// failed returns the error of a failed call. After HTTP 401 it says how to sign in or store a token that the server's
// owner gives, and how to grant it to the server.
func failed(app *cli.App, plan *exec.Plan, r *exec.Result, server *catalog.Server) error {
	failure := runs.CallFault(app, plan, r)
	if shim := plan.Shim; shim != nil && shim.Past != "" && slices.Contains(app.Args, shim.Name) {
		args := slices.Clone(app.Args)
		args[slices.Index(args, shim.Name)] = shim.Past
		return failure.Try(fault.Command("rye", args...))
	}
	if r.Trouble == nil || r.Trouble.Status != statusUnauthorized || server.Spec.URL == "" {
		return failure
	}
	// The token is a secret; a header of the server's item refers to it by a variable.
	name := server.Name + "-token"
	variable, err := secret.Variable(name)
	if err != nil {
		return failure
	}
	g := fault.New(fault.AuthRequired, "the server %q requires authentication (HTTP 401)", server.Name).On("url",
		server.Spec.URL).From(failure)
	g.Try(fault.Command("rye auth login", name, server.Spec.URL), fault.Command("rye auth set", name))
	header := []string{"--secret", name, "--header", "Authorization: Bearer ${" + variable + "}"}
	switch {
	case slices.Contains(app.Args, "add") && slices.Contains(app.Args, "mcp"):
		g.Try(app.With(header...))
	case slices.Contains(app.Args, "add"): // rye add, of what a host offers
		g.Try(fault.Command("rye mcp add", append([]string{server.Name, "--http", server.Spec.URL}, header...)...))
	}
	return g.Because("a policy must allow it the secret: exec: {secrets: {" + name + `: ["tool:mcp/**"]}}`)
}

const statusUnauthorized = 401

// unasked returns the error of a server that could not be asked. It removes hints that name the server's item:
// during rye mcp add that item isn't written yet.
func unasked(a *cli.App, s *catalog.Server, err error) error {
	f, ok := fault.Find(err)
	if !ok {
		return err
	}
	f.Hint = slices.DeleteFunc(f.Hint, func(hint string) bool {
		return strings.HasPrefix(hint, "rye exec ") || strings.HasPrefix(hint, "rye show ")
	})
	switch {
	case len(f.Hint) > 0:
	case f.Code == fault.Validation: // the description of the server is wrong
		f.Try("rye docs mcp-servers")
	default:
		f.Try(fault.Command("rye audit list --ref", s.Item.Ref.String()))
	}
	return f
}

// CompleteServers offers the names of servers.
func CompleteServers(ctx context.Context, a *cli.App) []cli.Candidate {
	ctx, cancel := context.WithTimeout(ctx, spaces.CompleteTime)
	defer cancel()
	o, err := openServers(ctx, a, false)
	if err != nil {
		return nil
	}
	defer o.Close()
	return cli.Offer(o.servers, func(s *catalog.Server) (string, string) { return s.Name, "MCP server" })
}
