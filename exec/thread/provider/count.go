package provider

import (
	"fmt"
	"reflect"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// PerToken is the approximate length of a token in bytes.
const PerToken = 4

// A Count is the service's token count of the last request, with the size of what was added since. The zero Count
// has no request.
type Count struct {
	known int64  // tokens of that request and its answer, or 0
	same  int    // number of its first messages that the next request repeats
	tools []Tool // offered by the request
	added int64  // bytes of results since
}

// Next records how many first messages a request shares with the previous one, answered or not.
func (c *Count) Next(kept int) { c.same = min(c.same, kept) }

// Answered records the service's count for a request and its answer, 0 without one.
func (c *Count) Answered(q *Request, counted int64) {
	*c = Count{known: counted, same: len(q.Messages), tools: q.Tools}
}

// Forget forgets the count: another model counts differently.
func (c *Count) Forget() { *c = Count{} }

// Add adds bytes to the next request.
func (c *Count) Add(bytes int64) { c.added += bytes }

// uncounted returns the known tokens of a request, and the bytes of the rest.
func (c *Count) uncounted(q *Request, overhead int64) (tokens, bytes int64) {
	if c.known == 0 {
		return overhead, Size(q.Messages) + Size(q.Tools)
	}
	bytes = Size(q.Messages[min(c.same, len(q.Messages)):])
	if !reflect.DeepEqual(q.Tools, c.tools) {
		bytes += Size(q.Tools)
	}
	return c.known, bytes
}

// Most returns the most tokens of a request, with one token for each uncounted byte.
func (c *Count) Most(q *Request, overhead int64) int64 {
	tokens, bytes := c.uncounted(q, overhead)
	return tokens + bytes
}

// About returns the approximate tokens of a request.
func (c *Count) About(q *Request, overhead int64) int64 {
	tokens, bytes := c.uncounted(q, overhead)
	return tokens + bytes/PerToken
}

// Filled returns the approximate tokens of the last request, its answer and what was added since.
func (c *Count) Filled() int64 { return c.known + c.added/PerToken }

// TooWide refuses a request with more tokens than the model's context window. It returns the event to record and
// the error for the loop, or nil.
func TooWide(m Model, tokens int64) (*transcript.Limit, map[string]any) {
	window := m.Provider().Window(m.Name())
	if window == 0 || tokens <= window {
		return nil, nil
	}
	message := fmt.Sprintf("the request would have about %d tokens, more than the context window of %d of %s", tokens,
		window, m)
	return &transcript.Limit{Code: "context", Current: float64(tokens) / float64(window), Max: 1, Action: "fail"},
		map[string]any{"error": map[string]any{"code": string(fault.Limit), "message": message,
			"category": "permanent", "id": "context"}}
}
