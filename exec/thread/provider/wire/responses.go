package wire

import (
	"cmp"
	"strings"
)

// responsesFormat is the format of OpenAI's Responses: input and output are lists of items. The server stores
// nothing, so it sends reasoning encrypted and gets it back.
type responsesFormat struct{}

func (responsesFormat) fill(params map[string]any, conversation *conversation) {
	var out []any
	for i := range conversation.Messages {
		message := &conversation.Messages[i]
		switch message.Role {
		case User:
			out = append(out, map[string]any{"role": User, "content": message.Text})
		case ToolRole:
			out = append(out, map[string]any{"type": "function_call_output", "call_id": wireID(message.CallID),
				"output": message.Text})
		case Assistant:
			if items := conversation.opaque(message); items != nil {
				out = append(out, items...)
				continue
			}
			if message.Text != "" {
				out = append(out, map[string]any{"role": Assistant, "content": message.Text})
			}
			for j := range message.Calls {
				call := &message.Calls[j]
				out = append(out, map[string]any{"type": "function_call", "call_id": wireID(call.ID),
					"name": wireName(call.Name), "arguments": encode(given(call))})
			}
		}
	}
	params["messages"] = out
	if conversation.System != "" {
		params["system"] = conversation.System
	}
	var tools []any
	for i := range conversation.Tools {
		t := &conversation.Tools[i]
		// With strict, the service would require schemas of a form that tools needn't have.
		tools = append(tools, map[string]any{"type": "function", "name": t.Name, "description": valid(t.Description),
			"parameters": t.schema(), "strict": false})
	}
	if tools != nil {
		params["tools"] = tools
	}
}

func (f responsesFormat) whole(body map[string]any) (*Answer, *Failure) {
	items, ok := body["output"].([]any)
	if !ok {
		return nil, nonsense()
	}
	return f.read(body, items)
}

// read reads a response with its items of output.
func (f responsesFormat) read(body map[string]any, items []any) (*Answer, *Failure) {
	if body["status"] == "failed" || body["status"] == "cancelled" {
		failure := Reported(body)
		failure.Message = cmp.Or(failure.Message, "the response "+text(body["status"]))
		return nil, failure
	}
	answer := f.blocks(items)
	switch text(object(body["incomplete_details"])["reason"]) {
	case "max_output_tokens":
		answer.Stop = StopLength
	case "content_filter":
		answer.Stop = StopRefusal
	}
	t := &tally{in: object(body["usage"])}
	cached, reasoning := t.may("input_tokens_details", "cached_tokens"),
		t.may("output_tokens_details", "reasoning_tokens")
	answer.Usage = t.usage(Usage{
		Input: t.must("input_tokens") - cached, CacheRead: cached, Output: t.must("output_tokens") - reasoning,
		Reasoning: reasoning,
	})
	return answer, nil
}

func (responsesFormat) blocks(all []any) *Answer {
	answer := &Answer{Stop: StopEnd}
	var texts []string
	var returned []any
	reasons := false
	for _, one := range all {
		item := object(one)
		switch item["type"] {
		case "message":
			for _, part := range list(item["content"]) {
				part := object(part)
				if no := text(part["refusal"]); no != "" {
					texts, answer.Stop = append(texts, no), StopRefusal
				} else {
					texts = append(texts, text(part["text"]))
				}
			}
		case "function_call":
			c := ToolCall{ID: text(item["call_id"]), Name: text(item["name"])}
			arguments(&c, text(item["arguments"]))
			answer.Calls = append(answer.Calls, c)
		case "reasoning":
			if text(item["encrypted_content"]) == "" {
				continue // the server hasn't stored it, so an id alone is useless
			}
			reasons = true
		}
		returned = append(returned, one)
	}
	answer.Text = strings.Join(texts, "\n")
	if reasons {
		answer.Opaque = &Opaque{Blocks: returned}
	}
	return answer
}

func (responsesFormat) events() events { return &responsesEvents{} }

type responsesEvents struct {
	items []any // complete ones
	body  map[string]any
	texts int
}

func (e *responsesEvents) event(data map[string]any, to Deltas) *Failure {
	kind := text(data["type"])
	switch kind {
	case "error":
		if data["error"] == nil {
			return &Failure{Type: text(data["code"]), Code: text(data["code"]), Message: text(data["message"])}
		}
		return Reported(data)
	case "response.content_part.added":
		if e.texts++; e.texts > 1 {
			to.text("\n")
		}
	case "response.output_text.delta", "response.refusal.delta":
		to.text(text(data["delta"]))
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		to.reasoning(text(data["delta"]))
	case "response.output_item.done":
		if len(e.items) >= 4*MaxCalls {
			return tooManyCalls
		}
		e.items = append(e.items, data["item"])
	case "response.completed", "response.incomplete", "response.failed":
		e.body = object(data["response"])
		// The last event has all items again, unless a compatible service leaves them out.
		if all := list(e.body["output"]); len(all) >= len(e.items) {
			e.items = all
		}
	}
	if kind == "" && data["error"] != nil {
		return Reported(data)
	}
	if e.body["status"] == "failed" {
		_, f := responsesFormat{}.read(e.body, nil)
		return f
	}
	return nil
}

func (e *responsesEvents) answer() (*Answer, bool) {
	a, f := responsesFormat{}.read(e.body, e.items)
	return a, f == nil && e.body != nil
}
