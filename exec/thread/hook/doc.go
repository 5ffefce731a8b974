// Package hook answers: what is to be done when something happens in a thread?
//
// Hooks are data. Each belongs to an event, may have a condition, and has one action:
//
//	{id: rules, event: thread_started, action: {primary: load, item_type: knowledge, item_id: acme/rules}}
//	{id: wait, event: error, condition: "error.code == 'rate_limit'", action: retry, delay: 5}
//
// # Layers
//
// The hooks of an event are asked in the order of their layers, and in a layer as they stand:
//
//	1 directive   <hooks> of the directive
//	2 hooks       hooks of config:hook_conditions: the user's and the project's
//	3 context     context_hooks of it
//	4 builtin     builtin_hooks of it: what holds if no other hook decides
//	5 infra       infra_hooks of it: they never decide
//
// Every hook whose condition holds runs. The first that decides is the decision.
//
// # A hook
//
//	id            its name; also name. Needed in config, where it says which one a higher file replaces
//	event         one of config:events. Without it a hook belongs to error and tool_call_result if its condition
//	              speaks of error, else to after_step
//	condition     package condition, about the event's data; also when
//	action        what is done; also tool, execute or load
//	params        of the item: ${PATH} is filled in from the data; also inputs
//	delay         seconds, of retry
//	error         of fail, abort, escalate and suspend; ${PATH} is filled in
//	enabled       false: the hook isn't asked
//	description
//
// As an action
//
//	retry                                                     a control action, see below
//	{primary, item_type, item_id, params, dry_run}            execute, load or search; item_type is by default tool
//	tool: rye.primary.load, params: {item_type, item_id}      the same; of execute, parameters are what the item
//	                                                          takes
//	tool: acme/notify, params: {…}                            executes a tool; dots are read as slashes
//	execute: {item_type, item_id}, inputs: {…}                and load; as an element of XML its text is the id
//	{item_id: rye/agent/threads/internal/control, params: {action: retry}}    a control action
//
// A value that is exactly ${PATH} keeps its type. Elsewhere text stands as it is, null as nothing, all else as JSON.
//
// # Control actions
//
//	retry      error: the model is asked again, after delay or what the classification says, as often as the limits
//	           allow
//	fail       the thread ends as failed
//	abort      the thread ends as cancelled
//	suspend    the thread ends as interrupted, with BUDGET_EXCEEDED if the event is about money, else LIMIT_EXCEEDED
//	escalate   the same, for the attention of a person
//	skip       tool_call_start: the call isn't made; the model gets that as its result. Else as continue
//	continue   nothing is done, and no later hook decides
//
// A tool decides by a result with the member action, which is one of these, and perhaps delay and error. Any other
// result is a text that the hook gives: a string, or the member text, content or body. Those of thread_started begin
// the first message.
//
// A hook that can't run is recorded and decides nothing; at thread_started it ends the thread, which would lack what
// it was to know.
//
// # Limits
//
// 256 hooks. What hooks call asks no hooks. A text has at most 256 KiB.
package hook
