package control

import (
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// A Progress is what a thread has done.
type Progress struct {
	*Result
	used transcript.Cost
}

// Used is the cost, as the record of its end has it.
func (p *Progress) Used() transcript.Cost { return p.used }

// SoFar is what a thread has done, by its transcript. If it is interrupted or waits, its error is the reason.
func SoFar(dir string) (*Progress, error) {
	result := &Result{}
	var used transcript.Cost
	var limit transcript.Limit // the last
	for event, err := range transcript.Read(dir) {
		if err != nil { // its driver may be writing the rest
			break
		}
		payload, err := event.Says()
		if err != nil {
			return nil, err
		}
		switch payload := payload.(type) {
		case transcript.Started:
			result.Thread, result.Directive = event.Thread, strings.TrimPrefix(payload.Directive.Ref, "directive:")
		case transcript.Request:
			used.Turns = max(used.Turns, payload.Turn)
		case transcript.NodeStarted: // a step is a turn
			used.Turns = max(used.Turns, payload.Step)
		case transcript.Answer:
			used.Spend += payload.Cost
			if u := payload.Usage; u != nil {
				used.InputTokens += u.Input + u.CacheRead + u.CacheWrite
				used.OutputTokens += u.Output + u.Reasoning
			}
		case transcript.Classified:
			used.Spend += payload.Cost
		case transcript.CallResult:
			used.Below += payload.Cost
		case transcript.Limit:
			limit = payload
		case transcript.Waiting:
			result.Status = payload.State
			result.Error = fault.New(fault.Cancelled, "the thread stopped: %s", payload.Reason)
			if payload.Error != nil {
				result.Error = fault.New(fault.Code(payload.Error.Code), "%s", payload.Error.Message)
			}
			if payload.Reason == "limit" || payload.Reason == "budget" {
				result.Error.On("limit", limit.Code).On("current", limit.Current).On("max", limit.Max)
			}
		case transcript.Continued:
			result.Status, result.Error = "", nil
		case transcript.Completed:
			used = payload.Cost
		case transcript.Failed:
			used = payload.Cost
		case transcript.Cancelled:
			used = payload.Cost
		case transcript.HandedOff:
			used = payload.Cost
		}
	}
	result.Cost = CostOf(used)
	return &Progress{result, used}, nil
}

// Hands reports whether a thread was about to hand its work over, since its context was full.
func Hands(dir string) bool {
	for e, err := range transcript.Read(dir) {
		var l transcript.Limit
		if err == nil && e.Type == transcript.TypeLimit && e.Decode(&l) == nil && l.Action == "handoff" {
			return true
		}
	}
	return false
}
