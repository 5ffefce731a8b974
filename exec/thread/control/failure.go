package control

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
)

// Failure returns why the thread isn't completed, with what goes on with it; nil if it is.
func (r *Result) Failure() error {
	if r.Error == nil {
		return nil
	}
	r.Error.On("thread", r.Thread).Because(fmt.Sprintf("the thread %s used %s and $%.6f", r.Thread,
		fault.Count(r.Cost.Turns, "turn"), r.Cost.Spend))
	r.Error.Try("rye thread show " + fault.Quote(r.Thread))
	switch r.Status {
	case StatusInterrupted:
		if r.Error.Code != fault.Cancelled {
			r.Error.Exit = fault.ExitRefused
		}
		r.Error.Try("rye thread resume " + fault.Quote(r.Thread) + higher(r.Error))
	case StatusWaiting:
		const resume = "rye thread resume "
		// of a child, too
		hints := slices.DeleteFunc(r.Error.Hint, func(h string) bool { return strings.HasPrefix(h, resume) })
		r.Error.Hint = slices.Insert(hints, min(1, len(hints)), resume+fault.Quote(r.Thread))
	case StatusFailed:
		if r.Error.Exit != 0 || r.Error.Line().Exit != fault.ExitRefused || r.Error.Code == fault.Conflict {
			r.Error.Exit = fault.ExitNo
		}
	}
	return r.Error
}

// higher returns the flag with which a thread goes on that has reached a limit: what its directive allows itself, but
// at least twice what the thread had, or needed.
func higher(e *fault.Error) string {
	code, _ := e.Details["limit"].(string)
	had, known := e.Details["max"].(float64)
	needs, _ := e.Details["current"].(float64)
	name, reached := strings.CutSuffix(code, "_exceeded")
	declared, _ := e.Details["declared"].(float64)
	n := max(2*max(had, needs), declared)
	switch {
	case !known || !reached:
		return ""
	case name == "spend":
		return fmt.Sprintf(" --limit spend=%.2f", math.Ceil(n*100)/100)
	}
	return fmt.Sprintf(" --limit %s=%.0f", name, math.Ceil(max(n, 1)))
}
