package audits

import (
	"context"
	"slices"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/audit"
	"github.com/rye-build/rye/exec/audit/record"
)

type auditListRun struct {
	Last int `placeholder:"N" default:"100" help:"Number of calls, most recent first."`
	auditFilter
}

type auditListAnswer struct {
	Calls    []*audit.Record   `json:"calls"`
	More     bool              `json:"more"`     // --last left out calls that ended earlier
	Problems []*record.Problem `json:"problems"` // damage in the log
}

func (c *auditListRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	if c.Last < 1 {
		return nil, fault.New(fault.Validation, "--last must be at least 1").
			Try("rye audit export")
	}
	dirs, err := Dirs(app)
	if err != nil {
		return nil, err
	}
	filter, err := c.filter(app.Now())
	if err != nil {
		return nil, err
	}
	filter.Last = c.Last + 1
	ans := auditListAnswer{Calls: []*audit.Record{}}
	ans.Problems, err = EachCall(ctx, dirs.Log, filter, func(r *audit.Record) error {
		ans.Calls = append(ans.Calls, r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if ans.More = len(ans.Calls) > c.Last; ans.More {
		ans.Calls = ans.Calls[:c.Last]
	}
	slices.SortFunc(ans.Calls, func(a, b *audit.Record) int { return compare(b, a) })
	switch {
	case ans.More:
		app.Term.Note("more calls match: list them with --last N, or all with rye audit export")
	case len(ans.Calls) == 0 && len(ans.Problems) == 0:
		app.Term.Note("no calls match")
	}
	return ans, damaged(ans.Problems)
}

func (l auditListAnswer) Text(t *cli.Terminal) {
	var rows [][]string
	for i := range l.Calls {
		rows = append(rows, row(l.Calls[i]))
	}
	t.Rows(rows)
}
