// Package hook decides what to do at an event of a thread.
//
// Hooks are data. Each belongs to an event, may have a condition, and has one action:
//
//	{id: rules, event: thread_started, action: {primary: load, item_type: knowledge, item_id: acme/rules}}
//	{id: wait, event: error, condition: "error.code == 'rate_limit'", action: retry, delay: 5}
//
// # Layers
//
// Hooks run in the order of their layers, and within a layer in the order of their file:
//
//	1 directive   <hooks> of the directive
//	2 hooks       hooks of config:hook_conditions: the user's and the project's
//	3 context     context_hooks of config:hook_conditions
//	4 builtin     builtin_hooks of config:hook_conditions: the defaults
//	5 infra       infra_hooks of config:hook_conditions: they never decide
//
// Every hook whose condition holds runs. The first one with a control action decides.
//
// # How an event goes through here
//
// Read reads the hooks of a thread (Set.add, reader.hook), and Check is the same for signing. Set.Fire runs the
// hooks of an event whose conditions hold: Hook.run fills in parameters with fill, calls Runner.Run, reads the
// result with typed, and records it with Runner.Record. Decision.End turns the decision into the error that ends
// the thread.
//
// # A hook
//
//	id            its name; also name. Required in config, where a higher file replaces the hook with its id
//	event         one of config:events. The default is error and tool_call_result if the condition
//	              refers to error, otherwise after_step
//	condition     a condition of package condition on the event's data; also when
//	action        the action; also tool, execute or load
//	params        parameters of the item; ${PATH} is a value of the data; also inputs
//	delay         seconds, for retry
//	error         message for fail, abort, escalate and suspend; ${PATH} as above
//	enabled       false disables the hook
//	description
//
// The forms of an action:
//
//	retry                                                     a control action, see below
//	{primary, item_type, item_id, params, dry_run}            execute, load or search; the default item_type is tool
//	tool: rye.primary.load, params: {item_type, item_id}      the same; for execute, parameters are for the item
//	                                                          takes
//	tool: acme/notify, params: {…}                            executes a tool; dots are read as slashes
//	execute: {item_type, item_id}, inputs: {…}                and load; the text of an XML element is the id
//	{item_id: rye/agent/threads/internal/control, params: {action: retry}}    a control action
//
// A value that is exactly ${PATH} keeps its type. Within a longer text, text is inserted as it is, null as nothing,
// and anything else as JSON.
//
// # Control actions
//
//	retry      error: retry the model call after delay or the classification's delay, as often as the limits
//	           allow
//	fail       the thread ends as failed
//	abort      the thread ends as cancelled
//	suspend    the thread is interrupted, with BUDGET_EXCEEDED for an event about money, otherwise LIMIT_EXCEEDED
//	escalate   like suspend, and asks for a person's attention
//	skip       tool_call_start: skip the call and report that to the model. Otherwise like continue
//	continue   do nothing, and let no later hook decide
//
// A tool decides by a result whose member action is one of these, with delay and error as options. Any other result
// is a text from the hook: a string, or the member text, content or body. Texts of thread_started begin the first
// message.
//
// A hook that can't run is recorded and decides nothing. At thread_started it ends the thread, which would lack
// information.
//
// # Limits
//
// A thread has at most 256 hooks. Calls of hooks fire no hooks. A text has at most 256 KiB.
package hook
