package wire

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rye-build/rye/manifest/jcs"
)

// MaxName bounds the length of a tool's name.
const MaxName = 64

// A Conversation is the content of a request.
type Conversation struct {
	System   string // instructions, or ""
	Messages []Message
	Tools    []Tool
	Stream   bool // the answer is sent as events
	Parsed   bool // tools are described in the instructions, and called in the text
	Cache    bool // mark the parts that the service may cache, if the format supports it
}

// A conversation is a checked Conversation.
type conversation struct {
	Conversation
	format *Format
}

// conversed checks a conversation and returns it without an assistant's empty messages. Every call must have a
// result, and every result a call: services refuse anything else, with errors that are hard to understand.
func conversed(all []Message) ([]Message, error) {
	var out []Message
	open := map[string]bool{} // calls that have no result yet
	unanswered := func() error {
		for _, id := range slices.Sorted(maps.Keys(open)) {
			return fmt.Errorf("the call %q has no result", id)
		}
		return nil
	}
	for i := range all {
		message := all[i]
		message.Text = valid(message.Text)
		if message.Role != ToolRole {
			if err := unanswered(); err != nil {
				return nil, err
			}
		}
		switch message.Role {
		case User:
			if strings.TrimSpace(message.Text) == "" {
				return nil, fmt.Errorf("message %d is empty", i+1)
			}
		case ToolRole:
			if !open[message.CallID] {
				return nil, fmt.Errorf("message %d is the result of %q, which is not an open call", i+1,
					message.CallID)
			}
			delete(open, message.CallID)
		case Assistant:
			if len(out) == 0 {
				return nil, fmt.Errorf("the first message must be the user's")
			}
			for _, c := range message.Calls {
				open[c.ID] = true
			}
			if len(open) != len(message.Calls) {
				return nil, fmt.Errorf("message %d has two calls with one id", i+1)
			}
			if strings.TrimSpace(message.Text) == "" && len(message.Calls) == 0 {
				continue
			}
		default:
			return nil, fmt.Errorf("message %d has the unknown role %q", i+1, message.Role)
		}
		out = append(out, message)
	}
	if len(out) == 0 || out[len(out)-1].Role == Assistant {
		return nil, fmt.Errorf("the last message must be the user's or a tool's")
	}
	return out, unanswered()
}

func checkTools(tools []Tool) error {
	seen := map[string]bool{}
	for i := range tools {
		name := tools[i].Name
		switch {
		case wireName(name) != name:
			return fmt.Errorf(
				"invalid tool name %q: expected at most %d letters, digits, _ and -, not beginning with a digit or -",
				name, MaxName)
		case seen[name]:
			return fmt.Errorf("duplicate tool name %q", name)
		}
		seen[name] = true
	}
	return nil
}

// wireName returns a name that every service accepts. A model may have called a missing tool by any name.
func wireName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
	if name == "" || name[0] == '-' || name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	return name[:min(len(name), MaxName)]
}

// wireID returns a call's id that every service accepts. Ids of another service may have another form.
func wireID(id string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, id)
}

func (t *Tool) schema() map[string]any {
	if len(t.Schema) == 0 {
		return map[string]any{"type": "object", "properties": map[string]any{}}
	}
	return t.Schema
}

// opaque returns an assistant's blocks to send back unchanged, or nil. It returns nil for blocks of another format,
// and if the message has changed since.
func (c *conversation) opaque(m *Message) []any {
	if m.Opaque == nil || m.Opaque.Format != c.format.name || len(m.Opaque.Blocks) == 0 {
		return nil
	}
	recorded := c.format.of.blocks(m.Opaque.Blocks)
	name(recorded.Calls)
	if recorded.Text != m.Text || canonicalCalls(recorded.Calls) != canonicalCalls(m.Calls) {
		return nil
	}
	return m.Opaque.Blocks
}

// canonicalCalls returns calls in canonical form, which doesn't depend on the types of their numbers.
func canonicalCalls(calls []ToolCall) string {
	b, err := json.Marshal(calls)
	if err == nil {
		b, err = jcs.Canonical(nil, b)
	}
	if err != nil {
		return err.Error()
	}
	return string(b)
}
