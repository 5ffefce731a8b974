package plan

import (
	"github.com/rye-build/rye/ai/graph"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/model/declared"
	"github.com/rye-build/rye/cas/fault"
)

// readGraph reads a graph as a directive. It may do what its nodes name, and what it declares itself.
func (p *Plan) readGraph() error {
	ref, tool := p.Directive.Ref.String(), p.Directive.Model.Tool
	g, problems := graph.Read(tool)
	if g == nil {
		e := fault.New(fault.Validation, "the graph %q can't be right: %v", ref, problems[0]).On("ref", ref).On("line",
			problems[0].At.Line)
		return e.Try(fault.Command("rye check", ref))
	}
	p.Graph = g
	p.Says = &model.Directive{Permissions: append(g.Permissions(), tool.Permissions...), Limits: tool.Limits}
	for _, h := range g.Hooks {
		p.Says.Hooks = append(p.Says.Hooks, declared.Hook{Event: h.Get("event").String(), ID: h.Get("id").String(),
			Value: h})
	}
	return nil
}

// Kind is that of the thread, as registry and transcript have it.
func (p *Plan) Kind() string {
	if p.Graph != nil {
		return "graph"
	}
	return "directive"
}
