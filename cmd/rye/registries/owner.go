package registries

import (
	"context"
	"strconv"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/lock/registry"
)

type ownerListRun struct {
	Name string `arg:"" name:"namespace" help:"First segment of bundle ids, such as acme."`
	registryFlag
}

type ownerClaimRun struct {
	ownerListRun
	visibilityFlag
}

type visibilityFlag struct {
	Visibility string `placeholder:"WHO" enum:"public,private," default:"" blank:"" help:"public or private: who may read what is published."`
}

type ownerAddRun struct {
	ownerListRun
	Account string `arg:"" help:"Account of the registry."`
}

type ownerRemoveRun struct{ ownerAddRun }

type ownerTransferRun struct{ ownerAddRun }

type ownerSetRun struct {
	ownerListRun
	Approvals   *int  `placeholder:"K" help:"Publish and change only what K other owners approve."`
	TrustedOnly *bool `negatable:"" help:"For a bundle: only its pipelines may publish it."`
	visibilityFlag
}

type ownersAnswer struct {
	Registry string `json:"registry"`
	registry.Space
}

// Text implements cli.Answer.
func (o ownersAnswer) Text(t *cli.Terminal) {
	t.Note("owners of %s at %s:", o.Name, o.Registry)
	for _, owner := range o.Owners {
		t.Printf("%s\n", owner)
	}
	if o.Private {
		host, _, _ := registry.SplitPrivate(o.Registry)
		t.Note("private: only tokens of its owners read it, at %s", host+registry.PrivatePath(o.Name))
	}
	if o.Approvals > 0 {
		t.Note("what is published or changed needs the approval of other owners: %d", o.Approvals)
	}
	if len(o.TrustedOnly) > 0 {
		t.Note("published by their pipelines only: %s", strings.Join(o.TrustedOnly, ", "))
	}
	if s := o.Staged; s != nil {
		t.Note("nothing has changed yet: %s waits for %s, with rye release approve %s", s.Change,
			fault.Count(int64(s.Needs), "approval"), s.ID)
	}
}

// Run implements cli.Runner.
func (c *ownerListRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	return c.do(ctx, app, false, func(s *registry.Session) (*registry.Space, error) { return s.Space(ctx, c.Name) })
}

// Run implements cli.Runner.
func (c *ownerClaimRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	return c.do(ctx, app, true, func(s *registry.Session) (*registry.Space, error) {
		return s.Claim(ctx, c.Name, registry.Claim{Visibility: registry.Visibility(c.Visibility)})
	})
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
		return s.Change(ctx, c.Name, registry.Change{Owner: &registry.OwnerChange{Account: c.Account, Action: action}})
	})
}

// Run implements cli.Runner.
func (c *ownerSetRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	settings := &registry.Settings{Approvals: c.Approvals, Visibility: registry.Visibility(c.Visibility)}
	space, _, bundle := strings.Cut(c.Name, "/")
	switch {
	case c.Approvals == nil && c.TrustedOnly == nil && c.Visibility == "":
		return nil, fault.New(fault.Validation, "nothing to set").Try(app.With("--approvals", "1"))
	case c.Approvals != nil && bundle:
		return nil, fault.New(fault.Validation, "--approvals is for a namespace: %q is a bundle", c.Name).
			Try(fault.Command("rye owner set", append([]string{space, "--approvals", strconv.Itoa(*c.Approvals)},
				c.flag()...)...))
	case c.Visibility != "" && bundle:
		return nil, fault.New(fault.Validation, "--visibility is for a namespace: %q is a bundle", c.Name).
			Try(fault.Command("rye owner set", append([]string{space, "--visibility", c.Visibility}, c.flag()...)...))
	case c.TrustedOnly != nil && !bundle:
		return nil, fault.New(fault.Validation, "--trusted-only is for a bundle: %q is a namespace", c.Name).
			Try(fault.Command("rye owner set", append([]string{space + "/NAME", "--trusted-only"}, c.flag()...)...))
	case bundle:
		settings.TrustedOnly = map[string]bool{c.Name: *c.TrustedOnly}
	}
	question := map[string]string{
		"public":  "publish every version in " + space + " for everyone? The public log keeps them for good.",
		"private": "make " + space + " private? Its name and owners so far stay in the public log.",
	}[c.Visibility]
	if question != "" {
		if err := app.Confirm(ctx, question); err != nil {
			return nil, err
		}
	}
	return c.do(ctx, app, true, func(s *registry.Session) (*registry.Space, error) {
		return s.Change(ctx, space, registry.Change{Settings: settings})
	})
}

func (c *ownerListRun) do(ctx context.Context, app *cli.App, token bool,
	ask func(*registry.Session) (*registry.Space, error)) (cli.Answer, error) {
	at, err := c.at(app, c.Name)
	if err != nil {
		return nil, err
	}
	var session *registry.Session
	if token {
		session, err = open(ctx, app, at)
	} else {
		session, err = openToRead(ctx, app, at, c.Registry != "")
	}
	if err != nil {
		return nil, err
	}
	space, err := ask(session)
	if err != nil {
		return nil, err
	}
	return ownersAnswer{at, *space}, nil
}
