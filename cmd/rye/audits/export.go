// The commands rye audit export and rye audit stats.

package audits

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/exec/audit"
	"github.com/rye-build/rye/exec/audit/record"
)

type auditExportRun struct {
	Output string `short:"o" placeholder:"FILE" complete:"file" help:"Write to FILE instead of standard output."`
	auditFilter
}

type auditExportAnswer struct {
	File     string            `json:"file"`
	Calls    int64             `json:"calls"`
	Problems []*record.Problem `json:"problems"` // damage in the log
}

func (e auditExportAnswer) Text(t *cli.Terminal) { t.Printf("%s\n", e.File) }

func (c *auditExportRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	if app.Term.Json && c.Output == "" {
		return nil, fault.New(fault.Validation,
			"--json needs -o FILE: standard output already gets JSON, one line a call").
			Try("rye audit export", "rye --json audit export -o audit.jsonl")
	}
	dirs, err := Dirs(app)
	if err != nil {
		return nil, err
	}
	filter, err := c.filter(app.Now())
	if err != nil {
		return nil, err
	}
	ans := auditExportAnswer{File: c.Output}
	write := func(to io.Writer) (err error) {
		writer := bufio.NewWriterSize(to, 64<<10)
		var line []byte
		ans.Problems, err = EachCall(ctx, dirs.Log, filter, func(r *audit.Record) error {
			ans.Calls++
			line = append(r.Append(line[:0]), '\n')
			_, err := writer.Write(line)
			return err
		})
		if err == nil && c.Ref == "" && len(c.Status) == 0 {
			err = exportNotes(ctx, dirs.Log, filter, writer)
		}
		return errors.Join(err, writer.Flush())
	}
	if c.Output == "" {
		err := write(app.Term.Data)
		if err == nil {
			err = damaged(ans.Problems)
		}
		return nil, errors.Join(app.Term.Data.Flush(), err)
	}
	file, err := paths.ToWrite(app, c.Output)
	if err != nil {
		return nil, err
	}
	if err := osfile.WriteFile(file, 0o600, false, write); err != nil {
		return nil, err
	}
	app.Term.Note("%s", fault.Count(ans.Calls, "call"))
	return ans, damaged(ans.Problems)
}

type auditStatsRun struct{ auditFilter }

type auditStatsAnswer struct {
	Calls      int64            `json:"calls"`
	Unfinished int64            `json:"unfinished"`
	Statuses   map[string]int64 `json:"statuses"`
	Items      []usageLine      `json:"items"` // most calls first
}

type usageLine struct {
	Ref string `json:"ref"`
	audit.Usage
}

func (c *auditStatsRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	dirs, err := Dirs(a)
	if err != nil {
		return nil, err
	}
	filter, err := c.filter(a.Now())
	if err != nil {
		return nil, err
	}
	stats, err := audit.Stats(ctx, dirs.Log, filter)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		if dirs := damageOf(err); dirs != nil {
			err = damaged([]*record.Problem{dirs})
		}
		return nil, err
	}
	ans := auditStatsAnswer{Calls: stats.Calls, Unfinished: stats.Unfinished, Statuses: stats.Statuses,
		Items: []usageLine{}}
	for ref, u := range stats.Items {
		ans.Items = append(ans.Items, usageLine{ref, *u})
	}
	slices.SortFunc(ans.Items, func(a, b usageLine) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Ref, b.Ref))
	})
	return ans, nil
}

func (s auditStatsAnswer) Text(term *cli.Terminal) {
	rows := [][]string{{"calls", strconv.FormatInt(s.Calls, 10)}}
	for _, status := range slices.Sorted(maps.Keys(s.Statuses)) {
		rows = append(rows, []string{status, strconv.FormatInt(s.Statuses[status], 10)})
	}
	if s.Unfinished > 0 {
		rows = append(rows, []string{UnfinishedCall, strconv.FormatInt(s.Unfinished, 10)})
	}
	term.Rows(rows)
	rows = nil
	for _, u := range s.Items {
		rows = append(rows, []string{u.Ref, fault.Count(u.Calls, "call"), fmt.Sprintf("%d not ok", u.NotOK),
			"took " + tookText(u.Total), "longest " + tookText(u.Longest)})
	}
	term.Rows(rows)
}

// exportNotes writes the steps of requests for approvals, and the questions of agents to registries.
func exportNotes(ctx context.Context, dir string, f audit.Filter, w io.Writer) error {
	in := func(at time.Time) bool { return !at.Before(f.Since) && (f.Until.IsZero() || at.Before(f.Until)) }
	err := exportEach(audit.Steps(ctx, dir, func(s *audit.Step) bool { return in(s.At) }), w)
	if err == nil {
		err = exportEach(audit.Queries(ctx, dir, func(q *audit.Query) bool { return in(q.At) }), w)
	}
	return err
}

// exportEach writes a line for each note. It skips damage, because EachCall has reported it.
func exportEach[T interface{ AppendExport([]byte) []byte }](all iter.Seq2[T, error], w io.Writer) error {
	for n, err := range all {
		if err == nil {
			_, err = w.Write(append(n.AppendExport(nil), '\n'))
		}
		if err != nil && damageOf(err) == nil {
			return err
		}
	}
	return nil
}
