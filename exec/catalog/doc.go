// Package catalog is the tool servers of other people: the tools that a server announces become items that a user has
// read and signed. Later changes wait until a person accepts them.
//
// # How an announcement goes through here
//
// A Stage is a private project for a server that isn't trusted yet. A call of the server's item there returns its
// tools, and Parse reads them as an Announcement, which Memory.Put keeps. Compare lists the differences to the items.
// For accepted changes Stage.Stubs makes items (Stub), and Install writes them into the space.
//
// # Items
//
// A server of rye mcp add is the item tool:mcp/servers/NAME, and its tools are tool:mcp/NAME/TOOL. A server of the
// plugin ID is tool:ID/servers/NAME, and its tools are tool:ID/servers/NAME/TOOL (Place). The server is the executor
// of its tools:
//
//	tool:mcp/files/read_file → tool:mcp/servers/files → a runtime → a primitive
//
//	executor_id: mcp/servers/files
//	config:
//	  tool_name: read_file
//	  definition: "blake3:…"
//
// The definition is the digest of the JCS of the tool's announced fields: name, title, description, inputSchema,
// outputSchema, annotations, without those that are missing or empty. So neither the order of members nor white space
// counts. The primitive refuses a tool whose live definition has another digest; what a person accepts is therefore
// what a model reads.
//
// A call of the server's own item answers with all that it announces. That is how a server is discovered: by a call
// like any other, in its sandbox, with its grants, logged and with a receipt.
//
// # Quarantine
//
// The last Announcement is kept in the state directory, and Compare lists how it differs from the items. A tool that
// was added, changed or renamed can't be called until it is accepted: then exactly what was shown is written and
// signed. Whatever package flags calls critical has to be accepted by name.
package catalog
