package modeltest

import (
	"fmt"
	"net/http"

	"github.com/rye-build/rye/exec/thread/provider/wire"
)

// anthropic is the dialect of Anthropic's Messages.
type anthropic struct{}

func (anthropic) key(h http.Header) string { return h.Get("X-Api-Key") }

func (a anthropic) check(r *Request) string {
	body := r.Body
	if r.Header.Get("Anthropic-Version") == "" {
		return "anthropic-version: header is required"
	}
	if why := fields("", body, "model max_tokens messages",
		"system tools tool_choice stream temperature top_p top_k stop_sequences metadata thinking"); why != "" {
		return why
	}
	var names []string
	marks := 0
	for _, one := range list(body["tools"]) {
		t := object(one)
		if why := fields("tools.", t, "name input_schema", "description cache_control type"); why != "" {
			return why
		}
		if object(t["input_schema"])["type"] != "object" {
			return "tools.input_schema.type: Field required"
		}
		marks += marked(t)
		names = append(names, text(t["name"]))
	}
	for _, block := range list(body["system"]) {
		marks += marked(object(block))
	}
	switch {
	case text(body["model"]) == "":
		return "model: Field required"
	case !atLeast(body["max_tokens"], 1):
		return "max_tokens: Input should be greater than or equal to 1"
	}
	why := first(declared(names), a.messages(list(body["messages"]), &marks))
	if why == "" && marks > 4 {
		why = fmt.Sprintf("A maximum of 4 blocks with cache_control may be provided. Found %d.", marks)
	}
	return why
}

func marked(block map[string]any) int {
	if object(block["cache_control"])["type"] == "ephemeral" {
		return 1
	}
	return 0
}

func (a anthropic) messages(all []any, marks *int) string {
	var calls pending
	role := "assistant"
	for i, one := range all {
		m := object(one)
		at := fmt.Sprintf("messages.%d: ", i)
		if why := fields(at, m, "role content", ""); why != "" {
			return why
		}
		if m["role"] == role || m["role"] != "user" && m["role"] != "assistant" {
			return at + "roles must alternate between \"user\" and \"assistant\", beginning with \"user\""
		}
		role = text(m["role"])
		blocks := list(m["content"])
		if s, ok := m["content"].(string); ok {
			blocks = []any{map[string]any{"type": "text", "text": s}}
		}
		if len(blocks) == 0 {
			return at + "all messages must have non-empty content"
		}
		for _, block := range blocks {
			*marks += marked(object(block))
			if why := a.block(object(block), role, &calls); why != "" {
				return at + why
			}
		}
		if why := calls.left(); why != "" && role == "user" {
			return at + "tool_use ids were found without tool_result blocks immediately after: " + why
		}
	}
	if role != "user" {
		return "messages: the final message must be the user's"
	}
	return calls.left()
}

func (anthropic) block(body map[string]any, role string, calls *pending) string {
	kind := text(body["type"])
	switch {
	case kind == "text":
		if text(body["text"]) == "" {
			return "text content blocks must be non-empty"
		}
		if role == "user" && len(calls.open) > 0 {
			return "tool_result blocks come first: " + calls.left()
		}
		return fields("text.", body, "type text", "cache_control citations")
	case kind == "tool_use" && role == "assistant":
		if !callID.MatchString(text(body["id"])) || object(body["input"]) == nil {
			return "tool_use.id: String should match pattern, and input should be an object"
		}
		calls.call(text(body["id"]))
		return fields("tool_use.", body, "type id name input", "cache_control")
	case kind == "tool_result" && role == "user":
		return first(fields("tool_result.", body, "type tool_use_id", "content is_error cache_control"),
			calls.result(text(body["tool_use_id"])))
	case kind == "thinking" && role == "assistant":
		if body["signature"] != sign(text(body["thinking"])) {
			return "thinking.signature: Invalid signature in thinking block"
		}
		return fields("thinking.", body, "type thinking signature", "")
	}
	return "unexpected content block " + kind
}

func (a anthropic) content(t *Turn) (all []map[string]any) {
	if t.Thinking != "" {
		all = append(all, map[string]any{"type": "thinking", "thinking": t.Thinking, "signature": sign(t.Thinking)})
	}
	if t.Text != "" {
		all = append(all, map[string]any{"type": "text", "text": t.Text})
	}
	for i := range t.Calls {
		c := &t.Calls[i]
		var input any = c.Input
		if c.Input == nil {
			input = map[string]any{}
		}
		if c.Raw != "" {
			input = c.Raw
		}
		all = append(all, map[string]any{"type": "tool_use", "id": c.ID, "name": c.Name, "input": input})
	}
	return all
}

func (anthropic) stop(t *Turn) string {
	switch t.Stop {
	case wire.StopCalls:
		return "tool_use"
	case wire.StopLength:
		return "max_tokens"
	case wire.StopContext:
		return "model_context_window_exceeded"
	case wire.StopRefusal:
		return "refusal"
	}
	return "end_turn"
}

func (anthropic) usage(t *Turn, output int64) any {
	return t.usage(map[string]any{
		"input_tokens": t.Usage.Input, "cache_creation_input_tokens": t.Usage.CacheWrite,
		"cache_read_input_tokens": t.Usage.CacheRead,
		"output_tokens":           output,
		"output_tokens_details":   map[string]any{"thinking_tokens": min(t.Usage.Reasoning, output)},
		"service_tier":            "standard",
	})
}

func (a anthropic) message(r *Request) map[string]any {
	return map[string]any{
		"id": "msg_01", "type": "message", "role": "assistant", "model": r.Model, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil,
	}
}

func (a anthropic) whole(t *Turn, r *Request) map[string]any {
	m := a.message(r)
	if all := a.content(t); all != nil {
		m["content"] = all
	}
	m["stop_reason"], m["usage"] = a.stop(t), a.usage(t, t.Usage.Answered())
	return m
}

func (a anthropic) events(turn *Turn, r *Request) (all []event) {
	add := func(kind string, more map[string]any) {
		more["type"] = kind
		all = append(all, event{kind, more})
	}
	m := a.message(r)
	m["usage"] = a.usage(turn, min(1, turn.Usage.Answered()))
	add("message_start", map[string]any{"message": m})
	for i, block := range a.content(turn) {
		start, deltas := block, []map[string]any(nil)
		switch block["type"] {
		case "thinking":
			start = map[string]any{"type": "thinking", "thinking": "", "signature": ""}
			for _, s := range pieces(turn.Thinking) {
				deltas = append(deltas, map[string]any{"type": "thinking_delta", "thinking": s})
			}
			deltas = append(deltas, map[string]any{"type": "signature_delta", "signature": block["signature"]})
		case "text":
			start = map[string]any{"type": "text", "text": ""}
			for _, s := range pieces(turn.Text) {
				deltas = append(deltas, map[string]any{"type": "text_delta", "text": s})
			}
		case "tool_use":
			start = map[string]any{"type": "tool_use", "id": block["id"], "name": block["name"],
				"input": map[string]any{}}
			c := &turn.Calls[i-len(a.content(turn))+len(turn.Calls)]
			for _, s := range append([]string{""}, pieces(arguments(c))...) {
				deltas = append(deltas, map[string]any{"type": "input_json_delta", "partial_json": s})
			}
		}
		add("content_block_start", map[string]any{"index": i, "content_block": start})
		if i == 0 {
			add("ping", map[string]any{})
		}
		for _, d := range deltas {
			add("content_block_delta", map[string]any{"index": i, "delta": d})
		}
		add("content_block_stop", map[string]any{"index": i})
	}
	usage := turn.usage(map[string]any{
		"output_tokens":         turn.Usage.Answered(),
		"output_tokens_details": map[string]any{"thinking_tokens": turn.Usage.Reasoning},
	})
	add("message_delta", map[string]any{"delta": map[string]any{"stop_reason": a.stop(turn), "stop_sequence": nil},
		"usage": usage})
	add("message_stop", map[string]any{})
	return all
}

func (anthropic) failure(status int, kind, _, message string) map[string]any {
	if kind == "" {
		kind = map[int]string{
			400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
			413: "request_too_large",
			429: "rate_limit_error", 500: "api_error", 529: "overloaded_error",
		}[status]
	}
	return map[string]any{"type": "error", "error": map[string]any{"type": kind, "message": message},
		"request_id": "req_1"}
}
