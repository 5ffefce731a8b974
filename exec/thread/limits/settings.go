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
func ReadSettings(val *value.Value) (settings Settings, err error) {
	settings = Settings{MaxRetries: 3, Concurrent: 5, Total: 20}
	for _, part := range []struct {
		at    *value.Value
		name  string
		known []string
	}{
		{val, "", []string{"limits", "retry", "concurrency", "child_policy", "schema_version", "name", "version",
			"category", "description"}},
		{val.Get("limits"), "limits.", []string{"defaults"}},
		{val.Get("retry"), "retry.", []string{"max_retries"}},
		{val.Get("concurrency"), "concurrency.", []string{"max_concurrent_children", "max_total_threads"}},
		{val.Get("child_policy"), "child_policy.", []string{"on_parent_cancel"}},
	} {
		if key := part.at.Unknown(part.known...); key != "" {
			return settings, fault.New(fault.Config, "invalid config:resilience: unknown key %q: expected one of %s",
				part.name+key, strings.Join(part.known, ", "))
		}
	}
	var problems []*value.Problem
	if settings.Limits, problems = declared.Limits(val.Get("limits").Get("defaults")); len(problems) > 0 {
		return settings, fault.New(fault.Config, "invalid config:resilience: %s", problems[0].Message)
	}
	for _, n := range []struct {
		at          *value.Value
		name        string
		to          *int64
		least, most int64
	}{
		{val.Get("retry").Get("max_retries"), "retry.max_retries", &settings.MaxRetries, 0, 100},
		{val.Get("concurrency").Get("max_concurrent_children"), "concurrency.max_concurrent_children",
			&settings.Concurrent, 1, 1000},
		{val.Get("concurrency").Get("max_total_threads"), "concurrency.max_total_threads", &settings.Total, 1, 100000},
	} {
		if n.at.IsNull() {
			continue
		}
		setting, ok := n.at.Int()
		if !ok || setting < n.least || setting > n.most {
			return settings, fault.New(fault.Config, "invalid config:resilience: %s must be between %d and %d",
				n.name, n.least, n.most)
		}
		*n.to = setting
	}
	switch val.Get("child_policy").Get("on_parent_cancel").String() {
	case "", "cancel":
	case "continue":
		settings.Outlive = true
	default:
		return settings, fault.New(fault.Config,
			"invalid config:resilience: child_policy.on_parent_cancel must be cancel or continue")
	}
	return settings, nil
}
