package retry

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/jcs"
)

// The names of the configuration entries that this package reads.
const (
	Entry = "resilience"
	retry = "retry" // the primitive's own
)

const (
	// MaxAttempts bounds how often an action is tried.
	MaxAttempts = 10
	maxSeconds  = 86400
)

// settings are the entries of a configuration.
type settings struct {
	cache    *cacheSetting
	breaker  *breakerSetting
	rate     *rateSetting
	retry    retrySetting
	each     time.Duration // limit on each try; 0 for none
	fallback *any
}

type cacheSetting struct {
	ttl  time.Duration
	most int
}

type breakerSetting struct {
	failures, successes int
	cooldown            time.Duration
}

type rateSetting struct {
	perSecond float64
	burst     int
}

type retrySetting struct {
	attempts       int
	own            bool // the configuration sets the waits
	linear         bool
	first, longest time.Duration
	jitter         float64
	idempotent     bool
}

// read reads a configuration.
func read(config map[string]any) (*settings, error) {
	reader := new(reader)
	settings := &settings{retry: retrySetting{attempts: 1}}
	all := reader.object(config[Entry], Entry, "cache", "breaker", "rate", retry, "timeout", "fallback").m
	if v, ok := all["cache"]; ok {
		o := reader.object(v, "resilience.cache", "ttl", "max_entries")
		settings.cache = &cacheSetting{o.seconds("ttl", 60), o.count("max_entries", 100, 1000)}
	}
	if v, ok := all["breaker"]; ok {
		o := reader.object(v, "resilience.breaker", "failures", "cooldown", "successes")
		settings.breaker = &breakerSetting{failures: o.count("failures", 5, 1000), cooldown: o.seconds("cooldown", 30),
			successes: o.count("successes", 2, 1000)}
	}
	if v, ok := all["rate"]; ok {
		o := reader.object(v, "resilience.rate", "per_second", "burst")
		settings.rate = &rateSetting{o.number("per_second", 10, 0.001, 1e6), o.count("burst", 5, 1e6)}
	}
	if v, ok := all["timeout"]; ok {
		settings.each = reader.object(v, "resilience.timeout", "each").seconds("each", 0)
	}
	if v, ok := all["fallback"]; ok {
		value, there := reader.object(v, "resilience.fallback", "value").get("value")
		if !there {
			reader.bad("resilience.fallback.value is missing")
		}
		settings.fallback = &value
	}
	settings.retry = reader.retry(config, all)
	if len(reader.reasons) > 0 {
		return nil, fault.New(fault.Validation, "%s", strings.Join(reader.reasons, "; ")).On("problems",
			reader.reasons).Try("rye docs resilience")
	}
	return settings, nil
}

// retry reads the retry settings from either entry.
func (r *reader) retry(config, all map[string]any) retrySetting {
	retrySetting := retrySetting{attempts: 1}
	val, ok := all[retry]
	own, also := config[retry]
	path, or := "resilience.retry", 0
	switch {
	case ok && also:
		r.bad("retry and resilience.retry exclude each other")
		return retrySetting
	case also:
		path, or = retry, 1
		if o, _ := own.(map[string]any); o != nil {
			if n, ok := jcs.Number(o["max_attempts"]); ok && n > MaxAttempts {
				o = maps.Clone(o)
				o["max_attempts"] = int64(MaxAttempts)
				own = o
			}
		}
		val = own
	case !ok:
		return retrySetting
	}
	object := r.object(val, path, "max_attempts", "backoff", "first", "longest", "jitter", "idempotent")
	retrySetting.attempts = object.count("max_attempts", or, MaxAttempts)
	for _, name := range []string{"backoff", "first", "longest"} {
		_, said := object.get(name)
		retrySetting.own = retrySetting.own || said
	}
	if b, said := object.get("backoff"); said && b != "exponential" && b != "linear" {
		r.bad("%s.backoff: expected exponential or linear, got %v", path, b)
	} else {
		retrySetting.linear = b == "linear"
	}
	retrySetting.first, retrySetting.longest = object.seconds("first", 1), object.seconds("longest", 120)
	retrySetting.jitter = object.number("jitter", 0, 0, 1)
	if b, said := object.get("idempotent"); said {
		if retrySetting.idempotent, ok = b.(bool); !ok {
			r.bad("%s.idempotent: expected true or false", path)
		}
	}
	return retrySetting
}

// A reader collects the problems of a configuration.
type reader struct{ reasons []string }

func (r *reader) bad(format string, args ...any) {
	r.reasons = append(r.reasons, fmt.Sprintf(format, args...))
}

// An object is one object of the configuration.
type object struct {
	*reader
	path string
	m    map[string]any
}

// object reads an object that may have only these keys. A missing object is empty.
func (r *reader) object(v any, path string, keys ...string) object {
	m, ok := v.(map[string]any)
	if !ok && v != nil {
		r.bad("%s: expected an object", path)
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(keys, name) {
			r.bad("%s: unknown key %q: expected one of %s", path, name, strings.Join(keys, ", "))
		}
	}
	return object{r, path, m}
}

func (o object) get(name string) (any, bool) {
	v, ok := o.m[name]
	return v, ok
}

// number reads a number between two bounds.
func (o object) number(name string, or, least, most float64) float64 {
	v, there := o.m[name]
	n, ok := jcs.Number(v)
	if !there {
		n, ok = or, or >= least
	}
	// The negated comparison refuses NaN too.
	if !ok || !(n >= least && n <= most) {
		o.bad("%s.%s must be a number between %v and %v", o.path, name, least, most)
		return least
	}
	return n
}

// count reads a positive integer.
func (o object) count(name string, or, most int) int {
	n := o.number(name, float64(or), 1, float64(most))
	if n != float64(int(n)) {
		o.bad("%s.%s must be an integer", o.path, name)
	}
	return int(n)
}

// seconds reads a time of at least a millisecond.
func (o object) seconds(name string, or float64) time.Duration {
	return time.Duration(o.number(name, or, 0.001, maxSeconds) * float64(time.Second))
}
