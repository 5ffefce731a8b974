// Package graphview shows where the run of a state graph stands.
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

// A Place is where a run stands, by its transcript.
type Place struct {
	Graph string `json:"-"`              // of the thread; "" if it is that of a directive
	Node  string `json:"node,omitempty"` // that runs, or is next; "" if there is none
	Step  int64  `json:"step,omitempty"`
	item  transcript.Item
}

// Take takes in what an event says.
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

// Drawn returns the graph as text, with a mark where the run stands. Where the graph isn't that of the run any more it
// says so.
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
		_ = g.Draw(&b, "text", p.Node) // a Builder takes everything
	}
	return b.String()
}

// Line says in one line what an event of a graph says; "" for other events.
func Line(e transcript.Payload) string {
	switch e := e.(type) {
	case transcript.NodeStarted:
		text := fmt.Sprintf("step %d: %s (%s)", e.Step, e.Node, e.Kind)
		if e.Attempt > 0 {
			text += fmt.Sprintf(", attempt %d", e.Attempt)
		}
		return text
	case transcript.NodeResult:
		text := e.Node + ": " + e.Status
		if e.Error != nil {
			text += ", " + e.Error.Code + ": " + e.Error.Message
		}
		if e.Next == "" {
			return text
		}
		return text + ", then " + e.Next
	case transcript.State:
		if e.Same {
			return "as before"
		}
		return e.Digest.Short()
	case transcript.Returned:
		return "after " + e.Node
	}
	return ""
}
