package catalog

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/rye-build/rye/ai/flags"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/jcs"
)

// MaxTools bounds the tools of a server.
const MaxTools = 2000

// fieldNames are those of a tool that a definition has.
var fieldNames = []string{"name", "title", "description", "inputSchema", "outputSchema", "annotations"}

// A Definition is one tool as its server announces it: a JSON object with some of the fields name, title, description,
// inputSchema, outputSchema and annotations. It isn't changed.
type Definition map[string]any

// DefinitionOf takes the fields of a definition from a tool as it is announced.
func DefinitionOf(tool map[string]any) Definition {
	d := Definition{}
	for _, name := range fieldNames {
		if v, ok := tool[name]; ok && v != nil && v != "" {
			d[name] = v
		}
	}
	return d
}

// Digest is that of the JCS.
func (d Definition) Digest() (cas.Digest, error) {
	text, err := jcs.Append(nil, map[string]any(d))
	return cas.Sum(text), err
}

// Text returns a field that is a text, else "".
func (d Definition) Text(field string) string {
	s, _ := d[field].(string)
	return s
}

// Name is the tool's, as the server knows it.
func (d Definition) Name() string { return d.Text("name") }

// Hint returns an annotation that is true or false.
func (d Definition) Hint(name string) bool {
	notes, _ := d["annotations"].(map[string]any)
	v, _ := notes[name].(bool)
	return v
}

// Flags returns the suspicious parts of the definition, also in its mentions of other servers' tools.
func (d Definition) Flags(others flags.Others) (all []flags.Flag) {
	for _, name := range fieldNames {
		v, ok := d[name]
		if !ok {
			continue
		}
		all = append(all, flags.Value(name, v)...)
		if text, is := v.(string); is && name != "name" {
			all = append(all, flags.Mentions(name, text, others)...)
		}
	}
	return all
}

// An Announcement is a server's description of itself and its tools.
type Announcement struct {
	Server       map[string]any   // name, version and the like, as it calls itself
	Protocol     string           // the revision that was agreed on
	Instructions string           // for a model
	Tools        []Definition     // sorted by name
	Prompts      []map[string]any // as announced
	Resources    []map[string]any // and templates of them
	Others       map[string]any   // what else the answer has; kept, not understood
}

// Parse reads the answer to a call of a server's item. Two tools of one name are an error.
func Parse(value any) (*Announcement, error) {
	fields, ok := value.(map[string]any)
	if !ok {
		return nil, fault.New(fault.Failed, "the server's announcement is not an object")
	}
	announced := &Announcement{Others: map[string]any{}}
	for name, field := range fields {
		switch name {
		case "server":
			announced.Server, _ = field.(map[string]any)
		case "protocol":
			announced.Protocol, _ = field.(string)
		case "instructions":
			announced.Instructions, _ = field.(string)
		case "tools":
			for _, tool := range objects(field) {
				announced.Tools = append(announced.Tools, DefinitionOf(tool))
			}
		case "prompts":
			announced.Prompts = objects(field)
		case "resources", "resource_templates":
			announced.Resources = append(announced.Resources, objects(field)...)
		default:
			announced.Others[name] = field
		}
	}
	if len(announced.Tools) > MaxTools {
		return nil, fault.New(fault.Limit, "the server announces %d tools, more than %d", len(announced.Tools),
			MaxTools)
	}
	slices.SortFunc(announced.Tools, func(x, y Definition) int { return compare(x.Name(), y.Name()) })
	for i, d := range announced.Tools {
		if d.Name() == "" {
			return nil, fault.New(fault.Failed, "the server announces a tool without a name")
		}
		if i > 0 && d.Name() == announced.Tools[i-1].Name() {
			return nil, fault.New(fault.Ambiguous, "the server announces two tools named %q", d.Name())
		}
	}
	return announced, nil
}

func objects(v any) (all []map[string]any) {
	list, _ := v.([]any)
	for _, item := range list {
		if m, ok := item.(map[string]any); ok {
			all = append(all, m)
		}
	}
	return all
}

// Tool returns the definition of a name; nil for none.
func (a *Announcement) Tool(name string) Definition {
	i, ok := slices.BinarySearchFunc(a.Tools, name, func(d Definition, name string) int {
		return compare(d.Name(), name)
	})
	if !ok {
		return nil
	}
	return a.Tools[i]
}

// Flags returns the suspicious parts of instructions, prompts and resources.
func (a *Announcement) Flags(others flags.Others) (all []flags.Flag) {
	all = append(flags.Text("instructions", a.Instructions), flags.Mentions("instructions", a.Instructions, others)...)
	if a.Server != nil {
		all = append(all, flags.Value("server", map[string]any(a.Server))...)
	}
	for i, p := range a.Prompts {
		all = append(all, flags.Value(fmt.Sprintf("prompts/%d", i), map[string]any(p))...)
	}
	for i, r := range a.Resources {
		where := fmt.Sprintf("resources/%d", i)
		for _, name := range slices.Sorted(maps.Keys(r)) {
			if uri, is := r[name].(string); is && (name == "uri" || name == "uriTemplate") {
				all = append(all, flags.URI(where+"/"+name, uri)...)
			} else {
				all = append(all, flags.Value(where+"/"+name, r[name])...)
			}
		}
	}
	return all
}

// value is the announcement as Parse reads it.
func (a *Announcement) value() map[string]any {
	fields := map[string]any{}
	maps.Copy(fields, a.Others)
	list := make([]any, len(a.Tools))
	for i, d := range a.Tools {
		list[i] = map[string]any(d)
	}
	if a.Server != nil {
		fields["server"] = a.Server
	}
	fields["protocol"], fields["instructions"], fields["tools"] = a.Protocol, a.Instructions, list
	fields["prompts"], fields["resources"] = anys(a.Prompts), anys(a.Resources)
	return fields
}

func anys(all []map[string]any) []any {
	list := make([]any, len(all))
	for i, m := range all {
		list[i] = m
	}
	return list
}

// MarshalJSON implements json.Marshaler.
func (a *Announcement) MarshalJSON() ([]byte, error) { return jcs.Append(nil, a.value()) }

// UnmarshalJSON implements json.Unmarshaler. It is strict, because a server has sent the content.
func (a *Announcement) UnmarshalJSON(b []byte) error {
	v, err := jcs.Parse(b)
	if err != nil {
		return err
	}
	read, err := Parse(v)
	if err == nil {
		*a = *read
	}
	return err
}

var _ json.Marshaler = (*Announcement)(nil)
