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

func (c *trustUpdateRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	if c.From != "" && c.List == "" {
		return nil, fault.New(fault.Validation, "--from needs the name of a list").
			Try("rye trust update LIST --from " + fault.Quote(c.From))
	}
	root, err := paths.Paths(app).RootPolicy()
	if err != nil {
		return nil, err
	}
	project, err := paths.Paths(app).ProjectPolicy()
	if err != nil {
		return nil, err
	}
	from := app.Absolute(cli.Setting{Value: c.From})
	if from.Err != nil && c.From != "" {
		return nil, from.Err
	}
	if c.From == "" {
		from.Value = ""
	}
	listUpdate, faults := paths.Lists(app).UpdateAll(ctx, root, project, c.List, from.Value)
	for i, f := range faults {
		if i > 0 {
			app.Term.Warn("%s", f.Text)
		}
	}
	switch {
	case len(faults) > 0:
		return trustUpdateAnswer{listUpdate}, faults[0]
	case c.List != "" && len(listUpdate.Lists) == 0:
		return nil, fault.New(fault.NotFound, "the policy names no revocation list %q", c.List).Try("rye trust list")
	case len(listUpdate.Lists) == 0:
		app.Term.Note("the policy names no revocation lists")
	}
	return trustUpdateAnswer{listUpdate}, nil
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
