package registries

import (
	"context"

	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/lock/registry"
)

type yankRun struct {
	Version string `arg:"" name:"id@version" help:"Version of a bundle, as ID@VERSION."`
	registryFlag
}

type unpublishRun struct{ yankRun }

// withdrawn is a version that was yanked or unpublished.
type withdrawn struct {
	Registry    string `json:"registry"`
	Unpublished bool   `json:"unpublished"`
	registry.Published
}

// Text implements cli.Answer.
func (w withdrawn) Text(t *cli.Terminal) {
	t.Printf("%s@%s\n", w.Bundle, w.Version)
	if w.Unpublished {
		t.Note("unpublished: its archive is gone, and its number is never given again")
		return
	}
	t.Note("yanked: no lock takes it anew, and locks that have it still fetch it")
}

// Run implements cli.Runner.
func (c *yankRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	return c.withdraw(ctx, app, false)
}

// Run implements cli.Runner.
func (c *unpublishRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	return c.withdraw(ctx, app, true)
}

func (c *yankRun) withdraw(ctx context.Context, app *cli.App, unpublish bool) (cli.Answer, error) {
	id, version, err := split(c.Version)
	if err != nil {
		return nil, err
	}
	at, err := c.at(app, id)
	if err != nil {
		return nil, err
	}
	session, err := open(ctx, app, at)
	if err != nil {
		return nil, err
	}
	question := "yank " + c.Version + " at " + at + "?"
	if unpublish {
		question = "unpublish " + c.Version + " at " + at + "? Locks that have it can't fetch it any more."
	}
	if err := app.Confirm(ctx, question); err != nil {
		return nil, err
	}
	found, err := session.Withdraw(ctx, registry.Withdrawal{Bundle: id, Version: version, Unpublish: unpublish})
	if err != nil {
		return nil, err
	}
	return withdrawn{Registry: at, Unpublished: unpublish, Published: *found}, nil
}
