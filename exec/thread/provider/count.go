package provider

import (
	"fmt"
	"reflect"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// PerToken is about how many bytes of text a token has.
const PerToken = 4

// A Count is what a service has counted of the request that it answered last, and what was added since. The zero Count
// knows of no request.
type Count struct {
	known int64  // tokens of that request and its answer, 0 if the service didn't say
	same  int    // its first messages that the next request has too
	tools []Tool // that it offered
	added int64  // bytes of results since
}

// Next says how many messages a request has in common with the one that was made before it, whether that was answered
// or not.
func (c *Count) Next(kept int) { c.same = min(c.same, kept) }

// Answered takes what a service has counted of a request and its answer: 0 if it doesn't say.
func (c *Count) Answered(q *Request, counted int64) {
	*c = Count{known: counted, same: len(q.Messages), tools: q.Tools}
}

// Forget forgets what was counted: another model counts other tokens.
func (c *Count) Forget() { *c = Count{} }

// Add adds bytes that the next request will have.
func (c *Count) Add(bytes int64) { c.added += bytes }

// uncounted returns the tokens that a request is known to have, and the bytes of the rest.
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

// Most is the most tokens that a request can have: one for each byte that wasn't counted.
func (c *Count) Most(q *Request, overhead int64) int64 {
	tokens, bytes := c.uncounted(q, overhead)
	return tokens + bytes
}

// About is how many tokens a request has about.
func (c *Count) About(q *Request, overhead int64) int64 {
	tokens, bytes := c.uncounted(q, overhead)
	return tokens + bytes/PerToken
}

// Filled is about how many tokens the last request, its answer and what was added since have.
func (c *Count) Filled() int64 { return c.known + c.added/PerToken }

// TooWide refuses a request of so many tokens that a model's context window can't hold: what is recorded, and what the
// loop gets. nil if there is room.
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
