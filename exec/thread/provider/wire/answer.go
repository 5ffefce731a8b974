package wire

import (
	"fmt"
	"strings"

	"github.com/rye-build/rye/exec/audit/redact"
)

// finish makes an answer conform to the package's promises, whatever the service sent.
func (f *Format) finish(answer *Answer, parsed bool) *Failure {
	if parsed && len(answer.Calls) == 0 {
		answer.Calls = invokes(answer.Text)
	}
	if len(answer.Calls) > MaxCalls {
		return tooManyCalls
	}
	if answer.size() > maxAnswer {
		return &Failure{Type: "LimitError", Message: fmt.Sprintf("the answer has more than %d bytes", maxAnswer)}
	}
	name(answer.Calls)
	if len(answer.Calls) > 0 && answer.Stop == StopEnd {
		answer.Stop = StopCalls
	}
	if answer.Opaque == nil {
		return nil
	}
	answer.Opaque.Format = f.name
	if text := encode(answer.Opaque.Blocks); text == "" || deeper(answer.Opaque.Blocks, maxNested+8) ||
		strings.Contains(text, redact.Mask) {
		answer.Opaque = nil // a request can't contain it, or a service refuses it after the redaction of a secret
	}
	return nil
}

// maxAnswer bounds the size of an answer as JSON: one event of a transcript contains it, and the next request.
const maxAnswer = 6 << 20

// size returns the size of an answer as JSON, in bytes.
func (a *Answer) size() int {
	n := len(encode(a.Text))
	for i := range a.Calls {
		c := &a.Calls[i]
		n += len(encode(c.ID)) + len(encode(c.Name)) + len(encode(c.Raw)) + len(encode(c.Input))
	}
	if a.Opaque != nil {
		n += len(encode(a.Opaque.Blocks))
	}
	return n
}

// name gives a new id to calls without an id, or with the id of an earlier call.
func name(calls []ToolCall) {
	seen := map[string]bool{}
	for i := range calls {
		seen[calls[i].ID] = true
	}
	taken := map[string]bool{}
	for i := range calls {
		c := &calls[i]
		for n := i; c.ID == "" || taken[c.ID]; n++ {
			if id := fmt.Sprintf("call_%d", n); !seen[id] {
				c.ID = id
				seen[id] = true
			}
		}
		taken[c.ID] = true
	}
}

func nonsense() *Failure {
	return &Failure{Type: "AnswerError", Message: "the answer has an unknown form"}
}
