package operations

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/threads/live"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/roster"
)

// This file has rye thread wait and rye thread result.

type waitRun struct {
	Threads []string       `arg:"" name:"thread" complete:"thread" help:"Thread id, or the beginning of one."`
	Any     bool           `help:"Wait until one of them has ended."`
	Timeout *time.Duration `placeholder:"TIME" help:"Give up after this time, such as 10m."`
}

// outcomes is the answer of rye thread result: the state and the results of threads.
type outcomes struct {
	Threads []*control.Snapshot `json:"threads"`
}

// waited is the answer of rye thread wait: outcomes shown as a table.
type waited struct{ outcomes }

func (c *waitRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	if c.Timeout != nil && *c.Timeout <= 0 {
		return nil, fault.New(fault.Validation, "--timeout must be greater than 0")
	}
	controller, done, err := open(app)
	if err != nil {
		return nil, err
	}
	defer done()
	noted := map[string]bool{}
	how := control.Waiting{Any: c.Any, Timeout: cli.Value(c.Timeout), Show: func(rows []*roster.Thread) {
		for _, row := range rows {
			if row.State == roster.Waiting && !noted[row.ID] {
				noted[row.ID] = true
				app.Term.Note("%s waits for an answer: rye approvals", row.ID)
			}
		}
	}}
	if app.Term.Live && !app.Term.Quiet {
		began := time.Now()
		defer live.Draw(app.Term, "")
		how.Show = func(rows []*roster.Thread) {
			if since := time.Since(began); since >= cli.ProgressAfter {
				live.Draw(app.Term, live.Fit(app.Term, progress(rows, since)))
			}
		}
	}
	all, err := controller.Wait(ctx, c.Threads, how)
	ans := waited{outcomes{Threads: all}}
	if err != nil {
		if fault.CodeOf(err) == fault.Timeout {
			return ans, err
		}
		return nil, err
	}
	for _, o := range all {
		if o.Done() {
			if err := o.Why(); err != nil || c.Any {
				return ans, err
			}
		}
	}
	return ans, nil
}

// progress names the threads that haven't ended and the time waited so far.
func progress(rows []*roster.Thread, since time.Duration) string {
	var rest []string
	for _, row := range rows {
		if !control.Stands(row) {
			rest = append(rest, fmt.Sprintf("%s (%s)", row.ID, row.State))
		}
	}
	return fmt.Sprintf("waiting for %d of %d: %s, %s", len(rest), len(rows), strings.Join(rest, ", "),
		cli.Countdown(since.Seconds()))
}

// Text prints a line for each thread.
func (w waited) Text(t *cli.Terminal) {
	rows := [][]string{}
	for _, o := range w.Threads {
		rows = append(rows, []string{o.Thread, o.Status, fault.Count(o.Cost.Turns, "turn"),
			dollars(o.Cost.Spend + o.Cost.Below)})
	}
	t.Rows(rows)
}

func dollars(n float64) string { return fmt.Sprintf("$%.4f", n) }

type resultRun struct {
	Threads []string `arg:"" name:"thread" complete:"thread" help:"Thread id, or the beginning of one."`
}

func (c *resultRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	d, done, err := open(a)
	if err != nil {
		return nil, err
	}
	defer done()
	all, err := d.Results(ctx, c.Threads)
	if err != nil {
		return nil, err
	}
	return outcomes{Threads: all}, nil
}

// Text prints what each thread returned: its outputs, or its result if it has none.
func (r outcomes) Text(term *cli.Terminal) {
	for i, snapshot := range r.Threads {
		indent := ""
		if len(r.Threads) > 1 {
			if i > 0 {
				term.Printf("\n")
			}
			term.Printf("%s  %s\n", snapshot.Thread, snapshot.Status)
			indent = "  "
		}
		switch {
		case snapshot.Failed != nil:
			term.Note("%s: %s: %s", snapshot.Thread, snapshot.Status, snapshot.Failed.Message)
		case snapshot.Status == string(roster.Waiting):
			term.Note("%s is %s: rye approvals", snapshot.Thread, snapshot.Status)
		case !snapshot.Ended():
			term.Note("%s is %s: %s", snapshot.Thread, snapshot.Status,
				fault.Command("rye thread wait", snapshot.Thread))
		}
		if len(snapshot.Outputs) == 0 && snapshot.Result.Result != "" {
			text(term, indent, snapshot.Result.Result)
		}
		for _, name := range slices.Sorted(maps.Keys(snapshot.Outputs)) {
			v, ok := snapshot.Outputs[name].(string)
			if !ok {
				b, _ := json.Marshal(snapshot.Outputs[name])
				v = string(b)
			}
			text(term, indent, name+": "+v)
		}
	}
}

// text prints a text of a model line by line, indented.
func text(t *cli.Terminal, indent, s string) {
	for line := range strings.Lines(s) {
		t.Printf("%s%s\n", cli.Styled(indent), strings.TrimRight(line, "\n"))
	}
}
