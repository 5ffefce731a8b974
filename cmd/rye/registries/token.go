package registries

import (
	"context"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/lock/registry"
)

type tokenListRun struct{ registryFlag }

type tokenList struct {
	Registry string           `json:"registry"`
	Tokens   []registry.Token `json:"tokens"`
}

// Text implements cli.Answer.
func (l tokenList) Text(t *cli.Terminal) {
	for _, token := range l.Tokens {
		t.Printf("%s  %s  %s  until %s\n", token.ID, token.Label, strings.Join(token.Scopes, ","),
			token.Expires.Format(time.DateOnly))
	}
}

// Run implements cli.Runner.
func (c *tokenListRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	at, err := c.at(app, "")
	if err != nil {
		return nil, err
	}
	session, err := open(ctx, app, at)
	if err != nil {
		return nil, err
	}
	all, err := session.Tokens(ctx)
	if err != nil {
		return nil, err
	}
	return tokenList{at, all}, nil
}

type tokenAddRun struct {
	Label string        `placeholder:"TEXT" default:"token" help:"Name of the token (${default})."`
	Scope []string      `placeholder:"SCOPE" default:"publish" help:"read, publish, stage or owner (repeatable)."`
	Names []string      `placeholder:"GLOB" help:"Bundles that it is for (repeatable); default: all of yours."`
	Life  time.Duration `placeholder:"TIME" help:"How long it lives; default: 90 days, or as long as yours."`
	registryFlag
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
	at, err := c.at(app, "")
	if err != nil {
		return nil, err
	}
	wanted := registry.NewToken{Label: c.Label, Scopes: c.Scope, Names: c.Names}
	if c.Life < 0 {
		return nil, fault.New(fault.Validation, "--life must be greater than 0")
	}
	if c.Life > 0 {
		wanted.Expires = app.Now().Add(c.Life).UTC().Truncate(time.Second)
	}
	session, err := open(ctx, app, at)
	if err != nil {
		return nil, err
	}
	secret, made, err := session.AddToken(ctx, wanted)
	if err != nil {
		return nil, err
	}
	return tokenAdded{secret, made.ID, made.Account, made.Scopes, made.Expires}, nil
}

type tokenRemoveRun struct {
	ID string `arg:"" help:"Id of a token, as rye registry token list shows it."`
	registryFlag
}

type tokenRemoved struct {
	Registry string `json:"registry"`
	ID       string `json:"id"`
}

// Text implements cli.Answer.
func (r tokenRemoved) Text(t *cli.Terminal) { t.Note("the token %s opens nothing any more", r.ID) }

// Run implements cli.Runner.
func (c *tokenRemoveRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	at, err := c.at(app, "")
	if err != nil {
		return nil, err
	}
	session, err := open(ctx, app, at)
	if err != nil {
		return nil, err
	}
	return tokenRemoved{at, c.ID}, session.RemoveToken(ctx, c.ID)
}
