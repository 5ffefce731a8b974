package transcript

import (
	_ "embed"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/manifest/jcs"
)

//go:embed schema.json
var text []byte

// SchemaText returns the JSON Schema of a line. Its $defs have the schema of each type's payload under the name of
// the type.
func SchemaText() []byte { return slices.Clone(text) }

// schemas has the schemas of payloads by type.
var schemas = sync.OnceValue(func() map[string]*params.Schema {
	v, err := jcs.Parse(text)
	doc := v.(map[string]any)
	all := map[string]*params.Schema{}
	for _, name := range doc["properties"].(map[string]any)["type"].(map[string]any)["enum"].([]any) {
		s, bad := params.Compile(map[string]any{"$ref": "#/$defs/" + name.(string), "$defs": doc["$defs"]})
		all[name.(string)], err = s, errors.Join(err, bad)
	}
	if err != nil {
		panic(err) // a test covers it
	}
	return all
})

// SchemaTypes returns the types of events.
func SchemaTypes() []string { return slices.Sorted(maps.Keys(schemas())) }

// CheckSchema refuses a payload that doesn't fit the schema of its type.
func CheckSchema(t string, v any) error {
	s := schemas()[t]
	if s == nil {
		return fault.New(fault.Validation, "unknown type of event %.100q", t)
	}
	if err := s.Check(v); err != nil {
		return fault.Wrap(err, "%s: %v", t, err)
	}
	return nil
}
