package main

import "context"

func authRmCommand() command {
	return command{
		path: "auth rm", group: "run", help: "Forget a secret.",
		more: "It is taken out of the keyring, or out of the file. Who gave it to you still takes it: have it revoked there." +
			"\n\nExamples:\n\n    rye auth rm OPENAI_API_KEY",
		aka: []string{"logout", "auth remove", "auth delete", "auth logout"},
		new: func() runner { return new(authRmRun) }, schema: "auth-rm/1", output: authAnswer{},
	}
}

type authRmRun struct {
	Name string `arg:"" help:"The secret."`
}

func (*authRmRun) complete(_ context.Context, a *app, _, _ string) []candidate {
	return completeSecrets(a)
}

func (c *authRmRun) run(ctx context.Context, a *app) (answer, error) {
	store, err := a.secrets()
	if err != nil {
		return nil, err
	}
	if err := store.Remove(ctx, c.Name); err != nil {
		return nil, a.noSecret(err)
	}
	lines, err := a.secretLines()
	if err != nil {
		return nil, err
	}
	ans := authAnswer{secretLine{Name: c.Name, Items: []string{}}}
	for _, l := range lines {
		if l.Name == c.Name {
			ans.Secret = l
		}
	}
	a.term.note("forgot the secret %q", c.Name)
	if store.Given(c.Name) != "" {
		a.term.warn("it is set in the environment still")
	}
	return ans, nil
}
