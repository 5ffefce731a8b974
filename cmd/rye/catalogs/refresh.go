package catalogs

import (
	"context"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/catalog"
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
func (x *Refreshed) Text(t *cli.Terminal) {
	for i := range x.Tools {
		if x.Tools[i].State == catalog.Same {
			continue
		}
		for _, line := range changeLines(&x.Tools[i]) {
			t.Printf("%s\n", line)
		}
	}
	t.Note("%s", count(x.Tools))
	if next := x.next(); next != "" {
		t.Note("next: %s", next)
	}
}

// next returns the command to run next: it accepts all changes at once, or the first critical one by name. It is
// empty if nothing can be accepted.
func (x *Refreshed) next() (command string) {
	for i := range x.Tools {
		switch c := &x.Tools[i]; {
		case c.State == catalog.Same || c.Refused != "":
		case !c.Critical():
			return fault.Command("rye mcp accept", x.Name)
		case command == "":
			command = acceptCommand(x.Name, c)
		}
	}
	return command
}

func (c *refreshRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	view, server, err := openServer(ctx, a, c.Name)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	if err := view.trusted(ctx, server); err != nil {
		return nil, err
	}
	st, err := stage(ctx, a)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	if err := st.Copy(ctx, view.Editor, server.Item); err != nil {
		return nil, err
	}
	announced, call, err := ask(ctx, a, st, server)
	if err != nil {
		return nil, err
	}
	ans := &Refreshed{Name: server.Name, Call: call}
	if ans.Tools, err = catalog.Compare(server.Name, server.Tools, announced, catalog.OthersOf(view.servers,
		server.Name)); err != nil {
		return nil, err
	}
	st.CheckStubs(server.Name, server.Spec, ans.Tools)
	m, err := memory(a, server.Item.Space)
	if err != nil {
		return nil, err
	}
	if err := m.Put(server.Name, &catalog.Known{Space: server.Item.Space.Dir, Server: catalog.ID(server.Item),
		At:           a.Now().UTC(),
		Announcement: announced}); err != nil {
		return nil, err
	}
	ans.Quarantined = number(ans.Tools, (*catalog.Change).Quarantined)
	ans.Removed = number(ans.Tools, func(c *catalog.Change) bool { return c.State == catalog.Removed })
	return ans, nil
}
