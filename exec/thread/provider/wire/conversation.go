package wire

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rye-build/rye/manifest/jcs"
)

// MaxName is how long the name of a tool may be.
const MaxName = 64

// A Conversation is what a model is asked.
type Conversation struct {
	System   string // instructions; "" for none
	Messages []Message
	Tools    []Tool
	Stream   bool // the answer comes in events
	Parsed   bool // tools are described in the instructions, and called in the text
	Cache    bool // mark what the service may cache, where the format can
}

// A conversation is one that was checked.
type conversation struct {
	Conversation
	format *Format
}

// conversed checks a conversation and returns it without an assistant's empty messages. Every call has a result, and
// every result a call: services refuse anything else, and say so in ways that are hard to read.
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
		m := all[i]
		m.Text = valid(m.Text)
		if m.Role != ToolRole {
			if err := unanswered(); err != nil {
				return nil, err
			}
		}
		switch m.Role {
		case User:
			if strings.TrimSpace(m.Text) == "" {
				return nil, fmt.Errorf("message %d is empty", i+1)
			}
		case ToolRole:
			if !open[m.CallID] {
				return nil, fmt.Errorf("message %d is the result of %q, which is no open call", i+1, m.CallID)
			}
			delete(open, m.CallID)
		case Assistant:
			if len(out) == 0 {
				return nil, fmt.Errorf("the first message must be the user's")
			}
			for _, c := range m.Calls {
				open[c.ID] = true
			}
			if len(open) != len(m.Calls) {
				return nil, fmt.Errorf("message %d has two calls with one id", i+1)
			}
			if strings.TrimSpace(m.Text) == "" && len(m.Calls) == 0 {
				continue
			}
		default:
			return nil, fmt.Errorf("message %d has the unknown role %q", i+1, m.Role)
		}
		out = append(out, m)
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
				"%q is not a name for a tool: expected at most %d letters, digits, _ and -, not beginning with a digit or -",
				name, MaxName)
		case seen[name]:
			return fmt.Errorf("two tools are called %q", name)
		}
		seen[name] = true
	}
	return nil
}

// wireName returns a name as every service takes it. A model may have called a tool that isn't there by any name.
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

// wireID returns the id of a call as every service takes it. Those of another service may look different.
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

// opaque returns the blocks of an assistant's message that are sent back as they came; nil if there are none, or they
// are of another format, or say something else than the message does by now.
func (c *conversation) opaque(m *Message) []any {
	if m.Opaque == nil || m.Opaque.Format != c.format.name || len(m.Opaque.Blocks) == 0 {
		return nil
	}
	was := c.format.of.blocks(m.Opaque.Blocks)
	name(was.Calls)
	if was.Text != m.Text || said(was.Calls) != said(m.Calls) {
		return nil
	}
	return m.Opaque.Blocks
}

// said returns calls in one way of writing, whatever types their numbers have.
func said(calls []ToolCall) string {
	b, err := json.Marshal(calls)
	if err == nil {
		b, err = jcs.Canonical(nil, b)
	}
	if err != nil {
		return err.Error()
	}
	return string(b)
}
