package plan_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/rye-build/rye/exec/classification"
	"github.com/rye-build/rye/exec/thread/hook"
	"github.com/rye-build/rye/exec/thread/plan"
)

// TestFailed: a node's call that may have had its effect isn't made again, whatever a hook decides, and none is made
// more often than the project and the kind of failure allow: a payment would be made twice.
func TestFailed(t *testing.T) {
	fixed := classification.Policy{Type: "fixed", Delay: 3 * time.Second}
	twice := fixed
	twice.MaxRetries = 2
	minute := time.Minute
	for name, c := range map[string]struct {
		control    string
		delay      *time.Duration
		policy     classification.Policy
		attempt    int64
		repeatable any
		want       string
		wait       time.Duration
	}{
		"no decision":              {"", nil, fixed, 1, true, hook.Fail, 0},
		"fail":                     {hook.Fail, nil, fixed, 1, true, hook.Fail, 0},
		"continue":                 {hook.Continue, nil, fixed, 1, false, hook.Continue, 0},
		"skip":                     {hook.Skip, nil, fixed, 1, false, hook.Continue, 0},
		"retry":                    {hook.Retry, nil, fixed, 1, true, hook.Retry, 3 * time.Second},
		"retry later":              {hook.Retry, &minute, fixed, 1, true, hook.Retry, time.Minute},
		"retry at once":            {hook.Retry, nil, classification.Policy{Type: "fixed"}, 1, true, hook.Retry, time.Second},
		"what may have happened":   {hook.Retry, nil, fixed, 1, false, hook.Fail, 0},
		"what isn't known":         {hook.Retry, nil, fixed, 1, nil, hook.Fail, 0},
		"as often as the project":  {hook.Retry, nil, fixed, 4, true, hook.Retry, 3 * time.Second},
		"more often":               {hook.Retry, nil, fixed, 5, true, hook.Fail, 0},
		"as often as its kind":     {hook.Retry, nil, twice, 2, true, hook.Retry, 3 * time.Second},
		"more often than its kind": {hook.Retry, nil, twice, 3, true, hook.Fail, 0},
		"suspend":                  {hook.Suspend, nil, fixed, 1, true, "", 0},
	} {
		p := &plan.Plan{}
		p.Settings.MaxRetries = 4
		data := map[string]any{"attempt": c.attempt, "repeatable": c.repeatable,
			"error": map[string]any{"message": "no"}}
		action, wait := p.Failed(&hook.Decision{Control: c.control, Delay: c.delay},
			&classification.Class{Policy: c.policy}, data)
		if action != c.want || (wait != nil) != (c.wait > 0) ||
			wait != nil && (wait.Delay != c.wait || wait.Error.Message != "no") {
			t.Errorf("%s: %q, %+v", name, action, wait)
		}
	}
}

// TestClassify: hooks see a failure by its code and by every name of its kind, so that a hook for rate limits sees all
// of them.
func TestClassify(t *testing.T) {
	p, err := followed(t, opened(t, ""), "tool", "acme/flow")
	if err != nil {
		t.Fatal(err)
	}
	data := map[string]any{"error": map[string]any{"code": "insufficient_quota", "message": "slow down"}}
	class := p.Classify(data)
	failure, _ := data["error"].(map[string]any)
	if class.ID == "" || failure["message"] != "slow down" ||
		!reflect.DeepEqual(failure["type"], hook.TypeOf("insufficient_quota")) ||
		reflect.ValueOf(failure["code"]).Len() != 4 || !reflect.DeepEqual(data["classification"], map[string]any{
		"id": class.ID, "code": class.ID, "category": string(class.Category), "retryable": class.Retryable}) {
		t.Errorf("%+v: %v", class, data)
	}
}
