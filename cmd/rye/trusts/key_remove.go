package trusts

import (
	"context"
	"fmt"
	"strings"

	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
)

type keyRemoveRun struct {
	Name string `arg:"" complete:"key" help:"Key."`
}

func (c *keyRemoveRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	dir, err := paths.KeysDir(app)
	if err != nil {
		return nil, err
	}
	keyState, err := openKeyLine(app, c.Name)
	if err != nil {
		return nil, err
	}
	if err := app.Confirm(ctx, fmt.Sprintf("remove the key %q, %s, for good?", c.Name,
		OrDash(keyState.Fingerprint))); err != nil {
		return nil, err
	}
	if err := dir.Remove(c.Name); err != nil {
		return nil, NoKey(app, c.Name, err)
	}
	app.Term.Note("removed the key %q, %s", c.Name, OrDash(keyState.Fingerprint))
	if keyState.Default {
		app.Term.Note("no default key any more: sign with --key NAME")
	}
	if len(keyState.Vouches) > 0 && keyState.Fault == "" {
		app.Term.Note("the policy still trusts it for %s: %s", strings.Join(keyState.Vouches, " "),
			strings.Join(keyState.RemoveCommands(rootSide(app).Policy), ", then "))
	}
	return keyShowAnswer{keyState}, nil
}
