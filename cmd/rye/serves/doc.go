// Package serves has the commands that serve agents: mcp serve on standard input and output, mcp config, serve over
// HTTP, and serve token add, list and remove.
//
// How a command goes through here: mcpServeRun.Run makes the options of an MCP server with offered.options, adds At
// for projects that the client names and Sign for --allow-sign, and runs mcp.New(…).Run on standard input and
// output. serveRun.Run reads the certificate and the tokens, opens the same server, listens with serve.Listen,
// handles /mcp with it, and announces the address. Each session is opened by runs.Open. collectSeldom sets the
// garbage collector.
package serves
