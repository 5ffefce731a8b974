package trusts

import (
	"context"
	"fmt"
	"strings"

	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
)

func KeyRemoveCommand() cli.Command {
	return cli.Command{
		Path: "key remove", Quiet: true, Group: "trust", Help: "Delete a key.",
		More: "It asks first, or wants --yes: without a copy it can never sign again. What it has signed stays signed, and the " +
			"policy keeps what it says of it.\n\nExamples:\n\n    rye key remove old\n    rye key remove old --yes",
		Aka: []string{"key rm", "key delete"},
		New: func() cli.Runner { return new(keyRemoveRun) }, Schema: "key-remove/1", Output: keyShowAnswer{},
	}
}

type keyRemoveRun struct {
	Name string `arg:"" help:"Key."`
}

func (*keyRemoveRun) Complete(_ context.Context, a *cli.App, _, _ string) []cli.Candidate {
	return CompleteKeys(a)
}

func (c *keyRemoveRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	dir, err := places.KeysDir(a)
	if err != nil {
		return nil, err
	}
	l, err := openKeyLine(a, c.Name)
	if err != nil {
		return nil, err
	}
	if err := a.Confirm(ctx, fmt.Sprintf("remove the key %q, %s, for good?", c.Name, OrDash(l.Fingerprint))); err != nil {
		return nil, err
	}
	if err := dir.Remove(c.Name); err != nil {
		return nil, NoKey(a, c.Name, err)
	}
	a.Term.Note("removed the key %q, %s", c.Name, OrDash(l.Fingerprint))
	if l.Default {
		a.Term.Note("no key signs now where none is named: --key NAME names one")
	}
	if len(l.Vouches) > 0 && l.Fault == "" {
		a.Term.Note("the policy still lets it vouch for %s: %s", strings.Join(l.Vouches, " "), strings.Join(l.RemoveCommands(rootSide(a).Policy), ", and then "))
	}
	return keyShowAnswer{l}, nil
}
