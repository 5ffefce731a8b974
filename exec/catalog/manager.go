package catalog

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/function"
	"github.com/rye-build/rye/exec/session"
)

// Functions returns the function of the tool rye/mcp/manager, for calls of a session. It changes nothing: what would
// change which tools are trusted is refused with the command that a person runs.
func Functions(s *session.Session) function.Functions {
	return function.Functions{"mcp": function.Of(managing.needs,
		func(ctx context.Context, c *function.Call, p managing) (any, error) {
			v, err := p.do(ctx, s, c)
			if err != nil {
				return function.No(ctx, err)
			}
			return function.Yes(v)
		})}
}

// managing are the parameters. What only a refused action takes is read and not looked at.
type managing struct {
	Action string `json:"action"`
	Name   string `json:"name"`
	Tool   string `json:"tool"`
	Tools  bool   `json:"include_tools"`

	Scope     json.RawMessage `json:"scope"`
	Transport json.RawMessage `json:"transport"`
	URL       json.RawMessage `json:"url"`
	Headers   json.RawMessage `json:"headers"`
	Command   json.RawMessage `json:"command"`
	Args      json.RawMessage `json:"args"`
	Env       json.RawMessage `json:"env"`
	Timeout   json.RawMessage `json:"timeout"`
}

// needs is the right to read the servers, or to call one.
func (p managing) needs() function.Need {
	verb := capability.Load
	if p.Action == "test" {
		verb = capability.Execute
	}
	c, err := capability.For(verb, "tool", PlaceOf(p.Name).id())
	if p.Name == "" || err != nil {
		c, _ = capability.Parse(verb + ":tool:" + ServersDir + "/*")
	}
	return function.Need{Permissions: []capability.Capability{c}, Refused: p.refused()}
}

// refused is the error of an action that would change which tools are trusted, nil for the others.
func (p managing) refused() error {
	if !slices.Contains([]string{"add", "refresh", "accept", "remove"}, p.Action) {
		return nil
	}
	command := fault.Command("rye mcp "+p.Action, p.Name)
	switch of := PlaceOf(p.Name).Plugin; {
	case p.Name == "":
		command = "rye help mcp " + p.Action
	case p.Action == "remove" && of != "":
		command = fault.Command("rye remove", of)
	}
	return fault.New(fault.Denied, "a person does that: it changes which tools are trusted").Try(command).On("action",
		p.Action)
}

func (p managing) do(ctx context.Context, session *session.Session, call *function.Call) (any, error) {
	switch p.Action {
	case "list", "show", "test":
	default:
		return nil, fault.New(fault.Validation, "unknown action %q",
			p.Action).Because("expected one of list, show, test")
	}
	items, err := session.Items(ctx, "tool")
	if err != nil {
		return nil, err
	}
	all := serversOf(items)
	if p.Action == "list" {
		return p.list(all), nil
	}
	server, err := Find(all, p.Name)
	if err != nil {
		return nil, err
	}
	if p.Action == "show" {
		return p.show(server)
	}
	return p.test(ctx, session, all, server, call)
}

type object = map[string]any

func (p managing) list(all []*Server) any {
	lines := []object{}
	for _, s := range all {
		line := object{"name": s.Name, "tool_count": len(s.Tools)}
		if s.Spec != nil {
			line["transport"] = s.Spec.Transport
		}
		if p.Tools {
			var tools []object
			for _, t := range s.Tools {
				tools = append(tools, object{"tool": t.Tool, "ref": t.Item.Ref.String(),
					"description": t.Fields.Text("description")})
			}
			line["tools"] = tools
		}
		lines = append(lines, line)
	}
	return object{"servers": lines, "count": len(lines)}
}

func (p managing) show(server *Server) (any, error) {
	tools := []object{}
	for _, t := range server.Tools {
		if p.Tool == "" || p.Tool == t.Tool {
			tools = append(tools, object{"tool": t.Tool, "ref": t.Item.Ref.String(),
				"description": t.Fields.Text("description"),
				"risk":        t.Item.Model.Tool.Risk.String(), "definition": t.Definition.String(),
				"input_schema": t.Fields["inputSchema"]})
		}
	}
	if p.Tool != "" && len(tools) == 0 {
		return nil, fault.New(fault.NotFound, "the server %q has no tool %q", server.Name, p.Tool).On("tool", p.Tool)
	}
	return object{"name": server.Name, "ref": server.Item.Ref.String(), "transport": server.Spec.Transport,
		"executables": server.Spec.Executables(), "read": server.Spec.Read, "write": server.Spec.Write,
		"network": server.Spec.Network, "secrets": server.Spec.Secrets, "tools": tools}, nil
}

// test calls the server's item in the name of who called the manager, and compares.
func (p managing) test(ctx context.Context, s *session.Session, all []*Server, server *Server, c *function.Call) (any,
	error) {
	ctx, call := exec.CallerOf(ctx).Pass(ctx, server.Item.Ref)
	result, err := s.Call(ctx, call, spoken{c})
	if err != nil {
		return nil, err
	}
	if result.Status != record.OK {
		return nil, fault.New(fault.Code(result.Code), "the server %q can't be asked: %s", server.Name,
			result.Failure).On("call", result.ID)
	}
	announced, err := Parse(result.Value)
	if err != nil {
		return nil, err
	}
	changes, err := Compare(server.At, server.Tools, announced, OthersOf(all, server.Name))
	if err != nil {
		return nil, err
	}
	tools, differ := []object{}, 0
	for i := range changes {
		change := &changes[i]
		tools = append(tools, object{"tool": change.Tool, "state": change.State, "flags": change.Flags})
		if change.Differs() {
			differ++
		}
	}
	return object{"name": server.Name, "call": result.ID, "tools": tools, "differ": differ}, nil
}

// spoken passes on the output of a running server.
type spoken struct{ *function.Call }

// Emit implements primitive.Sink. What the server announces is in the answer.
func (s spoken) Emit(stream primitive.Stream, b []byte) error {
	if stream == primitive.Stdout {
		return nil
	}
	_, err := s.Errs.Write(b)
	return err
}
