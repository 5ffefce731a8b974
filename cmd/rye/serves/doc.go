// Package serves has the commands that serve agents: mcp serve on standard input and output, serve over HTTP, and its
// tokens.
package serves
