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

// What is done about an error, where no node takes it.
const (
	Fail     = "fail"
	Continue = "continue"
)

// The limits of a graph.
const (
	MaxNodes    = 1000
	MaxParallel = 64
	MaxFilled   = 1 << 20 // bytes of what a template gives
	DefaultAt   = 8       // calls of a foreach at once
	steps       = 100     // that a graph may make, unless it says otherwise
	maxName     = 100
	maxAsk      = 4096
)

// The names of the state that rye itself sets.
const (
	LastError = "_last_error"
	Retries   = "_retries"
)

// A Graph is what a tool says of its nodes. It never changes.
type Graph struct {
	Start    string
	Nodes    []*Node // in the order of the file
	Steps    int64   // max_steps
	Continue bool    // after an error that no node takes
	State    []Assignment
	Hooks    []*value.Value

	named map[string]*Node
}

// A Node is one step.
type Node struct {
	Name string
	At   value.Pos
	Type string

	// Of action and foreach.
	Call    *Call
	Assign  []Assignment
	OnError string // a node, Fail or Continue; "" for what the graph says

	// Of foreach.
	Over    *Template
	As      string
	Collect string // the name of the state that gets the results; "" for none
	AtOnce  int

	// Of gate.
	When      *condition.Condition // nil without one
	Ask       *Template            // what a person is asked; nil if none is
	Otherwise string               // "" ends the graph
	Timeout   time.Duration        // of the answer; 0 for what the policy says

	Next []Edge // none ends the graph
}

// A Call is what an action does.
type Call struct {
	Verb   string // of package capability
	Ref    model.Ref
	At     value.Pos
	Params *Template
}

// An Assignment gives a state a value.
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

// Node returns the node of a name, nil if there is none.
func (g *Graph) Node(name string) *Node { return g.named[name] }

// Follow returns the node that a node leads to, "" for the end. doc is what conditions are about.
func (n *Node) Follow(doc map[string]any) string {
	for _, e := range n.Next {
		if e.When == nil || e.When.Holds(doc) {
			return e.To
		}
	}
	return ""
}

// On returns what a node does about an error: the node that takes it, or whether the graph goes on without.
func (g *Graph) On(n *Node) (to string, goesOn bool) {
	switch n.OnError {
	case "":
		return "", g.Continue
	case Fail, Continue:
		return "", n.OnError == Continue
	}
	return n.OnError, false
}

// Permissions are those that the nodes need by what they name, in the order of the file.
func (g *Graph) Permissions() (all []capability.Capability) {
	for _, n := range g.Nodes {
		if n.Call == nil {
			continue
		}
		verb, kind, id := n.Call.Verb, n.Call.Ref.Kind, n.Call.Ref.ID
		if verb == capability.Search {
			continue // what is looked for stands in its parameters
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

// ends lists where a node may lead to, each once; "" is the end.
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
	if taken, _ := g.On(n); taken != "" && n.Call != nil {
		add(taken)
	}
	return to
}
