package audits

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/exec/audit"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/manifest/policy/glob"
)

// UnfinishedCall is the status of a call whose outcome is unknown.
const UnfinishedCall = "unfinished"

// status is the outcome of a call for people.
func status(r *audit.Record) string {
	switch {
	case r.Outcome == nil:
		return UnfinishedCall
	case r.Outcome.Code != "" && !strings.EqualFold(r.Outcome.Code, r.Outcome.Status):
		return r.Outcome.Status + " (" + r.Outcome.Code + ")"
	}
	return r.Outcome.Status
}

// compare orders calls as they began.
func compare(r, o *audit.Record) int {
	return cmp.Or(r.Begin.Compare(o.Begin), cmp.Compare(r.Segment, o.Segment), cmp.Compare(r.Line, o.Line))
}

// row is the line of a call in a list.
func row(r *audit.Record) []string {
	took := "-"
	if r.Outcome != nil {
		took = tookText(r.Outcome.Duration)
	}
	return []string{timeText(r.Begin), r.ID, r.Call.Ref, status(r), took}
}

// timeText is a moment as the log writes it; "" for none.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// tookText is a duration with three or four digits.
func tookText(d time.Duration) string {
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if d >= unit {
			return d.Round(unit / 100).String()
		}
	}
	return d.String()
}

// Position is where a line of the log stands, as --seen takes it.
func Position(p record.Position) string {
	return fmt.Sprintf("%s/%d/%s", cmp.Or(p.Segment, headOfLog), p.Line, p.Sum)
}

// headOfLog stands for the head where a segment is named.
const headOfLog = "head"

// auditFilter chooses calls.
type auditFilter struct {
	Since  string   `placeholder:"TIME" help:"Calls from then on: a date, a UTC time, or 90m ago."`
	Until  string   `placeholder:"TIME" help:"Calls that began before then."`
	Ref    string   `placeholder:"GLOB" complete:"ref" help:"Calls of these items, such as 'tool:acme/**'."`
	Status []string `placeholder:"STATUS" enum:"ok,failed,refused,timeout,cancelled,unfinished" help:"Outcome: ${enum} (repeatable)."`
}

func (c *auditFilter) filter(now time.Time) (f audit.Filter, err error) {
	if f.Since, err = ParseMoment("--since", c.Since, now); err != nil {
		return f, err
	}
	if f.Until, err = ParseMoment("--until", c.Until, now); err != nil {
		return f, err
	}
	var g glob.Glob
	if c.Ref != "" {
		if g, err = glob.Parse(c.Ref); err != nil {
			return f, fault.New(fault.Validation, "--ref: %v", err).From(err)
		}
	}
	if c.Ref == "" && len(c.Status) == 0 {
		return f, nil
	}
	f.Match = func(r *audit.Record) bool {
		status := UnfinishedCall
		if r.Outcome != nil {
			status = r.Outcome.Status
		}
		if len(c.Status) > 0 && !slices.Contains(c.Status, status) {
			return false
		}
		if c.Ref == "" {
			return true
		}
		n, err := glob.ParseName(r.Call.Ref)
		return err == nil && g.Match(n)
	}
	return f, nil
}

// ParseMoment reads a time, or how long ago it was.
func ParseMoment(flag, text string, now time.Time) (time.Time, error) {
	ago, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n uint16
		n, err = ParseDays(days)
		ago = time.Duration(n) * 24 * time.Hour
	}
	if err == nil && ago >= 0 {
		return now.Add(-ago).UTC(), nil
	}
	at, err := trusts.ParseDate(flag, text)
	if f, ok := errors.AsType[*fault.Error](err); ok {
		f.Why = []string{"or how long ago, as in 90m, 12h or 7d"}
	}
	return at, err
}

func ParseDays(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	return uint16(n), err
}

// EachCall visits the calls that a filter takes, and goes on behind what is damaged, which it returns.
func EachCall(ctx context.Context, dir string, f audit.Filter,
	visit func(*audit.Record) error) (damage []*record.Problem, err error) {
	damage = []*record.Problem{}
	for r, err := range audit.List(ctx, dir, f) {
		if err == nil {
			if err := visit(r); err != nil {
				return damage, err
			}
			continue
		}
		p := damageOf(err)
		if p == nil {
			return damage, err
		}
		damage = append(damage, p)
	}
	return damage, ctx.Err()
}

// damageOf returns what an error says of a journal, nil if it says something else.
func damageOf(err error) *record.Problem {
	if p, ok := errors.AsType[*record.Problem](err); ok {
		return p
	}
	if at, ok := errors.AsType[*fs.PathError](err); ok && errors.Is(err, fs.ErrNotExist) {
		return &record.Problem{File: strings.TrimSuffix(filepath.Base(at.Path), ".jsonl"), Line: 1,
			Reason: "the segment is missing"}
	}
	return nil
}

// MostNamed is how many of several things an error names.
const MostNamed = 10

// damaged says where the log isn't as it was written; nil if there is nothing to say.
func damaged(problems []*record.Problem) error {
	if len(problems) == 0 {
		return nil
	}
	f := fault.New(fault.Integrity, "the audit log isn't as it was written: %s", problemText(problems[0])).
		From(problems[0]).Try("rye audit verify").On("problems", problems)
	if len(problems) > 1 {
		f.Text = "the audit log isn't as it was written in " + fault.Count(int64(len(problems)), "file")
		for _, p := range problems[:min(len(problems), MostNamed)] {
			f.Why = append(f.Why, problemText(p))
		}
		if more := len(problems) - MostNamed; more > 0 {
			f.Why = append(f.Why, fmt.Sprintf("and %d more", more))
		}
	}
	return f.Asked()
}

func problemText(p *record.Problem) string {
	return fmt.Sprintf("%s, line %d: %s", p.File, p.Line, p.Reason)
}
