// Package graphview shows which node the run of a state graph has reached.
package graphview

import (
	"context"
	"fmt"
	"strings"

	"github.com/rye-build/rye/ai/graph"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// A Place is the node that a run has reached, according to its transcript.
type Place struct {
	Graph string `json:"-"`              // ref of the graph; "" for a thread of a directive
	Node  string `json:"node,omitempty"` // the running or the next node; "" at the end
	Step  int64  `json:"step,omitempty"`
	item  transcript.Item
}

// Take updates the place with an event.
func (p *Place) Take(e transcript.Payload) {
	switch e := e.(type) {
	case transcript.Started:
		if e.Kind == "graph" {
			p.Graph, p.item = e.Directive.Ref, e.Directive
		}
	case transcript.NodeStarted:
		p.Node, p.Step = e.Node, e.Step
	case transcript.NodeResult:
		p.Node = e.Next
	case transcript.Completed:
		p.Node = ""
	}
}

// Drawn returns the graph as text with the reached node marked. If the graph has changed since, it returns a note.
func (p *Place) Drawn(ctx context.Context, a *cli.App) string {
	ref, err := model.ParseRef(p.Graph)
	if err != nil {
		return ""
	}
	v, err := spaces.OpenItems(ctx, a)
	if err != nil {
		return ""
	}
	defer v.Close()
	it, err := v.Find(ctx, ref)
	if err != nil {
		return ""
	}
	if it.Raw != p.item.Digest {
		return fmt.Sprintf("%s has changed since\n", p.Graph)
	}
	g, _ := graph.Read(it.Model.Tool)
	var b strings.Builder
	if g != nil {
		_ = g.Draw(&b, "text", p.Node) // a Builder returns no errors
	}
	return b.String()
}

// Line summarizes an event of a graph in one line; "" for other events.
func Line(e transcript.Payload) string {
	switch nodeStarted := e.(type) {
	case transcript.NodeStarted:
		text := fmt.Sprintf("step %d: %s (%s)", nodeStarted.Step, nodeStarted.Node, nodeStarted.Kind)
		if nodeStarted.Attempt > 0 {
			text += fmt.Sprintf(", attempt %d", nodeStarted.Attempt)
		}
		return text
	case transcript.NodeResult:
		text := nodeStarted.Node + ": " + nodeStarted.Status
		if nodeStarted.Error != nil {
			text += ", " + nodeStarted.Error.Code + ": " + nodeStarted.Error.Message
		}
		if nodeStarted.Next == "" {
			return text
		}
		return text + ", then " + nodeStarted.Next
	case transcript.State:
		if nodeStarted.Same {
			return "as before"
		}
		return nodeStarted.Digest.Short()
	case transcript.Returned:
		return "after " + nodeStarted.Node
	}
	return ""
}
