package registries

import (
	"context"

	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/lock/registry"
)

type ownerListRun struct {
	Name string `arg:"" name:"namespace" help:"First segment of bundle ids, such as acme."`
	registryFlag
}

type ownerClaimRun struct{ ownerListRun }

type ownerAddRun struct {
	ownerListRun
	Account string `arg:"" help:"Account of the registry."`
}

type ownerRemoveRun struct{ ownerAddRun }

type ownerTransferRun struct{ ownerAddRun }

type ownersAnswer struct {
	Registry string `json:"registry"`
	registry.Space
}

// Text implements cli.Answer.
func (o ownersAnswer) Text(t *cli.Terminal) {
	for _, owner := range o.Owners {
		t.Printf("%s\n", owner)
	}
}

// Run implements cli.Runner.
func (c *ownerListRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	return c.do(ctx, app, false, func(s *registry.Session) (*registry.Space, error) { return s.Space(ctx, c.Name) })
}

// Run implements cli.Runner.
func (c *ownerClaimRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	return c.do(ctx, app, true, func(s *registry.Session) (*registry.Space, error) { return s.Claim(ctx, c.Name) })
}

// Run implements cli.Runner.
func (c *ownerAddRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	return c.set(ctx, app, registry.AddOwner)
}

// Run implements cli.Runner.
func (c *ownerRemoveRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	return c.set(ctx, app, registry.RemoveOwner)
}

// Run implements cli.Runner.
func (c *ownerTransferRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	question := "give the namespace " + c.Name + " to " + c.Account + "? You aren't its owner any more then."
	if err := app.Confirm(ctx, question); err != nil {
		return nil, err
	}
	return c.set(ctx, app, registry.TransferOwner)
}

func (c *ownerAddRun) set(ctx context.Context, app *cli.App, action registry.OwnerAction) (cli.Answer, error) {
	return c.do(ctx, app, true, func(s *registry.Session) (*registry.Space, error) {
		return s.SetOwner(ctx, c.Name, registry.OwnerChange{Account: c.Account, Action: action})
	})
}

func (c *ownerListRun) do(ctx context.Context, app *cli.App, token bool,
	ask func(*registry.Session) (*registry.Space, error)) (cli.Answer, error) {
	at, err := c.at(app, c.Name)
	if err != nil {
		return nil, err
	}
	session, err := open(ctx, app, at, token)
	if err != nil {
		return nil, err
	}
	space, err := ask(session)
	if err != nil {
		return nil, err
	}
	return ownersAnswer{at, *space}, nil
}
