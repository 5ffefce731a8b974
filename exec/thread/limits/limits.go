// Package limits bounds threads: turns, tokens, spend, children, depth and time.
package limits

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rye-build/rye/ai/model/declared"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// A Set is the limits of one thread.
type Set struct {
	Turns, Tokens, Spawns, Depth int64
	Spend                        int64 // nano-dollars
	Duration                     time.Duration
}

// Unlimited is the value of a limit that isn't set.
const Unlimited = math.MaxInt64

// None sets none.
func None() Set {
	return Set{Unlimited, Unlimited, Unlimited, Unlimited, Unlimited, Unlimited}
}

// A field is one limit of a set. Spend is in nano-dollars, duration in nanoseconds.
type field struct {
	name string
	at   *int64
}

// fields lists the limits in the order in which they are checked.
func (l *Set) fields() []field {
	return []field{{"turns", &l.Turns}, {"tokens", &l.Tokens}, {"spend", &l.Spend}, {duration, (*int64)(&l.Duration)},
		{"spawns", &l.Spawns},
		{"depth", &l.Depth}}
}

const duration = "duration_seconds"

// Names lists the limits in the order in which they are checked.
func Names() (names []string) {
	for _, f := range new(Set).fields() {
		names = append(names, f.name)
	}
	return names
}

// Declare sets the limits that a directive or config declares, as package declared has normalised them.
func (l *Set) Declare(v *value.Value) {
	for _, f := range l.fields() {
		if n, ok := declared.Limit(v, f.name); ok {
			if *f.at = n; f.name == duration {
				*f.at *= int64(time.Microsecond)
			}
		}
	}
}

// Override sets limits from NAME=VALUE, as on the command line.
func (l *Set) Override(pairs []string) error {
	object, names := &value.Value{Kind: value.Map}, Names()
	for _, pair := range pairs {
		name, text, ok := strings.Cut(pair, "=")
		name = strings.TrimPrefix(name, "max_")
		if name == "duration" {
			name = duration
		}
		if !ok || !slices.Contains(names, name) {
			return fault.New(fault.Validation, "invalid limit %q: expected NAME=VALUE with one of %s", pair,
				strings.Join(names, ", ")).On("limit", pair)
		}
		if _, err := strconv.ParseFloat(text, 64); err != nil {
			return fault.New(fault.Validation, "invalid limit %q: expected a number", pair).On("limit", pair)
		}
		object.Map = append(object.Map, value.Entry{Key: name, Value: &value.Value{Kind: value.Text, Text: text}})
	}
	normal, problems := declared.Limits(object)
	if len(problems) > 0 {
		return fault.New(fault.Validation, "invalid limit: %s", problems[0].Message)
	}
	l.Declare(normal)
	return nil
}

// A Usage is what a thread has used of its limits.
type Usage struct {
	Turns, Tokens int64
	Elapsed       time.Duration
}

// Reached returns the first limit that is reached, nil if none is. Money is the budget's.
func (l *Set) Reached(u Usage) *transcript.Limit {
	elapsed := u.Elapsed
	if elapsed >= time.Second { // people read it
		elapsed = max(elapsed.Truncate(time.Millisecond), min(elapsed, l.Duration))
	}
	for _, is := range []struct {
		name      string
		used, max int64
		unit      float64
	}{
		{"turns", u.Turns, l.Turns, 1}, {"tokens", u.Tokens, l.Tokens, 1},
		{duration, int64(elapsed), int64(l.Duration), float64(time.Second)},
	} {
		if is.used >= is.max {
			return &transcript.Limit{Code: is.name + "_exceeded", Current: float64(is.used) / is.unit,
				Max: float64(is.max) / is.unit}
		}
	}
	return nil
}

// Late returns the limit of time if a thread that has run for so long has reached it.
func (l *Set) Late(elapsed time.Duration) *transcript.Limit {
	only := None()
	only.Duration = l.Duration
	return only.Reached(Usage{Elapsed: elapsed})
}

// Fault returns a limit that is reached as an error.
func Fault(l *transcript.Limit) *fault.Error {
	return At(fault.New(fault.Limit, "the thread has reached a limit: %s (%g of %g)", l.Code, l.Current, l.Max), l)
}

// At adds to an error the limit that it is about: a thread that goes on needs a higher one.
func At(e *fault.Error, l *transcript.Limit) *fault.Error {
	return e.On("limit", l.Code).On("current", l.Current).On("max", l.Max)
}

// Nano is how many nano-dollars a dollar has.
const Nano = 1e9

// Cap lowers each limit to that of a parent. The depth is one less than the parent's.
func (l *Set) Cap(parent *Set) {
	most := parent.fields()
	for i, f := range l.fields() {
		bound := *most[i].at
		if f.name == "depth" && bound != Unlimited {
			bound--
		}
		*f.at = min(*f.at, bound)
	}
}

// Record returns the limits as a transcript has them.
func (l *Set) Record() (r transcript.Limits) {
	for _, m := range l.members(&r) {
		if n := *m.at; n != Unlimited {
			*m.recorded = &n
		}
	}
	return r
}

// Take sets what a transcript has, and takes away what it doesn't.
func (l *Set) Take(r *transcript.Limits) {
	for _, m := range l.members(r) {
		if *m.at = Unlimited; *m.recorded != nil {
			*m.at = **m.recorded
		}
	}
}

// A member is a limit that a transcript has too.
type member struct {
	at       *int64
	recorded **int64
}

func (l *Set) members(r *transcript.Limits) []member {
	return []member{{&l.Turns, &r.Turns}, {&l.Tokens, &r.Tokens}, {&l.Spend, &r.Spend}, {&l.Spawns, &r.Spawns},
		{(*int64)(&l.Duration), &r.Duration}}
}

// Rest returns the rest of the limits.
func (l *Set) Rest(u Usage, spent, spawned int64) Set {
	rest := *l
	for to, used := range map[*int64]int64{&rest.Turns: u.Turns, &rest.Tokens: u.Tokens,
		(*int64)(&rest.Duration): int64(u.Elapsed), &rest.Spend: spent, &rest.Spawns: spawned} {
		if *to != Unlimited {
			*to = max(*to-used, 0)
		}
	}
	return rest
}

// Budget is what a thread may spend, nil without a bound.
func (l *Set) Budget() *int64 {
	if l.Spend == Unlimited {
		return nil
	}
	n := l.Spend
	return &n
}
