// Package mcp is the primitive that calls a tool of an MCP server, or lists what the server announces.
//
//	transport   stdio: rye starts the server as a program; http: rye reaches it by Streamable HTTP
//	command     stdio: the program, by path or by a name
//	args, env   its arguments, and variables in addition to those of the chain
//	cwd         its working directory
//	url         http: the address of the server
//	headers     http: headers of each request
//	tool_name   the tool to call; without it the result is the server's announcement, see below
//	definition  the digest of that tool's definition
//	arguments   a JSON object, such as {params_json}
//	timeout     limit on a call in seconds, including the start of the server
//
// # How a call goes through here
//
// Client.Run reads the action (newRequest) and takes a kept connection or opens one (take, dialer, connection.open).
// call.make compares the tool's definition with the action's (check, definitions), calls the tool while progress goes
// to the sink, and reads the answer (read, emit). call.result makes the Result, and give keeps or ends the connection.
// A server that is a program talks through process and lines, one over HTTP through remote.
//
// # Definitions
//
// The definition of a tool is the object of its name, title, description, inputSchema, outputSchema and annotations,
// without missing and empty members. Its digest is the BLAKE3 of its JCS. A connection lists the tools once, and again
// before a call if the server reports a change. A tool that is gone, or whose definition differs from the action's, is
// not called: fault.LockMismatch.
//
//	{"description":"Says it again","inputSchema":{"type":"object"},"name":"echo"}
//	blake3:7179f0f866de02183a00c4ef5eba9e2f17b8829f886e472482f908efcb917a19
//
// # Results
//
// The value is the structured content of the answer, or else its content: for a single text the JSON in it, or the
// text; for another single part that part; for several parts a list. "success": false marks a failed call, as for
// programs, and so does isError. The value goes to the sink as a text or a line of JSON. Before that, the sink gets
// each of the server's progress messages as a line of standard error.
//
// Without tool_name the value is an object of
//
//	server             name, title, version, and other members of its self-description
//	protocol           the negotiated revision
//	instructions       of the server, for models
//	tools              each with its definition
//	prompts, resources, resource_templates
//
// # Connections
//
// A server that is a program runs in the sandbox of the call that started it. A server over HTTP is reached with the
// transport of package httpclient, which connects only to that server, since the headers may be secret.
//
// Calls with the same configuration, environment, grants, limits, caller and set share a connection, also at the same
// time. A connection ends when it was idle for a while, when too many are kept, with the primitive, and when the
// server breaks the protocol. A program's limits on memory, processor time, processes and files apply to its whole
// life; those on time and output apply to each call.
//
// A cancelled call is reported to the server. If the server doesn't answer it soon, new calls don't use the server,
// and it is killed once its other calls have ended.
//
// # Limits on a server
//
// A message has at most MaxMessage bytes, or as many as the tool's output limit allows, if it has one. A server that
// sends a longer message, or anything else than messages, is killed, and its calls fail. Notifications above a rate
// are dropped, and a server that sends little else is killed. Unrequested answers are ignored. An announcement of one
// kind has at most maxListed entries, on maxPages pages, in maxAnnounced bytes. Sampling and elicitation are refused,
// and the server gets no roots.
package mcp
