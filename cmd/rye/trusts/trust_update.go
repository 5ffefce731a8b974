package trusts

import (
	"context"
	"fmt"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/manifest/trust"
)

type trustUpdateRun struct {
	List string `arg:"" optional:"" complete:"list" help:"List, or address of a registry; default: all."`
	From string `placeholder:"FILE" complete:"file" help:"Read LIST from FILE."`
}

type trustUpdateAnswer struct {
	trust.ListUpdate
	Advisories []advisoriesLine `json:"advisories"`
}

// An advisoriesLine is the state of a registry's advisories.
type advisoriesLine struct {
	Registry   string    `json:"registry"`
	Counter    int64     `json:"counter"`
	Issued     time.Time `json:"issued"`
	Advisories int       `json:"advisories"` // their number
	Changed    bool      `json:"changed"`
}

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
	answer := trustUpdateAnswer{listUpdate, []advisoriesLine{}}
	if c.From == "" {
		more, err := answer.readAdvisories(ctx, app, c.List, root, project)
		if err != nil {
			return nil, err
		}
		faults = append(faults, more...)
	}
	for i, f := range faults {
		if i > 0 {
			app.Term.Warn("%s", f.Text)
		}
	}
	switch none := len(answer.Lists)+len(answer.Advisories) == 0; {
	case len(faults) > 0:
		return answer, faults[0]
	case c.List != "" && none:
		return nil, fault.New(fault.NotFound, "the policy names no revocation list %q", c.List).Try("rye trust list")
	case none:
		app.Term.Note("the policy names no revocation lists")
	}
	return answer, nil
}

// readAdvisories reads the advisories of the registries that the policies name.
func (u *trustUpdateAnswer) readAdvisories(ctx context.Context, app *cli.App, only string,
	policies ...*trust.Authority) (faults []*fault.Error, err error) {
	lock, err := paths.AdvisedLock(app)
	if err != nil {
		return nil, err
	}
	updates, err := lock.UpdateAdvisories(ctx, paths.RegistryFetcher(app), only, policies...)
	for _, update := range updates {
		if update.Err != nil {
			f := fault.Of(fmt.Errorf("advisories of %q: %w", update.Registry, update.Err)).
				Because("the last good ones stay in force")
			reason, _ := f.Details["reason"].(string)
			u.Refused = append(u.Refused, trust.RefusedList{Name: update.Registry, Code: f.Code, Reason: reason,
				Message: f.Text})
			faults = append(faults, f)
			continue
		}
		u.Advisories = append(u.Advisories, advisoriesLine{update.Registry, update.Feed.Counter, update.Feed.Issued,
			len(update.Feed.Entries), update.Changed})
	}
	return faults, err
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
	for _, a := range u.Advisories {
		state := fmt.Sprintf("issue %d of %s, %s", a.Counter, a.Issued.Format(time.RFC3339),
			fault.Count(int64(a.Advisories), "advisory"))
		if !a.Changed {
			state += ", unchanged"
		}
		rows = append(rows, []string{a.Registry, state})
	}
	t.Rows(rows)
}
