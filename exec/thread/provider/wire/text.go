package wire

import (
	"fmt"
	"html"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/rye-build/rye/manifest/jcs"
)

// asText turns tools and their results into text.
func (c *conversation) asText() {
	if len(c.Tools) > 0 {
		c.System = strings.TrimSpace(c.System + "\n\n" + describe(c.Tools))
	}
	c.Tools = nil
	names := map[string]string{}
	for i := range c.Messages {
		message := &c.Messages[i]
		for _, call := range message.Calls {
			names[call.ID] = call.Name
		}
		switch message.Role {
		case Assistant:
			message.Text = withCalls(message)
			message.Calls, message.Opaque = nil, nil
		case ToolRole:
			failed := ""
			if message.Failed {
				failed = ` failed="true"`
			}
			message.Role, message.Text = User, fmt.Sprintf("<result name=%q call=%q%s>\n%s\n</result>",
				wireName(names[message.CallID]),
				wireID(message.CallID), failed, message.Text)
		}
	}
}

// withCalls returns an assistant's text with its calls. The text usually contains them, except native ones.
func withCalls(m *Message) string {
	if len(m.Calls) == 0 || len(invokes(m.Text)) > 0 {
		return m.Text
	}
	var text strings.Builder
	text.WriteString(m.Text)
	for i := range m.Calls {
		fmt.Fprintf(&text, "\n<invoke name=%q>", wireName(m.Calls[i].Name))
		parameters := given(&m.Calls[i])
		for _, name := range slices.Sorted(maps.Keys(parameters)) {
			s, ok := parameters[name].(string)
			if !ok {
				s = encode(parameters[name])
			}
			fmt.Fprintf(&text, "<parameter name=%q>%s</parameter>", wireName(name), s)
		}
		text.WriteString("</invoke>")
	}
	return strings.TrimSpace(text.String())
}

// describe returns instructions that list the tools and explain how to call them.
func describe(tools []Tool) string {
	var b strings.Builder
	b.WriteString("You can call the tools below. To call one, write this in your answer and then stop:\n\n" +
		"<invoke name=\"TOOL\"><parameter name=\"PARAMETER\">VALUE</parameter></invoke>\n\n" +
		"Write a value that is an object or a list as JSON. The results come in the next message.\n")
	for i := range tools {
		fmt.Fprintf(&b, "\n<tool name=%q>\n%s\nParameters, as JSON Schema: %s\n</tool>\n", tools[i].Name,
			valid(tools[i].Description), encode(tools[i].schema()))
	}
	return b.String()
}

var (
	invokePattern = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?s)<invoke\s+name="([^"]*)"\s*>(.*?)</invoke>`)
	})
	parameterPattern = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?s)<parameter\s+name="([^"]*)"\s*>(.*?)</parameter>`)
	})
)

// invokes reads the calls in a text.
func invokes(s string) (calls []ToolCall) {
	for i, found := range invokePattern().FindAllStringSubmatch(s, MaxCalls) {
		c := ToolCall{ID: fmt.Sprintf("textcall_%d", i), Name: html.UnescapeString(found[1]), Input: map[string]any{}}
		for _, parameter := range parameterPattern().FindAllStringSubmatch(found[2], -1) {
			c.Input[html.UnescapeString(parameter[1])] = textValue(parameter[2])
		}
		calls = append(calls, c)
	}
	return calls
}

// textValue returns the JSON object or list in a text, or the text.
func textValue(s string) any {
	s = strings.TrimSpace(s)
	if strings.HasPrefix(s, "{") || strings.HasPrefix(s, "[") {
		if v, err := jcs.Parse([]byte(s)); err == nil && !deeper(v, maxNested-1) {
			return v
		}
	}
	return s
}
