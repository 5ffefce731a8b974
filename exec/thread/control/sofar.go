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
	r := &Result{}
	var used transcript.Cost
	var limit transcript.Limit // the last
	for e, err := range transcript.Read(dir) {
		if err != nil { // its driver may be writing the rest
			break
		}
		p, err := e.Says()
		if err != nil {
			return nil, err
		}
		switch p := p.(type) {
		case transcript.Started:
			r.Thread, r.Directive = e.Thread, strings.TrimPrefix(p.Directive.Ref, "directive:")
		case transcript.Request:
			used.Turns = max(used.Turns, p.Turn)
		case transcript.NodeStarted: // a step is a turn
			used.Turns = max(used.Turns, p.Step)
		case transcript.Answer:
			used.Spend += p.Cost
			if u := p.Usage; u != nil {
				used.InputTokens += u.Input + u.CacheRead + u.CacheWrite
				used.OutputTokens += u.Output + u.Reasoning
			}
		case transcript.Classified:
			used.Spend += p.Cost
		case transcript.CallResult:
			used.Below += p.Cost
		case transcript.Limit:
			limit = p
		case transcript.Waiting:
			r.Status, r.Error = p.State, fault.New(fault.Cancelled, "the thread stopped: %s", p.Reason)
			if p.Error != nil {
				r.Error = fault.New(fault.Code(p.Error.Code), "%s", p.Error.Message)
			}
			if p.Reason == "limit" || p.Reason == "budget" {
				r.Error.On("limit", limit.Code).On("current", limit.Current).On("max", limit.Max)
			}
		case transcript.Continued:
			r.Status, r.Error = "", nil
		case transcript.Completed:
			used = p.Cost
		case transcript.Failed:
			used = p.Cost
		case transcript.Cancelled:
			used = p.Cost
		case transcript.HandedOff:
			used = p.Cost
		}
	}
	r.Cost = CostOf(used)
	return &Progress{r, used}, nil
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
