package mcp

import (
	"errors"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rye-build/rye/exec/primitive/answer"
	"github.com/rye-build/rye/manifest/jcs"
)

// read takes over the answer of a call.
func (x *call) read(callToolResult *mcp.CallToolResult) error {
	v, err := value(callToolResult)
	if err != nil {
		return err
	}
	x.value = v
	if no, why := answer.No(v); no {
		x.failed, x.failure = true, why
	}
	if callToolResult.IsError {
		x.failed = true
		if why := texts(callToolResult); why != "" {
			x.failure = why
		}
		if x.failure == "" {
			x.failure = "it failed without a reason"
		}
	}
	return nil
}

// value returns the content of an answer as JSON values.
func value(r *mcp.CallToolResult) (any, error) {
	if r.StructuredContent != nil {
		return plain(r.StructuredContent)
	}
	parts := make([]any, 0, len(r.Content))
	for _, c := range r.Content {
		if text, ok := c.(*mcp.TextContent); ok && len(r.Content) == 1 {
			return decoded(text.Text), nil
		}
		part, err := object(c)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	switch len(parts) {
	case 0:
		return nil, nil
	case 1:
		return parts[0], nil
	}
	return parts, nil
}

// decoded returns the JSON in a text, or else the text.
func decoded(text string) any {
	text = strings.ToValidUTF8(text, "\ufffd")
	if v, err := jcs.Parse([]byte(strings.TrimSpace(text))); err == nil {
		return v
	}
	return text
}

// texts joins the texts of an answer into a reason.
func texts(r *mcp.CallToolResult) string {
	var all []string
	for _, c := range r.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			all = append(all, text.Text)
		}
	}
	return clean(strings.Join(all, "\n"))
}

// isUnknown reports whether the server doesn't have a method.
func isUnknown(err error) bool {
	var wire *jsonrpc.Error
	return errors.As(err, &wire) && wire.Code == jsonrpc.CodeMethodNotFound
}
