// Package catalog keeps other people's tool servers: what a server announces becomes items that a user has looked at
// and signed, and what it announces later waits until a person accepts it.
//
// # Items
//
// A server is the item tool:mcp/servers/NAME, and each of its tools tool:mcp/NAME/TOOL, whose executor the server is:
//
//	tool:mcp/files/read_file → tool:mcp/servers/files → a runtime → a primitive
//
//	executor_id: mcp/servers/files
//	config:
//	  tool_name: read_file
//	  definition: "blake3:…"
//
// The definition is the digest of the JCS of what the server announces of the tool: name, title, description,
// inputSchema, outputSchema, annotations, without those that are missing or empty. So neither the order of members nor
// white space counts. The primitive refuses a tool whose live definition has another digest; what a person accepts is
// therefore what a model reads.
//
// A call of the server's own item answers with all that it announces. That is how a server is discovered: by a call
// like any other, in its sandbox, with its grants, logged and with a receipt.
//
// # Quarantine
//
// An Announcement that was discovered is kept in the state directory, and Compare says how it differs from the items.
// A tool that was added, changed or renamed can't be called until it is accepted: then exactly what was shown is
// written and signed. Whatever package flags calls critical has to be accepted by name.
package catalog
