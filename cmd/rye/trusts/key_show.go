package trusts

import (
	"context"
	"strings"

	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/manifest/trust"
)

type keyShowRun struct {
	Name string `arg:"" optional:"" complete:"key" help:"Key."`
}

type keyShowAnswer struct {
	Key trust.KeyState `json:"key"`
}

func (c *keyShowRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	name := c.Name
	if name == "" && app.Env(cli.EnvKey) != "" {
		s, err := openKey(ctx, app, "")
		if err != nil {
			return nil, err
		}
		if _, err := paths.Paths(app).RootPolicy(); err != nil {
			return nil, err
		}
		l := trust.StateOf(s.Name, s.Public(), rootSide(app), app.Now())
		l.Default = true
		return keyShowAnswer{l}, nil
	}
	if name == "" {
		dir, err := paths.KeysDir(app)
		if err != nil {
			return nil, err
		}
		if name, err = dir.Default(); err != nil {
			return nil, err
		}
	}
	l, err := openKeyLine(app, name)
	if err != nil {
		return nil, err
	}
	return keyShowAnswer{l}, nil
}

func (k keyShowAnswer) Text(t *cli.Terminal) {
	l := k.Key
	names := l.Vouches
	if l.Fault != "" {
		names = nil
	}
	t.Rows([][]string{
		{"name", l.Name}, {"public", OrDash(l.Public)}, {"fingerprint", OrDash(l.Fingerprint)}, {"v1", OrDash(l.V1)},
		{"state", keyText(l)}, {"vouches for", OrDash(strings.Join(names, " "))},
	})
}
