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

func (c *keyRemoveRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	dir, err := paths.KeysDir(a)
	if err != nil {
		return nil, err
	}
	l, err := openKeyLine(a, c.Name)
	if err != nil {
		return nil, err
	}
	if err := a.Confirm(ctx, fmt.Sprintf("remove the key %q, %s, for good?", c.Name,
		OrDash(l.Fingerprint))); err != nil {
		return nil, err
	}
	if err := dir.Remove(c.Name); err != nil {
		return nil, NoKey(a, c.Name, err)
	}
	a.Term.Note("removed the key %q, %s", c.Name, OrDash(l.Fingerprint))
	if l.Default {
		a.Term.Note("no default key any more: sign with --key NAME")
	}
	if len(l.Vouches) > 0 && l.Fault == "" {
		a.Term.Note("the policy still trusts it for %s: %s", strings.Join(l.Vouches, " "),
			strings.Join(l.RemoveCommands(rootSide(a).Policy), ", then "))
	}
	return keyShowAnswer{l}, nil
}
