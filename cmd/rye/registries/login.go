package registries

import (
	"context"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/exec/secret"
	"github.com/rye-build/rye/lock/registry"
)

type loginRun struct {
	URL   string        `arg:"" help:"Address of the registry."`
	Scope []string      `placeholder:"SCOPE" help:"read, publish, stage or owner (repeatable); default: all."`
	Names []string      `placeholder:"GLOB" help:"Bundles that it is for (repeatable); default: all."`
	Life  time.Duration `placeholder:"TIME" help:"How long it lives, at most a year; default: 90 days."`
	Label string        `placeholder:"TEXT" help:"Name of the token; default: this machine's."`
	File  bool          `help:"Use the encrypted file instead of the keyring."`
}

// allScopes are what a person may do: their own machine acts as they do.
var allScopes = []string{"read", "publish", "stage", "owner"}

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
	name, err := paths.TokenSecret(at)
	if err != nil {
		return nil, err
	}
	store, err := paths.Secrets(app)
	if err != nil {
		return nil, err
	}
	session, err := openToRead(ctx, app, at, false)
	if err != nil {
		return nil, err
	}
	session.Token = ""
	from := "login"
	if app.CanAsk() {
		session.Token, err = c.device(ctx, app, session)
	} else {
		from = "stdin"
		session.Token, err = c.fromInput(ctx, app)
	}
	if err != nil {
		return nil, err
	}
	known, err := session.WhoAmI(ctx)
	if err != nil {
		return nil, err
	}
	s := secret.Secret{Name: name, From: from, Expires: known.Expires}
	if _, err := store.Set(ctx, s, session.Token, c.File); err != nil {
		return nil, err
	}
	return loggedIn{at, *known}, nil
}

// device asks the registry for a token, which a person allows in a browser.
func (c *loginRun) device(ctx context.Context, app *cli.App, session *registry.Session) (string, error) {
	if c.Life < 0 {
		return "", fault.New(fault.Validation, "--life must be greater than 0")
	}
	wanted := registry.Login{Label: c.Label, Scopes: c.Scope, Names: c.Names, Life: c.Life}
	if len(wanted.Scopes) == 0 {
		wanted.Scopes = allScopes
	}
	if wanted.Label == "" {
		wanted.Label = "rye login"
		if machine, err := os.Hostname(); err == nil && machine != "" {
			wanted.Label += " on " + fault.Clip(machine, 60)
		}
	}
	code, err := session.RequestLogin(ctx, wanted)
	if err != nil {
		return "", err
	}
	app.Term.Prompt("open %s in a browser, and type the code %s\n", code.Page, code.User)
	app.Term.Note("it counts for %d minutes; type it only on that page, which you opened yourself",
		int(code.Life.Minutes()))
	return session.AwaitLogin(ctx, code, cas.Sleep)
}

// fromInput reads a token from standard input.
func (c *loginRun) fromInput(ctx context.Context, app *cli.App) (string, error) {
	if len(c.Scope) > 0 || len(c.Names) > 0 || c.Life != 0 || c.Label != "" {
		return "", fault.New(fault.Validation,
			"--scope, --names, --life and --label are for a login with a browser, which needs a terminal").
			Try("rye login " + fault.Quote(c.URL))
	}
	text, err := io.ReadAll(io.LimitReader(app.Input(ctx), secret.MaxValue+1))
	token := strings.TrimSpace(string(text))
	if err == nil && token == "" {
		err = fault.New(fault.Approval,
			"no token: rye login reads it from standard input, or shows a code on a terminal").Try("rye docs registry")
	}
	return token, err
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
	name, err := paths.TokenSecret(at)
	if err != nil {
		return nil, err
	}
	store, err := paths.Secrets(app)
	if err != nil {
		return nil, err
	}
	answer := loggedOut{Registry: at}
	if session, err := open(ctx, app, at); err == nil {
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
	session, err := open(ctx, app, at)
	if err != nil {
		return nil, err
	}
	known, err := session.WhoAmI(ctx)
	if err != nil {
		return nil, err
	}
	return loggedIn{at, *known}, nil
}
