package gateway

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/thread/plan"
)

type object = map[string]any

// A Tool is a tool as RGP describes it (RTP's ToolDef).
type Tool struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Input       object   `json:"input_schema"`
	Output      object   `json:"output_schema"`
	Error       object   `json:"error_schema"`
	Secrets     []string `json:"auth_slots"`
	Risk        string   `json:"risk_class"`
	Tags        []string `json:"tags"`
	Defaults    object   `json:"policy_defaults"`
	Examples    []object `json:"examples"`

	item    *ai.Item
	pack    *string // the bundle it comes from, and that one's version; nil: the project's own
	version *string
	wraps   bool // its result is no object: it is the member "value" of the output
}

// A Catalog is the tools of one set, sorted by name.
type Catalog struct {
	Tools []*Tool
	Hash  string // RGP's interface_hash
	Set   string // the digest of the set

	byName map[string]*Tool // by name, id and ref
	of     *session.Session
}

// in completes a result with what its set says of a tool; nil: there is no such tool.
func (c *Catalog) in(r *Result, t *Tool) *Result {
	r.PackSetVersion = &c.Set
	if t != nil {
		r.InterfaceHash, r.Pack, r.PackVersion = &c.Hash, t.pack, t.version
	}
	return r
}

// packs lists the bundles that the tools come from, with their versions.
func (c *Catalog) packs() []object {
	versions := map[string]*string{}
	for _, t := range c.Tools {
		if t.pack != nil {
			versions[*t.pack] = t.version
		}
	}
	all := []object{}
	for _, id := range slices.Sorted(maps.Keys(versions)) {
		all = append(all, object{"name": id, "version": versions[id]})
	}
	return all
}

// maxDescription is the longest description of RTP.
const maxDescription = 2048

// catalogOf lists the tools of a session that a client may call: all of the set but the library's own, and but those
// that only run other tools.
func catalogOf(ctx context.Context, in *session.Session) (*Catalog, error) {
	items, err := in.Items(ctx, "tool")
	if err != nil {
		return nil, err
	}
	items = slices.DeleteFunc(items, func(it *ai.Item) bool {
		t := it.Model.Tool
		return strings.HasPrefix(it.Ref.ID, "rye/") || t.Primitive || t.Type == "runtime"
	})
	var ids []string
	for _, it := range items {
		ids = append(ids, it.Ref.ID)
	}
	names, err := plan.ToolNames(ids, nil)
	if err != nil {
		return nil, err
	}
	c := &Catalog{byName: map[string]*Tool{}, Set: in.Set().String(), of: in}
	for _, it := range items {
		t := describe(names[it.Ref.ID], it)
		if id, version := in.Bundle(it); id != "" {
			t.pack, t.version = &id, &version
		}
		c.Tools = append(c.Tools, t)
		c.byName[it.Ref.ID], c.byName[it.Ref.String()] = t, t
	}
	for _, t := range c.Tools { // a name counts before an id
		c.byName[t.Name] = t
	}
	slices.SortFunc(c.Tools, func(x, y *Tool) int { return strings.Compare(x.Name, y.Name) })
	c.Hash, err = interfaceHash(c.Tools)
	return c, err
}

// describe makes the description of a tool. RTP's schemas are of objects: what isn't one is a member of it.
func describe(name string, it *ai.Item) *Tool {
	declared, model := it.Model.Interface(), it.Model.Tool
	t := &Tool{Name: name, Description: clip(it.Model.Description), Secrets: nonNil(model.Secrets),
		Tags: nonNil(model.Tags), Risk: model.Risk.String(), Defaults: object{}, Examples: []object{}, item: it}
	t.Input, _ = ofObject(declared.Input)
	t.Output, t.wraps = ofObject(declared.Output)
	t.Error, _ = ofObject(declared.Error)
	for _, e := range model.Examples {
		t.Examples = append(t.Examples, object{"name": e.Name, "input": params(e.Params)})
	}
	return t
}

// ofObject returns a schema of an object with the members that RTP asks for. wrapped says that the declared schema is
// of something else, which is the member "value".
func ofObject(declared any) (schema object, wrapped bool) {
	given, _ := declared.(object)
	kind, typed := given["type"]
	switch {
	case given == nil:
		return object{"type": "object", "properties": object{}}, false
	case typed && kind != "object", !typed && given["properties"] == nil:
		return object{"type": "object", "properties": object{"value": given}, "required": []any{"value"}}, true
	}
	schema = maps.Clone(given)
	schema["type"] = "object"
	if schema["properties"] == nil {
		schema["properties"] = object{}
	}
	return schema, false
}

// output returns what a tool has returned as an object.
func (t *Tool) output(value any) object {
	if o, ok := value.(object); ok && !t.wraps {
		return o
	}
	return object{"value": value}
}

// params are parameters, {} for none.
func params(given object) object {
	if given == nil {
		return object{}
	}
	return given
}

func nonNil(list []string) []string { return append([]string{}, list...) }

func clip(s string) string {
	if len(s) <= maxDescription {
		return s
	}
	return strings.ToValidUTF8(s[:maxDescription], "")
}
