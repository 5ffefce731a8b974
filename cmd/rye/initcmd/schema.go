package initcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/bundle/recipe"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/suggest"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/reply"
	"github.com/rye-build/rye/exec/thread/transcript"
	ryeyaml "github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/trust"
)

type schemaRun struct {
	Name []string `arg:"" optional:"" complete:"schema" help:"File, schema or command."`
}

type schemaAnswer struct {
	Schemas []schemaLine `json:"schemas"`
}

type schemaLine struct {
	Name     string          `json:"name"`
	Document json.RawMessage `json:"document"`
}

func (s *schemaRun) Run(_ context.Context, app *cli.App) (cli.Answer, error) {
	var ans schemaAnswer
	var names []string
	word := strings.Join(s.Name, " ")
	wanted := word
	for _, c := range app.Commands {
		if c.Path == word && c.Output != nil {
			wanted = c.Schema
		}
	}
	for _, f := range fileSchemas() {
		names = append(names, f.Name)
		if word == "" || word == f.Name {
			ans.Schemas = append(ans.Schemas, f)
		}
	}
	for _, named := range SchemasOf(app.Commands) {
		names = append(names, named.Name)
		if bare, _, _ := strings.Cut(named.Name, "/"); word != "" && wanted != named.Name && wanted != bare {
			continue
		}
		doc, err := reply.Marshal(SchemaDocument(named.Name, named.Of))
		if err != nil {
			return nil, err
		}
		ans.Schemas = append(ans.Schemas, schemaLine{named.Name, doc})
	}
	if len(ans.Schemas) == 0 {
		meant := append(suggest.Names(word, names), "")
		return nil, fault.New(fault.Schema, "no schema %q", word).Try(strings.TrimSpace("rye schema " + meant[0]))
	}
	return ans, nil
}

// fileSchemas returns the schemas of files, by the file's name.
func fileSchemas() []schemaLine {
	return []schemaLine{
		{recipe.File, json.RawMessage(recipe.Schema())},
		{plugin.ServersFile, json.RawMessage(plugin.Schema(plugin.ServersFile))},
		{plugin.ManifestFile, json.RawMessage(plugin.Schema(plugin.ManifestFile))},
		{trust.File, json.RawMessage(policy.Schema())},
		{workspace.MarkerFile, json.RawMessage(ryeyaml.Schema())},
		{"transcript", json.RawMessage(transcript.SchemaText())},
	}
}

// Text prints a single schema, or the names of several.
func (s schemaAnswer) Text(t *cli.Terminal) {
	if len(s.Schemas) == 1 {
		t.Printf("%s\n", cli.Styled(strings.TrimRight(string(s.Schemas[0].Document), "\n"))) // part of the binary
		return
	}
	for _, line := range s.Schemas {
		t.Printf("%s\n", line.Name)
	}
}

// errorSchema is the name of the error object's schema.
const errorSchema = "error/1"

type namedType struct {
	Name string
	Of   reflect.Type
}

// SchemasOf returns the outputs of commands and the error object, sorted by schema name. Commands may share a
// schema.
func SchemasOf(cmds []cli.Command) []namedType {
	list := []namedType{{errorSchema, reflect.TypeFor[fault.Object]()}}
	for _, c := range cmds {
		if c.Output != nil && !slices.ContainsFunc(list, func(n namedType) bool { return n.Name == c.Schema }) {
			list = append(list, namedType{c.Schema, reflect.TypeOf(c.Output)})
		}
	}
	slices.SortFunc(list, func(a, b namedType) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// SchemaDocument returns the JSON Schema of a type as encoding/json marshals it. Objects allow additional
// properties, because later versions may add fields.
func SchemaDocument(name string, t reflect.Type) map[string]any {
	doc := schemaType(t)
	if properties, ok := doc["properties"].(map[string]any); ok && name != errorSchema {
		properties["schema"] = map[string]any{"const": name}
	}
	doc["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	doc["title"] = name
	return doc
}

func schemaType(typ reflect.Type) map[string]any {
	if typ == reflect.TypeFor[json.RawMessage]() {
		return map[string]any{}
	}
	if m := reflect.TypeFor[interface{ MarshalText() ([]byte, error) }](); typ.Implements(m) {
		return map[string]any{"type": "string"}
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return schemaType(typ.Elem())
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return map[string]any{"type": "integer"}
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Slice, reflect.Array:
		if typ.Elem().Kind() == reflect.Uint8 {
			return map[string]any{"type": "string", "contentEncoding": "base64"}
		}
		return map[string]any{"type": "array", "items": schemaType(typ.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schemaType(typ.Elem())}
	case reflect.Struct:
		return schemaStruct(typ)
	}
	return map[string]any{}
}

func schemaStruct(t reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, field := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if !field.IsExported() || name == "-" || field.Anonymous {
			continue
		}
		name = cmp.Or(name, field.Name)
		properties[name] = schemaType(field.Type)
		if !strings.Contains(options, "omit") {
			required = append(required, name)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required}
}
