package plan

import (
	"context"
	"maps"
	"slices"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/model/declared"
	"github.com/rye-build/rye/exec/agenttools"
	"github.com/rye-build/rye/exec/thread/provider"
)

// The names of the tools that threads themselves have.
const (
	NameExecute = "rye_execute"
	NameLoad    = "rye_load"
	NameSearch  = "rye_search"
	NameSign    = "rye_sign"
	NameReturn  = "directive_return"
)

type object = map[string]any

// MaySign reports whether any permission is about signatures.
func MaySign(caps capability.Set) bool {
	return slices.ContainsFunc(caps.List(), func(c capability.Capability) bool { return c.Allows(capability.Sign) })
}

// OwnTools returns what a model is offered: the tools that every directive has, the one that signs, those that it
// names, and, if it declares outputs, the one that returns them. With browses, bundles of registries can be loaded.
func OwnTools(outputs []declared.Output, natives []provider.Tool, signs, browses bool) []provider.Tool {
	kinds := object{"type": "string", "enum": []any{"tool", "directive", "knowledge"}}
	loads := kinds
	if browses {
		loads = object{"type": "string", "enum": []any{"tool", "directive", "knowledge", agenttools.BundleKind}}
	}
	id := object{"type": "string", "description": "The id of the item, as in acme/deploy"}
	tools := []provider.Tool{
		{Name: NameExecute, Description: "Run a tool, or get the text of a directive or of knowledge", Schema: object{
			"type": "object", "required": []any{"item_type", "item_id"}, "properties": object{
				"item_type": kinds, "item_id": id, "parameters": object{"type": "object",
					"description": "What the item takes"},
				"dry_run": object{"type": "boolean", "description": "Check everything and run nothing"},
			}}},
		{Name: NameLoad, Description: "Get the file of an item", Schema: object{
			"type": "object", "required": []any{"item_type", "item_id"},
			"properties": object{"item_type": loads, "item_id": id}}},
		{Name: NameSearch, Description: "Find items by words", Schema: object{
			"type": "object", "required": []any{"query", "scope"}, "properties": object{
				"query": object{"type": "string"}, "scope": object{"type": "string",
					"description": "A kind, or a kind and the beginning of ids: tool, knowledge.acme.*"},
				"limit": object{"type": "integer", "minimum": 1.0, "maximum": float64(agenttools.MaxHits),
					"default": 10.0},
			}}},
	}
	if signs {
		tools = append(tools, provider.Tool{Name: NameSign,
			Description: "Ask the user to sign the file of an item with their key", Schema: object{
				"type": "object", "required": []any{"item_type", "item_id"},
				"properties": object{"item_type": kinds, "item_id": id}}})
	}
	tools = append(tools, natives...)
	if len(outputs) == 0 {
		return tools
	}
	properties, required := object{}, []any{}
	for _, o := range outputs {
		p := object{}
		if o.Type != "" && o.Type != "any" {
			p["type"] = o.Type
		}
		if o.Description != "" {
			p["description"] = o.Description
		}
		properties[o.Name] = p
		required = append(required, o.Name)
	}
	return append(tools, provider.Tool{Name: NameReturn, Description: "End the directive with its outputs",
		Schema: object{"type": "object", "required": required, "properties": properties}})
}

// Named are the tools that a directive names, which its model is offered under names of their own.
type Named struct {
	Items map[string]*ai.Item // by these names
	Tools []provider.Tool     // as the model is offered them
}

// FindNamed finds the tools that a directive names. One that no permission covers isn't offered.
func FindNamed(ctx context.Context, find func(context.Context, model.Ref) (*ai.Item, error), offers []declared.Offer,
	covers func(capability.Capability) bool) (named Named, err error) {
	named.Items = map[string]*ai.Item{}
	var ids []string
	for _, o := range offers {
		need, err := capability.For(capability.Execute, "tool", o.ID)
		if err != nil {
			return named, err
		}
		if covers(need) {
			ids = append(ids, o.ID)
		}
	}
	names, err := ToolNames(ids, []string{NameExecute, NameLoad, NameSearch, NameSign, NameReturn})
	if err != nil {
		return named, err
	}
	for _, id := range ids {
		it, err := find(ctx, model.Ref{Kind: "tool", ID: id})
		if err != nil {
			return named, err
		}
		schema := object{}
		if declared, ok := it.Model.Interface().Input.(object); ok {
			schema = maps.Clone(declared)
		}
		schema["type"] = "object"
		named.Items[names[id]] = it
		named.Tools = append(named.Tools, provider.Tool{Name: names[id], Description: it.Model.Tool.Description,
			Schema: schema})
	}
	return named, nil
}

// OfferedNames are those of tools.
func OfferedNames(tools []provider.Tool) (all []string) {
	for _, tool := range tools {
		all = append(all, tool.Name)
	}
	return all
}
