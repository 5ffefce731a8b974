package runs

import (
	"cmp"
	"context"
	"strings"

	"github.com/rye-build/rye/cmd/rye/cli"
)

func AuthLsCommand() cli.Command {
	return cli.Command{
		Path: "auth list", Group: "run", Help: "List secrets with location, expiry and owner.",
		More: "It lists what is kept and what the policy names, and never a value. What stands in the environment counts before what is kept.\n\n" +
			"Examples:\n\n    rye auth list\n    rye auth list --json",
		Aka: []string{"auth status"},
		New: func() cli.Runner { return new(authLsRun) }, Schema: "auth-ls/1", Output: authLsAnswer{},
	}
}

type authLsRun struct{}

type authLsAnswer struct {
	Secrets []secretLine `json:"secrets"`
}

func (*authLsRun) Run(_ context.Context, a *cli.App) (cli.Answer, error) {
	lines, err := secretLines(a)
	if err != nil {
		return nil, err
	}
	if len(lines) == 0 {
		a.Term.Note("there are no secrets yet: rye auth set NAME keeps one")
	}
	return authLsAnswer{lines}, nil
}

func (x authLsAnswer) Text(t *cli.Terminal) {
	var rows [][]string
	for _, l := range x.Secrets {
		rows = append(rows, []string{l.Name, l.state(), cmp.Or(strings.Join(l.Items, ", "), "no tool")})
	}
	t.Rows(rows)
}
