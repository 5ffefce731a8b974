package transcript

import (
	"reflect"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
)

var day = time.Date(2026, 11, 25, 23, 30, 0, 0, time.UTC)

// fill puts three threads into a table: one over two days with a failure, one from a record, one of rye 1.
func fill(t *SpendTable) {
	first := t.Thread("", false)
	ask := func(r *SpendThread, provider, model string) {
		r.Take(day, Request{Provider: Item{Ref: "tool:" + provider}, Model: model})
	}
	first.Take(day, Started{Directive: Item{Ref: "directive:acme/a"}, Model: "p/m"})
	ask(first, "p", "m")
	first.Take(day, Classified{Cost: 5})
	ask(first, "p", "m")
	first.Take(day, Answer{Cost: 100, Usage: &Usage{Input: 1, CacheRead: 2, CacheWrite: 3, Output: 4, Reasoning: 5}})
	ask(first, "p", "n")
	first.Take(day.Add(time.Hour), Answer{Cost: 1_000_000_000})
	first.Take(day.Add(time.Hour), Completed{Cost: Cost{Spend: 1_000_000_105}})

	record := t.Thread("", false)
	record.Take(day, Started{Directive: Item{Ref: "directive:acme/a"}, Model: SpendReplayed})
	ask(record, "p", "m")
	record.Take(day, Answer{Cost: 100})

	for _, end := range []Payload{Completed{Cost: Cost{Turns: 2, InputTokens: 7, OutputTokens: 8, Spend: 9}},
		Failed{}, Cancelled{}, HandedOff{}} {
		old := t.Thread("acme/old", true)
		old.Take(day, Answer{Model: "claude-3", Cost: 1})
		old.Take(day, Classified{Cost: 1})
		old.Take(day, end)
	}
}

func TestTable(t *testing.T) {
	for _, c := range []struct {
		by   []string
		want []SpendRow
	}{
		{[]string{"model", "day", "directive"}, []SpendRow{
			{"claude-3", "2026-11-25", "acme/old", 4, 2, 7, 8, 9},
			{"p/m", "2026-11-25", "acme/a", 1, 2, 6, 9, 105},
			{"p/n", "2026-11-26", "acme/a", 1, 1, 0, 0, 1_000_000_000},
		}},
		{[]string{"directive"}, []SpendRow{{"", "", "acme/a", 1, 3, 6, 9, 1_000_000_105},
			{"", "", "acme/old", 4, 2, 7, 8, 9}}},
		{nil, []SpendRow{{Threads: 5, Calls: 5, Input: 13, Output: 17, Spend: 1_000_000_114}}},
	} {
		table, err := NewSpendTable(c.by)
		if err != nil {
			t.Fatal(err)
		}
		fill(table)
		if got := table.Rows(); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v: %+v, want %+v", c.by, got, c.want)
		}
	}
}

func TestUnknown(t *testing.T) {
	if _, err := NewSpendTable([]string{"week"}); fault.CodeOf(err) != fault.Validation {
		t.Fatal(err)
	}
	r := SpendRow{Model: "m", Day: "d", Directive: "x"}
	if r.Value("model")+r.Value("day")+r.Value("directive") != "mdx" {
		t.Fatal(r)
	}
}
