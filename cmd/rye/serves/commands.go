package serves

import "github.com/rye-build/rye/cmd/rye/cli"

// Commands lists the commands of this package, in the order in which the help shows them.
func Commands() []cli.Command {
	return []cli.Command{
		{Path: "mcp", Group: "serve", Help: "Serve agents, and use servers (Model Context Protocol)."},
		{
			Path: "mcp serve", Group: "serve", Help: "Serve this project to an agent (Model Context Protocol).",
			More: "An agent starts this command and speaks with it on standard input and output. It gets the " +
				"tools search, load, execute and sign: it finds items, reads them, and runs what the lock pins, " +
				"in the sandbox. sign is refused unless --allow-sign is given. A call that the policies ask about " +
				"is refused too. Imported skills that are locked are served by the extension for skills " +
				"(rye docs mcp).\n\n" +
				"The server looks at rye.lock before each call: one that was replaced counts from then on. " +
				"Outside of a project, it serves the one that the client's roots lie in.\n\n" +
				"Examples:\n\n" +
				"    rye mcp serve -C ~/src/site\n" +
				"    rye mcp serve --tools 'tool:acme/**'\n" +
				"    claude mcp add rye -- rye mcp serve -C ~/src/site",
			New: func() cli.Runner { return new(mcpServeRun) }, Schema: "mcp-serve/1", Output: served{},
		},
		{
			Path: "mcp config", Group: "serve", Help: "Show how an agent starts rye mcp serve.",
			More: "It prints the agent's configuration: of Claude Code (.mcp.json), Cursor (.cursor/mcp.json), VS " +
				"Code (.vscode/mcp.json) or Codex (.codex/config.toml). With --write it puts the server into that " +
				"file of the project, after showing the change: comments, order and other servers stay as they " +
				"are. rye doctor checks these files.\n\n" +
				"Examples:\n\n" +
				"    rye mcp config claude\n" +
				"    rye mcp config vscode --write\n" +
				"    rye mcp config codex --tools 'tool:acme/**' --write",
			New: func() cli.Runner { return new(mcpConfigRun) }, Schema: "mcp-config/1", Output: &configured{},
		},
		{
			Path: "serve", Group: "serve", Help: "Serve this project over HTTP.",
			More: "Agents reach the MCP server at /mcp, and any program calls the tools at /v1, with a token of " +
				"rye serve token add. /healthz and /readyz need none (rye docs serve).\n\n" +
				"Only this machine can connect, unless there is a certificate (--tls-cert, --tls-key) or a proxy " +
				"that has one (--behind-proxy, --host). SIGTERM ends the server: calls that run have ten seconds " +
				"to end.\n\n" +
				"With --json, one line says where the server listens, as soon as it does.\n\n" +
				"Examples:\n\n" +
				"    rye serve token add laptop\n" +
				"    rye serve -C ~/src/site\n" +
				"    rye serve --listen 127.0.0.1:0 --json\n" +
				"    rye serve --listen :8443 --tls-cert cert.pem --tls-key key.pem",
			New: func() cli.Runner { return new(serveRun) }, Schema: "serve/1", Output: listening{},
		},
		{Path: "serve token", Group: "serve", Help: "Manage the tokens of rye serve."},
		{
			Path: "serve token add", Group: "serve", Help: "Create a token and show it once.",
			More: "The token is printed on standard output and kept nowhere: the state directory has its digest. " +
				"The calls of a client are recorded under the token's name and tenant (rye audit list). A scope " +
				"opens a part of the server: call opens /mcp and the tools at /v1, approve the approvals there. A " +
				"person who holds several tokens can't approve with one what another has asked for, where the " +
				"policy wants two persons.\n\n" +
				"Examples:\n\n" +
				"    rye serve token add laptop\n" +
				"    rye serve token add ci --expires 30d --tenant acme\n" +
				"    rye serve token add phone --scope approve --person ann",
			New: func() cli.Runner { return new(tokenAddRun) }, Schema: "serve-token-add/1", Output: tokenAdded{},
		},
		{
			Path: "serve token list", Group: "serve", Help: "List the tokens with scopes, tenant and expiry.",
			More: "It never shows a token itself.\n\nExamples:\n\n    rye serve token list",
			New:  func() cli.Runner { return new(tokenListRun) }, Schema: "serve-token-list/1", Output: tokenList{},
		},
		{
			Path: "serve token remove", Quiet: true, Group: "serve", Help: "Delete a token.",
			More: "A server that runs refuses it at once, and cancels its requests within seconds.\n\n" +
				"Examples:\n\n" +
				"    rye serve token remove laptop",
			Aka: []string{"serve token delete", "serve token revoke"},
			New: func() cli.Runner {
				return new(tokenRemoveRun)
			}, Schema: "serve-token-remove/1", Output: tokenRemoved{},
		},
	}
}
