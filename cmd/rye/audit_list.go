package main

import (
	"context"
	"slices"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/audit"
	"github.com/rye-build/rye/exec/audit/journal"
)

func auditListCommand() command {
	return command{
		path: "audit list", group: "run", help: "List the calls that were made.",
		more: "The last to begin stands first. A call that is \"unfinished\" runs, or its process died and nobody knows what became of it. " +
			"rye audit export has all that is known of every call.\n\nExamples:\n\n    rye audit list\n" +
			"    rye audit list --since 2h --status failed --status timeout\n    rye audit list --ref 'tool:acme/**' --last 10 --json",
		aka: []string{"audit ls", "audit log"},
		new: func() runner { return new(auditListRun) }, schema: "audit-list/1", output: auditListAnswer{},
	}
}

type auditListRun struct {
	Last int `placeholder:"N" default:"100" help:"So many, those that ended last."`
	auditFilter
}

type auditListAnswer struct {
	Calls    []auditRecord      `json:"calls"`
	More     bool               `json:"more"`     // there are others, which ended earlier
	Problems []*journal.Problem `json:"problems"` // where the log isn't as it was written
}

func (c *auditListRun) run(ctx context.Context, a *app) (answer, error) {
	if c.Last < 1 {
		return nil, &fault.Error{Code: fault.Validation, Text: "--last is the number of calls to list, and not below 1", Hint: []string{"rye audit export"}}
	}
	p, err := a.auditPlaces()
	if err != nil {
		return nil, err
	}
	f, err := c.filter(a.now())
	if err != nil {
		return nil, err
	}
	f.Last = c.Last + 1
	ans := auditListAnswer{Calls: []auditRecord{}}
	ans.Problems, err = eachCall(ctx, p.log, f, func(r *audit.Record) error {
		rec, err := newAuditRecord(r)
		ans.Calls = append(ans.Calls, rec)
		return err
	})
	if err != nil {
		return nil, err
	}
	if ans.More = len(ans.Calls) > c.Last; ans.More {
		ans.Calls = ans.Calls[:c.Last]
	}
	slices.SortFunc(ans.Calls, func(a, b auditRecord) int { return b.compare(a) })
	switch {
	case ans.More:
		a.term.note("there are more: --last N lists so many, and rye audit export has all")
	case len(ans.Calls) == 0 && len(ans.Problems) == 0:
		a.term.note("there are no such calls")
	}
	return ans, damaged(ans.Problems)
}

func (l auditListAnswer) text(t *terminal) {
	var rows [][]string
	for i := range l.Calls {
		rows = append(rows, l.Calls[i].row())
	}
	t.rows(rows)
}
