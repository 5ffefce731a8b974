package main

import (
	"cmp"
	"context"
	"strings"
)

func authLsCommand() command {
	return command{
		path: "auth ls", group: "run", help: "List the secrets: where they are, until when, and whose they are.",
		more: "It lists what is kept and what the policy names, and never a value. What stands in the environment counts before what is kept.\n\n" +
			"Examples:\n\n    rye auth ls\n    rye auth ls --json",
		aka: []string{"auth list", "auth status"},
		new: func() runner { return new(authLsRun) }, schema: "auth-ls/1", output: authLsAnswer{},
	}
}

type authLsRun struct{}

type authLsAnswer struct {
	Secrets []secretLine `json:"secrets"`
}

func (*authLsRun) run(_ context.Context, a *app) (answer, error) {
	lines, err := a.secretLines()
	if err != nil {
		return nil, err
	}
	if len(lines) == 0 {
		a.term.note("there are no secrets yet: rye auth set NAME keeps one")
	}
	return authLsAnswer{lines}, nil
}

func (x authLsAnswer) text(t *terminal) {
	var rows [][]string
	for _, l := range x.Secrets {
		rows = append(rows, []string{l.Name, l.state(), cmp.Or(strings.Join(l.Items, ", "), "nobody's")})
	}
	t.rows(rows)
}
