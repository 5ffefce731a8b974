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

// Unlimited is the value of an unset limit.
const Unlimited = math.MaxInt64

// None returns a Set without limits.
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

// Declare sets the limits that a directive or config declares, normalised by package declared.
func (l *Set) Declare(v *value.Value) {
	for _, f := range l.fields() {
		if n, ok := declared.Limit(v, f.name); ok {
			if *f.at = n; f.name == duration {
				*f.at *= int64(time.Microsecond)
			}
		}
	}
}

// Override sets limits from texts NAME=VALUE, as on the command line.
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

// A Usage is a thread's use of its limits.
type Usage struct {
	Turns, Tokens int64
	Elapsed       time.Duration
}

// Reached returns the first limit that the usage has reached, or nil. The ledger checks money.
func (l *Set) Reached(u Usage) *transcript.Limit {
	elapsed := u.Elapsed
	if elapsed >= time.Second { // for readability
		elapsed = max(elapsed.Truncate(time.Millisecond), min(elapsed, l.Duration))
	}
	for _, limit := range []struct {
		name      string
		used, max int64
		unit      float64
	}{
		{"turns", u.Turns, l.Turns, 1}, {"tokens", u.Tokens, l.Tokens, 1},
		{duration, int64(elapsed), int64(l.Duration), float64(time.Second)},
	} {
		if limit.used >= limit.max {
			return &transcript.Limit{Code: limit.name + "_exceeded", Current: float64(limit.used) / limit.unit,
				Max: float64(limit.max) / limit.unit}
		}
	}
	return nil
}

// Late returns the time limit if a thread that has run for so long has reached it.
func (l *Set) Late(elapsed time.Duration) *transcript.Limit {
	only := None()
	only.Duration = l.Duration
	return only.Reached(Usage{Elapsed: elapsed})
}

// Fault returns a reached limit as an error.
func Fault(l *transcript.Limit) *fault.Error {
	return At(fault.New(fault.Limit, "the thread has reached a limit: %s (%g of %g)", l.Code, l.Current, l.Max), l)
}

// At adds a limit to an error: to continue, the thread needs a higher one.
func At(e *fault.Error, l *transcript.Limit) *fault.Error {
	return e.On("limit", l.Code).On("current", l.Current).On("max", l.Max)
}

// Nano is the number of nano-dollars in a dollar.
const Nano = 1e9

// Declared adds to the error of a reached limit what the directive allows itself, if that is more.
func (l *Set) Declared(e *fault.Error, reached *transcript.Limit) *fault.Error {
	for _, f := range l.fields() {
		n := float64(*f.at)
		switch f.name {
		case "spend":
			n /= Nano
		case duration:
			n /= float64(time.Second)
		}
		if f.name+"_exceeded" == reached.Code && *f.at != Unlimited && n > reached.Max {
			return e.On("declared", n)
		}
	}
	return e
}

// Lower lowers each limit to that of another set.
func (l *Set) Lower(most *Set) {
	bounds := most.fields()
	for i, f := range l.fields() {
		*f.at = min(*f.at, *bounds[i].at)
	}
}

// Cap lowers each limit to that of a parent. The depth is one less than the parent's.
func (l *Set) Cap(parent *Set) {
	most := *parent
	if most.Depth != Unlimited {
		most.Depth--
	}
	l.Lower(&most)
}

// Record returns the limits in the form of a transcript.
func (l *Set) Record() (r transcript.Limits) {
	for _, m := range l.members(&r) {
		if n := *m.at; n != Unlimited {
			*m.recorded = &n
		}
	}
	return r
}

// Take sets the limits of a transcript, and unsets all others.
func (l *Set) Take(r *transcript.Limits) {
	for _, m := range l.members(r) {
		if *m.at = Unlimited; *m.recorded != nil {
			*m.at = **m.recorded
		}
	}
}

// A member is a limit that a transcript has, too.
type member struct {
	at       *int64
	recorded **int64
}

func (l *Set) members(r *transcript.Limits) []member {
	return []member{{&l.Turns, &r.Turns}, {&l.Tokens, &r.Tokens}, {&l.Spend, &r.Spend}, {&l.Spawns, &r.Spawns},
		{(*int64)(&l.Duration), &r.Duration}}
}

// Rest returns what is left of the limits.
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

// Budget returns the spend limit, or nil without one.
func (l *Set) Budget() *int64 {
	if l.Spend == Unlimited {
		return nil
	}
	n := l.Spend
	return &n
}
