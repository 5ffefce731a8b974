package threads

import (
	"context"
	"fmt"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/ledger"
	"github.com/rye-build/rye/exec/thread/roster"
)

type listRun struct {
	All   bool   `help:"List the threads of all projects."`
	State string `placeholder:"STATE" help:"List only threads in STATE."`
}

type listed struct {
	Threads []listedThread `json:"threads"`
}

type listedThread struct {
	Thread    string   `json:"thread"`
	Directive string   `json:"directive"`
	State     string   `json:"state"` // lost if its directory is gone
	Parent    string   `json:"parent,omitempty"`
	Next      string   `json:"next,omitempty"` // the thread that it handed over to
	Project   string   `json:"project"`
	Spend     float64  `json:"spend"`            // dollars, its own
	Children  float64  `json:"spend_children"`   // dollars, of its children and theirs
	Budget    *float64 `json:"budget,omitempty"` // dollars
	Started   string   `json:"started"`
	Updated   string   `json:"updated"`
	Pruned    string   `json:"pruned,omitempty"`  // when its directory was removed
	Process   int      `json:"process,omitempty"` // that runs it
}

// lost is the state of a thread whose directory is gone.
const lost = "lost"

func (c *listRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	state := app.Dir(cli.StatePlace)
	if state.Err != nil {
		return nil, state.Err
	}
	known := c.State == "" || c.State == lost || c.State == pruned
	for _, s := range roster.States {
		known = known || string(s) == c.State
	}
	if !known {
		return nil, fault.New(fault.Validation, "unknown state %q", c.State).Try("rye docs threads")
	}
	var filter roster.Filter
	if !c.All {
		p, err := paths.Paths(app).FindProject()
		if err != nil {
			return nil, err
		}
		filter.Root = p.Root
	}
	rows, money := thread.Local(state.Value, app.Now)
	defer money.Shut()
	defer rows.Close()
	all, err := control.Tidy(ctx, rows, money, filter, app.Now())
	if err != nil {
		return nil, err
	}
	accounts, err := money.Accounts(ctx)
	if err != nil {
		return nil, err
	}
	answer := listed{Threads: []listedThread{}}
	for _, row := range all {
		if l := listedOf(row, accounts[row.ID]); c.State == "" || l.State == c.State || c.State == pruned &&
			l.Pruned != "" {
			answer.Threads = append(answer.Threads, l)
		}
	}
	if len(answer.Threads) == 0 {
		app.Term.Note("no such threads")
	}
	return answer, nil
}

// listedOf describes a thread and its money.

func listedOf(row *roster.Thread, money *ledger.Balance) listedThread {
	listedThread := listedThread{Thread: row.ID, Directive: row.Directive, State: string(row.State),
		Parent: row.Parent,
		Next:   row.Next, Project: row.Project.Root,
		Started: row.Created.Format(time.RFC3339), Updated: row.Updated.Format(time.RFC3339)}
	if row.Lost {
		listedThread.State = lost
	}
	if row.Pruned != nil {
		listedThread.Pruned = row.Pruned.At.Format(time.RFC3339)
	}
	if row.State == roster.Running {
		listedThread.Process = row.Driver.Process
	}
	if money != nil {
		listedThread.Spend, listedThread.Children = inDollars(money.Own), inDollars(money.Below)
		if money.Budget != nil {
			b := inDollars(*money.Budget)
			listedThread.Budget = &b
		}
	}
	return listedThread
}

func inDollars(nano int64) float64 { return float64(nano) / 1e9 }

func (l listed) Text(t *cli.Terminal) {
	rows := [][]string{}
	for _, one := range l.Threads {
		state := one.State
		if one.Pruned != "" {
			state += ", " + pruned
		}
		rows = append(rows, []string{one.Thread, state, fmt.Sprintf("$%.4f", one.Spend+one.Children), one.Started})
	}
	t.Rows(rows)
}
