package audits

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/near"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/exec/audit"
	"github.com/rye-build/rye/exec/audit/journal"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/manifest/policy/glob"
)

// auditRecord is a call as rye audit export writes it: package record says what its members mean.
type auditRecord struct {
	Begin   string        `json:"begin"`
	Call    auditCall     `json:"call"`
	End     string        `json:"end,omitempty"`
	ID      string        `json:"id"`
	Line    int64         `json:"line"`
	Outcome *auditOutcome `json:"outcome,omitempty"` // nothing while it runs, or if its process died
	Segment string        `json:"segment"`
	Sum     string        `json:"sum"`
}

type auditCall struct {
	Approval  string           `json:"approval,omitempty"`
	Chain     []auditLink      `json:"chain,omitempty"`
	Deadline  string           `json:"deadline,omitempty"`
	Digest    string           `json:"digest"`
	Grants    string           `json:"grants,omitempty"`
	Limits    map[string]int64 `json:"limits,omitempty"`
	Lock      string           `json:"lock,omitempty"`
	Packages  string           `json:"packages,omitempty"`
	Params    string           `json:"params,omitempty"`
	Parent    string           `json:"parent,omitempty"`
	Policy    []string         `json:"policy,omitempty"`
	Principal string           `json:"principal,omitempty"`
	Ref       string           `json:"ref"`
	Risk      string           `json:"risk,omitempty"`
	Sandbox   string           `json:"sandbox,omitempty"`
	Set       string           `json:"set,omitempty"`
	Signers   []string         `json:"signers,omitempty"`
	Tenant    string           `json:"tenant,omitempty"`
	Toolchain []auditProgram   `json:"toolchain,omitempty"`
	Tree      string           `json:"tree,omitempty"`
}

type auditLink struct {
	Digest  string   `json:"digest"`
	Ref     string   `json:"ref"`
	Signers []string `json:"signers,omitempty"`
	Tree    string   `json:"tree,omitempty"`
}

type auditProgram struct {
	Digest  string `json:"digest,omitempty"`
	Name    string `json:"name"`
	Path    string `json:"path,omitempty"`
	Pinned  bool   `json:"pinned,omitempty"`
	Version string `json:"version,omitempty"`
}

type auditOutcome struct {
	Code     string           `json:"code,omitempty"`
	Duration int64            `json:"duration_ns,omitempty"`
	Exit     int              `json:"exit,omitempty"`
	Receipt  string           `json:"receipt,omitempty"`
	Result   string           `json:"result,omitempty"`
	Sandbox  string           `json:"sandbox,omitempty"`
	Signal   string           `json:"signal,omitempty"`
	Status   string           `json:"status"`
	Usage    map[string]int64 `json:"usage,omitempty"`
}

// newAuditRecord reads what the log itself writes, so that there is one spelling of a call.
func newAuditRecord(r *audit.Record) (rec auditRecord, err error) {
	return rec, json.Unmarshal(r.Append(nil), &rec)
}

// UnfinishedCall is what people call a call of which nobody knows the outcome.
const UnfinishedCall = "unfinished"

func callStatuses() []string {
	return []string{record.OK, record.Failed, record.Refused, record.Timeout, record.Cancelled, UnfinishedCall}
}

func (r *auditRecord) status() string {
	switch {
	case r.Outcome == nil:
		return UnfinishedCall
	case r.Outcome.Code != "" && !strings.EqualFold(r.Outcome.Code, r.Outcome.Status):
		return r.Outcome.Status + " (" + r.Outcome.Code + ")"
	}
	return r.Outcome.Status
}

// compare orders calls as they began.
func (r auditRecord) compare(o auditRecord) int {
	return cmp.Or(cmp.Compare(r.Begin, o.Begin), cmp.Compare(r.Segment, o.Segment), cmp.Compare(r.Line, o.Line))
}

func (r *auditRecord) row() []string {
	took := "-"
	if r.Outcome != nil {
		took = tookText(time.Duration(r.Outcome.Duration))
	}
	return []string{r.Begin, r.ID, r.Call.Ref, r.status(), took}
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
	Status []string `placeholder:"STATUS" help:"Outcome: ok, failed, refused, timeout, cancelled or unfinished (repeatable)."`
}

func (*auditFilter) Complete(_ context.Context, _ *cli.App, name, _ string) (out []cli.Candidate) {
	if name == "status" {
		for _, s := range callStatuses() {
			out = append(out, cli.Candidate{Value: s, Help: ""})
		}
	}
	return out
}

func (c *auditFilter) filter(now time.Time) (f audit.Filter, err error) {
	if f.Since, err = ParseMoment("--since", c.Since, now); err != nil {
		return f, err
	}
	if f.Until, err = ParseMoment("--until", c.Until, now); err != nil {
		return f, err
	}
	for _, s := range c.Status {
		if !slices.Contains(callStatuses(), s) {
			bad := &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("--status is %q", s), Why: []string{"expected one of " + strings.Join(callStatuses(), ", ")}}
			if meant := near.Names(s, callStatuses()); len(meant) > 0 {
				bad.Why = append(bad.Why, "did you mean "+meant[0]+"?")
			}
			return f, bad
		}
	}
	var g glob.Glob
	if c.Ref != "" {
		if g, err = glob.Parse(c.Ref); err != nil {
			return f, &fault.Error{Code: fault.Validation, Err: err, Text: fmt.Sprintf("--ref: %v", err)}
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
func EachCall(ctx context.Context, dir string, f audit.Filter, visit func(*audit.Record) error) (damage []*journal.Problem, err error) {
	damage = []*journal.Problem{}
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
func damageOf(err error) *journal.Problem {
	if p, ok := errors.AsType[*journal.Problem](err); ok {
		return p
	}
	if at, ok := errors.AsType[*fs.PathError](err); ok && errors.Is(err, fs.ErrNotExist) {
		return &journal.Problem{File: strings.TrimSuffix(filepath.Base(at.Path), ".jsonl"), Line: 1, Reason: "the segment is missing"}
	}
	return nil
}

// MostNamed is how many of several things an error names.
const MostNamed = 10

// damaged says where the log isn't as it was written; nil if there is nothing to say.
func damaged(problems []*journal.Problem) error {
	if len(problems) == 0 {
		return nil
	}
	f := &fault.Error{Code: fault.Integrity, Text: "the audit log isn't as it was written: " + problemText(problems[0]), Err: problems[0],
		Hint: []string{"rye audit verify"}, Details: map[string]any{"problems": problems}}
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

func problemText(p *journal.Problem) string {
	return fmt.Sprintf("%s, line %d: %s", p.File, p.Line, p.Reason)
}
