// Package graph walks state graphs (package ai/graph). A walk decides which node is next, and what the state is.
// Everything that has an effect it asks its Kernel for: the thread that the graph runs as, which has the permissions,
// the limits, the hooks and the record. So a graph that goes on after its process died walks from its start again, and
// is answered from the record.
//
// # How a step goes through here
//
// Walk fills the initial state and takes one node after the other. walk.take begins the step (Kernel.Begin), walk.do
// acts: act makes one call, each makes one for every element, gate decides or asks a person. settle puts what the node
// assigns into the state, follow chooses the next node, and save records both.
//
// # A step
//
//	node_started     the limits are asked before it; again for each retry, with its number
//	call_started …   the calls of the node, each in the record before it has an effect
//	node_result      ok or error, and the node that follows
//	state            what the node assigned is in it; a state that is the same as before isn't written again
//
// and after the last one returned. What a node assigns is filled from the state before it, and all of it counts at
// once.
//
// # Errors
//
// A node fails if its call does, if a template gives too much, or if the state gets more than MaxState bytes as JSON.
// The hooks of error are asked first: retry makes the call again, unless it may have had an effect, and continue goes
// on as on_error: continue does. Then the state has _last_error, and the node's on_error counts, or that of the graph.
// An error that nothing takes ends the thread.
package graph
