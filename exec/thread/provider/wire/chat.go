package wire

import "strings"

// chatFormat is the format of OpenAI's Chat Completions and of compatible services.
type chatFormat struct{}

func (chatFormat) fill(params map[string]any, conversation *conversation) {
	var out []any
	if conversation.System != "" {
		out = append(out, map[string]any{"role": "system", "content": conversation.System})
	}
	for i := range conversation.Messages {
		sent := &conversation.Messages[i]
		switch sent.Role {
		case User:
			// The templates of many local models require alternating roles.
			if before := last(out); before["role"] == User {
				before["content"] = text(before["content"]) + "\n\n" + sent.Text
				continue
			}
			out = append(out, map[string]any{"role": User, "content": sent.Text})
		case ToolRole:
			out = append(out, map[string]any{"role": "tool", "tool_call_id": wireID(sent.CallID),
				"content": sent.Text})
		case Assistant:
			message := map[string]any{"role": Assistant, "content": sent.Text}
			if sent.Text == "" {
				message["content"] = nil
			}
			var calls []any
			for j := range sent.Calls {
				call := &sent.Calls[j]
				calls = append(calls, map[string]any{"id": wireID(call.ID), "type": "function",
					"function": map[string]any{"name": wireName(call.Name), "arguments": encode(given(call))}})
			}
			if calls != nil {
				message["tool_calls"] = calls
			}
			out = append(out, message)
		}
	}
	params["messages"] = out
	var tools []any
	for i := range conversation.Tools {
		t := &conversation.Tools[i]
		tools = append(tools, map[string]any{"type": "function",
			"function": map[string]any{"name": t.Name, "description": valid(t.Description), "parameters": t.schema()}})
	}
	if tools != nil {
		params["tools"] = tools
	}
	if conversation.Stream {
		params["stream_options"] = map[string]any{"include_usage": true}
	}
}

// last returns the last message of a list, or nil.
func last(out []any) map[string]any {
	if len(out) == 0 {
		return nil
	}
	return object(out[len(out)-1])
}

func (chatFormat) whole(body map[string]any) (*Answer, *Failure) {
	choices := list(body["choices"])
	if len(choices) == 0 {
		return nil, nonsense()
	}
	choice := object(choices[0])
	m := object(choice["message"])
	if m == nil {
		return nil, nonsense()
	}
	answer := &Answer{Text: chatText(m["content"]), Stop: chatStop(text(choice["finish_reason"])),
		Usage: chatUsage(object(body["usage"]))}
	if no := text(m["refusal"]); no != "" {
		answer.Text, answer.Stop = answer.Text+no, StopRefusal
	}
	for _, one := range list(m["tool_calls"]) {
		call := object(one)
		function := object(call["function"])
		c := ToolCall{ID: text(call["id"]), Name: text(function["name"])}
		input(&c, function["arguments"], "") // some compatible services send an object
		answer.Calls = append(answer.Calls, c)
	}
	return answer, nil
}

// chatText returns the text of a content, which may be a list of parts.
func chatText(content any) string {
	if s, ok := content.(string); ok {
		return s
	}
	var b strings.Builder
	for _, part := range list(content) {
		b.WriteString(text(object(part)["text"]))
	}
	return b.String()
}

// blocks implements format. This format has nothing to send back.
func (chatFormat) blocks([]any) *Answer { return &Answer{} }

func chatStop(reason string) string {
	switch reason {
	case "stop":
		return StopEnd
	case "tool_calls", "function_call":
		return StopCalls
	case "length":
		return StopLength
	case "content_filter":
		return StopRefusal
	}
	return StopOther
}

func chatUsage(of map[string]any) Usage {
	t := &tally{in: of}
	cached, reasoning := t.may("prompt_tokens_details", "cached_tokens"),
		t.may("completion_tokens_details", "reasoning_tokens")
	return t.usage(Usage{
		Input: t.must("prompt_tokens") - cached, CacheRead: cached, Output: t.must("completion_tokens") - reasoning,
		Reasoning: reasoning,
	})
}

func (chatFormat) events() events { return &chatEvents{} }

type chatEvents struct {
	text, refusal strings.Builder
	calls         gathering
	usage         map[string]any
	reason        string
	ended         bool
}

func (e *chatEvents) event(data map[string]any, to Deltas) *Failure {
	if data["error"] != nil {
		return Reported(data)
	}
	if data[done] != nil {
		e.ended = true
	}
	if usage := object(data["usage"]); usage != nil {
		e.usage = usage
	}
	for _, one := range list(data["choices"]) {
		choice := object(one)
		if n, _ := number(choice["index"]); n != 0 {
			continue
		}
		if f := e.delta(object(choice["delta"]), to); f != nil {
			return f
		}
		if reason := text(choice["finish_reason"]); reason != "" {
			e.reason, e.ended = reason, true
		}
	}
	return nil
}

func (e *chatEvents) delta(d map[string]any, to Deltas) *Failure {
	s := chatText(d["content"])
	e.text.WriteString(s)
	to.text(s)
	e.refusal.WriteString(text(d["refusal"]))
	to.text(text(d["refusal"]))
	for _, name := range []string{"reasoning_content", "reasoning"} {
		to.reasoning(text(d[name]))
	}
	for i, one := range list(d["tool_calls"]) {
		call := object(one)
		index, ok := number(call["index"])
		if !ok {
			index = int64(i)
		}
		piece := e.calls.piece(index, text(call["id"]))
		if piece == nil {
			return tooManyCalls
		}
		if id := text(call["id"]); id != "" {
			piece.id = id
		}
		function := object(call["function"])
		if piece.name == "" {
			piece.name = text(function["name"])
		}
		if raw, ok := function["arguments"].(string); ok {
			piece.arguments.WriteString(raw)
		} else if function["arguments"] != nil {
			piece.arguments.WriteString(encode(function["arguments"]))
		}
	}
	return nil
}

func (e *chatEvents) answer() (*Answer, bool) {
	a := &Answer{Text: e.text.String() + e.refusal.String(), Calls: e.calls.calls(), Stop: chatStop(e.reason),
		Usage: chatUsage(e.usage)}
	if e.refusal.Len() > 0 {
		a.Stop = StopRefusal
	}
	return a, e.ended
}
