package modeltest

import (
	"fmt"
	"net/http"

	"github.com/rye-build/rye/exec/thread/provider/wire"
)

// responses is the dialect of OpenAI's Responses, for clients that don't let the server store anything.
type responses struct{}

func (responses) key(h http.Header) string { return bearer(h) }

func (d responses) check(r *Request) string {
	body := r.Body
	why := fields("", body, "model input",
		"instructions max_output_tokens tools tool_choice parallel_tool_calls stream temperature top_p reasoning store include "+
			"truncation text metadata user")
	if why != "" {
		return why
	}
	if n, has := body["max_output_tokens"]; has && !atLeast(n, 16) {
		return "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16."
	}
	var names []string
	for _, one := range list(body["tools"]) {
		t := object(one)
		if why := fields("tools.", t, "type name parameters strict", "description"); why != "" {
			return why
		}
		names = append(names, text(t["name"]))
	}
	input := list(body["input"])
	if s := text(body["input"]); s != "" {
		input = []any{map[string]any{"role": "user", "content": s}}
	}
	return first(declared(names), d.input(input))
}

func (responses) input(all []any) string {
	var calls pending
	reasoned := false
	for i, one := range all {
		item := object(one)
		at := fmt.Sprintf("input[%d].", i)
		kind := text(item["type"])
		if kind != "function_call" && kind != "function_call_output" {
			if why := calls.left(); why != "" {
				return at + "No tool output found for function call: " + why
			}
		}
		why := ""
		switch kind {
		case "", "message":
			if why = fields(at, item, "role content", "type id status phase"); why == "" && item["role"] == "user" &&
				reasoned {
				why = at + "Item of type 'reasoning' was provided without its required following item."
			}
		case "function_call":
			calls.call(text(item["call_id"]))
			_, isText := item["arguments"].(string)
			if why = fields(at, item, "type call_id name arguments", "id status"); why == "" &&
				(!isText || !toolName.MatchString(text(item["name"]))) {
				why = at + "invalid call"
			}
		case "function_call_output":
			_, isText := item["output"].(string)
			if why = first(fields(at, item, "type call_id output", "id status"),
				calls.result(text(item["call_id"]))); why == "" && !isText {
				why = at + "output: expected a string"
			}
		case "reasoning":
			summary := text(object(append(list(item["summary"]), nil)[0])["text"])
			if why = fields(at, item, "type id summary encrypted_content", "status content"); why == "" &&
				item["encrypted_content"] != sign(summary) {
				why = at + "encrypted_content: The encrypted content could not be verified."
			}
		default:
			why = at + "type: Invalid value: " + kind
		}
		if reasoned = kind == "reasoning"; why != "" {
			return why
		}
	}
	if len(all) == 0 || reasoned {
		return "input: expected something to answer"
	}
	return calls.left()
}

func (responses) items(turn *Turn) (all []map[string]any) {
	if turn.Thinking != "" {
		all = append(all, map[string]any{"type": "reasoning", "id": "rs_1",
			"summary":           []any{map[string]any{"type": "summary_text", "text": turn.Thinking}},
			"encrypted_content": sign(turn.Thinking)})
	}
	if turn.Text != "" {
		part := map[string]any{"type": "output_text", "text": turn.Text, "annotations": []any{}, "logprobs": []any{}}
		if turn.Stop == wire.StopRefusal {
			part = map[string]any{"type": "refusal", "refusal": turn.Text}
		}
		all = append(all, map[string]any{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
			"content": []any{part}})
	}
	for i := range turn.Calls {
		c := &turn.Calls[i]
		all = append(all, map[string]any{"type": "function_call", "id": fmt.Sprintf("fc_%d", i), "call_id": c.ID,
			"name": c.Name, "arguments": arguments(c), "status": "completed"})
	}
	return all
}

func (d responses) response(r *Request, status string) map[string]any {
	return map[string]any{
		"id": "resp_1", "object": "response", "created_at": 1764072000, "model": r.Model, "status": status,
		"output": []any{}, "error": nil,
		"incomplete_details": nil, "instructions": r.Body["instructions"], "metadata": map[string]any{},
		"parallel_tool_calls": true, "temperature": 1,
		"tool_choice": "auto", "tools": []any{}, "top_p": 1, "usage": nil,
	}
}

func (d responses) whole(turn *Turn, r *Request) map[string]any {
	body := d.response(r, "completed")
	if all := d.items(turn); all != nil {
		body["output"] = all
	}
	in, out := turn.Usage.Prompt(), turn.Usage.Answered()
	body["usage"] = turn.usage(map[string]any{
		"input_tokens": in, "input_tokens_details": map[string]any{"cached_tokens": turn.Usage.CacheRead},
		"output_tokens": out, "output_tokens_details": map[string]any{"reasoning_tokens": turn.Usage.Reasoning},
		"total_tokens": in + out,
	})
	if turn.Stop == wire.StopLength || turn.Stop == wire.StopContext {
		body["status"], body["incomplete_details"] = "incomplete", map[string]any{"reason": "max_output_tokens"}
	}
	return body
}

func (d responses) events(turn *Turn, request *Request) (all []event) {
	add := func(kind string, more map[string]any) {
		more["type"], more["sequence_number"] = kind, len(all)
		all = append(all, event{kind, more})
	}
	add("response.created", map[string]any{"response": d.response(request, "in_progress")})
	add("response.in_progress", map[string]any{"response": d.response(request, "in_progress")})
	for i, item := range d.items(turn) {
		in := func(more map[string]any) map[string]any {
			more["item_id"], more["output_index"] = item["id"], i
			return more
		}
		switch item["type"] {
		case "reasoning":
			add("response.output_item.added", map[string]any{"output_index": i,
				"item": map[string]any{"type": "reasoning", "id": item["id"], "summary": []any{}}})
			part := map[string]any{"type": "summary_text", "text": ""}
			add("response.reasoning_summary_part.added", in(map[string]any{"summary_index": 0, "part": part}))
			for _, s := range pieces(turn.Thinking) {
				add("response.reasoning_summary_text.delta", in(map[string]any{"summary_index": 0, "delta": s}))
			}
			add("response.reasoning_summary_text.done", in(map[string]any{"summary_index": 0, "text": turn.Thinking}))
		case "message":
			d.message(turn, i, item, in, add)
		case "function_call":
			start := map[string]any{"type": "function_call", "id": item["id"], "call_id": item["call_id"],
				"name": item["name"], "arguments": "", "status": "in_progress"}
			add("response.output_item.added", map[string]any{"output_index": i, "item": start})
			for _, s := range pieces(text(item["arguments"])) {
				add("response.function_call_arguments.delta", in(map[string]any{"delta": s}))
			}
			add("response.function_call_arguments.done",
				in(map[string]any{"arguments": item["arguments"], "name": item["name"]}))
		}
		add("response.output_item.done", map[string]any{"output_index": i, "item": item})
	}
	body := d.whole(turn, request)
	add("response."+text(body["status"]), map[string]any{"response": body})
	return all
}

// message adds the events of a message up to its end.
func (responses) message(turn *Turn, i int, item map[string]any, in func(map[string]any) map[string]any,
	add func(string, map[string]any)) {
	start := map[string]any{"type": "message", "id": item["id"], "role": "assistant", "status": "in_progress",
		"content": []any{}}
	add("response.output_item.added", map[string]any{"output_index": i, "item": start})
	kind, key := "output_text", "text"
	empty := map[string]any{"type": kind, "text": "", "annotations": []any{}, "logprobs": []any{}}
	if turn.Stop == wire.StopRefusal {
		kind, key = "refusal", "refusal"
		empty = map[string]any{"type": kind, "refusal": ""}
	}
	add("response.content_part.added", in(map[string]any{"content_index": 0, "part": empty}))
	for _, s := range pieces(turn.Text) {
		add("response."+kind+".delta", in(map[string]any{"content_index": 0, "delta": s, "logprobs": []any{}}))
	}
	add("response."+kind+".done", in(map[string]any{"content_index": 0, key: turn.Text, "logprobs": []any{}}))
	add("response.content_part.done", in(map[string]any{"content_index": 0, "part": list(item["content"])[0]}))
}

func (responses) failure(status int, kind, code, message string) map[string]any {
	return openAI(status, kind, code, message)
}
