package catalogs

import (
	"cmp"
	"context"
	"os"
	"slices"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/edit"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/exec/catalog"
)

type acceptRun struct {
	Name   string   `arg:"" complete:"mcp" help:"Name of the server."`
	Tools  []string `arg:"" optional:"" name:"tool" help:"Tools to accept, as the server calls them."`
	DryRun bool     `help:"Show what would be written; write nothing."`
	trusts.KeyFlag
}

// Accepted lists the items that rye mcp accept wrote and removed.
type Accepted struct {
	Name    string           `json:"name"`
	Key     string           `json:"key"`
	Tools   []catalog.Change `json:"tools"`
	Written []string         `json:"written"` // refs
	Removed []string         `json:"removed"`
	Left    []string         `json:"left"` // tools that must be named, or can't be items
	DryRun  bool             `json:"dry_run"`
	left    []string         // for each of Left: the command that accepts it, or why none does
	next    string
}

// Text implements cli.Answer.
func (x *Accepted) Text(term *cli.Terminal) {
	if x.DryRun {
		for i := range x.Tools {
			for _, line := range changeLines(&x.Tools[i]) {
				term.Printf("%s\n", line)
			}
		}
		return
	}
	for _, ref := range x.Written {
		term.Printf("wrote %s\n", ref)
	}
	for _, ref := range x.Removed {
		term.Printf("removed %s\n", ref)
	}
	for i, name := range x.Left {
		term.Note("still quarantined: %s: %s", cut(name, maxName), x.left[i])
	}
	if len(x.Written)+len(x.Removed) > 0 {
		term.Note("signed with %s; next: %s", paths.Short(x.Key), x.next)
	}
}

func (c *acceptRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	view, server, err := openServer(ctx, app, c.Name)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	space, err := view.target(server)
	if err != nil {
		return nil, err
	}
	known, changes, err := view.changes(server)
	switch {
	case err != nil:
		return nil, err
	case known == nil || known.Server != catalog.ID(server.Item):
		return nil, fault.New(fault.Conflict, "the server %q has not been asked since its item was written", c.Name).
			Try(fault.Command("rye mcp refresh", c.Name)).On("name", c.Name)
	}
	signer, err := trusts.SigningKey(ctx, app, c.Key)
	if err != nil {
		return nil, err
	}
	st, err := Stage(ctx, app)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	if err := st.Copy(ctx, view.Editor, server.Item); err != nil {
		return nil, err
	}
	st.CheckStubs(server.At, server.Spec, changes)
	ans := &Accepted{Name: c.Name, Key: signer.Public().Fingerprint().String(), Tools: []catalog.Change{},
		Written: []string{}, Removed: []string{},
		Left: []string{}, DryRun: c.DryRun, next: view.next(space, server.At)}
	accepted, err := c.choose(changes, space, ans)
	if err != nil {
		return nil, err
	}
	for _, ch := range accepted {
		ans.Tools = append(ans.Tools, *ch)
	}
	if len(accepted) == 0 {
		app.Term.Note("nothing to accept")
		return ans, nil
	}
	if c.DryRun {
		return ans, nil
	}
	for _, ch := range accepted {
		sayLines(app, changeLines(ch))
	}
	if err := app.Confirm(ctx, "Accept and sign this?"); err != nil {
		return nil, err
	}
	if server.At.Plugin != "" {
		if err := (&pinning{app, view, server.At.Plugin, signer}).require(ctx, server); err != nil {
			return nil, err
		}
	}
	if err := c.write(ctx, app, view, server, space, st, accepted, ans,
		catalog.Key{Private: signer.Private, Now: app.Clock}); err != nil {
		return nil, err
	}
	return ans, nil
}

// in reports whether an item is in a space, which may be missing on disk.
func in(space *ai.Space, it *ai.Item) bool { return it.Space.Dir == space.Dir }

// target returns the space that accepted tools are written to: that of the server's item, or the project for the
// server of a plugin that is a bundle.
func (o *opened) target(server *catalog.Server) (*ai.Space, error) {
	switch {
	case server.At.Plugin == "" || server.Item.Space.Level != ai.System:
		return server.Item.Space, edit.CheckWritable(server.Item)
	case o.Project != nil:
		return o.Project, nil
	}
	dir := o.Root.DotAI()
	return &ai.Space{Label: ai.Project.String(), Level: ai.Project, Dir: dir, FS: os.DirFS(dir)}, nil
}

// choose returns the changes to accept: the named ones, or all that need no name. A critical change needs its name.
func (c *acceptRun) choose(changes []catalog.Change, space *ai.Space,
	ans *Accepted) (accepted []*catalog.Change, err error) {
	for _, name := range c.Tools {
		if !slices.ContainsFunc(changes, func(ch catalog.Change) bool { return calls(name, ch.Tool, ch.Ref) }) {
			return nil, noTool(c.Name, name)
		}
	}
	for i := range changes {
		ch := &changes[i]
		named := slices.ContainsFunc(c.Tools, func(name string) bool { return calls(name, ch.Tool, ch.Ref) })
		switch {
		case ch.State == catalog.Same || len(c.Tools) > 0 && !named:
		case ch.State == catalog.Removed && !in(space, ch.Pinned().Item):
			ans.Left = append(ans.Left, ch.Tool)
			ans.left = append(ans.left, "its item is part of the plugin")
		case ch.Refused != "" && named:
			return nil, fault.New(fault.Validation, "%s", ch.Refused).On("tool", ch.Tool)
		case ch.Refused != "" || ch.Critical() && !named:
			ans.Left = append(ans.Left, ch.Tool)
			ans.left = append(ans.left, cmp.Or(ch.Refused, acceptCommand(c.Name, ch)))
		default:
			accepted = append(accepted, ch)
		}
	}
	return accepted, nil
}

// write writes and signs exactly the changes that were shown. It fails if an item differs from the one that they
// were compared with.
func (c *acceptRun) write(ctx context.Context, app *cli.App, view *opened, server *catalog.Server, space *ai.Space,
	st *catalog.Stage, accepted []*catalog.Change, ans *Accepted, signer catalog.Key) error {
	unlock, err := paths.Alone(ctx, app, space.Level == ai.User)
	if err != nil {
		return err
	}
	defer unlock()
	var write []*catalog.Change
	replaced := map[string]*ai.Item{}
	for _, ch := range accepted {
		if ch.State != catalog.Removed {
			write = append(write, ch)
		}
		if p := ch.Pinned(); p != nil && in(space, p.Item) {
			replaced[p.Item.Ref.String()] = p.Item
		}
	}
	all, err := st.Stubs(ctx, server.At, server.Spec, write, signer)
	if err != nil {
		return err
	}
	if err := catalog.Install(ctx, space, nil, all, replaced, app.Now()); err != nil {
		return err
	}
	for _, it := range all {
		ans.Written = append(ans.Written, it.Ref.String())
	}
	for _, ch := range accepted {
		// A renamed tool can keep its id; then its item was already replaced.
		if ch.State != catalog.Removed || slices.Contains(ans.Written, ch.Ref) {
			continue
		}
		it := ch.Pinned().Item
		with, err := view.Following(ctx, it)
		if err == nil {
			err = view.Remove(ctx, it, with)
		}
		if err != nil {
			return err
		}
		ans.Removed = append(ans.Removed, it.Ref.String())
	}
	return nil
}
