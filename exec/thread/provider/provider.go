package provider

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/thread/provider/wire"
	"github.com/rye-build/rye/manifest/jcs"
)

// The types of package wire, for callers of providers.
type (
	Message  = wire.Message
	Opaque   = wire.Opaque
	Tool     = wire.Tool
	ToolCall = wire.ToolCall
	Usage    = wire.Usage
	Answer   = wire.Answer
	Deltas   = wire.Deltas
	Stream   = wire.Stream
	Failure  = wire.Failure
)

// MaxCalls bounds the calls of an answer.
const MaxCalls = wire.MaxCalls

// The roles of messages.
const (
	User      = wire.User
	Assistant = wire.Assistant
	ToolRole  = wire.ToolRole
)

// Reasons why a model stopped.
const (
	StopEnd     = wire.StopEnd
	StopCalls   = wire.StopCalls
	StopLength  = wire.StopLength
	StopContext = wire.StopContext
	StopRefusal = wire.StopRefusal
	StopOther   = wire.StopOther
)

// Codes of failures, independent of the service.
const (
	ContextLength = wire.ContextLength
	Refused       = wire.Refused
	NoQuota       = wire.NoQuota
	Overloaded    = wire.Overloaded
)

// A Request is a request to a model.
type Request struct {
	Model     string
	System    string // instructions, or ""
	Messages  []Message
	Tools     []Tool
	MaxTokens int64 // of the answer; 0: the provider's maximum
	Stream    bool  // if the provider supports it
	// Options are further parameters that the item declares, such as temperature.
	Options map[string]any
}

var (
	// ours are the parameters that rye sets and options can't.
	ours = []string{"model", "messages", "max_tokens", "system", "tools", "stream", "mode", "stream_options", "action",
		"alt"}
	// dispensable are left out if the item doesn't declare them.
	dispensable = []string{"stream", "stream_options", "alt"}
)

// Params returns the parameters for calling the provider's item. The error is about the request.
func (p *Provider) Params(request Request) (map[string]any, error) {
	values, err := p.format.Params(wire.Conversation{
		System: request.System, Messages: request.Messages, Tools: request.Tools, Stream: request.Stream &&
			p.Streams(), Parsed: p.parsed(),
		Cache: p.cache,
	})
	if err != nil {
		return nil, p.invalid("%v", err)
	}
	values["model"], values["max_tokens"] = request.Model, p.MaxOutput(request.Model)
	if request.MaxTokens > 0 {
		values["max_tokens"] = min(p.MaxOutput(request.Model), request.MaxTokens)
	}
	for name, v := range request.Options {
		if slices.Contains(ours, name) {
			return nil, p.invalid("the option %q is set by rye", name)
		}
		values[name] = v
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch {
		case p.params[name]:
		case slices.Contains(dispensable, name):
			delete(values, name)
		default:
			return nil, p.invalid("its input_schema doesn't declare %q", name)
		}
	}
	return values, nil
}

func (p *Provider) parsed() bool { return p.Mode == TextParsed }

func (p *Provider) invalid(format string, args ...any) error {
	return fault.New(fault.Validation, "invalid request to %q: %s", p.Ref.ID,
		fmt.Sprintf(format, args...)).On("provider", p.Ref.ID)
}

// Bound returns an upper bound for the input tokens of a request: no token is shorter than a byte.
func (p *Provider) Bound(params map[string]any) int64 {
	n := p.Overhead
	for _, name := range []string{"system", "messages", "tools"} {
		b, _ := jcs.Append(nil, params[name])
		n += int64(len(b))
	}
	return n
}

// Stream returns the sink for one call. It calls the Deltas from the call's goroutine.
func (p *Provider) Stream(to Deltas) *Stream { return p.format.Stream(to) }

// Answer returns the model's answer from a call of the provider's item. The stream is the call's sink, or nil
// without one. The error is a *Failure.
func (p *Provider) Answer(result *primitive.Result, stream *Stream) (*Answer, error) {
	value, _ := result.Value.(map[string]any)
	body := value["body"]
	if result.Failed || result.Ended != "" {
		return nil, p.complete(failed(result, stream, body), result, value)
	}
	var answer *Answer
	var failure *Failure
	if events, streamed := body.([]any); streamed {
		if stream == nil {
			stream = p.Stream(Deltas{})
			for _, e := range events {
				stream.Event(e)
			}
		}
		answer, failure = stream.Answer(p.parsed())
	} else {
		answer, failure = p.format.Body(body, p.parsed())
	}
	if failure != nil {
		return nil, p.complete(failure, result, value)
	}
	return answer, nil
}

// failed returns the failure of an unsuccessful call.
func failed(r *primitive.Result, s *Stream, body any) *Failure {
	object, _ := body.(map[string]any)
	failure := &Failure{}
	switch {
	case s != nil && s.Failure() != nil:
		return s.Failure()
	case r.Ended == "timeout":
		failure.Type = "TimeoutError"
	case r.Ended == "cancelled":
		failure.Type = "CancelledError"
	case r.Ended != "":
		failure.Type = "LimitError"
	case object != nil:
		failure = wire.Reported(object)
	}
	return failure
}

// complete adds details of the result and the provider's name to a failure.
func (p *Provider) complete(of *Failure, r *primitive.Result, value map[string]any) *Failure {
	failure := *of
	failure.Provider = p.Ref.ID
	headers, _ := value["headers"].(map[string]any)
	header := func(name string) string { s, _ := headers[name].(string); return s }
	// The status of a successful response doesn't apply to an error inside it.
	if n, ok := jcs.Number(value["status_code"]); ok && failure.Status == 0 && n >= 400 {
		failure.Status = int(n)
	}
	failure.Message = cmp.Or(failure.Message, r.Failure)
	if t := r.Trouble; t != nil {
		failure.Type = cmp.Or(failure.Type, t.Type)
		failure.After = cmp.Or(failure.After, t.After)
	}
	if ms, err := strconv.ParseFloat(header("retry-after-ms"), 64); err == nil && ms > 0 && ms < 86_400_000 {
		failure.After = time.Duration(ms * float64(time.Millisecond))
	}
	failure.RequestID = cmp.Or(header("request-id"), header("x-request-id"))
	failure.Settle()
	return &failure
}
