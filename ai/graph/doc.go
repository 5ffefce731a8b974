// Package graph is the reader of state graphs: tools that define nodes with actions and their successors.
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
//	action    does one thing, and keeps what it wants of the result by assign
//	foreach   does one thing for each element of a list, several at once
//	gate      goes one of two ways, by a condition or by the answer of a person
//	return    ends the graph; a node without next does so too
//
// # Templates
//
// A text that is one ${PATH} becomes the value at that path, of whatever type. In a longer text a value stands as
// text, or as JSON if it is none; $${ is ${ itself. Templates are read once, from the file of the graph: what they
// are filled with is never read as one. A template gives at most MaxFilled bytes.
//
// # What is refused
//
// Read finds what can't be right: names of nodes, states and inputs that there are not, nodes that nothing leads to,
// nodes from which no way leads to an end, and everything that the fields don't allow. Each problem has its place in
// the file.
package graph
