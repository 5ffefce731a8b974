package catalogs

import (
	"cmp"
	"context"
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

// Accepted is what was written and removed.
type Accepted struct {
	Name    string           `json:"name"`
	Key     string           `json:"key"`
	Tools   []catalog.Change `json:"tools"`
	Written []string         `json:"written"` // refs
	Removed []string         `json:"removed"`
	Left    []string         `json:"left"` // tools that must be named, or can't be items
	DryRun  bool             `json:"dry_run"`
	left    []string         // what to do about each
	next    string
}

// Text implements cli.Answer.
func (x *Accepted) Text(t *cli.Terminal) {
	if x.DryRun {
		for i := range x.Tools {
			for _, line := range changeLines(&x.Tools[i]) {
				t.Printf("%s\n", line)
			}
		}
		return
	}
	for _, ref := range x.Written {
		t.Printf("wrote %s\n", ref)
	}
	for _, ref := range x.Removed {
		t.Printf("removed %s\n", ref)
	}
	for i, name := range x.Left {
		t.Note("still quarantined: %s: %s", cut(name, maxName), x.left[i])
	}
	if len(x.Written)+len(x.Removed) > 0 {
		t.Note("signed with %s; next: %s", paths.Short(x.Key), x.next)
	}
}

func (c *acceptRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	o, s, err := openServer(ctx, a, c.Name)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	if err := edit.CheckWritable(s.Item); err != nil {
		return nil, err
	}
	known, changes, err := o.changes(s)
	switch {
	case err != nil:
		return nil, err
	case known == nil || known.Server != catalog.ID(s.Item):
		return nil, fault.New(fault.Conflict, "the server %q was not asked since its item was written here", c.Name).
			Try(fault.Command("rye mcp refresh", c.Name)).On("name", c.Name)
	}
	k, err := trusts.SigningKey(ctx, a, c.Key)
	if err != nil {
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
	st.CheckStubs(s.Name, s.Spec, changes)
	x := &Accepted{Name: c.Name, Key: k.Public().Fingerprint().String(), Tools: []catalog.Change{},
		Written: []string{}, Removed: []string{},
		Left: []string{}, DryRun: c.DryRun, next: o.next(s.Item.Space, s.Name)}
	chosen, err := c.choose(changes, x)
	if err != nil {
		return nil, err
	}
	for _, ch := range chosen {
		x.Tools = append(x.Tools, *ch)
	}
	if len(chosen) == 0 {
		a.Term.Note("nothing to accept")
		return x, nil
	}
	if c.DryRun {
		return x, nil
	}
	for _, ch := range chosen {
		sayLines(a, changeLines(ch))
	}
	if err := a.Confirm(ctx, "Accept and sign this?"); err != nil {
		return nil, err
	}
	return x, c.write(ctx, a, o, s, st, chosen, x, catalog.Key{Private: k.Private, Now: a.Clock})
}

// choose returns what is to be accepted: what was named, or all that needs no name.
func (c *acceptRun) choose(changes []catalog.Change, x *Accepted) (chosen []*catalog.Change, err error) {
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
		case ch.Refused != "" && named:
			return nil, fault.New(fault.Validation, "%s", ch.Refused).On("tool", ch.Tool)
		case ch.Refused != "" || ch.Critical() && !named:
			x.Left = append(x.Left, ch.Tool)
			x.left = append(x.left, cmp.Or(ch.Refused, acceptCommand(c.Name, ch)))
		default:
			chosen = append(chosen, ch)
		}
	}
	return chosen, nil
}

// write writes exactly what was shown, in place of the items that it was shown against.
func (c *acceptRun) write(ctx context.Context, a *cli.App, o *opened, s *catalog.Server, st *catalog.Stage,
	chosen []*catalog.Change, x *Accepted, k catalog.Key) error {
	space := s.Item.Space
	unlock, err := paths.Alone(ctx, a, space.Level == ai.User)
	if err != nil {
		return err
	}
	defer unlock()
	var write []*catalog.Change
	replaced := map[string]*ai.Item{}
	for _, ch := range chosen {
		if ch.State != catalog.Removed {
			write = append(write, ch)
		}
		if p := ch.Pinned(); p != nil {
			replaced[p.Item.Ref.String()] = p.Item
		}
	}
	all, err := st.Stubs(ctx, s.Name, s.Spec, write, k)
	if err != nil {
		return err
	}
	if err := catalog.Install(ctx, space, nil, all, replaced, a.Now()); err != nil {
		return err
	}
	for _, it := range all {
		x.Written = append(x.Written, it.Ref.String())
	}
	for _, ch := range chosen {
		// One whose name became another that has the same id was replaced.
		if ch.State != catalog.Removed || slices.Contains(x.Written, ch.Ref) {
			continue
		}
		it := ch.Pinned().Item
		with, err := o.Following(ctx, it)
		if err == nil {
			err = o.Remove(ctx, it, with)
		}
		if err != nil {
			return err
		}
		x.Removed = append(x.Removed, it.Ref.String())
	}
	return nil
}
