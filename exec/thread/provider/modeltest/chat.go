package modeltest

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/rye-build/rye/exec/thread/provider/wire"
)

// chat is the dialect of OpenAI's Chat Completions.
type chat struct{}

func bearer(h http.Header) string { return strings.TrimPrefix(h.Get("Authorization"), "Bearer ") }

func (chat) key(h http.Header) string { return bearer(h) }

func (c chat) check(request *Request) string {
	body := request.Body
	why := fields("", body, "model messages",
		"max_tokens max_completion_tokens tools tool_choice parallel_tool_calls stream stream_options temperature top_p stop "+
			"reasoning_effort user seed n store metadata response_format")
	if why != "" {
		return why
	}
	var names []string
	for _, one := range list(body["tools"]) {
		t := object(one)
		f := object(t["function"])
		if t["type"] != "function" || fields("tools.", f, "name", "description parameters strict") != "" {
			return "tools: invalid tool"
		}
		names = append(names, text(f["name"]))
	}
	if body["stream_options"] != nil && !request.Stream {
		return "The 'stream_options' parameter is only allowed when 'stream' is enabled."
	}
	return first(declared(names), c.messages(list(body["messages"])))
}

func (chat) messages(all []any) string {
	var calls pending
	if len(all) == 0 {
		return "messages: should not be empty"
	}
	for i, one := range all {
		message := object(one)
		at := fmt.Sprintf("messages.[%d].", i)
		role := text(message["role"])
		if role != "tool" {
			if why := calls.left(); why != "" {
				return at + "role: An assistant message with 'tool_calls' must be followed by tool messages: " + why
			}
		}
		why := ""
		switch role {
		case "system", "developer", "user":
			why = fields(at, message, "role content", "name")
		case "tool":
			why = first(fields(at, message, "role content tool_call_id", ""),
				calls.result(text(message["tool_call_id"])))
		case "assistant":
			if why = fields(at, message, "role", "content tool_calls refusal"); why == "" &&
				message["content"] == nil &&
				message["tool_calls"] == nil {
				why = at + "content: one of content or tool_calls is required"
			}
			for _, one := range list(message["tool_calls"]) {
				call := object(one)
				_, text1 := object(call["function"])["arguments"].(string)
				if call["type"] != "function" || !text1 ||
					!toolName.MatchString(text(object(call["function"])["name"])) {
					return at + "tool_calls: invalid call"
				}
				calls.call(text(call["id"]))
			}
		default:
			why = at + "role: invalid value " + role
		}
		if why != "" {
			return why
		}
	}
	return calls.left()
}

func (chat) calls(t *Turn) (all []any) {
	for i := range t.Calls {
		all = append(all, map[string]any{"id": t.Calls[i].ID, "type": "function",
			"function": map[string]any{"name": t.Calls[i].Name, "arguments": arguments(&t.Calls[i])}})
	}
	return all
}

func (chat) stop(t *Turn) string {
	switch t.Stop {
	case wire.StopCalls:
		return "tool_calls"
	case wire.StopLength, wire.StopContext:
		return "length"
	case wire.StopRefusal:
		return "content_filter"
	}
	return "stop"
}

func (chat) usage(t *Turn) any {
	in, out := t.Usage.Prompt(), t.Usage.Answered()
	return t.usage(map[string]any{
		"prompt_tokens": in, "completion_tokens": out, "total_tokens": in + out,
		"prompt_tokens_details": map[string]any{"cached_tokens": t.Usage.CacheRead, "audio_tokens": 0},
		"completion_tokens_details": map[string]any{"reasoning_tokens": t.Usage.Reasoning, "audio_tokens": 0,
			"accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0},
	})
}

func (c chat) head(r *Request, kind string) map[string]any {
	return map[string]any{"id": "chatcmpl-1", "object": kind, "created": 1764072000, "model": r.Model,
		"system_fingerprint": "fp_1", "service_tier": "default"}
}

func (c chat) whole(turn *Turn, request *Request) map[string]any {
	object := map[string]any{"role": "assistant", "content": turn.Text, "refusal": nil, "annotations": []any{}}
	if calls := c.calls(turn); calls != nil {
		object["tool_calls"] = calls
		if turn.Text == "" {
			object["content"] = nil
		}
	}
	if turn.Stop == wire.StopRefusal {
		object["content"], object["refusal"] = nil, turn.Text
	}
	body := c.head(request, "chat.completion")
	body["choices"] = []any{map[string]any{"index": 0, "message": object, "logprobs": nil,
		"finish_reason": c.stop(turn)}}
	body["usage"] = c.usage(turn)
	return body
}

func (c chat) events(turn *Turn, request *Request) (all []event) {
	options := object(request.Body["stream_options"])["include_usage"] == true
	add := func(delta map[string]any, reason any) {
		body := c.head(request, "chat.completion.chunk")
		body["choices"] = []any{map[string]any{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": reason}}
		if options {
			body["usage"] = nil
		}
		all = append(all, event{"", body})
	}
	add(map[string]any{"role": "assistant", "content": "", "refusal": nil}, nil)
	for _, s := range pieces(turn.Thinking) { // like compatible services
		add(map[string]any{"reasoning_content": s}, nil)
	}
	key := "content"
	if turn.Stop == wire.StopRefusal {
		key = "refusal"
	}
	for _, s := range pieces(turn.Text) {
		add(map[string]any{key: s}, nil)
	}
	for i := range turn.Calls {
		call := &turn.Calls[i]
		add(map[string]any{"tool_calls": []any{map[string]any{"index": i, "id": call.ID, "type": "function",
			"function": map[string]any{"name": call.Name, "arguments": ""}}}}, nil)
		for _, s := range pieces(arguments(call)) {
			add(map[string]any{"tool_calls": []any{map[string]any{"index": i,
				"function": map[string]any{"arguments": s}}}}, nil)
		}
	}
	add(map[string]any{}, c.stop(turn))
	if usage := c.usage(turn); options && usage != nil {
		body := c.head(request, "chat.completion.chunk")
		body["choices"], body["usage"] = []any{}, usage
		all = append(all, event{"", body})
	}
	return append(all, event{"", "[DONE]"})
}

func (chat) failure(status int, kind, code, message string) map[string]any {
	return openAI(status, kind, code, message)
}

// openAI returns an error in OpenAI's form.
func openAI(status int, kind, code, message string) map[string]any {
	if kind == "" {
		kind = map[int]string{400: "invalid_request_error", 401: "invalid_request_error", 404: "invalid_request_error",
			429: "rate_limit_exceeded"}[status]
		if kind == "" {
			kind = "server_error"
		}
		if code == "" {
			code = map[int]string{401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}[status]
		}
	}
	e := map[string]any{"message": message, "type": kind, "param": nil, "code": nil}
	if code != "" {
		e["code"] = code
	}
	return map[string]any{"error": e}
}
