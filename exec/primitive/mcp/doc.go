// Package mcp is the primitive that calls a tool of an MCP server, or asks the server what it has.
//
//	transport   stdio: the server is a program that is started; http: it is reached by Streamable HTTP
//	command     stdio: the program, by path or by a name
//	args, env   its arguments, and variables beside those that the chain has
//	cwd         the directory that it starts in
//	url         http: where the server is
//	headers     http: lines that each request has
//	tool_name   what to call; without it the result is what the server announces, see below
//	definition  the digest of what the server announces of that tool
//	arguments   a JSON object, as {params_json} is
//	timeout     seconds that a call may take, with starting the server
//
// # Definitions
//
// The definition of a tool is the object of its name, title, description, inputSchema, outputSchema and annotations,
// without those that are missing or empty. Its digest is the BLAKE3 of the JCS of it. Tools are listed once on a
// connection, and again before a call if the server says that they have changed. A tool that has another definition
// than the action, or is gone, is not called: fault.LockMismatch.
//
//	{"description":"Says it again","inputSchema":{"type":"object"},"name":"echo"}
//	blake3:7179f0f866de02183a00c4ef5eba9e2f17b8829f886e472482f908efcb917a19
//
// # Results
//
// The value is the structured content of the answer. If there is none, it is its content: of one text the JSON in it,
// or the text; of one other part that part; of several a list of them. "success": false says that the call failed, as
// it does for programs, and so does isError. The value goes to the sink as a text or a line of JSON, and before that
// the server's progress, a line of standard error for each.
//
// Without tool_name the value is an object of
//
//	server             name, title, version, and what else it says of itself
//	protocol           the revision that was agreed on
//	instructions       of the server, for models
//	tools              each with its definition
//	prompts, resources, resource_templates
//
// # Connections
//
// A server that is a program runs in the sandbox of the call that started it. One that is reached by HTTP is asked
// over the transport of package httpclient, and nothing but that server: its headers may be secret.
//
// A connection is kept for calls that have the same configuration, environment, grants, limits, caller and set, also
// at one time. It ends when it was idle for a while, when more than a few are kept, with the primitive, and when the
// server breaks the protocol. A program's limits of memory, time of the processor, processes and files are for its
// life; the time and the output are each call's.
//
// A cancelled call is reported to the server. If the server doesn't answer it soon, no new call uses the server, and
// it is killed as soon as it does nothing else.
//
// # What a server sends
//
// A message has at most MaxMessage bytes, or as many as the output limit allows, if there is one. A server that sends
// a longer one, or anything that is no message, is killed, and its calls fail. Notifications above a rate are dropped,
// and a server that sends little else is killed. Answers that were not asked for are ignored. What it announces of a
// kind is at most maxListed entries, on maxPages pages, in maxAnnounced bytes. Sampling and elicitation are refused,
// and there are no roots.
package mcp
