package secrets

import (
	"context"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/exec/oauth"
	"github.com/rye-build/rye/exec/secret"
)

type authLoginRun struct {
	Name     string   `arg:"" complete:"secret" help:"Name of the secret."`
	URL      string   `arg:"" help:"Address of the server, as in https://mcp.example.com/mcp."`
	Scope    []string `placeholder:"SCOPE" help:"Ask for this scope; default: what the server names (repeatable)."`
	ClientID string   `placeholder:"ID" help:"Use a client that is registered already."`
	Client   string   `name:"client-secret" placeholder:"NAME" help:"Name of the secret that holds the client's own secret."`
	File     bool     `help:"Use the encrypted file instead of the keyring."`
}

func (c *authLoginRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	store, err := paths.Secrets(a)
	if err != nil {
		return nil, err
	}
	if _, err := secret.Variable(c.Name); err != nil {
		return nil, err
	}
	if a.Globals.Offline {
		return nil, fault.New(fault.Offline, "signing in needs the network").On("secret", c.Name)
	}
	l := oauth.Login{Server: c.URL, ClientID: c.ClientID, Scopes: c.Scope, Now: a.Now, Show: func(address string) {
		a.Term.Note("open this address in a browser and sign in:\n%s", address)
	}}
	if c.Client != "" {
		if c.ClientID == "" {
			return nil, fault.New(fault.Validation, "--client-secret needs --client-id")
		}
		if l.ClientSecret, err = store.Get(ctx, c.Client); err != nil {
			return nil, err
		}
	}
	g, err := l.Run(ctx)
	if err != nil {
		return nil, err
	}
	if err := secret.Check(c.Name, g.Access); err != nil {
		return nil, err
	}
	s, err := store.Set(ctx, g.Secret(c.Name), g.Text(), c.File)
	if err != nil {
		return nil, err
	}
	items := secretItems(a)[c.Name]
	ans := authAnswer{openSecretLine(a, store, s, items)}
	a.Term.Note("signed in at %s; the token is stored as the secret %q", fault.Quote(g.Issuer), c.Name)
	if ans.Secret.Where == "environment" {
		a.Term.Warn("%s in the environment overrides it", ans.Secret.Variable)
	}
	if len(items) == 0 {
		a.Term.Note("no item may use it yet: add exec: {secrets: {%s: [GLOB]}} to the policy", c.Name)
	}
	return ans, nil
}
