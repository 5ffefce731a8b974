package registries

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/exec/secret"
	"github.com/rye-build/rye/lock/registry"
)

type loginRun struct {
	URL  string `arg:"" help:"Address of the registry."`
	File bool   `help:"Use the encrypted file instead of the keyring."`
}

type logoutRun struct {
	URL string `arg:"" help:"Address of the registry."`
}

type whoamiRun struct{ registryFlag }

// loggedIn is the token that this user has for a registry.
type loggedIn struct {
	Registry string `json:"registry"`
	registry.Token
}

// Text implements cli.Answer.
func (l loggedIn) Text(t *cli.Terminal) {
	t.Printf("%s\n", l.Account)
	names := "all names"
	if len(l.Names) > 0 {
		names = strings.Join(l.Names, ", ")
	}
	t.Note("token %q at %s: %s, for %s, until %s", l.Label, l.Registry, strings.Join(l.Scopes, ", "), names,
		l.Expires.Format(time.DateOnly))
}

// Run implements cli.Runner.
func (c *loginRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	at, err := address(c.URL)
	if err != nil {
		return nil, err
	}
	name, err := secretOf(at)
	if err != nil {
		return nil, err
	}
	store, err := paths.Secrets(app)
	if err != nil {
		return nil, err
	}
	token, from, err := readToken(ctx, app)
	if err != nil {
		return nil, err
	}
	session, err := open(ctx, app, at, false)
	if err != nil {
		return nil, err
	}
	session.Token = token
	known, err := session.WhoAmI(ctx)
	if err != nil {
		return nil, err
	}
	s := secret.Secret{Name: name, From: from, Expires: known.Expires}
	if _, err := store.Set(ctx, s, token, c.File); err != nil {
		return nil, err
	}
	return loggedIn{at, *known}, nil
}

// readToken reads a token from the terminal or from standard input.
func readToken(ctx context.Context, app *cli.App) (token, from string, err error) {
	if app.Hidden != nil && app.CanAsk() {
		app.Term.Prompt("token: ")
		token, err = app.Hidden(ctx)
		app.Term.Prompt("%s", cli.Styled("\n"))
		return token, "terminal", err
	}
	text, err := io.ReadAll(io.LimitReader(app.Input(ctx), secret.MaxValue+1))
	if token = strings.TrimSpace(string(text)); err == nil && token == "" {
		err = fault.New(fault.Approval,
			"no token: rye login reads it from standard input, or asks for it on a terminal").Try("rye docs registry")
	}
	return token, "stdin", err
}

// loggedOut is a registry for which this user has no token any more.
type loggedOut struct {
	Registry string `json:"registry"`
	Ended    bool   `json:"ended"` // the registry has ended the token, too
}

// Text implements cli.Answer.
func (l loggedOut) Text(t *cli.Terminal) { t.Note("removed the token for %s", l.Registry) }

// Run implements cli.Runner.
func (c *logoutRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	at, err := address(c.URL)
	if err != nil {
		return nil, err
	}
	name, err := secretOf(at)
	if err != nil {
		return nil, err
	}
	store, err := paths.Secrets(app)
	if err != nil {
		return nil, err
	}
	answer := loggedOut{Registry: at}
	if session, err := open(ctx, app, at, true); err == nil {
		known, err := session.WhoAmI(ctx)
		if err == nil {
			err = session.RemoveToken(ctx, known.ID)
		}
		if err != nil && fault.CodeOf(err) != fault.AuthFailed {
			app.Term.Warn("the registry still has the token: %v", err)
		}
		answer.Ended = err == nil
	}
	return answer, store.Remove(ctx, name)
}

// Run implements cli.Runner.
func (c *whoamiRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	at, err := c.at(app, "")
	if err != nil {
		return nil, err
	}
	session, err := open(ctx, app, at, true)
	if err != nil {
		return nil, err
	}
	known, err := session.WhoAmI(ctx)
	if err != nil {
		return nil, err
	}
	return loggedIn{at, *known}, nil
}
