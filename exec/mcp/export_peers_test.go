//go:build peers

package mcp

import "github.com/modelcontextprotocol/go-sdk/mcp"

// Extended is a server that has more than ours: what the conformance suite calls.
func Extended(o Options, edit func(*mcp.ServerOptions), extend func(*mcp.Server)) *Server {
	s := build(o, edit)
	extend(s.sdk)
	return s
}
