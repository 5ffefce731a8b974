package secrets

import (
	"cmp"
	"context"
	"strings"

	"github.com/rye-build/rye/cmd/rye/cli"
)

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
		a.Term.Note("no secrets yet: rye auth set NAME stores one")
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
