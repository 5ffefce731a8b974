package catalogs

import (
	"context"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/runs"
	"github.com/rye-build/rye/exec/catalog"
	"github.com/rye-build/rye/exec/session"
)

type refreshRun struct {
	Name string `arg:"" complete:"mcp" help:"Name of the server."`
}

// Refreshed compares what a server announces now with its items.
type Refreshed struct {
	Name        string           `json:"name"`
	Call        string           `json:"call"`
	Tools       []catalog.Change `json:"tools"`
	Quarantined int              `json:"quarantined"`
	Removed     int              `json:"removed"`
}

// Text implements cli.Answer.
func (x *Refreshed) Text(term *cli.Terminal) {
	for i := range x.Tools {
		if x.Tools[i].State == catalog.Same {
			continue
		}
		for _, line := range changeLines(&x.Tools[i]) {
			term.Printf("%s\n", line)
		}
	}
	term.Note("%s", count(x.Tools))
	if next := nextAccept(x.Name, x.Tools); next != "" {
		term.Note("next: %s", next)
	}
}

// nextAccept returns the command to run next: it accepts all changes at once, or the first critical one by name. It is
// empty if nothing can be accepted.
func nextAccept(server string, changes []catalog.Change) (command string) {
	for i := range changes {
		switch c := &changes[i]; {
		case c.State == catalog.Same || c.Refused != "":
		case !c.Critical():
			return fault.Command("rye mcp accept", server)
		case command == "":
			command = acceptCommand(server, c)
		}
	}
	return command
}

// ask asks a server: one of rye mcp add as its item is now, and one of a plugin as it is locked, after a person has
// agreed to what it runs and may do.
func (c *refreshRun) ask(ctx context.Context, app *cli.App, view *opened, st *catalog.Stage,
	server *catalog.Server) (*catalog.Announcement, string, error) {
	if server.At.Plugin == "" {
		if err := st.Copy(ctx, view.Editor, server.Item); err != nil {
			return nil, "", err
		}
		return ask(ctx, app, st, server)
	}
	session, err := runs.Open(ctx, app, session.Mode{})
	if err != nil {
		return nil, "", err
	}
	defer session.Close()
	by := real{app, session}
	agreement, err := consent(ctx, by, server)
	if err != nil {
		return nil, "", err
	}
	agreement.say(app)
	if err := app.Confirm(ctx, "Ask it for its tools?"); err != nil {
		return nil, "", err
	}
	return ask(ctx, app, by, server)
}

func (c *refreshRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	view, server, err := openServer(ctx, app, c.Name)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	if err := view.trusted(ctx, server); err != nil {
		return nil, err
	}
	st, err := Stage(ctx, app)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	announced, call, err := c.ask(ctx, app, view, st, server)
	if err != nil {
		return nil, err
	}
	ans := &Refreshed{Name: server.Name, Call: call}
	if ans.Tools, err = catalog.Compare(server.At, server.Tools, announced, catalog.OthersOf(view.servers,
		server.Name)); err != nil {
		return nil, err
	}
	st.CheckStubs(server.At, server.Spec, ans.Tools)
	m, dir, err := view.memory(server.Item.Space)
	if err != nil {
		return nil, err
	}
	if err := m.Put(server.Name, &catalog.Known{Space: dir, Server: catalog.ID(server.Item),
		At:           app.Now().UTC(),
		Announcement: announced}); err != nil {
		return nil, err
	}
	ans.Quarantined = number(ans.Tools, (*catalog.Change).Quarantined)
	ans.Removed = number(ans.Tools, func(c *catalog.Change) bool { return c.State == catalog.Removed })
	return ans, nil
}
