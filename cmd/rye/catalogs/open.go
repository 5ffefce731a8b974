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
	"github.com/rye-build/rye/exec/secret"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/policy"
)

// opened is what the commands see of servers.
type opened struct {
	*spaces.Items
	a       *cli.App
	servers []*catalog.Server
}

// openServers opens the servers of the project, or of the user with user or outside of projects.
func openServers(ctx context.Context, a *cli.App, user bool) (*opened, error) {
	w := paths.UnreadWorkspace(a)
	if !user {
		var err error
		if w, err = paths.OpenWorkspace(a); err != nil {
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
	return &opened{v, a, all}, nil
}

// openServer opens the server of a name: one that can be seen from here, else one of the user.
func openServer(ctx context.Context, a *cli.App, name string) (*opened, *catalog.Server, error) {
	o, err := openServers(ctx, a, false)
	if err != nil {
		return nil, nil, err
	}
	s, err := catalog.Find(o.servers, name)
	if f, ok := fault.Find(err); ok && f.Code == fault.NotFound && o.User == nil {
		if own, e := openServers(ctx, a, true); e == nil {
			if s, e := catalog.Find(own.servers, name); e == nil {
				o.Close()
				return own, s, nil
			}
			own.Close()
		}
	}
	if err != nil {
		o.Close()
		return nil, nil, err
	}
	return o, s, nil
}

// trusted refuses the item of a server that policy doesn't allow to be used, as one that was changed after it was
// signed.
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

// memory is what is remembered of the servers of a space.
func memory(a *cli.App, s *ai.Space) (catalog.Memory, error) {
	state := a.Dir(cli.StatePlace)
	if state.Err != nil {
		return catalog.Memory{}, state.Err
	}
	return catalog.MemoryIn(state.Value, s.Dir), nil
}

// changes compares what a server announced last with its items; nil if nothing is remembered.
func (o *opened) changes(s *catalog.Server) (*catalog.Known, []catalog.Change, error) {
	if s.Item == nil {
		return nil, nil, nil
	}
	m, err := memory(o.a, s.Item.Space)
	if err != nil {
		return nil, nil, err
	}
	k, err := m.Get(s.Name)
	if err != nil || k == nil {
		return nil, nil, err
	}
	all, err := catalog.Compare(s.Name, s.Tools, k.Announcement, catalog.OthersOf(o.servers, s.Name))
	return k, all, err
}

// stage opens a stage for the project, or for none.
func stage(ctx context.Context, a *cli.App) (*catalog.Stage, error) {
	p, err := paths.Paths(a).FindProject()
	if err != nil && !errors.Is(err, workspace.ErrNoProject) {
		return nil, err
	}
	return catalog.NewStage(ctx, *paths.Paths(a), paths.Options(a), paths.Session(a), p.Root)
}

// ask calls the item of a server, which a session has prepared, and returns what it announces and the id of the call.
func ask(ctx context.Context, a *cli.App, p catalog.Preparer, s *catalog.Server) (*catalog.Announcement, string,
	error) {
	if s.Spec.Transport == catalog.HTTP && a.IsOffline() {
		return nil, "", fault.New(fault.Offline, "the server %q can't be asked: %s", s.Name,
			a.Offline().Origin).Try(fault.Command("rye mcp show", s.Name)).On("name", s.Name)
	}
	plan, err := p.Prepare(ctx, s.Item.Ref, false)
	if err != nil {
		return nil, "", err
	}
	defer plan.Close()
	r, err := plan.Run(ctx, nil)
	if err == nil && r.Status != record.OK {
		err = failed(a, plan, r, s)
	}
	if err != nil {
		return nil, "", unasked(a, s, err)
	}
	announced, err := catalog.Parse(r.Value)
	return announced, r.ID, err
}

// failed is the error of a call that a server has answered with no, or not at all.
func failed(a *cli.App, plan *exec.Plan, r *exec.Result, s *catalog.Server) error {
	f := runs.CallFault(a, plan, r)
	if r.Trouble == nil || r.Trouble.Status != statusUnauthorized || s.Spec.URL == "" {
		return f
	}
	// The token is a secret, which the header of the server's item names.
	name := s.Name + "-token"
	variable, err := secret.Variable(name)
	if err != nil {
		return f
	}
	g := fault.New(fault.AuthRequired, "the server %q wants to know who asks: it answered 401", s.Name).On("url",
		s.Spec.URL).From(f)
	g.Try(fault.Command("rye auth login", name, s.Spec.URL))
	if slices.Contains(a.Args, "add") {
		g.Try(a.With("--secret", name, "--header", "Authorization: Bearer ${"+variable+"}"))
	}
	return g.Because("a policy must allow it the secret: exec: {secrets: {" + name + `: ["tool:mcp/**"]}}`)
}

const statusUnauthorized = 401

// unasked is the error of a server that could not be asked. The hints are about this command, not about a call of the
// item, which may not exist.
func unasked(a *cli.App, s *catalog.Server, err error) error {
	f, ok := fault.Find(err)
	if !ok {
		return err
	}
	f.Hint = slices.DeleteFunc(f.Hint, func(hint string) bool {
		return strings.HasPrefix(hint, "rye exec ") || strings.HasPrefix(hint, "rye show ")
	})
	if len(f.Hint) == 0 {
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
