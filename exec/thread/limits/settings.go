package limits

import (
	"strings"

	"github.com/rye-build/rye/ai/model/declared"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
)

// Settings are the settings of config:resilience for threads.
type Settings struct {
	Limits     *value.Value
	MaxRetries int64
	Concurrent int64 // parallel calls of one turn, and parallel children of one thread
	Total      int64 // parallel threads in a tree, including its root
	Outlive    bool  // children continue when their parent is cancelled
}

// ReadSettings reads config:resilience.
func ReadSettings(v *value.Value) (s Settings, err error) {
	s = Settings{MaxRetries: 3, Concurrent: 5, Total: 20}
	for _, m := range []struct {
		at    *value.Value
		name  string
		known []string
	}{
		{v, "", []string{"limits", "retry", "concurrency", "child_policy", "schema_version", "name", "version",
			"category", "description"}},
		{v.Get("limits"), "limits.", []string{"defaults"}},
		{v.Get("retry"), "retry.", []string{"max_retries"}},
		{v.Get("concurrency"), "concurrency.", []string{"max_concurrent_children", "max_total_threads"}},
		{v.Get("child_policy"), "child_policy.", []string{"on_parent_cancel"}},
	} {
		if key := m.at.Unknown(m.known...); key != "" {
			return s, fault.New(fault.Config, "invalid config:resilience: unknown key %q: expected one of %s",
				m.name+key, strings.Join(m.known, ", "))
		}
	}
	var problems []*value.Problem
	if s.Limits, problems = declared.Limits(v.Get("limits").Get("defaults")); len(problems) > 0 {
		return s, fault.New(fault.Config, "invalid config:resilience: %s", problems[0].Message)
	}
	for _, n := range []struct {
		at   *value.Value
		name string
		to   *int64
		most int64
	}{
		{v.Get("retry").Get("max_retries"), "retry.max_retries", &s.MaxRetries, 100},
		{v.Get("concurrency").Get("max_concurrent_children"), "concurrency.max_concurrent_children", &s.Concurrent,
			1000},
		{v.Get("concurrency").Get("max_total_threads"), "concurrency.max_total_threads", &s.Total, 100000},
	} {
		if n.at.IsNull() {
			continue
		}
		setting, ok := n.at.Int()
		if !ok || setting < 0 || setting > n.most {
			return s, fault.New(fault.Config, "invalid config:resilience: %s must be between 0 and %d", n.name, n.most)
		}
		*n.to = setting
	}
	switch v.Get("child_policy").Get("on_parent_cancel").String() {
	case "", "cancel":
	case "continue":
		s.Outlive = true
	default:
		return s, fault.New(fault.Config,
			"invalid config:resilience: child_policy.on_parent_cancel must be cancel or continue")
	}
	return s, nil
}
