package control

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/limits"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// A Result is how a thread ended, or why it stopped.
type Result struct {
	Success   bool           `json:"success"`
	Status    string         `json:"status"` // one of the states below
	Thread    string         `json:"thread"`
	Directive string         `json:"directive"`
	Result    string         `json:"result"`
	Outputs   map[string]any `json:"outputs,omitempty"`
	Cost      Cost           `json:"cost"`           // with that of the threads before it that handed over to it
	Next      string         `json:"next,omitempty"` // the thread that goes on, if it is continued
	Error     *fault.Error   `json:"-"`              // nil if it is completed
}

// Cost is what a thread has used.
type Cost struct {
	Turns        int64   `json:"turns"`
	InputTokens  int64   `json:"input_tokens"`
	OutputTokens int64   `json:"output_tokens"`
	Spend        float64 `json:"spend"`                    // dollars, its own
	Below        float64 `json:"spend_children,omitempty"` // dollars, of its children and theirs
	Seconds      float64 `json:"elapsed_seconds"`
}

// The states that a thread ends in.
const (
	StatusCompleted   = "completed"
	StatusFailed      = "error"
	StatusInterrupted = "interrupted"
	StatusWaiting     = "waiting" // for an answer
	StatusCancelled   = "cancelled"
	StatusKilled      = "killed"
	StatusContinued   = "continued" // another thread goes on
)

// A State is how far a thread is.
type State struct {
	Thread, Parent string
	Status         string // of a thread that has ended
	Turn, Turns    int64  // the last one, and the limit
	Spend, Budget  int64  // nano-dollars, with those of its children, and the limit
	Wait           time.Duration
	Why            string // the failure that it waits after, unless an event says it
}

// CostOf is the cost of a thread as its transcript has it.
func CostOf(c transcript.Cost) Cost {
	return Cost{Turns: c.Turns, InputTokens: c.InputTokens, OutputTokens: c.OutputTokens,
		Spend: float64(c.Spend) / limits.Nano,
		Below: float64(c.Below) / limits.Nano, Seconds: c.Elapsed.Seconds()}
}

// ResultOf is the result of a thread that has ended, by its transcript.
func ResultOf(dir string) (*Result, error) {
	result := &Result{}
	for event, err := range transcript.Read(dir) {
		var payload transcript.Payload
		if err == nil {
			payload, err = event.Says()
		}
		if err != nil {
			return nil, err
		}
		switch payload := payload.(type) {
		case transcript.Started:
			result.Thread, result.Directive = event.Thread, strings.TrimPrefix(payload.Directive.Ref, "directive:")
		case transcript.Completed:
			result.Success, result.Status, result.Cost = true, StatusCompleted, CostOf(payload.Cost)
			result.Result, result.Outputs = payload.Result, payload.Outputs
		case transcript.HandedOff:
			result.Status, result.Cost, result.Next = StatusContinued, CostOf(payload.Cost), payload.Next
		case transcript.Failed:
			result.Status, result.Cost, result.Error = StatusFailed, CostOf(payload.Cost),
				fault.New(fault.Code(payload.Error.Code), "%s", payload.Error.Message)
		case transcript.Cancelled:
			result.Status, result.Cost, result.Error = StatusCancelled, CostOf(payload.Cost),
				fault.New(fault.Cancelled, "the thread was cancelled")
			if payload.Killed {
				result.Status, result.Error = StatusKilled, fault.New(fault.Cancelled, "the thread was killed")
			}
		}
	}
	if result.Status == "" {
		return nil, fault.New(fault.Integrity, "the transcript in %q has no end", dir)
	}
	return result, nil
}

// Shown is the result as the model of a parent sees it.
func (r *Result) Shown() map[string]any {
	value := map[string]any{"success": r.Success, "status": r.Status, "thread": r.Thread, "directive": r.Directive,
		"result": r.Result, "cost": Values(r.Cost)}
	if r.Outputs != nil {
		value["outputs"] = r.Outputs
	}
	if r.Error != nil {
		value["error"] = FaultOf(r.Error)["error"]
	}
	return value
}

// FaultOf is the error object of every door.
func FaultOf(e *fault.Error) map[string]any {
	o := map[string]any{"code": string(e.Code), "message": e.Text}
	if len(e.Details) > 0 {
		o["details"] = Values(e.Details)
	}
	return map[string]any{"error": o}
}

// RecordedFault is an error as a transcript has it, without the end of a very long message.
func RecordedFault(e *fault.Error) *transcript.Fault {
	return &transcript.Fault{Code: string(e.Code), Message: fmt.Sprintf("%.16384s", e.Text)}
}

// Values returns a value that is made of JSON's types, as JSON's values.
func Values(v any) (out any) {
	b, err := json.Marshal(v)
	if err = cmp.Or(err, json.Unmarshal(b, &out)); err != nil {
		panic(fmt.Sprintf("%T is not made of JSON: %v", v, err))
	}
	return out
}

// Reason is why a thread stops that can go on.
func Reason(why *fault.Error) string {
	switch why.Code {
	case fault.Budget:
		return "budget"
	case fault.Cancelled:
		return "signal"
	}
	return "limit"
}

// stopped is what the transcript has of a thread that stops and can go on.
func stopped(status string, why *fault.Error) transcript.Waiting {
	w := transcript.Waiting{State: status, Reason: Reason(why), Error: RecordedFault(why)}
	if status == StatusWaiting {
		w.Reason = "approval"
		if _, gate := why.Details["question"]; gate {
			w.Reason = "gate"
		}
		w.On, _ = why.Details["request"].(string)
		w.Until, _ = why.Details["expires"].(string)
	}
	return w
}

// Add adds the cost of another thread.
func (c *Cost) Add(o Cost) {
	c.Turns, c.InputTokens, c.OutputTokens = c.Turns+o.Turns, c.InputTokens+o.InputTokens,
		c.OutputTokens+o.OutputTokens
	c.Spend, c.Below, c.Seconds = c.Spend+o.Spend, c.Below+o.Below, c.Seconds+o.Seconds
}
