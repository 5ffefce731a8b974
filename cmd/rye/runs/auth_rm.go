package runs

import (
	"context"

	"github.com/rye-build/rye/cmd/rye/cli"
)

func AuthRmCommand() cli.Command {
	return cli.Command{
		Path: "auth remove", Quiet: true, Group: "run", Help: "Delete a secret.",
		More: "It is taken out of the keyring, or out of the file. Who gave it to you still takes it: have it revoked there." +
			"\n\nExamples:\n\n    rye auth remove OPENAI_API_KEY",
		Aka: []string{"logout", "auth delete", "auth logout"},
		New: func() cli.Runner { return new(authRmRun) }, Schema: "auth-rm/1", Output: authAnswer{},
	}
}

type authRmRun struct {
	Name string `arg:"" help:"Name of the secret."`
}

func (*authRmRun) Complete(_ context.Context, a *cli.App, _, _ string) []cli.Candidate {
	return completeSecrets(a)
}

func (c *authRmRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	store, err := Secrets(a)
	if err != nil {
		return nil, err
	}
	if err := store.Remove(ctx, c.Name); err != nil {
		return nil, noSecret(a, c.Name, err)
	}
	lines, err := secretLines(a)
	if err != nil {
		return nil, err
	}
	ans := authAnswer{secretLine{Name: c.Name, Items: []string{}}}
	for _, l := range lines {
		if l.Name == c.Name {
			ans.Secret = l
		}
	}
	a.Term.Note("forgot the secret %q", c.Name)
	if store.Given(c.Name) != "" {
		a.Term.Warn("it is set in the environment still")
	}
	return ans, nil
}
