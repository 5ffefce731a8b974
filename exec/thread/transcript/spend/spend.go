// Package spend adds up what threads have used, from the events of their transcripts.
//
// Each model call counts in one row, by any of these:
//
//	model      PROVIDER/MODEL, as asked
//	day        of the answer, in UTC: 2026-11-25
//	directive  of the thread
//
// A child's calls are in its own transcript, so no call counts twice. A thread whose answers come from a record has cost
// nothing, and doesn't count.
package spend

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// Replayed is the model of a thread whose answers come from a record.
const Replayed = "replay"

// By lists what calls are told apart by.
var By = []string{"model", "day", "directive"}

// A Row is the use of the calls that it is about. What calls aren't told apart by is empty.
type Row struct {
	Model     string `json:"model,omitempty"`
	Day       string `json:"day,omitempty"`
	Directive string `json:"directive,omitempty"`
	Threads   int64  `json:"threads"`
	Calls     int64  `json:"calls"` // of models, those that failed included
	Input     int64  `json:"input_tokens"`
	Output    int64  `json:"output_tokens"`
	Spend     int64  `json:"spend"` // nano-dollars
}

// Value returns what the calls of a row have in common: "model", "day" or "directive".
func (r *Row) Value(by string) string {
	return map[string]string{"model": r.Model, "day": r.Day, "directive": r.Directive}[by]
}

type key struct{ model, day, directive string }

// A Table adds up calls.
type Table struct {
	by   map[string]bool
	rows map[key]*row
}

type row struct {
	Row
	last *Thread // that was counted
}

// New returns an empty table. Its calls are told apart by any of By.
func New(by []string) (*Table, error) {
	t := &Table{by: map[string]bool{}, rows: map[key]*row{}}
	for _, name := range by {
		if !slices.Contains(By, name) {
			return nil, fault.New(fault.Validation, "calls can't be grouped by %q, only by %s", name, strings.Join(By, ", ")).Near(name, By)
		}
		t.by[name] = true
	}
	return t, nil
}

// A Thread takes the events of one thread.
type Thread struct {
	table     *Table
	total     bool // only the end says what was used
	directive string
	model     string
	provider  string
	replayed  bool
}

// Thread begins a thread. In a transcript of rye 1 only the last event says what was used.
func (t *Table) Thread(directive string, total bool) *Thread {
	return &Thread{table: t, directive: directive, total: total}
}

// Add counts the calls of one thread that were added up before, by model and day.
func (t *Table) Add(directive string, uses []Row) {
	r := t.Thread(directive, false)
	for _, u := range uses {
		at, _ := time.Parse(time.DateOnly, u.Day)
		r.model = u.Model
		r.add(at, u)
	}
}

// Take takes the next event.
func (r *Thread) Take(at time.Time, p transcript.Payload) {
	switch p := p.(type) {
	case transcript.Started:
		r.directive, r.replayed = strings.TrimPrefix(p.Directive.Ref, "directive:"), p.Model == Replayed
	case transcript.Request:
		r.provider, r.model = strings.TrimPrefix(p.Provider.Ref, "tool:"), p.Model
	case transcript.Answer:
		if r.total {
			r.model = cmp.Or(p.Model, r.model)
			return
		}
		r.settle(at, p.Usage, p.Cost)
	case transcript.Classified:
		r.settle(at, p.Usage, p.Cost)
	case transcript.Completed:
		r.end(at, p.Cost)
	case transcript.Failed:
		r.end(at, p.Cost)
	case transcript.Cancelled:
		r.end(at, p.Cost)
	case transcript.HandedOff:
		r.end(at, p.Cost)
	}
}

// settle counts a model call.
func (r *Thread) settle(at time.Time, u *transcript.Usage, cost int64) {
	if r.total {
		return
	}
	use := Row{Calls: 1, Spend: cost}
	if u != nil {
		use.Input, use.Output = u.Input+u.CacheRead+u.CacheWrite, u.Output+u.Reasoning
	}
	r.add(at, use)
}

// end counts what the last event of rye 1 says.
func (r *Thread) end(at time.Time, c transcript.Cost) {
	if r.total {
		r.add(at, Row{Calls: c.Turns, Input: c.InputTokens, Output: c.OutputTokens, Spend: c.Spend})
	}
}

func (r *Thread) add(at time.Time, use Row) {
	if r.replayed {
		return
	}
	var k key
	if r.table.by["model"] {
		k.model = strings.TrimPrefix(r.provider+"/"+r.model, "/")
	}
	if r.table.by["day"] {
		k.day = at.UTC().Format(time.DateOnly)
	}
	if r.table.by["directive"] {
		k.directive = r.directive
	}
	to := r.table.rows[k]
	if to == nil {
		to = &row{Row: Row{Model: k.model, Day: k.day, Directive: k.directive}}
		r.table.rows[k] = to
	}
	if to.last != r {
		to.Threads, to.last = to.Threads+1, r
	}
	to.Calls, to.Input, to.Output, to.Spend = to.Calls+use.Calls, to.Input+use.Input, to.Output+use.Output, to.Spend+use.Spend
}

// Rows returns the rows, by day, model and directive.
func (t *Table) Rows() []Row {
	rows := []Row{}
	for _, r := range slices.Collect(maps.Values(t.rows)) {
		rows = append(rows, r.Row)
	}
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Directive, b.Directive))
	})
	return rows
}
