package mcp

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/model/declared"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/agenttools"
	"github.com/rye-build/rye/exec/host"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/exec/thread/plan"
	"github.com/rye-build/rye/manifest/policy/glob"
)

// listed is what clients see of the set: directives as prompts, knowledge and the texts of skills as resources, and
// chosen tools under their own names.
type listed struct{ tools, prompts, resources map[string]bool }

// uriOf begins the URI of a resource.
const uriOf = "rye://"

// list replaces the lists of items by those of a session, and notifies clients.
func (s *Server) list(ctx context.Context, in *session.Session) error {
	now := listed{map[string]bool{}, map[string]bool{}, map[string]bool{}}
	directives, err := in.Items(ctx, "directive")
	if err != nil {
		return err
	}
	for _, it := range directives {
		now.prompts[it.Ref.ID] = true
		s.sdk.AddPrompt(promptOf(it), s.prompt)
	}
	knowledge, err := in.Items(ctx, "knowledge")
	if err != nil {
		return err
	}
	for _, it := range knowledge {
		uri := uriOf + "knowledge/" + it.Ref.ID
		now.resources[uri] = true
		s.sdk.AddResource(&mcp.Resource{URI: uri, Name: it.Ref.ID, Title: it.Model.Title,
			Description: it.Model.Description, MIMEType: markdown}, s.resource)
	}
	if err := s.listSkillFiles(ctx, in, now.resources); err != nil {
		return err
	}
	if err := s.listTools(ctx, in, now.tools); err != nil {
		return err
	}
	gone := func(old, now map[string]bool) (all []string) {
		for name := range old {
			if !now[name] {
				all = append(all, name)
			}
		}
		return all
	}
	s.sdk.RemoveTools(gone(s.listed.tools, now.tools)...)
	s.sdk.RemovePrompts(gone(s.listed.prompts, now.prompts)...)
	s.sdk.RemoveResources(gone(s.listed.resources, now.resources)...)
	s.listed = now
	return nil
}

// listTools adds the tools that Options.Tools chooses.
func (s *Server) listTools(ctx context.Context, in *session.Session, now map[string]bool) error {
	if len(s.o.Tools) == 0 {
		return nil
	}
	all, err := in.Items(ctx, "tool")
	if err != nil {
		return err
	}
	chosen := map[string]*ai.Item{}
	for _, it := range all {
		if name, err := glob.ParseName(it.Ref.String()); err == nil && glob.MatchAny(s.o.Tools, name) {
			chosen[it.Ref.ID] = it
		}
	}
	names, err := plan.ToolNames(slices.Sorted(maps.Keys(chosen)), s.own)
	if err != nil {
		return err
	}
	for id, it := range chosen {
		input := object{}
		if declared, ok := it.Model.Interface().Input.(object); ok {
			input = maps.Clone(declared)
		}
		input["type"] = "object"
		schema, err := params.Compile(object{"type": "object"}) // the call checks by the tool's own schema
		if err != nil {
			return err
		}
		now[names[id]] = true
		ref := it.Ref
		s.add(&mcp.Tool{Name: names[id], Description: it.Model.Description, InputSchema: input,
			Annotations: hints(it.Model.Tool)}, schema, false,
			func(ctx context.Context, r *request) (any, error) {
				return r.run(ctx, execution{ref: ref, parameters: r.given})
			})
	}
	return nil
}

// hints returns what a client may know of a tool's risk. Nothing is said of one that declares none: its calls' risk
// depends on their grants, and without hints a client expects the worst.
func hints(t *model.Tool) *mcp.ToolAnnotations {
	if t.NoRisk {
		return &mcp.ToolAnnotations{}
	}
	reads := t.Risk == declared.Read
	destroys := !reads
	return &mcp.ToolAnnotations{ReadOnlyHint: reads, DestructiveHint: &destroys}
}

func promptOf(it *ai.Item) *mcp.Prompt {
	p := &mcp.Prompt{Name: it.Ref.ID, Title: it.Model.Title, Description: it.Model.Description}
	for _, in := range it.Model.Directive.Inputs {
		p.Arguments = append(p.Arguments, &mcp.PromptArgument{Name: in.Name, Description: in.Description,
			Required: in.Required})
	}
	return p
}

// prompt gives the text of a directive.
func (s *Server) prompt(ctx context.Context, q *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	it, done, err := s.item(ctx, model.Ref{Kind: "directive", ID: q.Params.Name})
	if err != nil {
		return nil, wire(err)
	}
	defer done()
	filled, err := fill(it, q.Params.Arguments)
	if err != nil {
		return nil, wire(err)
	}
	return &mcp.GetPromptResult{Description: it.Model.Description, Messages: []*mcp.PromptMessage{
		{Role: "user", Content: &mcp.TextContent{Text: text(filled, "text")}}}}, nil
}

// fill gives the text of a directive with its inputs, which are texts in the protocol.
func fill(it *ai.Item, arguments map[string]string) (object, error) {
	var pairs []string
	for name, value := range arguments {
		pairs = append(pairs, name+"="+value)
	}
	schema, err := agenttools.Inputs(it)
	var given object
	if err == nil {
		given, err = schema.Read(params.Caller{Pairs: pairs})
	}
	if err != nil {
		return nil, err
	}
	return agenttools.Text(it, given)
}

// resource gives the body of knowledge.
func (s *Server) resource(ctx context.Context, q *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	kind, id, _ := strings.Cut(strings.TrimPrefix(q.Params.URI, uriOf), "/")
	it, done, err := s.item(ctx, model.Ref{Kind: kind, ID: id})
	if err != nil {
		return nil, wire(err)
	}
	defer done()
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: q.Params.URI, MIMEType: markdown,
		Text: it.Model.Body}}}, nil
}

// item returns an item of the set as it is now.
func (s *Server) item(ctx context.Context, ref model.Ref) (*ai.Item, func(), error) {
	held, done, err := s.host.Take(ctx, host.Project{})
	if err != nil {
		return nil, nil, err
	}
	it, err := held.Item(ctx, ref)
	if err != nil {
		done()
		return nil, nil, err
	}
	return it, done, nil
}

// wire makes an error one of JSON-RPC, with the object that every door shows as its data.
func wire(err error) error {
	o := fault.Of(err).Object()
	data, _ := json.Marshal(o) // details that can't be written are left out
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: o.Message, Data: data}
}
