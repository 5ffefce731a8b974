// Package thread runs directives: a model follows the text of a directive, under capabilities, limits and a budget,
// and everything that happens is in a transcript that a public key proves.
//
//	engine, err := thread.Open(session, thread.Options{Program: "rye 2.0.0", Now: time.Now})
//	defer engine.Close()
//	result, err := engine.Run(ctx, &thread.Start{Directive: ref, Inputs: inputs})
//
// # Who decides what
//
// A loop (package loop) decides what the thread does next: it is data, tool:rye/agent/loop, which a project may
// override. Around each thing that it asks for this package enforces what no loop can change:
//
//	limits        before each model call turns, tokens, spend and duration are compared: a limit of n allows n
//	budget        before each model call its worst case must fit into what is left of tokens and spend
//	window        a request that is wider than the model's context window isn't sent: the loop gets LIMIT_EXCEEDED
//	capabilities  each call of the model is one that the directive declares, by its inner item, and the policies
//	              allow
//	hooks         of the directive and of config are asked at each event (package hook), and can end the thread, not
//	              free it
//	record        what is asked, answered, called and decided is in the transcript before it has an effect
//
// # How a call goes through here
//
// Engine.Run begins a thread: begin reads its plan (load), bounds it by its family and the policies (inherit), opens
// its row, its account and its record (open), and run starts its loop. Each question of the loop comes to thread.ask,
// which hands it on.
//
// A turn is askModel: check compares the limits, dialogue.request reads what the loop sends, and turn.run tries. Each
// turn.try reserves what the attempt may cost (afford), records the request (dialogue.write), asks the model
// (dialogue.ask) and settles; turn.failed decides about an attempt that has failed.
//
// The calls of the model's answer come to calls.make: prepare has the toolcall.Maker prepare each, and batch records
// that they start (recordStarts), answers from the record (replay), makes the others (makeOpen), and records their
// results. guard cuts large results down. The steps of a graph come to walk instead, which makes their calls by batch
// too.
//
// finish records the end, and leave closes record, account and lease.
//
// # What has the state of a thread
//
//	record    the transcript, which answers the thread for as long as it has events
//	money     what the thread may use, and has used
//	dialogue  what its model was sent; a turn has one request and its attempts
//	calls     the calls of its model, its hooks and its graph
//	hooks     the hooks of its plan
//	watch     what ends it from outside: a request of another process, a token that expires
//	deadline  its time
//	family    its parent, and the thread that goes on with its work
//
// The thread itself has its life: how it begins, what it answers, where it stops, hands over and ends. children starts
// and finds the threads below it: the result of a child that waits, was cancelled or ended is decided in hear.
//
// # How a thread ends
//
//	completed     the loop ended it with a result and, where the directive declares outputs, with all of them
//	error         the model can't be reached, or the loop fails
//	waiting       a call of it waits for an approval: Resume goes on, with the answer or without
//	interrupted   a limit or the budget is reached, or its user stops it: Resume goes on
//	cancelled     its user doesn't want it any more
//
// # Resume and replay
//
// Both run the loop again from its start and answer it from the transcript. Every event that the thread would write is
// matched with the recorded one (package replay). Where the record ends, a thread that is resumed goes live, and one
// that is played back ends. What has an effect, or comes from outside, is taken from the record until then.
//
// A call that has begun and has no result is unknown: it is made again if its risk is read, or if it is a child, which
// goes on; else its result says so to the model. A model call without an answer is made again, and what it had
// reserved is spent.
package thread
