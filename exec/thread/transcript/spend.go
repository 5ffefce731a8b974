package transcript

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
)

// SpendReplayed is the model's name in a thread that replays a record.
const SpendReplayed = "replay"

// SpendBy lists the ways to group calls.
var SpendBy = []string{"model", "day", "directive"}

// A SpendRow is the use of a group of calls. Fields that don't define the group are empty.
type SpendRow struct {
	Model     string `json:"model,omitempty"`
	Day       string `json:"day,omitempty"`
	Directive string `json:"directive,omitempty"`
	Threads   int64  `json:"threads"`
	Calls     int64  `json:"calls"` // of models, including failed ones
	Input     int64  `json:"input_tokens"`
	Output    int64  `json:"output_tokens"`
	Spend     int64  `json:"spend"` // nano-dollars
}

// Value returns the row's value for a grouping: "model", "day" or "directive".
func (r *SpendRow) Value(by string) string {
	return map[string]string{"model": r.Model, "day": r.Day, "directive": r.Directive}[by]
}

type spendKey struct{ model, day, directive string }

// A SpendTable adds up calls by group.
type SpendTable struct {
	by   map[string]bool
	rows map[spendKey]*row
}

type row struct {
	SpendRow
	last *SpendThread // counted last
}

// NewSpendTable returns an empty table that groups calls by any of SpendBy.
func NewSpendTable(by []string) (*SpendTable, error) {
	t := &SpendTable{by: map[string]bool{}, rows: map[spendKey]*row{}}
	for _, name := range by {
		if !slices.Contains(SpendBy, name) {
			return nil, fault.New(fault.Validation, "calls can't be grouped by %q, only by %s", name,
				strings.Join(SpendBy, ", ")).Near(name, SpendBy)
		}
		t.by[name] = true
	}
	return t, nil
}

// A SpendThread counts the events of one thread.
type SpendThread struct {
	table     *SpendTable
	total     bool // only the end event has the use
	directive string
	model     string
	provider  string
	replayed  bool
}

// Thread begins a thread. total is for a transcript of rye 1, in which only the last event has the use.
func (t *SpendTable) Thread(directive string, total bool) *SpendThread {
	return &SpendThread{table: t, directive: directive, total: total}
}

// Add counts the calls of a thread that are already grouped by model and day.
func (t *SpendTable) Add(directive string, uses []SpendRow) {
	r := t.Thread(directive, false)
	for _, u := range uses {
		at, _ := time.Parse(time.DateOnly, u.Day)
		r.model = u.Model
		r.add(at, u)
	}
}

// Take counts the next event.
func (r *SpendThread) Take(at time.Time, p Payload) {
	switch started := p.(type) {
	case Started:
		r.directive, r.replayed = strings.TrimPrefix(started.Directive.Ref, "directive:"),
			started.Model == SpendReplayed
	case Request:
		r.provider, r.model = strings.TrimPrefix(started.Provider.Ref, "tool:"), started.Model
	case Answer:
		if r.total {
			r.model = cmp.Or(started.Model, r.model)
			return
		}
		r.settle(at, started.Usage, started.Cost)
	case Classified:
		r.settle(at, started.Usage, started.Cost)
	case Completed:
		r.end(at, started.Cost)
	case Failed:
		r.end(at, started.Cost)
	case Cancelled:
		r.end(at, started.Cost)
	case HandedOff:
		r.end(at, started.Cost)
	}
}

// settle counts one model call.
func (r *SpendThread) settle(at time.Time, u *Usage, cost int64) {
	if r.total {
		return
	}
	use := SpendRow{Calls: 1, Spend: cost}
	if u != nil {
		use.Input, use.Output = u.Input+u.CacheRead+u.CacheWrite, u.Output+u.Reasoning
	}
	r.add(at, use)
}

// end counts the cost in the last event of rye 1.
func (r *SpendThread) end(at time.Time, c Cost) {
	if r.total {
		r.add(at, SpendRow{Calls: c.Turns, Input: c.InputTokens, Output: c.OutputTokens, Spend: c.Spend})
	}
}

func (r *SpendThread) add(at time.Time, use SpendRow) {
	if r.replayed {
		return
	}
	var k spendKey
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
		to = &row{SpendRow: SpendRow{Model: k.model, Day: k.day, Directive: k.directive}}
		r.table.rows[k] = to
	}
	if to.last != r {
		to.Threads, to.last = to.Threads+1, r
	}
	to.Calls, to.Input, to.Output, to.Spend = to.Calls+use.Calls, to.Input+use.Input, to.Output+use.Output,
		to.Spend+use.Spend
}

// Rows returns the rows, sorted by day, model and directive.
func (t *SpendTable) Rows() []SpendRow {
	rows := []SpendRow{}
	for _, r := range slices.Collect(maps.Values(t.rows)) {
		rows = append(rows, r.SpendRow)
	}
	slices.SortFunc(rows, func(a, b SpendRow) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Directive, b.Directive))
	})
	return rows
}
