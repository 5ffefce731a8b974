package catalogs

import (
	"context"
	"fmt"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/edit"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/exec/catalog"
)

type removeRun struct {
	Name   string `arg:"" complete:"mcp" help:"Name of the server."`
	DryRun bool   `help:"Show what would be removed; remove nothing."`
}

// Removed is what was removed.
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

func (c *removeRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	o, err := openServers(ctx, a, false)
	if err != nil {
		return nil, err
	}
	s, _ := catalog.Find(o.servers, c.Name) // one that can't be used can be removed
	if s == nil || s.Item == nil {
		o.Close()
		if o, s, err = openServer(ctx, a, c.Name); err != nil {
			return nil, err
		}
	}
	defer o.Close()
	if err := edit.CheckWritable(s.Item); err != nil {
		return nil, err
	}
	all := []*ai.Item{s.Item} // the server first: without it no tool can be called
	for _, p := range s.Tools {
		all = append(all, p.Item)
	}
	x := &Removed{Name: c.Name, Removed: []string{}, DryRun: c.DryRun, next: "rye lock"}
	if s.Item.Space.Level == ai.User {
		x.next += " --user"
	}
	for _, it := range all {
		x.Removed = append(x.Removed, it.Ref.String())
	}
	if c.DryRun {
		return x, nil
	}
	if err := a.Confirm(ctx, fmt.Sprintf("Remove the server %q with %s?", c.Name, tools(len(s.Tools)))); err != nil {
		return nil, err
	}
	unlock, err := paths.Alone(ctx, a, s.Item.Space.Level == ai.User)
	if err != nil {
		return nil, err
	}
	defer unlock()
	m, err := memory(a, s.Item.Space)
	if err != nil {
		return nil, err
	}
	for i, it := range all {
		with, err := o.Following(ctx, it)
		if err == nil {
			err = o.Remove(ctx, it, with)
		}
		if err == nil && i == 0 {
			err = catalog.RemoveLib(ctx, o.Editor, s)
		}
		if err != nil {
			x.Removed = x.Removed[:i]
			return x, err
		}
	}
	return x, m.Forget(c.Name)
}
