package control

import (
	"cmp"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/jcs"
)

// maxResult is how many bytes a result may have as JSON: it is in one event of a transcript.
const maxResult = 8 << 20

// Take takes what a loop returned, or what ended it, and returns why its thread isn't completed. outputs: the model
// should have returned some.
func (r *Result) Take(value any, ended, reason string, outputs bool) *fault.Error {
	r.Status = StatusFailed
	switch {
	case ended != "":
		return fault.New(fault.Resource, "the loop of the thread was stopped by a limit: %s", ended).On("limit", ended)
	case reason != "":
		return fault.New(fault.Failed, "the loop of the thread failed: %.4096s", reason)
	}
	fields, _ := value.(map[string]any)
	if failed, ok := fields["error"].(map[string]any); ok {
		r.Result, _ = fields["text"].(string)
		code, _ := failed["code"].(string)
		message, _ := failed["message"].(string)
		e := fault.New(fault.Code(cmp.Or(code, string(fault.Failed))), "%.4096s",
			cmp.Or(message, "the loop failed without a reason"))
		e.Exit = fault.ExitNo // the thread ran: the service or the loop says no
		return e.Try("rye docs providers")
	}
	text, ok := fields["text"].(string)
	if !ok {
		return fault.New(fault.Failed, "the loop of the thread returned neither a text nor an error").
			Try("rye docs threads")
	}
	if b, err := jcs.Append(nil, text); err != nil || len(b) > maxResult {
		return fault.New(fault.Resource, "the loop of the thread returned %d bytes, more than the limit of %d", len(b),
			maxResult)
	}
	if r.Result = text; outputs {
		return fault.New(fault.Failed, "the model ended without returning the outputs that %q declares",
			"directive:"+r.Directive)
	}
	r.Status = StatusCompleted
	return nil
}
