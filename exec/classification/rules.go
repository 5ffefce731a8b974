package classification

import (
	"math"
	"time"

	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
)

// Name is that of the config.
const Name = "error_classification"

// A Category is a kind of failure.
type Category string

// The categories.
const (
	Transient   Category = "transient"
	RateLimited Category = "rate_limited"
	Quota       Category = "quota"
	Permanent   Category = "permanent"
	LimitHit    Category = "limit_hit"
	Budget      Category = "budget"
	Cancelled   Category = "cancelled"
)

// A Class is what is said of a failure.
type Class struct {
	ID        string // of the pattern; "" for the default
	Category  Category
	Retryable bool
	Policy    Policy
}

// Rules are a classification. They are not changed, and safe for many goroutines.
type Rules struct {
	patterns []pattern
	rest     Class
}

type pattern struct {
	Class
	match condition
}

// Of says what kind of failure the one is that a document tells, in JSON's values.
func (r *Rules) Of(doc map[string]any) Class {
	for i := range r.patterns {
		if r.patterns[i].match.fits(doc) {
			return r.patterns[i].Class
		}
	}
	return r.rest
}

// A Policy says how long to wait before another try.
type Policy struct {
	Type       string // none, exponential, fixed or use_header
	Base, Max  time.Duration
	Multiplier float64
	Delay      time.Duration
	MaxRetries int     // 0: it doesn't say
	Fallback   *Policy // of use_header
}

// Wait returns how long to wait after the try n, which counts from 0. said is what the other side asks for, 0 if nothing.
func (p *Policy) Wait(n int, said time.Duration) time.Duration {
	switch p.Type {
	case "use_header":
		if said > 0 {
			return min(said, maxWait)
		}
		if p.Fallback != nil {
			return p.Fallback.Wait(n, 0)
		}
	case "fixed":
		return p.Delay
	case "exponential":
		if d := float64(p.Base) * math.Pow(p.Multiplier, float64(n)); d < float64(p.Max) {
			return time.Duration(d)
		}
		return p.Max
	}
	return 0
}

// invalid returns the error that a classification has problems.
func invalid(problems []*value.Problem) error {
	all := make([]string, len(problems))
	for i, p := range problems {
		all[i] = Tell(p)
	}
	return fault.New(fault.Config, "invalid config:%s", Name).On("problems", all).List(all...).Try("rye docs resilience")
}

// Tell is a problem with the field that it is about. The line is that of one of the files that were merged, and isn't told.
func Tell(p *value.Problem) string {
	if p.Field == "" {
		return p.Message
	}
	return p.Field + ": " + p.Message
}
