package wire

import (
	"slices"
	"strings"
)

// blocksFormat is Anthropic's format: a message is a list of blocks.
type blocksFormat struct{}

func (f blocksFormat) fill(params map[string]any, conversation *conversation) {
	params["messages"] = f.messages(conversation)
	if conversation.System != "" {
		params["system"] = conversation.System
		if conversation.Cache {
			params["system"] = []any{mark(map[string]any{"type": "text", "text": conversation.System})}
		}
	}
	if len(conversation.Tools) == 0 {
		return
	}
	var tools []any
	for i := range conversation.Tools {
		t := &conversation.Tools[i]
		tools = append(tools, map[string]any{"name": t.Name, "description": valid(t.Description),
			"input_schema": t.schema()})
	}
	if conversation.Cache {
		mark(object(tools[len(tools)-1]))
	}
	params["tools"] = tools
}

// mark makes the service cache everything up to the end of a block.
func mark(block map[string]any) map[string]any {
	block["cache_control"] = map[string]any{"type": "ephemeral"}
	return block
}

func (blocksFormat) messages(conversation *conversation) []any {
	var out []any
	last, role := map[string]any(nil), ""
	add := func(of string, blocks ...any) {
		if of != role {
			role, last = of, map[string]any{"role": of, "content": []any{}}
			out = append(out, last)
		}
		last["content"] = append(list(last["content"]), blocks...)
	}
	for i := range conversation.Messages {
		message := &conversation.Messages[i]
		switch message.Role {
		case User:
			add(User, map[string]any{"type": "text", "text": message.Text})
		case ToolRole:
			block := map[string]any{"type": "tool_result", "tool_use_id": wireID(message.CallID)}
			if message.Text != "" {
				block["content"] = message.Text
			}
			if message.Failed {
				block["is_error"] = true
			}
			add(User, block)
		case Assistant:
			if blocks := conversation.opaque(message); blocks != nil {
				add(Assistant, blocks...)
				continue
			}
			if strings.TrimSpace(message.Text) != "" {
				add(Assistant, map[string]any{"type": "text", "text": message.Text})
			}
			for j := range message.Calls {
				call := &message.Calls[j]
				add(Assistant, map[string]any{"type": "tool_use", "id": wireID(call.ID), "name": wireName(call.Name),
					"input": given(call)})
			}
		}
	}
	if conversation.Cache {
		markEnds(out)
	}
	return out
}

// markEnds marks the ends of the user's last two messages: the service has cached the previous request up to the
// first of them. With the marks of instructions and tools, a request has four, the most that the service allows.
func markEnds(messages []any) {
	left := 2
	for _, m := range slices.Backward(messages) {
		if m := object(m); m["role"] == User && left > 0 {
			blocks := list(m["content"])
			mark(object(blocks[len(blocks)-1]))
			left--
		}
	}
}

func (f blocksFormat) whole(body map[string]any) (*Answer, *Failure) {
	content, ok := body["content"].([]any)
	if !ok {
		return nil, nonsense()
	}
	a := f.blocks(content)
	a.Stop, a.Usage = blocksStop(text(body["stop_reason"])), blocksUsage(object(body["usage"]))
	return a, nil
}

func (blocksFormat) blocks(all []any) *Answer {
	answer := &Answer{Stop: StopOther}
	var texts []string
	thinks := false
	for _, one := range all {
		switch block := object(one); block["type"] {
		case "text":
			texts = append(texts, text(block["text"]))
		case "tool_use":
			c := ToolCall{ID: text(block["id"]), Name: text(block["name"])}
			input(&c, block["input"], "")
			answer.Calls = append(answer.Calls, c)
		case "thinking", "redacted_thinking":
			thinks = true
		}
	}
	answer.Text = strings.Join(texts, "\n")
	if thinks {
		answer.Opaque = &Opaque{Blocks: all}
	}
	return answer
}

func blocksStop(reason string) string {
	switch reason {
	case "end_turn", "stop_sequence":
		return StopEnd
	case "tool_use":
		return StopCalls
	case "max_tokens":
		return StopLength
	case "model_context_window_exceeded":
		return StopContext
	case "refusal":
		return StopRefusal
	}
	return StopOther
}

func blocksUsage(of map[string]any) Usage {
	t := &tally{in: of}
	thinking := t.may("output_tokens_details", "thinking_tokens")
	return t.usage(Usage{
		Input: t.must("input_tokens"), Output: t.must("output_tokens") - thinking, Reasoning: thinking,
		CacheRead: t.may("cache_read_input_tokens"), CacheWrite: t.may("cache_creation_input_tokens"),
	})
}

func (blocksFormat) events() events {
	return &blocksEvents{usage: map[string]any{}, at: map[int64]*block{}}
}

type blocksEvents struct {
	order  []*block
	at     map[int64]*block
	usage  map[string]any
	reason string
	texts  int
	ended  bool
}

// A block is a block that arrives in parts.
type block struct {
	start                      map[string]any
	text, json, thinking, sign strings.Builder
}

func (e *blocksEvents) event(data map[string]any, to Deltas) *Failure {
	index, _ := number(data["index"])
	switch data["type"] {
	case "error":
		return Reported(data)
	case "message_start":
		e.use(object(data["message"])["usage"])
	case "content_block_start":
		if len(e.order) >= 4*MaxCalls {
			return tooManyCalls
		}
		b := &block{start: object(data["content_block"])}
		e.order, e.at[index] = append(e.order, b), b
		if b.start["type"] == "text" {
			if e.texts++; e.texts > 1 {
				to.text("\n")
			}
			b.text.WriteString(text(b.start["text"]))
			to.text(text(b.start["text"]))
		}
	case "content_block_delta":
		if b := e.at[index]; b != nil {
			b.delta(object(data["delta"]), to)
		}
	case "message_delta":
		if reason := text(object(data["delta"])["stop_reason"]); reason != "" {
			e.reason = reason
		}
		e.use(data["usage"])
	case "message_stop":
		e.ended = true
	}
	return nil
}

// use takes the counts of an event. They are totals for the answer so far and replace earlier ones.
func (e *blocksEvents) use(usage any) {
	for name, v := range object(usage) {
		if v != nil {
			e.usage[name] = v
		}
	}
}

func (b *block) delta(object map[string]any, to Deltas) {
	switch object["type"] {
	case "text_delta":
		b.text.WriteString(text(object["text"]))
		to.text(text(object["text"]))
	case "input_json_delta":
		b.json.WriteString(text(object["partial_json"]))
	case "thinking_delta":
		b.thinking.WriteString(text(object["thinking"]))
		to.reasoning(text(object["thinking"]))
	case "signature_delta":
		b.sign.WriteString(text(object["signature"]))
	}
}

// whole returns the block in the form of an unstreamed answer. Arguments that aren't JSON are text.
func (b *block) whole() map[string]any {
	switch b.start["type"] {
	case "text":
		return map[string]any{"type": "text", "text": b.text.String()}
	case "thinking":
		return map[string]any{
			"type": "thinking", "thinking": text(b.start["thinking"]) + b.thinking.String(),
			"signature": text(b.start["signature"]) + b.sign.String(),
		}
	case "tool_use":
		toolUse := map[string]any{"type": "tool_use", "id": text(b.start["id"]), "name": text(b.start["name"]),
			"input": b.start["input"]}
		if b.json.Len() > 0 {
			c := ToolCall{}
			if arguments(&c, b.json.String()); c.Input != nil {
				toolUse["input"] = c.Input
			} else {
				toolUse["input"] = b.json.String()
			}
		}
		return toolUse
	}
	return b.start
}

func (e *blocksEvents) answer() (*Answer, bool) {
	all := make([]any, len(e.order))
	for i, b := range e.order {
		all[i] = b.whole()
	}
	a := blocksFormat{}.blocks(all)
	a.Stop, a.Usage = blocksStop(e.reason), blocksUsage(e.usage)
	return a, e.ended
}
