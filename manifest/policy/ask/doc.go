// Package ask decides which calls of tools need an approval: the section "ask" of a policy.
//
//	ask:
//	  refunds: {names: ["tool:acme/refund"], when: "params.amount > 100", separate: true, expires: 1h}
//	  deploys: {risk: infra, when: "flow.tags contains \"untrusted\"", answer: refuse}
//	  reports: {names: ["tool:acme/report/**"], answer: allow}
//
// Each line has a name of its own, and these fields, all of them optional:
//
//	names      globs over the names of tools (package glob); all tools if it is missing
//	risk       the least risk of the tool: read, write, infra, money or destructive; any if it is missing
//	when       a condition about the call (package condition); none if it is missing
//	answer     allow, ask or refuse; ask if it is missing
//	separate   true: the caller may not approve the call
//	expires    how long the question may be answered, in hours or days, at most 30d; an hour if it is missing
//
// separate and expires go with the answer ask. The condition is about
//
//	params            the tool's parameters, completed by its schema
//	caller, tenant    texts; "" if they are unknown
//	flow.directive    the directive whose thread makes the call; null outside of threads
//	flow.tools        the tools that this thread has called before, a list such as ["tool:acme/fetch"]
//	flow.tags         the tags of these tools
//
// # Decisions
//
// A line matches if all its fields match. The strictest of the matching lines decides: refuse, ask, allow. A
// condition without an answer, because a comparison in it is not possible, counts as true for ask and refuse, and
// as false for allow.
//
// If no line of the root policy matches, calls of risk infra, money and destructive ask, unless the user makes them:
// the calls of threads, of MCP clients and of servers ask, "rye exec" doesn't. A project's lines only make the answer
// stricter.
package ask
