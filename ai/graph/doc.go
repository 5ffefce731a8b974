// Package graph reads state graphs: tools that define nodes with actions and their successors.
//
//	tool_type: graph
//	executor_id: rye/core/runtimes/state_graph_runtime
//	config:
//	  start: fetch
//	  nodes:
//	    fetch: {action: {item_id: acme/fetch, params: {url: "${inputs.url}"}}, assign: {page: "${result.text}"},
//	    next: done} done: {type: return}
//
// # Nodes
//
//	action    makes one call, and assigns parts of its result to the state
//	foreach   makes one call for each element of a list, several in parallel
//	gate      chooses one of two successors, by a condition or a person's answer
//	return    ends the graph; a node without next does so too
//
// # Templates
//
// A text that is a single ${PATH} becomes the value at that path, of any type. Within a longer text, a text is
// inserted as it is, null as nothing, and any other value as JSON; $${ is a literal ${. Templates are parsed once,
// from the graph's file: inserted values are never parsed. A template's result has at most MaxFilled bytes.
//
// # How a graph goes through here
//
// Read checks config (keys, names, node, next) and parses templates and conditions. If all are valid, flow looks
// for unreachable nodes and for nodes from which no return can be reached. Each problem has its place in the file.
// At run time, package exec/thread/graph walks the Graph with Follow and On, and fills the templates with
// Template.Fill. Draw draws it.
package graph
