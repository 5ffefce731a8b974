package results

import (
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/limits"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// SoFar is what a thread that hasn't ended has done, by its transcript. If it is interrupted or waits, the error says why.
func SoFar(dir string) (*Result, error) {
	r := &Result{}
	var spend, below int64
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
			r.Cost.Turns = max(r.Cost.Turns, p.Turn)
		case transcript.Answer:
			spend += p.Cost
			if u := p.Usage; u != nil {
				r.Cost.InputTokens += u.Input + u.CacheRead + u.CacheWrite
				r.Cost.OutputTokens += u.Output + u.Reasoning
			}
		case transcript.Classified:
			spend += p.Cost
		case transcript.CallResult:
			below += p.Cost
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
		}
	}
	r.Cost.Spend, r.Cost.Below = float64(spend)/limits.Nano, float64(below)/limits.Nano
	return r, nil
}
