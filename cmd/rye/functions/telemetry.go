package functions

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/audits"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/audit"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/exec/primitive/function"
	"github.com/rye-build/rye/lock/items"
)

// TelemetryParams are the parameters of tool:rye/core/telemetry/telemetry.
type TelemetryParams struct {
	Item   string  `json:"item"`
	Level  string  `json:"level"`
	Limit  int     `json:"limit"`
	LogDir *string `json:"log_dir"`
}

var telemetryItems = []string{"logs", "stats", "errors"}

// TelemetryNeeds returns the needed permission: to load the audit log.
func TelemetryNeeds(TelemetryParams) function.Need {
	c, _ := capability.Parse("load:audit")
	return function.Need{Permissions: []capability.Capability{c}}
}

// mostCalls is the largest number of calls, or tools, in an answer.
const mostCalls = 1000

// levels maps a level to the statuses of the calls that it includes.
var levels = map[string]func(status string) bool{
	"debug":   func(string) bool { return true },
	"info":    func(string) bool { return true },
	"warning": func(status string) bool { return status != record.OK },
	"error": func(status string) bool {
		return status == record.Failed || status == record.Timeout || status == record.Refused
	},
}

// A loggedCall is one call of the audit log, which records no parameters and results.
type loggedCall struct {
	Call     string `json:"call"`
	Begin    string `json:"begin"`
	Ref      string `json:"ref"`
	Status   string `json:"status"`
	Code     string `json:"code,omitempty"`
	Duration int64  `json:"duration_ms"`
	Parent   string `json:"parent,omitempty"`
}

// callTimes counts calls and the durations of those that have ended.
type callTimes struct {
	Calls    int   `json:"calls"`
	Failures int   `json:"failures"`
	Total    int64 `json:"total_ms"`
	Mean     int64 `json:"mean_ms"`
	Longest  int64 `json:"longest_ms"`

	total, longest time.Duration
	ended          int
}

type toolCalls struct {
	Ref string `json:"ref"`
	callTimes
}

// callStats counts all calls, and those of the most called tools.
type callStats struct {
	callTimes
	Statuses map[string]int `json:"by_status"`
	Tools    []toolCalls    `json:"tools"`
	More     int            `json:"more_tools"` // number of tools that Tools leaves out
}

func telemetryFunction(ctx context.Context, parent *cli.App, call *function.Call,
	telemetryParams TelemetryParams) (any, error) {
	matches, level := levels[telemetryParams.Level]
	switch {
	case telemetryParams.LogDir != nil:
		return function.No(ctx, fault.New(fault.Validation,
			"unsupported parameter log_dir: rye reads only its own audit log").
			Try("rye docs audit"))
	case !level:
		return function.No(ctx, items.Unknown("level", telemetryParams.Level, slices.Sorted(maps.Keys(levels))))
	case len(asked(telemetryParams.Item, telemetryItems)) == 0:
		return function.No(ctx, unknownItem(telemetryParams.Item, telemetryItems))
	}
	app := paths.Unattended(parent, call.Files.Project, call.Errs)
	dirs, err := audits.Dirs(app)
	if err != nil {
		return function.No(ctx, err)
	}
	telemetry := telemetry{ctx: ctx, dir: dirs.Log, limit: min(max(telemetryParams.Limit, 1), mostCalls)}
	if self := exec.CallerOf(ctx); self != nil {
		telemetry.self = self.ID
	}
	data := map[string]any{}
	for _, item := range asked(telemetryParams.Item, telemetryItems) {
		var value any
		switch item {
		case "logs":
			value, err = telemetry.last(item, matches)
		case "errors":
			value, err = telemetry.last(item, func(status string) bool {
				return matches(status) &&
					levels["error"](status)
			})
		case "stats":
			value, err = telemetry.stats()
		}
		if err != nil {
			return function.No(ctx, err)
		}
		data[item] = value
	}
	if telemetryParams.Item == itemAll {
		return function.Yes(data)
	}
	return function.Yes(data[telemetryParams.Item])
}

// A telemetry reads the log.
type telemetry struct {
	ctx   context.Context
	dir   string
	self  string // the id of this call, which the answer leaves out
	limit int
}

func statusOf(r *audit.Record) string {
	if r.Outcome == nil {
		return audits.UnfinishedCall
	}
	return r.Outcome.Status
}

// each visits the calls whose log entries are intact. It returns damage as problems, for rye audit verify to
// examine.
func (t *telemetry) each(f audit.Filter, visit func(*audit.Record)) ([]*record.Problem, error) {
	match := f.Match
	f.Match = func(r *audit.Record) bool { return r.Call.ID != t.self && (match == nil || match(r)) }
	return audits.EachCall(t.ctx, t.dir, f, func(r *audit.Record) error {
		visit(r)
		return nil
	})
}

// last returns the last calls whose status matches, newest first.
func (t *telemetry) last(name string, matches func(status string) bool) (any, error) {
	calls := []loggedCall{}
	f := audit.Filter{Last: t.limit, Match: func(r *audit.Record) bool { return matches(statusOf(r)) }}
	problems, err := t.each(f, func(r *audit.Record) {
		call := loggedCall{Call: r.Call.ID, Begin: r.Begin.UTC().Format(time.RFC3339), Ref: r.Call.Ref,
			Status: statusOf(r),
			Parent: r.Call.Parent}
		if r.Outcome != nil {
			call.Code, call.Duration = r.Outcome.Code, r.Outcome.Duration.Milliseconds()
		}
		calls = append(calls, call)
	})
	// Ids sort by time.
	slices.SortFunc(calls, func(x, y loggedCall) int { return cmp.Compare(y.Call, x.Call) })
	return map[string]any{name: calls, "problems": problems}, err
}

// stats counts all calls. Its memory grows with the number of tools, not of calls.
func (t *telemetry) stats() (any, error) {
	stats, tools := callStats{Statuses: map[string]int{}}, map[string]*toolCalls{}
	problems, err := t.each(audit.Filter{}, func(r *audit.Record) {
		tool := tools[r.Call.Ref]
		if tool == nil {
			tool = &toolCalls{Ref: r.Call.Ref}
			tools[r.Call.Ref] = tool
		}
		stats.Statuses[statusOf(r)]++
		stats.add(r)
		tool.add(r)
	})
	stats.finish()
	for _, tool := range tools {
		tool.finish()
		stats.Tools = append(stats.Tools, *tool)
	}
	slices.SortFunc(stats.Tools, func(x, y toolCalls) int {
		return cmp.Or(cmp.Compare(y.Calls, x.Calls), cmp.Compare(x.Ref, y.Ref))
	})
	stats.More = max(0, len(stats.Tools)-t.limit)
	stats.Tools = append([]toolCalls{}, stats.Tools[:len(stats.Tools)-stats.More]...)
	return struct {
		callStats
		Problems []*record.Problem `json:"problems"`
	}{stats, problems}, err
}

func (c *callTimes) add(r *audit.Record) {
	c.Calls++
	if levels["error"](statusOf(r)) {
		c.Failures++
	}
	if r.Outcome != nil {
		c.ended++
		c.total += r.Outcome.Duration
		c.longest = max(c.longest, r.Outcome.Duration)
	}
}

func (c *callTimes) finish() {
	c.Total, c.Longest = c.total.Milliseconds(), c.longest.Milliseconds()
	if c.ended > 0 {
		c.Mean = (c.total / time.Duration(c.ended)).Milliseconds()
	}
}
