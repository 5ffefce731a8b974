package catalogs

import (
	"context"
	"fmt"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/edit"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/exec/catalog"
)

type removeRun struct {
	Name   string `arg:"" complete:"mcp" help:"Name of the server."`
	DryRun bool   `help:"Show what would be removed; remove nothing."`
}

// Removed lists the items that were removed, or would be.
type Removed struct {
	Name    string   `json:"name"`
	Removed []string `json:"removed"` // refs
	DryRun  bool     `json:"dry_run"`
	next    string
}

// Text implements cli.Answer.
func (x *Removed) Text(t *cli.Terminal) {
	for _, ref := range x.Removed {
		t.Printf("%s %s\n", cli.DryVerb(x.DryRun, "removed", "would remove"), ref)
	}
	if !x.DryRun {
		t.Note("next: %s", x.next)
	}
}

func (c *removeRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	view, err := openServers(ctx, app, false)
	if err != nil {
		return nil, err
	}
	server, _ := catalog.Find(view.servers, c.Name) // an invalid server can be removed too
	if server == nil || server.Item == nil {
		view.Close()
		if view, server, err = openServer(ctx, app, c.Name); err != nil {
			return nil, err
		}
	}
	defer view.Close()
	if server.At.Plugin != "" {
		return nil, fault.New(fault.Validation, "the server %q is part of the plugin %q", c.Name, server.At.Plugin).
			On("plugin", server.At.Plugin).Try(fault.Command("rye remove", server.At.Plugin))
	}
	if err := edit.CheckWritable(server.Item); err != nil {
		return nil, err
	}
	all := []*ai.Item{server.Item} // the server first: without it no tool can be called
	for _, p := range server.Tools {
		all = append(all, p.Item)
	}
	ans := &Removed{Name: c.Name, Removed: []string{}, DryRun: c.DryRun, next: "rye lock"}
	if server.Item.Space.Level == ai.User {
		ans.next += " --user"
	}
	for _, it := range all {
		ans.Removed = append(ans.Removed, it.Ref.String())
	}
	if c.DryRun {
		return ans, nil
	}
	if err := app.Confirm(ctx, fmt.Sprintf("Remove the server %q with %s?", c.Name,
		tools(len(server.Tools)))); err != nil {
		return nil, err
	}
	unlock, err := paths.Alone(ctx, app, server.Item.Space.Level == ai.User)
	if err != nil {
		return nil, err
	}
	defer unlock()
	known, _, err := view.memory(server.Item.Space)
	if err != nil {
		return nil, err
	}
	for i, it := range all {
		with, err := view.Following(ctx, it)
		if err == nil {
			err = view.Remove(ctx, it, with)
		}
		if err == nil && i == 0 {
			err = catalog.RemoveLib(ctx, view.Editor, server)
		}
		if err != nil {
			ans.Removed = ans.Removed[:i]
			return ans, err
		}
	}
	return ans, known.Forget(c.Name)
}
