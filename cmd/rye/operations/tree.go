package operations

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/thread/control"
)

// This file has rye thread tree and rye thread search.

type treeRun struct {
	Thread string `arg:"" optional:"" complete:"thread" help:"Thread id; default: all of the project."`
	Chain  bool   `help:"Show the threads before and after it in its chain."`
}

// forest lists threads, each followed by its children, or the threads of a chain.
type forest struct {
	Threads []*control.Node `json:"threads"`
}

func (c *treeRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	if c.Chain && c.Thread == "" {
		return nil, fault.New(fault.Validation, "--chain needs a thread").Try("rye thread list")
	}
	d, done, err := open(app)
	if err != nil {
		return nil, err
	}
	defer done()
	get := d.Tree
	if c.Chain {
		get = d.Chain
	}
	nodes, err := get(ctx, c.Thread)
	if err != nil {
		return nil, err
	}
	if len(nodes) == 0 {
		app.Term.Note("no such threads")
	}
	return forest{nodes}, nil
}

// Text prints children below their parents.
func (f forest) Text(t *cli.Terminal) {
	rows := [][]string{}
	for _, n := range f.Threads {
		row := []string{strings.Repeat("  ", n.Depth) + n.Thread, n.Status, dollars(n.Spend),
			n.Started.UTC().Format(time.RFC3339)}
		if n.Continues != "" {
			row = append(row, "continues "+n.Continues)
		}
		rows = append(rows, row)
	}
	t.Rows(rows)
}

type searchRun struct {
	Thread string `arg:"" complete:"thread" help:"Thread id, or the beginning of one."`
	Query  string `arg:"" help:"Text to find; case is ignored."`
	Regex  bool   `help:"QUERY is a regular expression."`
	Max    int    `placeholder:"N" default:"50" help:"Stop after N matches."`
}

type found struct{ *control.Hits }

func (c *searchRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	if c.Max < 1 {
		return nil, fault.New(fault.Validation, "--max must be at least 1")
	}
	d, done, err := open(app)
	if err != nil {
		return nil, err
	}
	defer done()
	hits, err := d.Search(ctx, c.Thread, control.Query{Text: c.Query, Regex: c.Regex, Most: c.Max})
	if err != nil {
		return nil, err
	}
	for _, id := range hits.Damaged {
		app.Term.Warn("%s is damaged: only the part before the damage was searched: %s", id,
			fault.Command("rye thread verify", id))
	}
	switch {
	case len(hits.Results) == 0:
		app.Term.Note("no matches")
	case hits.Truncated:
		app.Term.Note("stopped after %s; --max shows more", fault.Count(int64(len(hits.Results)), "match"))
	}
	return found{hits}, nil
}

// Text prints a line for each match: thread, line, type of event, text.
func (f found) Text(t *cli.Terminal) {
	for _, h := range f.Results {
		t.Printf("%s:%d: %s: %s\n", h.Thread, h.Line, h.Type,
			fmt.Sprintf("%.160s", strings.Join(strings.Fields(h.Snippet), " ")))
	}
}
