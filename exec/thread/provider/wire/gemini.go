package wire

import (
	"slices"
	"strings"
)

// geminiFormat is Google's format: a content is a list of parts, and the model's role is "model".
type geminiFormat struct{}

func (f geminiFormat) fill(params map[string]any, conversation *conversation) {
	params["messages"] = f.contents(conversation)
	if conversation.System != "" {
		params["system"] = map[string]any{"parts": []any{map[string]any{"text": conversation.System}}}
	}
	var tools []any
	for i := range conversation.Tools {
		t := &conversation.Tools[i]
		tools = append(tools, map[string]any{"name": t.Name, "description": valid(t.Description),
			"parametersJsonSchema": t.schema()})
	}
	if tools != nil {
		params["tools"] = []any{map[string]any{"functionDeclarations": tools}}
	}
	params["action"], params["alt"] = "generateContent", "json"
	if conversation.Stream {
		params["action"], params["alt"] = "streamGenerateContent", "sse"
		delete(params, "stream")
	}
}

func (geminiFormat) contents(conversation *conversation) []any {
	var out []any
	current, role := map[string]any(nil), ""
	add := func(of string, parts ...any) {
		if of != role {
			role, current = of, map[string]any{"role": of, "parts": []any{}}
			out = append(out, current)
		}
		current["parts"] = append(list(current["parts"]), parts...)
	}
	names := map[string]string{}
	unnamed := map[string]bool{} // ids that aren't the service's own
	for i := range conversation.Messages {
		message := &conversation.Messages[i]
		switch message.Role {
		case User:
			add(User, map[string]any{"text": message.Text})
		case ToolRole:
			key := "output"
			if message.Failed {
				key = "error"
			}
			response := map[string]any{"name": wireName(names[message.CallID]),
				"response": map[string]any{key: message.Text}}
			if !unnamed[message.CallID] {
				response["id"] = wireID(message.CallID)
			}
			add(User, map[string]any{"functionResponse": response})
		case Assistant:
			parts := conversation.opaque(message)
			for j := range message.Calls {
				id := message.Calls[j].ID
				names[id], unnamed[id] = message.Calls[j].Name, parts != nil &&
					!slices.ContainsFunc(parts, func(p any) bool {
						return object(object(p)["functionCall"])["id"] == id
					})
			}
			if parts != nil {
				add("model", parts...)
				continue
			}
			if message.Text != "" {
				add("model", map[string]any{"text": message.Text})
			}
			for j := range message.Calls {
				call := &message.Calls[j]
				add("model", map[string]any{"functionCall": map[string]any{"id": wireID(call.ID),
					"name": wireName(call.Name), "args": given(call)}})
			}
		}
	}
	return out
}

func (f geminiFormat) whole(body map[string]any) (*Answer, *Failure) {
	e := &geminiEvents{}
	if no := e.event(body, Deltas{}); no != nil {
		return nil, no
	}
	a, whole := e.answer()
	if !whole {
		return nil, nonsense()
	}
	return a, nil
}

func (geminiFormat) blocks(all []any) *Answer {
	answer := &Answer{Stop: StopOther}
	var out strings.Builder
	signed := false
	for _, one := range all {
		part := object(one)
		signed = signed || text(part["thoughtSignature"]) != ""
		if part["thought"] == true {
			continue
		}
		out.WriteString(text(part["text"]))
		if call := object(part["functionCall"]); call != nil {
			c := ToolCall{ID: text(call["id"]), Name: text(call["name"])}
			input(&c, call["args"], "")
			answer.Calls = append(answer.Calls, c)
		}
	}
	answer.Text = out.String()
	if signed {
		answer.Opaque = &Opaque{Blocks: all}
	}
	return answer
}

func geminiStop(reason string) string {
	switch reason {
	case "STOP":
		return StopEnd
	case "MAX_TOKENS":
		return StopLength
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "IMAGE_SAFETY":
		return StopRefusal
	}
	return StopOther
}

func (geminiFormat) events() events { return &geminiEvents{} }

// geminiEvents reads events. Each is an answer with new parts. An unstreamed answer is one event.
type geminiEvents struct {
	parts           []*geminiPart
	usage           map[string]any
	reason, blocked string
}

func (e *geminiEvents) event(data map[string]any, to Deltas) *Failure {
	if data["error"] != nil {
		return Reported(data)
	}
	if usage := object(data["usageMetadata"]); usage != nil {
		e.usage = usage
	}
	if why := text(object(data["promptFeedback"])["blockReason"]); why != "" {
		e.blocked = why
	}
	candidates := list(data["candidates"])
	if len(candidates) == 0 {
		return nil
	}
	candidate := object(candidates[0])
	for _, one := range list(object(candidate["content"])["parts"]) {
		part := object(one)
		if part == nil {
			continue
		}
		if len(e.parts) > 1<<16 {
			return &Failure{Type: "AnswerError", Message: "the answer has too many parts"}
		}
		e.add(part, to)
	}
	if reason := text(candidate["finishReason"]); reason != "" {
		e.reason = reason
	}
	return nil
}

// add adds a part. It joins adjacent plain texts, and drops unsigned thoughts, which needn't be sent back.
func (e *geminiEvents) add(part map[string]any, to Deltas) {
	content, thought := text(part["text"]), part["thought"] == true
	if thought {
		to.reasoning(content)
	} else {
		to.text(content)
	}
	if thought && text(part["thoughtSignature"]) == "" {
		return
	}
	_, plain := part["text"].(string)
	plain = plain && len(part) == 1
	if n := len(e.parts); plain && n > 0 && e.parts[n-1].is == nil {
		e.parts[n-1].text.WriteString(content)
		return
	}
	p := &geminiPart{is: part}
	if plain {
		p.is = nil
		p.text.WriteString(content)
	}
	e.parts = append(e.parts, p)
}

// A geminiPart is a part unchanged, or the joined text of adjacent parts.
type geminiPart struct {
	is   map[string]any
	text strings.Builder
}

func (e *geminiEvents) answer() (*Answer, bool) {
	parts := make([]any, len(e.parts))
	for i, p := range e.parts {
		if parts[i] = p.is; p.is == nil {
			parts[i] = map[string]any{"text": p.text.String()}
		}
	}
	answer := geminiFormat{}.blocks(parts)
	answer.Stop = geminiStop(e.reason)
	if e.reason == "" && e.blocked != "" {
		answer.Stop, answer.Text = StopRefusal, "the prompt was blocked: "+e.blocked
	}
	t := &tally{in: e.usage}
	cached := t.may("cachedContentTokenCount")
	// A blocked prompt has no candidates, and an answer of only thoughts has no count of them.
	answer.Usage = t.usage(Usage{
		Input: t.must("promptTokenCount") - cached + t.may("toolUsePromptTokenCount"), CacheRead: cached,
		Output: t.may("candidatesTokenCount"), Reasoning: t.may("thoughtsTokenCount"),
	})
	return answer, e.reason != "" || e.blocked != ""
}
