package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/audit"
	"github.com/rye-build/rye/exec/audit/journal"
)

func auditExportCommand() command {
	return command{
		path: "audit export", group: "run", help: "Write all that is known of calls, as lines of JSON.",
		more: "Each line is one call, in the order they ended, process by process; those that haven't ended come last of their process. " +
			"Where the log is damaged the rest of that segment is left out, which is told, and the exit status is 1.\n\nExamples:\n\n" +
			"    rye audit export --since 2026-11-01 --until 2026-12-01 -o november.jsonl\n    rye audit export --status failed | head",
		aka: []string{"audit dump"},
		new: func() runner { return new(auditExportRun) }, schema: "audit-export/1", output: auditExportAnswer{},
	}
}

type auditExportRun struct {
	Output string `short:"o" placeholder:"FILE" complete:"file" help:"Write to FILE instead of standard output."`
	auditFilter
}

type auditExportAnswer struct {
	File     string             `json:"file"`
	Calls    int64              `json:"calls"`
	Problems []*journal.Problem `json:"problems"` // where the log isn't as it was written
}

func (e auditExportAnswer) text(t *terminal) { t.printf("%s\n", e.File) }

func (c *auditExportRun) run(ctx context.Context, a *app) (answer, error) {
	if a.term.json && c.Output == "" {
		return nil, &fault.Error{Code: fault.Validation, Text: "what is written is JSON already, a line for each call: leave out --json, or say where it goes",
			Hint: []string{"rye audit export", "rye --json audit export -o FILE"}}
	}
	p, err := a.auditPlaces()
	if err != nil {
		return nil, err
	}
	f, err := c.filter(a.now())
	if err != nil {
		return nil, err
	}
	ans := auditExportAnswer{File: c.Output}
	write := func(to io.Writer) (err error) {
		w := bufio.NewWriterSize(to, 64<<10)
		var line []byte
		ans.Problems, err = eachCall(ctx, p.log, f, func(r *audit.Record) error {
			ans.Calls++
			line = append(r.Append(line[:0]), '\n')
			_, err := w.Write(line)
			return err
		})
		return errors.Join(err, w.Flush())
	}
	if c.Output == "" {
		err := write(a.term.data)
		if err == nil {
			err = damaged(ans.Problems)
		}
		return nil, errors.Join(a.term.data.Flush(), err)
	}
	file, err := a.toWrite(c.Output)
	if err != nil {
		return nil, err
	}
	if err := writeFile(file, 0o600, false, write); err != nil {
		return nil, err
	}
	a.term.note("%s", fault.Count(ans.Calls, "call"))
	return ans, damaged(ans.Problems)
}

func auditStatsCommand() command {
	return command{
		path: "audit stats", group: "run", help: "Count calls: by item, by how they ended, and how long they took.",
		more: "Examples:\n\n    rye audit stats --since 7d\n    rye audit stats --ref 'tool:acme/**' --json",
		aka:  []string{"audit summary"},
		new:  func() runner { return new(auditStatsRun) }, schema: "audit-stats/1", output: auditStatsAnswer{},
	}
}

type auditStatsRun struct{ auditFilter }

type auditStatsAnswer struct {
	Calls      int64            `json:"calls"`
	Unfinished int64            `json:"unfinished"`
	Statuses   map[string]int64 `json:"statuses"`
	Items      []usageLine      `json:"items"` // those that were called most first
}

type usageLine struct {
	Ref string `json:"ref"`
	audit.Usage
}

func (c *auditStatsRun) run(ctx context.Context, a *app) (answer, error) {
	p, err := a.auditPlaces()
	if err != nil {
		return nil, err
	}
	f, err := c.filter(a.now())
	if err != nil {
		return nil, err
	}
	s, err := audit.Stats(ctx, p.log, f)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		if p := damageOf(err); p != nil {
			err = damaged([]*journal.Problem{p})
		}
		return nil, err
	}
	ans := auditStatsAnswer{Calls: s.Calls, Unfinished: s.Unfinished, Statuses: s.Statuses, Items: []usageLine{}}
	for ref, u := range s.Items {
		ans.Items = append(ans.Items, usageLine{ref, *u})
	}
	slices.SortFunc(ans.Items, func(a, b usageLine) int { return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Ref, b.Ref)) })
	return ans, nil
}

func (s auditStatsAnswer) text(t *terminal) {
	rows := [][]string{{"calls", strconv.FormatInt(s.Calls, 10)}}
	for _, status := range slices.Sorted(maps.Keys(s.Statuses)) {
		rows = append(rows, []string{status, strconv.FormatInt(s.Statuses[status], 10)})
	}
	if s.Unfinished > 0 {
		rows = append(rows, []string{unfinishedCall, strconv.FormatInt(s.Unfinished, 10)})
	}
	t.rows(rows)
	rows = nil
	for _, u := range s.Items {
		rows = append(rows, []string{u.Ref, fault.Count(u.Calls, "call"), fmt.Sprintf("%d not ok", u.NotOK), "took " + tookText(u.Total), "longest " + tookText(u.Longest)})
	}
	t.rows(rows)
}
