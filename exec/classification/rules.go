package classification

import (
	"maps"
	"math"
	"strings"
	"time"

	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/condition"
)

// Name is the name of the config.
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

// A Class is the kind of a failure, and its retry policy.
type Class struct {
	ID        string // of the pattern; "" for the default
	Name      string // another name for it, or ""
	Category  Category
	Retryable bool
	Policy    Policy
}

// Rules are a classification. They are immutable and safe for concurrent use.
type Rules struct {
	patterns []pattern
	rest     Class
}

type pattern struct {
	Class
	match *condition.Condition
}

// Of classifies a failure, given as an object of JSON values.
func (r *Rules) Of(doc map[string]any) Class {
	doc = shortened(doc)
	for i := range r.patterns {
		if r.patterns[i].match.Holds(doc) {
			return r.patterns[i].Class
		}
	}
	return r.rest
}

// maxMessage bounds the searched part of a message, which may be a whole page.
const maxMessage = 4096

// shortened returns the failure with its message cut to maxMessage.
func shortened(doc map[string]any) map[string]any {
	failure, _ := doc["error"].(map[string]any)
	if message, _ := failure["message"].(string); len(message) > maxMessage {
		doc, failure = maps.Clone(doc), maps.Clone(failure)
		failure["message"], doc["error"] = message[:maxMessage], failure
	}
	return doc
}

// A Policy defines the wait before a retry.
type Policy struct {
	Type       string // none, exponential, fixed or use_header
	Base, Max  time.Duration
	Multiplier float64
	Delay      time.Duration
	MaxRetries int     // 0: no limit by the policy
	Fallback   *Policy // of use_header
}

// Wait returns the wait after try n, counted from 0. asked is the wait that the service asks for, or 0.
func (p *Policy) Wait(n int, asked time.Duration) time.Duration {
	switch p.Type {
	case "use_header":
		if asked > 0 {
			return min(asked, maxWait)
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

// invalid returns the error for a classification with problems. It omits the line numbers, which belong to several
// merged files.
func invalid(problems []*value.Problem) error {
	all := make([]string, len(problems))
	for i, p := range problems {
		all[i] = strings.TrimPrefix(p.Field+": ", ": ") + p.Message
	}
	return fault.New(fault.Config, "invalid config:%s", Name).On("problems",
		all).List(all...).Try("rye docs resilience")
}
