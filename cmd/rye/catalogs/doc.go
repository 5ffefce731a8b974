// Package catalogs has the commands about other people's MCP servers: "rye mcp add", list, show, test, refresh,
// accept and remove.
//
// Only a person at the command line can add, accept or remove tools: each of these asks. No tool can call them.
//
// How an addition goes through here: addRun.Run turns the flags into a catalog.Spec (spec, checkSecrets), opens the
// space (open), refuses a name in use (free) and stages the server's item (server). After a yes it asks the server
// what it announces (ask), compares that with the other servers (catalog.Compare), quarantines critical tools
// (choose), and after a second yes signs and installs the items (install). refresh asks again and remembers the
// announcement; accept writes and signs what its changeLines showed.
package catalogs
