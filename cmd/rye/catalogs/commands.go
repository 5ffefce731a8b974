package catalogs

import "github.com/rye-build/rye/cmd/rye/cli"

// Commands lists the commands of this package, in the order in which the help shows them.
func Commands() []cli.Command {
	return []cli.Command{
		{
			Path: "mcp add", Group: "serve", Help: "Add an MCP server and pin its tools.",
			More: "rye shows what it would start or contact, with its permissions, and asks you. Then it asks the server, in the sandbox, for its tools, " +
				"shows them, and writes an item of the server, mcp/servers/NAME, and one of each tool, mcp/NAME/TOOL, signed with your key. If anything " +
				"fails, nothing is written. npx, npm exec and uvx are read, never run: what they name is pinned with its dependencies. A tool whose text hides characters is quarantined: rye mcp accept NAME TOOL accepts it.\n\n" +
				"The server gets nothing but what the flags grant: files of the project, hosts, secrets (rye docs mcp-servers).\n\nExamples:\n\n" +
				"    rye mcp add files --read docs -- node server.js docs\n" +
				"    rye mcp add github --secret github-token=GITHUB_TOKEN \\\n        --network api.github.com -- github-mcp-server stdio\n" +
				"    rye mcp add memory --write .ai/outputs \\\n        -- npx -y @modelcontextprotocol/server-memory\n" +
				"    rye mcp add git --read . -- uvx mcp-server-git\n" +
				"    rye mcp add wiki --http https://wiki.acme.example/mcp --secret wiki-token \\\n        --header 'Authorization: Bearer ${WIKI_TOKEN}'",
			Aka: []string{"mcp install"},
			New: func() cli.Runner { return new(addRun) }, Schema: "mcp-add/1", Output: &Added{},
		},
		{
			Path: "mcp list", Group: "serve", Help: "List MCP servers.",
			More: "It lists the servers of the project, or of the user outside of projects, with the number of their tools, and of tools that " +
				"are quarantined. A server of a plugin is called by the plugin's id and its own name, such as plugins/demo/db.\n\nExamples:\n\n    rye mcp list\n    rye mcp list --tools",
			Aka: []string{"mcp ls"},
			New: func() cli.Runner { return new(ListRun) }, Schema: "mcp-list/1", Output: &List{},
		},
		{
			Path: "mcp show", Group: "serve", Help: "Show an MCP server, or one of its tools.",
			More: "It shows everything that runs or is sent: command, arguments, variables, URL and headers, with the permissions, and the tools with " +
				"their digests, warnings and differences. Nothing is started.\n\nExamples:\n\n    rye mcp show files\n    rye mcp show files read_file",
			Aka: []string{"mcp info", "mcp get"},
			New: func() cli.Runner { return new(ShowRun) }, Schema: "mcp-show/1", Output: &Shown{},
		},
		{
			Path: "mcp test", Group: "serve", Help: "Compare an MCP server's tools with the pinned ones.",
			More: "It asks the server for its tools, as rye exec would call it, and prints a line about each. If one differs, the exit status is 1. " +
				"Nothing is written.\n\nExamples:\n\n    rye mcp test files",
			New: func() cli.Runner { return new(TestRun) }, Schema: "mcp-test/1", Output: &Tested{},
		},
		{
			Path: "mcp refresh", Group: "serve", Help: "Ask an MCP server again and quarantine what changed.",
			More: "Tools that are new, changed or renamed are shown with their differences, and can't be called until you accept them with rye mcp " +
				"accept. Removed tools are listed; their items stay until you accept that too. For a server of a plugin it shows what it would start, with its " +
				"permissions, and asks you.\n\nExamples:\n\n    rye mcp refresh files\n    rye mcp refresh plugins/demo/db",
			Aka: []string{"mcp update"},
			New: func() cli.Runner { return new(refreshRun) }, Schema: "mcp-refresh/1", Output: &Refreshed{},
		},
		{
			Path: "mcp accept", Group: "serve", Help: "Accept quarantined tools of an MCP server.",
			More: "It shows how the tools differ from the pinned ones, asks, and writes and signs exactly what it showed. Without TOOL it accepts " +
				"everything but tools with a critical warning: these must be named. The tools of a plugin's server become items of the project.\n\nExamples:\n\n    rye mcp accept files\n    rye mcp accept files read_file",
			New: func() cli.Runner { return new(acceptRun) }, Schema: "mcp-accept/1", Output: &Accepted{},
		},
		{
			Path: "mcp remove", Group: "serve", Help: "Remove an MCP server and its tools.",
			More: "It removes the server's items and its last announcement. A server of a plugin goes with the plugin (rye remove).\n\nExamples:\n\n    rye mcp remove files",
			Aka:  []string{"mcp rm", "mcp delete", "mcp uninstall"},
			New:  func() cli.Runner { return new(removeRun) }, Schema: "mcp-remove/1", Output: &Removed{},
		},
	}
}
