package audits

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/exec/audit"
	"github.com/rye-build/rye/exec/audit/record"
)

type auditShowRun struct {
	Call string `arg:"" complete:"call" help:"Call id, id prefix or SEGMENT/LINE."`
}

type auditShowAnswer struct {
	Call     *audit.Record     `json:"call"`
	Children []*audit.Record   `json:"children"` // calls that it made, at most mostChildren
	Made     int64             `json:"made"`     // the number of all calls that it made
	Problems []*record.Problem `json:"problems"` // damage in the log
}

// mostChildren is how many nested calls rye audit show lists.
const mostChildren = 1000

// CompleteCalls offers the last calls whose id begins with prefix.
func CompleteCalls(ctx context.Context, a *cli.App, prefix string) (out []cli.Candidate) {
	p, err := Dirs(a)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, spaces.CompleteTime)
	defer cancel()
	begins := func(r *audit.Record) bool { return strings.HasPrefix(r.Call.ID, prefix) }
	for r, err := range audit.List(ctx, p.Log, audit.Filter{Match: begins, Last: 50}) {
		if err == nil {
			out = append(out, cli.Candidate{Value: r.Call.ID, Help: r.Begin.Format(time.RFC3339) + " " + r.Call.Ref})
		}
	}
	return out
}

func (c *auditShowRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	dirs, err := Dirs(a)
	if err != nil {
		return nil, err
	}
	found, problems, err := c.find(ctx, dirs.Log)
	if err != nil {
		return nil, err
	}
	ans := auditShowAnswer{Call: found, Children: []*audit.Record{}, Problems: problems}
	children := audit.Filter{Since: found.Begin, Match: func(r *audit.Record) bool {
		return r.Call.Parent == found.Call.ID
	}}
	if found.Outcome != nil {
		children.Until = found.End.Add(time.Millisecond)
	}
	if _, err = EachCall(ctx, dirs.Log, children, func(r *audit.Record) error {
		if ans.Made++; ans.Made <= mostChildren {
			ans.Children = append(ans.Children, r)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	slices.SortFunc(ans.Children, compare)
	return ans, damaged(problems)
}

// find returns the call with this id or position, or else the only call whose id begins so. Callers choose ids, so
// two calls can have the same one; only a position tells these apart.
func (c *auditShowRun) find(ctx context.Context, dir string) (*audit.Record, []*record.Problem, error) {
	segment, line, placed := strings.Cut(c.Call, "/")
	line, _, _ = strings.Cut(line, "/")
	number, err := strconv.ParseInt(line, 10, 64)
	if placed && err != nil {
		return nil, nil, fault.New(fault.Validation, "invalid call %q: expected a call id or SEGMENT/LINE", c.Call).
			Try("rye audit list")
	}
	var exact, begins []*audit.Record
	var all int
	match := func(r *audit.Record) bool {
		if placed {
			return r.Position.Segment == segment && r.Position.Line == number
		}
		return strings.HasPrefix(r.Call.ID, c.Call)
	}
	problems, err := EachCall(ctx, dir, audit.Filter{Match: match}, func(r *audit.Record) error {
		all++
		list := &begins
		if placed || r.Call.ID == c.Call {
			list = &exact
		}
		if len(*list) <= MostNamed {
			*list = append(*list, r)
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	found := exact
	if len(found) == 0 {
		found = begins
	}
	switch len(found) {
	case 1:
		return found[0], problems, nil
	case 0:
		if err := damaged(problems); err != nil {
			return nil, nil, err
		}
		return nil, nil, fault.New(fault.NotFound, "the audit log has no call %q", c.Call).
			Try("rye audit list", "rye audit verify").
			Because("a call that was pruned is in the export that rye audit verify names").On("call", c.Call)
	}
	failure := fault.New(fault.Ambiguous, "%q is ambiguous: it matches several calls", c.Call).
		On("call", c.Call).On("calls", all)
	for _, r := range found[:min(len(found), MostNamed)] {
		at := fmt.Sprintf("%s/%d", r.Position.Segment, r.Position.Line)
		failure.Why = append(failure.Why, fmt.Sprintf("%s  %s  %s", at, r.Call.ID, r.Call.Ref))
		if len(exact) == 0 {
			at = fault.Quote(r.Call.ID)
		}
		if len(failure.Hint) == 0 {
			failure.Hint = []string{"rye audit show " + at}
		}
	}
	return nil, nil, failure
}

func (s auditShowAnswer) Text(term *cli.Terminal) {
	record, call := s.Call, &s.Call.Call
	rows := [][]string{{"call", record.ID}, {"item", call.Ref}, {"digest", call.Digest.String()}}
	add := func(name string, values ...string) {
		if text := strings.Join(values, " "); text != "" {
			rows = append(rows, []string{name, text})
		}
	}
	add("tree", paths.DigestText(call.Tree))
	add("signed by", ShortAll(call.Signers)...)
	if call.Bundle != "" {
		add("from", call.Bundle, call.Registry)
	}
	for _, l := range call.Chain {
		add("runs by", l.Ref, l.Digest.String(), strings.Join(ShortAll(l.Signers), " "))
	}
	add("principal", call.Principal)
	add("tenant", call.Tenant)
	add("called by", call.Parent)
	add("approval", call.Approval)
	add("risk", model.RiskText(call.Risk, call.Derived))
	add("status", status(record))
	add("began", timeText(record.Begin))
	if o := record.Outcome; o != nil {
		add("ended", timeText(record.End), "after", tookText(o.Duration))
		if o.Exit != 0 || o.Signal != "" {
			add("exit", strconv.Itoa(o.Exit), o.Signal)
		}
		add("used", numbers(o.Usage)...)
	}
	add("deadline", timeText(call.Deadline))
	add("limits", numbers(call.Limits)...)
	add("sandbox", call.Sandbox)
	if o := record.Outcome; o != nil && o.Sandbox != call.Sandbox {
		add("enforced", o.Sandbox)
	}
	for _, p := range call.Toolchain {
		pin := "not pinned"
		if p.Pinned {
			pin = "pinned"
		}
		add("toolchain", strings.Join(slices.DeleteFunc([]string{p.Name, p.Version, p.Path, pin,
			paths.DigestText(p.Digest)}, func(s string) bool { return s == "" }), " "))
	}
	var policies []string
	for _, d := range call.Policy {
		policies = append(policies, d.String())
	}
	add("policy", policies...)
	add("grants", paths.DigestText(call.Grants))
	add("lock", paths.DigestText(call.Lock))
	add("set", paths.DigestText(call.Set))
	add("packages", paths.DigestText(call.Packages))
	add("params", paths.DigestText(call.Params))
	if o := record.Outcome; o != nil {
		add("result", paths.DigestText(o.Result))
		add("receipt", paths.DigestText(o.Receipt))
	}
	add("log", fmt.Sprintf("%s/%d/%s", record.Segment, record.Line, record.Sum))
	term.Rows(rows)
	if s.Made == 0 {
		return
	}
	term.Printf("it made %s:\n", fault.Count(s.Made, "call"))
	rows = nil
	for i := range s.Children {
		row := row(s.Children[i])
		row[0] = "  " + row[0]
		rows = append(rows, row)
	}
	term.Rows(rows)
}

// ShortAll shortens fingerprints for people. It leaves "builtin" and "dev" unchanged, which are shorter.
func ShortAll(signers []string) (out []string) {
	for _, s := range signers {
		out = append(out, paths.Short(s))
	}
	return out
}

// numbers formats a map as NAME=NUMBER, sorted by name.
func numbers(m map[string]int64) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprintf("%s=%d", name, m[name]))
	}
	return out
}

// ParsePosition parses the form that Position writes, and accepts no other spelling.
func ParsePosition(text string) (position record.Position, ok bool) {
	file, rest, ok := strings.Cut(text, "/")
	line, sum, ok2 := strings.Cut(rest, "/")
	n, err := strconv.ParseInt(line, 10, 64)
	if !ok || !ok2 || err != nil || n < 1 || position.Sum.UnmarshalText([]byte(sum)) != nil {
		return record.Position{}, false
	}
	if file != headOfLog {
		position.Segment = file
	}
	position.Line = n
	return position, Position(position) == text
}
