package secrets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/audits"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/exec/secret"
)

type authSetRun struct {
	Name     string `arg:"" complete:"secret" help:"Name of the secret, or oci://HOST for the credentials of a registry."`
	Expires  string `placeholder:"WHEN" help:"Expiry: 30d, 12h, 2027-01-31 or 2027-01-31T18:00:00Z."`
	FromFile string `placeholder:"FILE" complete:"file" help:"Read the value from FILE."`
	File     bool   `help:"Use the encrypted file instead of the keyring."`
}

type authAnswer struct {
	Secret secretLine `json:"secret"`
}

func (x authAnswer) Text(*cli.Terminal) {}

func (c *authSetRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	store, err := paths.Secrets(app)
	if err != nil {
		return nil, err
	}
	name, ofRegistry, err := nameOf(c.Name)
	if err != nil {
		return nil, err
	}
	c.Name = name
	variable, err := secret.Variable(c.Name)
	if err != nil {
		return nil, err
	}
	secret := secret.Secret{Name: c.Name}
	if secret.Expires, err = ParseEnd("--expires", c.Expires, app.Now()); err != nil {
		return nil, err
	}
	value, from, err := c.value(ctx, app)
	if err != nil {
		return nil, err
	}
	secret.From = from
	before, err := store.List()
	if err != nil {
		return nil, err
	}
	if secret, err = store.Set(ctx, secret, value, c.File); err != nil {
		return nil, err
	}
	items := secretItems(app)[c.Name]
	ans := authAnswer{openSecretLine(app, store, secret, items)}
	place := "in the keyring"
	if !secret.Keyring {
		place = fmt.Sprintf("in %q, encrypted with a key in the same directory", store.Dir)
	}
	app.Term.Note("stored the secret %q %s", c.Name, place)
	for _, old := range before {
		if old.Name == c.Name {
			app.Term.Note("it replaces the value of %s", old.Set.Format(time.RFC3339))
		}
	}
	if ans.Secret.Where == "environment" {
		app.Term.Warn("%s in the environment overrides it", variable)
	}
	if len(items) == 0 && !ofRegistry {
		app.Term.Note("no item may use it yet: add exec: {secrets: {%s: [GLOB]}} to the policy", c.Name)
	}
	return ans, nil
}

// nameOf returns the name of a secret. oci://HOST names the secret with the credentials of that registry.
func nameOf(text string) (name string, ofRegistry bool, err error) {
	host, ofRegistry := strings.CutPrefix(text, oci.Scheme)
	if !ofRegistry {
		return text, false, nil
	}
	host, _, _ = strings.Cut(host, "/")
	name, err = paths.RegistrySecret(host)
	return name, true, err
}

// value reads the value of the secret. from is "file", "stdin" or "terminal".
func (c *authSetRun) value(ctx context.Context, app *cli.App) (value, from string, err error) {
	var data []byte
	switch {
	case c.FromFile != "":
		at := app.Absolute(cli.Setting{Value: c.FromFile})
		if at.Err != nil {
			return "", "", at.Err
		}
		trusts.WarnReadable(app, at.Value)
		data, err = osfile.ReadSmall(at.Value, secret.MaxValue+2)
		from = "file"
	case app.Hidden == nil:
		data, err = io.ReadAll(io.LimitReader(app.Input(ctx), secret.MaxValue+3))
		from = "stdin"
	case !app.CanAsk():
		return "", "", fault.New(fault.Approval, "no terminal to ask for the value").
			Try("rye auth set " + fault.Quote(c.Name) + " --from-file secret.txt")
	default:
		app.Term.Prompt("value of %s: ", c.Name)
		value, err = app.Hidden(ctx)
		app.Term.Prompt("%s", cli.Styled("\n"))
		return value, "terminal", err
	}
	if text, ok := strings.CutSuffix(string(data), "\n"); ok {
		return strings.TrimSuffix(text, "\r"), from, err
	}
	return string(data), from, err
}

// ParseEnd parses an expiry: a duration from now, or a date. "" is the zero time.
func ParseEnd(flag, text string, now time.Time) (time.Time, error) {
	left, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n uint16
		n, err = audits.ParseDays(days)
		left = time.Duration(n) * 24 * time.Hour
	}
	at := now.Add(left)
	if err != nil {
		if at, err = trusts.ParseDate(flag, text); err != nil || text == "" {
			if f, ok := errors.AsType[*fault.Error](err); ok {
				f.Why = []string{"or how long, as in 90m, 12h or 30d"}
			}
			return at, err
		}
	}
	if !at.After(now) || at.Year() > 9999 {
		return at, fault.New(fault.Validation, "%s is %q, which is not in the future", flag, text)
	}
	return at, nil
}
