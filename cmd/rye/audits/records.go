// What the commands share: the filter of their flags, the visit of calls, and the text of times and outcomes.

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

// status returns the outcome of a call for people, with the error code if that adds something.
func status(r *audit.Record) string {
	switch {
	case r.Outcome == nil:
		return UnfinishedCall
	case r.Outcome.Code != "" && !strings.EqualFold(r.Outcome.Code, r.Outcome.Status):
		return r.Outcome.Status + " (" + r.Outcome.Code + ")"
	}
	return r.Outcome.Status
}

// compare orders calls by the time they began, then by position.
func compare(r, o *audit.Record) int {
	return cmp.Or(r.Begin.Compare(o.Begin), cmp.Compare(r.Segment, o.Segment), cmp.Compare(r.Line, o.Line))
}

// row returns the columns of a call in a list.
func row(r *audit.Record) []string {
	took := "-"
	if r.Outcome != nil {
		took = tookText(r.Outcome.Duration)
	}
	return []string{timeText(r.Begin), r.ID, r.Call.Ref, status(r), took}
}

// timeText formats a time as the log does: UTC with milliseconds. The zero time is "".
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// tookText formats a duration with three or four digits.
func tookText(d time.Duration) string {
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if d >= unit {
			return d.Round(unit / 100).String()
		}
	}
	return d.String()
}

// Position formats a position in the log as SEGMENT/LINE/SUM, the form that --seen takes.
func Position(p record.Position) string {
	return fmt.Sprintf("%s/%d/%s", cmp.Or(p.Segment, headOfLog), p.Line, p.Sum)
}

// headOfLog is the SEGMENT of positions in the log's head, which has no segment name.
const headOfLog = "head"

// auditFilter holds the flags that select calls.
type auditFilter struct {
	Since  string   `placeholder:"TIME" help:"Calls since TIME: a date, a UTC time, or an age (90m)."`
	Until  string   `placeholder:"TIME" help:"Calls that began before TIME."`
	Ref    string   `placeholder:"GLOB" complete:"ref" help:"Calls of these items, such as 'tool:acme/**'."`
	Status []string `placeholder:"STATUS" enum:"ok,failed,refused,timeout,cancelled,unfinished" help:"Outcome: ${enum} (repeatable)."`
}

func (c *auditFilter) filter(now time.Time) (filter audit.Filter, err error) {
	if filter.Since, err = ParseMoment("--since", c.Since, now); err != nil {
		return filter, err
	}
	if filter.Until, err = ParseMoment("--until", c.Until, now); err != nil {
		return filter, err
	}
	var pattern glob.Glob
	if c.Ref != "" {
		if pattern, err = glob.Parse(c.Ref); err != nil {
			return filter, fault.New(fault.Validation, "--ref: %v", err).From(err)
		}
	}
	if c.Ref == "" && len(c.Status) == 0 {
		return filter, nil
	}
	filter.Match = func(record *audit.Record) bool {
		status := UnfinishedCall
		if record.Outcome != nil {
			status = record.Outcome.Status
		}
		if len(c.Status) > 0 && !slices.Contains(c.Status, status) {
			return false
		}
		if c.Ref == "" {
			return true
		}
		n, err := glob.ParseName(record.Call.Ref)
		return err == nil && pattern.Match(n)
	}
	return filter, nil
}

// ParseMoment parses a date, a time, or an age before now such as 90m, 12h or 7d.
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

// ParsePast is ParseMoment for what is deleted before then: a moment in the future is an error.
func ParsePast(flag, text string, now time.Time) (time.Time, error) {
	at, err := ParseMoment(flag, text, now)
	if err == nil && at.After(now) {
		err = fault.New(fault.Validation, "%s %s is in the future", flag, text).
			Because("everything up to now would be deleted").Try(map[string]string{
			"--keep":   "rye thread prune --keep 90d --dry-run",
			"--before": "rye audit prune --before 90d --dry-run"}[flag])
	}
	return at, err
}

// ParseDays parses a number of days. Sixteen bits keep a time.Duration of them from overflowing.
func ParseDays(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	return uint16(n), err
}

// EachCall visits the calls that match a filter. It skips damaged parts of the log and returns them; err is for
// everything else.
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

// damageOf returns the damage in the log that an error reports, or nil if the error is about something else.
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

// MostNamed is how many calls or problems an error lists.
const MostNamed = 10

// damaged returns the error of a command that found damage in the log, or nil without problems.
func damaged(problems []*record.Problem) error {
	if len(problems) == 0 {
		return nil
	}
	failure := fault.New(fault.Integrity, "the audit log is corrupt: %s", problemText(problems[0])).
		From(problems[0]).Try("rye audit verify").On("problems", problems)
	if len(problems) > 1 {
		failure.Text = "the audit log is corrupt in " + fault.Count(int64(len(problems)), "file")
		for _, p := range problems[:min(len(problems), MostNamed)] {
			failure.Why = append(failure.Why, problemText(p))
		}
		if more := len(problems) - MostNamed; more > 0 {
			failure.Why = append(failure.Why, fmt.Sprintf("and %d more", more))
		}
	}
	return failure.Asked()
}

func problemText(p *record.Problem) string {
	return fmt.Sprintf("%s, line %d: %s", p.File, p.Line, p.Reason)
}
