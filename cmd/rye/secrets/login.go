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

func (c *authLoginRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	store, err := paths.Secrets(app)
	if err != nil {
		return nil, err
	}
	if _, err := secret.Variable(c.Name); err != nil {
		return nil, err
	}
	if app.Globals.Offline {
		return nil, fault.New(fault.Offline, "signing in needs the network").On("secret", c.Name)
	}
	login := oauth.Login{Server: c.URL, ClientID: c.ClientID, Scopes: c.Scope, Now: app.Now,
		Show: func(address string) {
			app.Term.Note("open this address in a browser and sign in:\n%s", address)
		}}
	if c.Client != "" {
		if c.ClientID == "" {
			return nil, fault.New(fault.Validation, "--client-secret needs --client-id")
		}
		if login.ClientSecret, err = store.Get(ctx, c.Client); err != nil {
			return nil, err
		}
	}
	grant, err := login.Run(ctx)
	if f, ok := fault.Find(err); ok && f.Code == fault.AuthFailed && len(f.Hint) == 0 {
		return nil, f.Try(fault.Command("rye auth set", c.Name)) // a token that the server's owner has given
	} else if err != nil {
		return nil, err
	}
	if err := secret.Check(c.Name, grant.Access); err != nil {
		return nil, err
	}
	s, err := store.Set(ctx, grant.Secret(c.Name), grant.Text(), c.File)
	if err != nil {
		return nil, err
	}
	items := secretItems(app)[c.Name]
	ans := authAnswer{openSecretLine(app, store, s, items)}
	app.Term.Note("signed in at %s; the token is stored as the secret %q", fault.Quote(grant.Issuer), c.Name)
	if ans.Secret.Where == "environment" {
		app.Term.Warn("%s in the environment overrides it", ans.Secret.Variable)
	}
	if len(items) == 0 {
		app.Term.Note("no item may use it yet: add exec: {secrets: {%s: [GLOB]}} to the policy", c.Name)
	}
	return ans, nil
}
