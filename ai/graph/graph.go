package graph

import (
	"slices"
	"time"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/permission"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/manifest/condition"
)

// Runtime is the id of the runtime that graphs name as their executor.
const Runtime = "rye/core/runtimes/state_graph_runtime"

// Is reports whether a tool is a graph.
func Is(t *model.Tool) bool { return t != nil && t.Type == "graph" && t.Executor == Runtime }

// The types of nodes.
const (
	Action  = "action"
	Foreach = "foreach"
	Gate    = "gate"
	Return  = "return"
)

// Values of on_error for an error that no node handles.
const (
	Fail     = "fail"
	Continue = "continue"
)

// The limits of a graph.
const (
	MaxNodes    = 1000
	MaxParallel = 64
	MaxFilled   = 1 << 20 // bytes of a template's result
	DefaultAt   = 8       // parallel calls of a foreach
	steps       = 100     // default for max_steps
	maxName     = 100
	maxAsk      = 4096
)

// State variables that rye sets.
const (
	LastError = "_last_error"
	Retries   = "_retries"
)

// A Graph is the parsed graph of a tool. It is immutable.
type Graph struct {
	Start    string
	Nodes    []*Node // in the order of the file
	Steps    int64   // max_steps
	Continue bool    // after an error that no node handles
	State    []Assignment
	Hooks    []*value.Value

	named map[string]*Node
}

// A Node is one step of a graph.
type Node struct {
	Name string
	At   value.Pos
	Type string

	// For action and foreach.
	Call    *Call
	Assign  []Assignment
	OnError string // a node, Fail or Continue; "" for the graph's setting

	// For foreach.
	Over    *Template
	As      string
	Collect string // the state variable for the results, or ""
	AtOnce  int

	// For gate.
	When      *condition.Condition // nil without one
	Ask       *Template            // the question to a person, or nil
	Otherwise string               // "" ends the graph
	Timeout   time.Duration        // for the answer; 0 for the policy's setting

	Next []Edge // empty: the graph ends
}

// A Call is the call of an action.
type Call struct {
	Verb   string // of package capability
	Ref    model.Ref
	At     value.Pos
	Params *Template
}

// An Assignment assigns a value to a state variable.
type Assignment struct {
	Name  string
	Value *Template
}

// An Edge leads to another node.
type Edge struct {
	To   string
	When *condition.Condition // nil: always
	at   value.Pos
	text string // of the condition, for people
}

// Node returns the node of a name, or nil.
func (g *Graph) Node(name string) *Node { return g.named[name] }

// Follow returns the successor of a node, "" for the end. doc is the document that conditions refer to.
func (n *Node) Follow(doc map[string]any) string {
	for _, e := range n.Next {
		if e.When == nil || e.When.Holds(doc) {
			return e.To
		}
	}
	return ""
}

// On returns how an error of a node is handled: the node that handles it, or whether the graph continues without.
func (g *Graph) On(n *Node) (to string, goesOn bool) {
	switch n.OnError {
	case "":
		return "", g.Continue
	case Fail, Continue:
		return "", n.OnError == Continue
	}
	return n.OnError, false
}

// Permissions returns the permissions that the nodes require for the items that they name, in the order of the
// file.
func (g *Graph) Permissions() (all []capability.Capability) {
	for _, n := range g.Nodes {
		if n.Call == nil {
			continue
		}
		verb, kind, id := n.Call.Verb, n.Call.Ref.Kind, n.Call.Ref.ID
		if verb == capability.Search {
			continue // a search has no id
		}
		c, err := capability.For(verb, kind, id)
		if err == nil && !slices.ContainsFunc(all, func(o capability.Capability) bool { return o == c }) {
			all = append(all, c)
		}
	}
	return all
}

// Starts reports whether the action starts a thread.
func (c *Call) Starts() bool {
	return c.Verb == capability.Execute && c.Ref.Kind == "tool" && c.Ref.ID == permission.Starts
}

// ends lists the possible successors of a node, each once; "" is the end.
func (g *Graph) ends(n *Node) (to []string) {
	add := func(name string) {
		if !slices.Contains(to, name) {
			to = append(to, name)
		}
	}
	if n.Type == Return {
		return []string{""}
	}
	always := false
	for _, e := range n.Next {
		add(e.To)
		always = always || e.When == nil
	}
	if !always {
		add("")
	}
	if n.Type == Gate {
		add(n.Otherwise)
	}
	if handler, _ := g.On(n); handler != "" && n.Call != nil {
		add(handler)
	}
	return to
}
