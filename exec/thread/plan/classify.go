package plan

import (
	"time"

	"github.com/rye-build/rye/exec/classification"
	"github.com/rye-build/rye/exec/thread/hook"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/condition"
)

// Classify returns the kind of failure that a node of a graph had, and adds that to the data of the event error.
func (p *Plan) Classify(data map[string]any) classification.Class {
	failure := data["error"].(map[string]any)
	code, _ := failure["code"].(string)
	class := p.Rules.Of(map[string]any{"error": map[string]any{"code": code, "message": failure["message"],
		"type": code}})
	names := condition.Names{code, class.ID, string(class.Category), class.Name}
	data["error"] = map[string]any{"code": names, "message": failure["message"], "type": hook.TypeOf(code)}
	data["classification"] = map[string]any{"id": class.ID, "code": class.ID, "category": string(class.Category),
		"retryable": class.Retryable}
	return class
}

// Failed says what is made of the failure of a node by what hooks decide: retry, after a wait, continue or fail; "" if
// they end the thread.
func (p *Plan) Failed(decision *hook.Decision, class *classification.Class, data map[string]any) (action string,
	wait *transcript.Classified) {
	attempt, _ := data["attempt"].(int64)
	switch decision.Control {
	case "", hook.Fail:
		return hook.Fail, nil
	case hook.Continue, hook.Skip:
		return hook.Continue, nil
	case hook.Retry:
		most := p.Settings.MaxRetries
		if class.Policy.MaxRetries > 0 {
			most = min(most, int64(class.Policy.MaxRetries))
		}
		if data["repeatable"] != true || attempt > most {
			return hook.Fail, nil
		}
		wait = &transcript.Classified{Delay: max(class.Policy.Wait(int(attempt-1), 0), time.Second)}
		if decision.Delay != nil {
			wait.Delay = *decision.Delay
		}
		wait.Error.Message, _ = data["error"].(map[string]any)["message"].(string)
		return hook.Retry, wait
	}
	return "", nil
}
