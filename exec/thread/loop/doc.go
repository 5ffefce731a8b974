// Package loop runs agent loops: Starlark programs that decide what a thread does next.
//
// A loop runs in a child of this process (the same binary, entered through Guest) that has no files, no network and
// bounded memory. Everything that it does it asks this process for, through Loop.Ask, which enforces capabilities,
// limits and budget: a loop that lies, spins or eats memory ends itself and gains nothing.
//
// Loops of the library and of the user share one child; any other has one of its own. A child serves many loops at
// once and is kept for the next one. It is replaced after a limit ended it, which ends all loops that it has.
//
// # How a question goes through here
//
// Host.Run starts the child (child, start) and sends it the files of the loop; running.serve then answers its frames
// until the loop ends. In the child, Guest runs main(ctx): a function of ctx becomes a frame in run.call and waits in
// run.ask. Here running.question decodes it into a Question, Loop.Ask answers, and the answer goes back as a frame.
//
// # What a loop sees
//
// The file of the loop's item defines main(ctx). What it returns is the end of the thread. Package starlark says what
// the language has; there are no files. ctx has
//
//	config                   the loop's configuration, a dict
//	first()                  the messages that begin the thread
//	tools()                  the tools that the model is offered
//	model(messages, tools)   asks the model; gives a dict
//	calls(list)              makes tool calls; gives a list of messages, in the same order
//	hook(event, data)        what the hooks of an event decide, a dict or None
//	usage()                  turns, tokens, spend, elapsed_seconds, share of the context window
//	handoff(messages)        hands the work over to a new thread
//	checkpoint()             signs what was recorded so far
//	finish(result)           ends the loop with a result, from wherever it is called
//
// A cancelled thread ends in model or calls, before its loop knows. What a loop knows must be the same when it runs
// again from its record, which doesn't say when in a turn its user asked for the end.
//
// Messages that were given to model, calls or handoff can't be changed afterwards, as if they were frozen: the record
// has them.
//
// # Between the processes
//
// Frames of a 4-byte big-endian length and a JSON object, at most MaxFrame bytes, in both directions:
//
//	to the child     {"loop": 1, "start": {"files": {"loop.star": "…"}, "main": "loop.star", "steps": 1000, "memory":
//	                 1048576, "config": {}}} {"loop": 1, "answer": …}         to the loop's last question
//	                 {"loop": 1, "error": "…"}        instead of an answer: the loop ends with this failure
//	                 {"loop": 1, "cancel": "…"}       the loop ends with this failure, wherever it is
//	from the child   {"loop": 1, "ask": "model", "args": {…}}
//	                 {"loop": 1, "print": "…"}
//	                 {"loop": 1, "end": {"value": …, "reason": "…", "ended": "…"}}
//
// A list of messages is sent as what was added to the one before: "messages": {"keep": 12, "add": […]}.
package loop
