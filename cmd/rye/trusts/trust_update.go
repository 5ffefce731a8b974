package trusts

import (
	"context"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/manifest/trust"
)

type trustUpdateRun struct {
	List string `arg:"" optional:"" complete:"list" help:"List; default: all."`
	From string `placeholder:"FILE" complete:"file" help:"Read LIST from FILE."`
}

type trustUpdateAnswer struct{ trust.ListUpdate }

func (c *trustUpdateRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	if c.From != "" && c.List == "" {
		return nil, fault.New(fault.Validation, "--from needs the name of a list").
			Try("rye trust update LIST --from " + fault.Quote(c.From))
	}
	root, err := paths.Paths(a).RootPolicy()
	if err != nil {
		return nil, err
	}
	project, err := paths.Paths(a).ProjectPolicy()
	if err != nil {
		return nil, err
	}
	from := a.Absolute(cli.Setting{Value: c.From})
	if from.Err != nil && c.From != "" {
		return nil, from.Err
	}
	if c.From == "" {
		from.Value = ""
	}
	u, faults := paths.Lists(a).UpdateAll(ctx, root, project, c.List, from.Value)
	for i, f := range faults {
		if i > 0 {
			a.Term.Warn("%s", f.Text)
		}
	}
	switch {
	case len(faults) > 0:
		return trustUpdateAnswer{u}, faults[0]
	case c.List != "" && len(u.Lists) == 0:
		return nil, fault.New(fault.NotFound, "the policy names no revocation list %q", c.List).Try("rye trust list")
	case len(u.Lists) == 0:
		a.Term.Note("the policy names no revocation lists")
	}
	return trustUpdateAnswer{u}, nil
}

func (u trustUpdateAnswer) Text(t *cli.Terminal) {
	var rows [][]string
	for _, l := range u.Lists {
		row := listRow(l)
		row[0] = l.Name
		if !l.Changed {
			row[1] += ", unchanged"
		}
		rows = append(rows, row)
	}
	t.Rows(rows)
}
