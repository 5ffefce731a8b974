package catalog

import (
	"bytes"
	"cmp"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/manifest/jcs"
)

// toolType is the type of the items of tools.
const toolType = "mcp"

// Stub returns the file of a tool's item, unsigned. It has the grants of the server, because a call has those that the
// tool declares.
func Stub(at Place, spec *Spec, definition Definition) ([]byte, error) {
	id, err := definition.Digest()
	if err != nil {
		return nil, err
	}
	var text []byte
	add := func(name string, v any) { text = appendField(text, name, v) }
	add("version", "1.0.0")
	add("tool_type", toolType)
	add("executor_id", at.id())
	add("category", at.tools())
	if title, ok := definition["title"]; ok {
		add("title", title)
	}
	add("description", describe(definition))
	add("risk", spec.risk(definition))
	text = spec.Grants.append(text)
	add("config", map[string]any{"tool_name": definition.Name(), "definition": id.String()})
	if notes, ok := definition["annotations"]; ok {
		add("annotations", notes)
	}
	schema, ok := definition["inputSchema"]
	if !ok {
		schema = emptyObject
	}
	add("input_schema", schema)
	if schema, ok := definition["outputSchema"]; ok {
		add("output_schema", schema)
	}
	return text, nil
}

// describe is the description of an item: an item needs one, and a tool of a server doesn't.
func describe(d Definition) string { return cmp.Or(d.Text("description"), d.Text("title"), d.Name()) }

// A Pinned tool is a server's tool as its item describes it.
type Pinned struct {
	Item       *ai.Item
	Tool       string // as the server calls it
	Definition cas.Digest
	Fields     Definition // as accepted, without a description that only repeats the title or the name
}

// PinnedOf reads a tool's item.
func PinnedOf(it *ai.Item) (*Pinned, error) {
	tool := it.Model.Tool
	if tool == nil || tool.Type != toolType {
		return nil, fault.New(fault.Validation, "%s is not the tool of a server: its tool_type is not %s", it.Ref,
			toolType).On("ref", it.Ref.String())
	}
	v, err := tool.Config.JSON()
	if err != nil {
		return nil, err
	}
	config, _ := v.(map[string]any)
	pinned := &Pinned{Item: it}
	pinned.Tool, _ = config["tool_name"].(string)
	text, _ := config["definition"].(string)
	if pinned.Definition, err = cas.ParseDigest(text); err != nil {
		return nil, fault.New(fault.Validation, "%s: config.definition is not a digest", it.Ref).From(err).On("ref",
			it.Ref.String())
	}
	all := map[string]any{"name": pinned.Tool, "title": it.Model.Fields.Get("title").String(),
		"description": tool.Description}
	for field, name := range map[string]string{"annotations": "annotations", "inputSchema": "input_schema",
		"outputSchema": "output_schema"} {
		if v := it.Model.Fields.Get(name); !v.IsNull() {
			if all[field], err = v.JSON(); err != nil {
				return nil, err
			}
		}
	}
	pinned.Fields = DefinitionOf(all)
	return pinned, nil
}

// Faithful reports whether the item's own fields have the digest that it pins.
func (p *Pinned) Faithful() bool { return p.Accepted() != nil }

// Accepted returns the definition that the item pins; nil if the item's own fields aren't those of it.
func (p *Pinned) Accepted() Definition {
	for _, without := range [][]string{nil, {"description"}, {"inputSchema"}, {"description", "inputSchema"}} {
		d := DefinitionOf(p.Fields)
		for _, name := range without {
			delete(d, name)
		}
		if id, err := d.Digest(); err == nil && id == p.Definition {
			if describe(d) != p.Fields.Text("description") {
				return nil
			}
			return d
		}
	}
	return nil
}

// checkStub refuses a file of a tool's item that isn't the definition, or can't be called.
func checkStub(m *model.Model, definition Definition) error {
	for _, p := range m.Problems {
		if !p.Warning {
			return fault.New(fault.Validation, "%q can't be an item: %s", definition.Name(), p.Message).From(p)
		}
	}
	of := m.Interface()
	for _, schema := range []struct {
		field string
		read  any
	}{{"inputSchema", of.Input}, {"outputSchema", of.Output}} {
		want, ok := definition[schema.field]
		if !ok {
			continue
		}
		a, err := jcs.Append(nil, want)
		if err != nil {
			return err
		}
		b, err := jcs.Append(nil, schema.read)
		if err != nil || !bytes.Equal(a, b) {
			return fault.New(fault.Validation, "%q can't be an item: its %s can't be written without a change",
				definition.Name(), schema.field).From(err)
		}
		if _, err := params.Compile(schema.read); err != nil {
			return fault.New(fault.Validation, "%q can't be an item: its %s: %v", definition.Name(), schema.field,
				err).From(err)
		}
	}
	return nil
}
