// Package mcp is rye's server of the Model Context Protocol: an agent finds, reads and runs pinned items.
//
//	server := mcp.New(mcp.Options{Open: open, Project: dir, Version: "2.0.0", Warn: warn})
//	err := server.Run(ctx, mcp.Lines(stdin, stdout))
//
// # How a call goes through here
//
// The SDK hands a call to the function of Server.add: it reads the arguments, checks them by the schema, and finds the
// project (place). Server.call waits for its turn and takes the session of the project's set (package host), and runs
// the tool's function: search, load, execute (request.run, agenttools.Execute) or sign. answer makes the result. A
// call that waits for an approval ends there; its host makes it later.
//
// # The tools
//
//	search   {query, scope?, limit?}                          the refs of items, a line for each
//	load     {item_type, item_id}                             the file of an item
//	execute  {item_type, item_id, parameters?, dry_run?} runs a tool; gives the text of a directive, its inputs
//	         filled in, or of knowledge
//	sign     {item_type, item_id}                             refused without Options.Sign
//
// Each takes project_path too, which has to be in the server's project, or in a root of a client on standard input and
// output: then the call is about the project there. Without it a call is about the server's project, else the only
// root. An answer is an object that fits the tool's output schema, as structured content and as text. An error is
// isError with {"error": {code, message, details, retryable, suggestion}}, as every door of rye shows it; arguments
// that don't fit are VALIDATION_FAILED.
//
// Directives are prompts, knowledge is resources (rye://knowledge/ID), and the tools that Options.Tools chooses have
// names of their own (plan.ToolNames). A client hears when a lock has changed these lists.
//
// Imported skills are served by the extension io.modelcontextprotocol/skills: skills/list, skills/get and
// resources/directory/read, and their files as resources (skill://CATEGORY/NAME/FILE), byte for byte as the lock pins
// them. Directives are none, and skills that aren't locked or admitted are missing.
//
// Who calls is an agent: tools run in the sandbox for strangers. A call that the policies ask about needs an approval
// (package approval): a client that has elicitation asks its user; for any other it is APPROVAL_REQUIRED, and once the
// request is approved the server makes the call, and keeps its outcome for an hour: the same call again gets it.
// Approving is no tool.
//
// # The lines
//
// On standard input and output each message is a line. An invalid message is answered by JSON-RPC's error with the id
// null, and the next line is read; so is one that is longer than MaxLine.
package mcp
