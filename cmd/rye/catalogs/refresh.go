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

// Refreshed is what a server announces now, against its items.
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

// next accepts what can be accepted: all at once, or the first that has to be named.
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
	o, s, err := openServer(ctx, a, c.Name)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	if err := o.trusted(ctx, s); err != nil {
		return nil, err
	}
	st, err := stage(ctx, a)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	if err := st.Copy(ctx, o.Editor, s.Item); err != nil {
		return nil, err
	}
	announced, call, err := ask(ctx, a, st, s)
	if err != nil {
		return nil, err
	}
	x := &Refreshed{Name: s.Name, Call: call}
	if x.Tools, err = catalog.Compare(s.Name, s.Tools, announced, catalog.OthersOf(o.servers, s.Name)); err != nil {
		return nil, err
	}
	st.CheckStubs(s.Name, s.Spec, x.Tools)
	m, err := memory(a, s.Item.Space)
	if err != nil {
		return nil, err
	}
	if err := m.Put(s.Name, &catalog.Known{Space: s.Item.Space.Dir, Server: catalog.ID(s.Item), At: a.Now().UTC(),
		Announcement: announced}); err != nil {
		return nil, err
	}
	x.Quarantined = number(x.Tools, (*catalog.Change).Quarantined)
	x.Removed = number(x.Tools, func(c *catalog.Change) bool { return c.State == catalog.Removed })
	return x, nil
}
