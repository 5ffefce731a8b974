package secrets

import (
	"context"

	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
)

type authRmRun struct {
	Name string `arg:"" complete:"secret" help:"Name of the secret."`
}

func (c *authRmRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	store, err := paths.Secrets(app)
	if err != nil {
		return nil, err
	}
	if c.Name, _, err = nameOf(c.Name); err != nil {
		return nil, err
	}
	if err := store.Remove(ctx, c.Name); err != nil {
		return nil, noSecret(app, c.Name, err)
	}
	lines, err := secretLines(app)
	if err != nil {
		return nil, err
	}
	ans := authAnswer{secretLine{Name: c.Name, Items: []string{}}}
	for _, l := range lines {
		if l.Name == c.Name {
			ans.Secret = l
		}
	}
	app.Term.Note("deleted the secret %q", c.Name)
	if store.Given(c.Name) != "" {
		app.Term.Warn("it is still set in the environment")
	}
	return ans, nil
}
