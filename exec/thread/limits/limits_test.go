package limits_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/ai/model/declared"
	"github.com/rye-build/rye/ai/parse"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/limits"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// yaml reads a value.
func yaml(t testing.TB, text string) *value.Value {
	t.Helper()
	v, problems := parse.YAML([]byte(text), value.Pos{})
	if len(problems) > 0 {
		t.Fatalf("%s: %v", text, problems[0])
	}
	return v
}

// declare sets limits as a directive does.
func declare(t testing.TB, l *limits.Set, text string) {
	t.Helper()
	normal, problems := declared.Limits(yaml(t, text))
	if len(problems) > 0 {
		t.Fatal(problems[0])
	}
	l.Declare(normal)
}

var six = limits.Set{Turns: 7, Tokens: 8000, Spawns: 3, Depth: 2, Spend: 250_000_001,
	Duration: 1500*time.Millisecond + time.Microsecond}

// TestSet: a directive and a command line mean the same by the same numbers, to the last nano-dollar and microsecond.
func TestSet(t *testing.T) {
	for _, c := range []struct {
		yaml string
		line string
		want limits.Set
	}{
		{"{turns: 7, tokens: 8000, spawns: 3, depth: 2, spend: 0.250000001, duration_seconds: 1.500001}",
			"turns=7 tokens=8000 spawns=3 depth=2 spend=0.250000001 duration_seconds=1.500001", six},
		{`{max_turns: "7", max_tokens: 8000, max_spawns: 3, max_depth: 2, max_spend: 0.250000001, max_duration_seconds: 1.500001, spend_currency: USD}`,
			"max_turns=7 max_tokens=8000 max_spawns=3 max_depth=2 max_spend=0.250000001 duration=1.500001", six},
		{"{}", "", limits.None()},
		{"{turns: 0}", "turns=0", func() limits.Set { l := limits.None(); l.Turns = 0; return l }()},
		{"{spend: 1000000}", "spend=1e6", func() limits.Set { l := limits.None(); l.Spend = 1e15; return l }()},
		{"{duration_seconds: 315360000}", "max_duration=315360000",
			func() limits.Set { l := limits.None(); l.Duration = 315360000 * time.Second; return l }()},
	} {
		a, b := limits.None(), limits.None()
		declare(t, &a, c.yaml)
		if err := b.Override(strings.Fields(c.line)); err != nil {
			t.Errorf("%s: %v", c.line, err)
		}
		if a != c.want || b != c.want {
			t.Errorf("%s: %+v, %s: %+v, want %+v", c.yaml, a, c.line, b, c.want)
		}
	}
	l := six
	if err := l.Override([]string{"turns=9"}); err != nil || l.Turns != 9 || l.Tokens != six.Tokens ||
		l.Depth != six.Depth {
		t.Errorf("%+v, %v", l, err)
	}
	if l.Declare(nil); l.Turns != 9 {
		t.Errorf("%+v", l)
	}
}

// TestOverrideInvalid: what can't be meant is an error, and changes nothing.
func TestOverrideInvalid(t *testing.T) {
	for pairs, want := range map[string]string{
		"turns":                 `invalid limit "turns": expected NAME=VALUE with one of turns, tokens, spend, duration_seconds, spawns, depth`,
		"=3":                    "expected NAME=VALUE",
		"":                      "expected NAME=VALUE",
		"truns=3":               "expected NAME=VALUE",
		"max_max_turns=3":       "expected NAME=VALUE",
		"Turns=3":               "expected NAME=VALUE",
		"turns=":                `invalid limit "turns=": expected a number`,
		"turns=many":            "expected a number",
		"turns==3":              "expected a number",
		"turns=-1":              "must be >= 0",
		"turns=1.5":             "must be an integer",
		"turns=1e300":           "invalid limit: ",
		"turns=nan":             "invalid limit: ",
		"turns=inf":             "invalid limit: ",
		"turns=0x10":            "expected a number",
		"spend=0.0000000001":    "must have at most 9 decimals",
		"duration=1e-7":         "must have at most 6 decimals",
		"depth=1001":            "must be <= 1000",
		"turns=3,max_turns=4":   "the limit turns is given twice",
		"tokens=5,turns=many":   "expected a number",
		"tokens=5,spawns=-0.25": "invalid limit: ",
	} {
		l := six
		if err := l.Override(strings.Split(pairs, ",")); fault.CodeOf(err) != fault.Validation ||
			!strings.Contains(err.Error(), want) || l != six {
			t.Errorf("%s: %v, %+v", pairs, err, l)
		}
	}
}

// TestReached: a limit is reached exactly when all of it is used, in the order of their names.
func TestReached(t *testing.T) {
	l := limits.None()
	l.Turns, l.Tokens, l.Duration = 3, 100, 1500*time.Millisecond
	for _, c := range []struct {
		used limits.Usage
		want *transcript.Limit
	}{
		{limits.Usage{}, nil},
		{limits.Usage{Turns: 2, Tokens: 99, Elapsed: 1500*time.Millisecond - 1}, nil},
		{limits.Usage{Turns: 3}, &transcript.Limit{Code: "turns_exceeded", Current: 3, Max: 3}},
		{limits.Usage{Turns: 4, Tokens: 200}, &transcript.Limit{Code: "turns_exceeded", Current: 4, Max: 3}},
		{limits.Usage{Tokens: 100, Elapsed: time.Hour},
			&transcript.Limit{Code: "tokens_exceeded", Current: 100, Max: 100}},
		{limits.Usage{Elapsed: 1500*time.Millisecond + 1789}, &transcript.Limit{Code: "duration_seconds_exceeded",
			Current: 1.5, Max: 1.5}},
	} {
		if got := l.Reached(c.used); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v: %+v", c.used, got)
		}
	}
	none := limits.None()
	if got := none.Reached(limits.Usage{Turns: 1 << 50, Tokens: 1 << 50, Elapsed: 1 << 50}); got != nil {
		t.Errorf("%+v", got)
	}
	zero := limits.Set{}
	if got := zero.Reached(limits.Usage{}); got == nil || got.Code != "turns_exceeded" {
		t.Errorf("%+v", got)
	}
}

// TestCap: no limit of a child is above its parent's, and its depth is one less.
func TestCap(t *testing.T) {
	parent := six
	for _, c := range []struct{ child, want limits.Set }{
		{limits.None(), limits.Set{7, 8000, 3, 1, six.Spend, six.Duration}},
		{limits.Set{6, 9000, 2, 9, 1, time.Hour}, limits.Set{6, 8000, 2, 1, 1, six.Duration}},
		{limits.Set{}, limits.Set{}},
	} {
		got := c.child
		if got.Cap(&parent); got != c.want || parent != six {
			t.Errorf("%+v: %+v, want %+v", c.child, got, c.want)
		}
	}
	none, child := limits.None(), limits.None()
	if child.Cap(&none); child != none {
		t.Errorf("%+v", child)
	}
	leaf := limits.Set{Depth: 0}
	if child.Cap(&leaf); child.Depth != -1 {
		t.Errorf("the child of a leaf has depth %d", child.Depth)
	}
}

// TestRecord: a transcript gives back what it was given. The depth isn't part of that.
func TestRecord(t *testing.T) {
	for _, l := range []limits.Set{limits.None(), six, {}} {
		r := l.Record()
		back := limits.Set{1, 2, 3, l.Depth, 5, 6}
		if back.Take(&r); back != l {
			t.Errorf("%+v becomes %+v", l, back)
		}
	}
	r := six.Record()
	if *r.Spend != six.Spend || *r.Duration != int64(six.Duration) || *r.Turns != 7 || *r.Tokens != 8000 ||
		*r.Spawns != 3 {
		t.Errorf("%+v", r)
	}
	none := limits.None()
	if r := none.Record(); r != (transcript.Limits{}) {
		t.Errorf("%+v", r)
	}
}

// TestRest: who goes on has what is left, never less than nothing, and no bound where there was none.
func TestRest(t *testing.T) {
	used := limits.Usage{Turns: 5, Tokens: 9000, Elapsed: time.Second}
	if got, want := six.Rest(used, 50_000_001,
		1), (limits.Set{2, 0, 2, 2, 200_000_000, 500*time.Millisecond + time.Microsecond}); got != want {
		t.Errorf("%+v", got)
	}
	none := limits.None()
	if got := none.Rest(used, 1, 1); got != none {
		t.Errorf("%+v", got)
	}
}

func TestBudget(t *testing.T) {
	none := limits.None()
	if none.Budget() != nil {
		t.Error("a budget without a limit")
	}
	l := six
	b := l.Budget()
	if l.Spend = 1; b == nil || *b != six.Spend {
		t.Errorf("%v", b)
	}
}

func TestSettings(t *testing.T) {
	for text, want := range map[string]limits.Settings{
		"{}":    {MaxRetries: 3, Concurrent: 5, Total: 20},
		"other": {MaxRetries: 3, Concurrent: 5, Total: 20},
		"{retry: {max_retries: 0}, concurrency: {max_concurrent_children: 1000, max_total_threads: 7}}": {
			Concurrent: 1000, Total: 7},
		"{child_policy: {on_parent_cancel: continue}}": {MaxRetries: 3, Concurrent: 5, Total: 20, Outlive: true},
		"{child_policy: {on_parent_cancel: cancel}}":   {MaxRetries: 3, Concurrent: 5, Total: 20},
		"{retry: {max_retries: ~}, concurrency: ~}":    {MaxRetries: 3, Concurrent: 5, Total: 20},
	} {
		if got, err := limits.ReadSettings(yaml(t, text)); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	s, err := limits.ReadSettings(yaml(t, "{limits: {defaults: {max_turns: 7, spend: 0.5}}}"))
	if err != nil {
		t.Fatal(err)
	}
	l := limits.None()
	if l.Declare(s.Limits); l.Turns != 7 || l.Spend != 500_000_000 || l.Tokens != limits.Unlimited {
		t.Errorf("%+v", l)
	}
	for text, want := range map[string]string{
		"{limits: {defaults: {turns: -1}}}":                   "Field 'limits.turns' must be >= 0",
		"{limits: {defaults: {truns: 1}}}":                    "unknown limit",
		"{limit: {defaults: {turns: 1}}}":                     `unknown key "limit": expected one of limits, retry`,
		"{limits: {default: {turns: 1}}}":                     `unknown key "limits.default": expected one of defaults`,
		"{retry: {max_retry: 1}}":                             `unknown key "retry.max_retry"`,
		"{concurrency: {max_total: 9}}":                       `unknown key "concurrency.max_total"`,
		"{concurrency: {max_total_threads: -9}}":              "concurrency.max_total_threads must be between 1 and 100000",
		"{concurrency: {max_total_threads: 0}}":               "concurrency.max_total_threads must be between 1 and 100000",
		"{concurrency: {max_concurrent_children: 0}}":         "concurrency.max_concurrent_children must be between 1 and 1000",
		"{child_policy: {on_parent_cancel: maybe}}":           "child_policy.on_parent_cancel must be cancel or continue",
		"{child_policy: {on_parent_end: x}}":                  `unknown key "child_policy.on_parent_end"`,
		"{limits: {defaults: 3}}":                             "invalid config:resilience: ",
		"{retry: {max_retries: -1}}":                          "retry.max_retries must be between 0 and 100",
		"{retry: {max_retries: 101}}":                         "retry.max_retries must be between 0 and 100",
		"{retry: {max_retries: often}}":                       "retry.max_retries must be between 0 and 100",
		"{concurrency: {max_concurrent_children: 2.5}}":       "concurrency.max_concurrent_children must be between 1 and 1000",
		"{concurrency: {max_concurrent_children: 999999999}}": "concurrency.max_concurrent_children must be between 1 and 1000",
	} {
		if _, err := limits.ReadSettings(yaml(t, text)); fault.CodeOf(err) != fault.Config ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// FuzzOverride: whatever stands on a command line is an error or a limit that a transcript can have.
func FuzzOverride(f *testing.F) {
	for _, pair := range []string{"turns=3", "spend=0.25", "max_duration=1.5", "depth=1e1",
		"turns=99999999999999999999", "spend=nan", "=", "tokens=0x1p4"} {
		f.Add(pair)
	}
	f.Fuzz(func(t *testing.T, pair string) {
		l := limits.None()
		if err := l.Override([]string{pair}); err != nil {
			if fault.CodeOf(err) != fault.Validation || l != limits.None() {
				t.Fatalf("%q: %v, %+v", pair, err, l)
			}
			return
		}
		if l == limits.None() {
			t.Fatalf("%q sets nothing", pair)
		}
		r := l.Record()
		for _, n := range []*int64{r.Turns, r.Tokens, r.Spend, r.Spawns} {
			if n != nil && (*n < 0 || *n > 1<<53) {
				t.Fatalf("%q: %d", pair, *n)
			}
		}
		back := limits.None()
		back.Depth = l.Depth
		if back.Take(&r); back != l {
			t.Fatalf("%q: %+v becomes %+v", pair, l, back)
		}
	})
}

// TestReachedTime: a thread ends at its time limit, to the microsecond, and the error says so in milliseconds. Rounded
// before it is compared, the time would let a thread go on; unrounded, its record would be hard to read.
func TestReachedTime(t *testing.T) {
	for _, c := range []struct {
		limit, elapsed time.Duration
		current        float64 // 0: not reached
	}{
		{time.Second, time.Second, 1},
		{time.Second, time.Second - 1, 0},
		{time.Second, 1234567 * time.Microsecond, 1.234},
		{1000500 * time.Microsecond, 1000700 * time.Microsecond, 1.0005},
		{1000500 * time.Microsecond, 1000400 * time.Microsecond, 0},
		{300 * time.Microsecond, 350 * time.Microsecond, 0.00035},
	} {
		l := limits.None()
		l.Duration = c.limit
		if got := l.Late(c.elapsed); (got != nil) != (c.current != 0) || got != nil && (got.Current != c.current ||
			got.Max != c.limit.Seconds()) {
			t.Errorf("%s of %s: %+v", c.elapsed, c.limit, got)
		}
	}
}

// TestDeclared: a user who has lowered a limit by the command line learns what the directive allows itself, in the
// unit of the limit, and no other number: it is what the next command raises the limit to.
func TestDeclared(t *testing.T) {
	six := six
	for name, c := range map[string]struct {
		max  float64
		want any
	}{
		"turns": {6, 7.0}, "tokens": {100, 8000.0}, "spend": {0.1, 0.250000001}, "duration_seconds": {1, 1.500001},
		"spawns": {3, nil}, "depth": {5, nil}, // no more than was allowed
	} {
		reached := &transcript.Limit{Code: name + "_exceeded", Max: c.max}
		if got := six.Declared(limits.Fault(reached), reached).Details["declared"]; got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	none, reached := limits.None(), &transcript.Limit{Code: "turns_exceeded", Max: 1}
	if got := none.Declared(limits.Fault(reached), reached).Details["declared"]; got != nil {
		t.Errorf("a directive without limits: %v", got)
	}
}
