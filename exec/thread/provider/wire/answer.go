package wire

import (
	"fmt"
	"strings"

	"github.com/rye-build/rye/exec/audit/redact"
)

// finish makes an answer what the package promises, whatever the service sent.
func (f *Format) finish(a *Answer, parsed bool) *Failure {
	if parsed && len(a.Calls) == 0 {
		a.Calls = invokes(a.Text)
	}
	if len(a.Calls) > MaxCalls {
		return tooManyCalls
	}
	if a.size() > maxAnswer {
		return &Failure{Type: "LimitError", Message: fmt.Sprintf("the answer has more than %d bytes", maxAnswer)}
	}
	name(a.Calls)
	if len(a.Calls) > 0 && a.Stop == StopEnd {
		a.Stop = StopCalls
	}
	if a.Opaque == nil {
		return nil
	}
	a.Opaque.Format = f.name
	if text := encode(a.Opaque.Blocks); text == "" || deeper(a.Opaque.Blocks, maxNested+8) ||
		strings.Contains(text, redact.Mask) {
		a.Opaque = nil // no request could have it, or no service takes it back, since it had a secret in it
	}
	return nil
}

// maxAnswer is how many bytes an answer may have as JSON: it stands in one event of a transcript, and in the next
// request.
const maxAnswer = 6 << 20

// size is how many bytes an answer has as JSON.
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

// name gives calls without an id, or with that of another, one of their own.
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
	return &Failure{Type: "AnswerError", Message: "the answer is not understood"}
}
