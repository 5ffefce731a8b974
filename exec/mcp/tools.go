package mcp

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/permission"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/agenttools"
	"github.com/rye-build/rye/exec/host"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/toolcall"
)

type object = map[string]any

// A tool is one of those that clients see.
type tool struct {
	name, title, description string
	reads, destroys          bool
	input, output            object
	do                       func(context.Context, *request, *agenttools.Arguments) (any, error)
}

// A request is a call of one of them, with arguments that fit.
type request struct {
	server   *Server
	session  *session.Session
	project  string // its root
	given    object
	caller   caller
	progress *progress

	asking    host.Asking
	responses mcp.InputResponseMap
	ask       mcp.InputRequestMap // questions to answer before the call can be made
}

// tools are the four. Whether the server signs is in the description of sign.
func tools(signs bool) []tool {
	about := "Refused: a person signs, with rye sign."
	if signs {
		about = "Sign the file of an item in the project with the user's key."
	}
	project := object{"type": "string", "description": "Absolute path in the project or a root"}
	item := func(more object, also ...any) object {
		properties := object{
			"item_type": object{"type": "string", "enum": append([]any{"tool", "directive", "knowledge"}, also...)},
			"item_id": object{"type": "string", "description": "As in acme/deploy",
				"examples": []any{"acme/deploy"}},
			"project_path": project,
		}
		for name, schema := range more {
			properties[name] = schema
		}
		return object{"type": "object", "required": []any{"item_type", "item_id"}, "properties": properties,
			"additionalProperties": false}
	}
	text := object{"type": "string"}
	anything := object{"anyOf": []any{object{"type": "object"}, object{"type": "array"}, text,
		object{"type": "number"}, object{"type": "boolean"}, object{"type": "null"}}}
	return []tool{
		{name: "search", title: "Search items", reads: true, do: search,
			description: `Find tools, directives and knowledge by words. Example: {"query": "deploy", "scope": "tool"}`,
			input: object{"type": "object", "required": []any{"query"}, "additionalProperties": false,
				"properties": object{
					"query": object{"type": "string", "description": "Words; an empty text finds all"},
					"scope": object{"type": "string",
						"description": "A kind, or a kind and the beginning of ids: tool, knowledge.acme.*"},
					"limit": object{"type": "integer", "minimum": 1.0, "maximum": float64(agenttools.MaxHits),
						"default": float64(agenttools.DefaultHits)},
					"project_path": project,
				}},
			output: object{"type": "object", "properties": object{"total": object{"type": "integer"},
				"results": object{"type": "array", "items": object{
					"type": "object", "properties": object{"ref": text, "about": text}}},
				"registries": object{"type": "array", "items": object{"type": "object", "properties": object{"ref": text,
					"version": text, "about": text, "registry": text, "state": text,
					"error": object{"type": "object"}}}}}},
		},
		{name: "load", title: "Read an item", reads: true, do: load,
			description: `Get the file of an item. Example: {"item_type": "knowledge", "item_id": "acme/style"}`,
			input:       item(nil, agenttools.BundleKind),
			output: object{"type": "object", "properties": object{"ref": text, "digest": text, "text": text,
				"state": text, "bundle": text, "version": text, "registry": text, "add": text,
				"items": object{"type": "array", "items": text}}},
		},
		{name: "execute", title: "Run an item", destroys: true, do: execute,
			description: "Run a pinned tool in the sandbox, or get the text of a directive, with its inputs filled in, " +
				"or of knowledge. " +
				`Example: {"item_type": "tool", "item_id": "acme/fetch", "parameters": {"url": "https://example.com"}}`,
			input: item(object{"parameters": object{"type": "object", "description": "What the item takes"},
				"dry_run": object{"type": "boolean", "description": "Check everything and run nothing"}}),
			output: object{"type": "object", "properties": object{"ref": text, "success": object{"type": "boolean"},
				"data": anything, "text": text,
				"dry_run": object{"type": "boolean"}, "receipt": text}},
		},
		{name: "sign", title: "Sign an item", destroys: true, do: sign,
			description: about + ` Example: {"item_type": "tool", "item_id": "acme/fetch"}`, input: item(nil),
			output: object{"type": "object"},
		},
	}
}

func search(ctx context.Context, r *request, a *agenttools.Arguments) (any, error) {
	return agenttools.Search(ctx, r.session, r.reader(), a.Query, a.Scope, a.Limit)
}

func load(ctx context.Context, r *request, a *agenttools.Arguments) (any, error) {
	ref, err := a.Ref()
	if err != nil {
		return nil, err
	}
	return agenttools.Load(ctx, r.session, r.reader(), ref)
}

// reader names the caller for the audit log.
func (r *request) reader() session.Reader {
	return session.Reader{Principal: r.caller.principal, Tenant: r.caller.tenant}
}

// An execution is the arguments of execute, or of a tool under its own name.
type execution struct {
	ref        model.Ref
	parameters object
	dry        bool
}

func execute(ctx context.Context, r *request, a *agenttools.Arguments) (any, error) {
	ref, err := a.Ref()
	if err != nil {
		return nil, err
	}
	return r.run(ctx, execution{ref: ref, parameters: a.Parameters, dry: a.Dry})
}

// run runs an item. The user isn't present, but their own tools get what they declare: the user has connected the
// agent.
func (r *request) run(ctx context.Context, what execution) (any, error) {
	if what.ref == (model.Ref{Kind: "tool", ID: permission.Starts}) {
		return r.thread(ctx, what)
	}
	call := &exec.Call{Ref: what.ref, Principal: r.caller.principal, Tenant: r.caller.tenant, Stranger: true,
		Declared: true, Dry: what.dry, Door: r.asking.Door()}
	value, err := agenttools.Execute(ctx, r.session, call, what.parameters, r.progress.sink())
	if err != nil {
		return host.Kept(err)
	}
	return value, nil
}

// thread starts a thread and follows it to its end.
func (r *request) thread(ctx context.Context, what execution) (any, error) {
	child, err := toolcall.ParseChild(what.parameters)
	if err != nil {
		return nil, err
	}
	if what.dry {
		return nil, fault.New(fault.Validation, "dry_run is for tools: a thread decides while it runs")
	}
	o := &r.server.o
	approver, err := r.approver()
	if err != nil {
		return nil, err
	}
	engine, err := thread.Open(r.session, thread.Options{Program: "rye " + o.Version, Now: o.Now})
	if err != nil {
		return nil, err
	}
	defer engine.Close()
	result, err := engine.Run(ctx, &thread.Start{Directive: child.Directive, Inputs: params.Values(child.Inputs),
		Model: child.Model, Limits: child.Limits, Lower: true, Principal: r.caller.principal,
		Approver: approver, Live: thread.Live{State: r.progress.state}})
	if err == nil {
		err = result.Failure()
	}
	if err != nil {
		return nil, err
	}
	data := object{"thread": result.Thread, "status": result.Status, "result": result.Result, "cost": result.Cost}
	if result.Outputs != nil {
		data["outputs"] = result.Outputs
	}
	return object{"ref": child.Directive.String(), "success": true, "data": data}, nil
}

// sign signs an item as far as the user's key, the policy and the checks of items allow. The user has said so by
// starting the server that way: nothing asks them again.
func sign(ctx context.Context, r *request, a *agenttools.Arguments) (any, error) {
	ref, err := a.Ref()
	if err != nil {
		return nil, err
	}
	if r.server.o.Sign == nil {
		return nil, fault.New(fault.Denied, "%q is not signed: this server was started without --allow-sign", ref).
			On("ref", ref.String()).Try(fault.Command("rye sign", ref.String()))
	}
	return r.server.o.Sign(ctx, r.project, ref)
}
