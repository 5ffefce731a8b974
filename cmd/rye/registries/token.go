package registries

import (
	"context"
	"strings"
	"time"

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
	session, err := open(ctx, app, at, true)
	if err != nil {
		return nil, err
	}
	all, err := session.Tokens(ctx)
	if err != nil {
		return nil, err
	}
	return tokenList{at, all}, nil
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
	session, err := open(ctx, app, at, true)
	if err != nil {
		return nil, err
	}
	return tokenRemoved{at, c.ID}, session.RemoveToken(ctx, c.ID)
}
