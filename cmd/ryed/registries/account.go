package registries

import (
	"context"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/registry"
)

type accountAddRun struct {
	dataFlags
	Account string `arg:"" help:"Name of the account."`
}

type accountDisableRun struct{ accountAddRun }

type accountAnswer struct {
	Account  string `json:"account"`
	Disabled bool   `json:"disabled"`

	next string // the command that lets its person in
}

// Text implements cli.Answer.
func (a accountAnswer) Text(t *cli.Terminal) {
	t.Printf("%s\n", a.Account)
	if a.Disabled {
		t.Note("its tokens are gone")
	}
	if a.next != "" {
		t.Note("a link for its person: %s", a.next)
	}
}

// Run implements cli.Runner.
func (c *accountAddRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	data, err := c.open(ctx, app)
	if err != nil {
		return nil, err
	}
	defer data.Close()
	account, err := data.AddAccount(ctx, c.Account)
	if err != nil {
		return nil, err
	}
	answer := accountAnswer{Account: account.Name, Disabled: account.Disabled}
	if !account.Disabled {
		answer.next = fault.Command("ryed registry account invite", account.Name, "--data", c.Data)
	}
	return answer, nil
}

type accountInviteRun struct{ accountAddRun }

type accountResetRun struct{ accountAddRun }

// linkAnswer is a link with which a passkey is enrolled.
type linkAnswer struct {
	Account string    `json:"account"`
	Link    string    `json:"link"`
	Expires time.Time `json:"expires"`
}

// Text implements cli.Answer.
func (l linkAnswer) Text(t *cli.Terminal) {
	t.Printf("%s\n", l.Link)
	t.Note("it makes a passkey for %s, once, until %s", l.Account, l.Expires.Format("15:04 MST"))
}

// Run implements cli.Runner.
func (c *accountInviteRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	return c.link(ctx, app, (*registry.Registry).Invite)
}

// Run implements cli.Runner.
func (c *accountResetRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	if err := app.Confirm(ctx, "remove all passkeys, sessions and tokens of "+c.Account+"?"); err != nil {
		return nil, err
	}
	return c.link(ctx, app, (*registry.Registry).Reset)
}

func (c *accountAddRun) link(ctx context.Context, app *cli.App,
	ask func(*registry.Registry, context.Context, string) (*registry.Link, error)) (cli.Answer, error) {
	data, err := c.open(ctx, app)
	if err != nil {
		return nil, err
	}
	defer data.Close()
	link, err := ask(data.Registry, ctx, c.Account)
	if err != nil {
		return nil, err
	}
	return linkAnswer{link.Account, link.URL, link.Expires}, nil
}

// Run implements cli.Runner.
func (c *accountDisableRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	data, err := c.open(ctx, app)
	if err != nil {
		return nil, err
	}
	defer data.Close()
	if err := data.Disable(ctx, c.Account, true); err != nil {
		return nil, err
	}
	return accountAnswer{Account: c.Account, Disabled: true}, nil
}

type tokenAddRun struct {
	dataFlags
	Account string        `arg:"" help:"Account whose token it is."`
	Label   string        `placeholder:"TEXT" default:"token" help:"Name of the token (${default})."`
	Scope   []string      `placeholder:"SCOPE" default:"publish" help:"read, publish, stage or owner (repeatable)."`
	Names   []string      `placeholder:"GLOB" help:"Bundles that it is for (repeatable); default: all."`
	Life    time.Duration `placeholder:"TIME" default:"2160h" help:"How long it lives, at most a year (${default})."`
}

type tokenAdded struct {
	Token   string    `json:"token"`
	ID      string    `json:"id"`
	Account string    `json:"account"`
	Scopes  []string  `json:"scopes"`
	Expires time.Time `json:"expires"`
}

// Text implements cli.Answer.
func (a tokenAdded) Text(t *cli.Terminal) {
	t.Printf("%s\n", a.Token)
	t.Note("it is shown once: %s, until %s", strings.Join(a.Scopes, ", "), a.Expires.Format(time.DateOnly))
}

// Run implements cli.Runner.
func (c *tokenAddRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	if c.Life <= 0 {
		return nil, fault.New(fault.Validation, "--life must be greater than 0")
	}
	data, err := c.open(ctx, app)
	if err != nil {
		return nil, err
	}
	defer data.Close()
	wanted := registry.Token{Account: c.Account, Label: c.Label, Names: c.Names,
		Expires: app.Now().Add(c.Life).UTC().Truncate(time.Second)}
	for _, scope := range c.Scope {
		wanted.Scopes = append(wanted.Scopes, registry.Scope(scope))
	}
	secret, made, err := data.AddToken(ctx, wanted)
	if err != nil {
		return nil, err
	}
	return tokenAdded{secret, made.ID, made.Account, c.Scope, made.Expires}, nil
}
