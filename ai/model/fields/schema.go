package fields

import (
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/value"
)

var demandWords = []string{
	"description", "enum", "fields", "format", "items", "keys", "match_filename", "match_path", "max", "maximum",
	"min",
	"minimum", "nullable", "properties", "required", "required_keys", "schema", "type",
}

// demandNames are the types of a schema, by demandKind.
var demandNames = []string{"any", "string", "semver", "integer", "number", "boolean", "object", "array"}

const (
	maxDemands = 200
	maxDepth   = 32
)

// Schema reads a schema: an object with the demands of each field. It drops demands on the form of the fields in
// kernel.
func (x *Reader) Schema(path string, v *value.Value, kernel ...string) Schema {
	s := x.demands(path, v, 0)
	for i, d := range s {
		if slices.Contains(kernel, d.name) {
			s[i] = demand{name: d.name, required: d.required, nullable: d.nullable}
		}
	}
	return s
}

// demands reads the demands on the fields of an object.
func (x *Reader) demands(path string, v *value.Value, depth int) Schema {
	if len(v.Map) > maxDemands || depth > maxDepth {
		x.Bad(v, path, "Field '%s' has more than %d entries, or is deeper than %d", path, maxDemands, maxDepth)
		return nil
	}
	list := make(Schema, 0, len(v.Map))
	for i := range v.Map {
		e := &v.Map[i]
		field := path + "." + Clip(e.Key)
		if !x.IsObject(field, e.Value) {
			x.Once(e.Value, field, "Field '%s' must be an object, got %s", field, TypeName(e.Value))
			continue
		}
		d := x.demand(field, e.Value, depth)
		d.name = e.Key
		d.required = x.Bool(field+".required", e.Value.Get("required"))
		list = append(list, d)
	}
	return list
}

// demand reads the demands on one value.
func (x *Reader) demand(field string, val *value.Value, depth int) demand {
	x.Unknown(field, val, demandWords...)
	var wanted demand
	wanted.nullable = x.Bool(field+".nullable", val.Get("nullable"))
	wanted.matchFilename = x.Bool(field+".match_filename", val.Get("match_filename"))
	wanted.matchPath = x.Bool(field+".match_path", val.Get("match_path"))
	wanted.min = x.limitOf(field, val, "min", "minimum")
	wanted.max = x.limitOf(field, val, "max", "maximum")
	x.demandType(&wanted, field, val.Get("type"))
	if f := val.Get("format"); !f.IsNull() {
		x.OneOf(field+".format", f, "snake_case", "semver")
		wanted.snake = f.String() == "snake_case"
		if f.String() == "semver" {
			wanted.kind = semverKind
		}
	}
	if e := val.Get("enum"); !e.IsNull() {
		if wanted.enum = e.Items; len(wanted.enum) == 0 {
			x.Bad(e, field+".enum", "Field '%s.enum' must be a list of values, got %s", field, Show(e))
		}
	}
	if f := firstOf(val, "properties", "fields", "schema"); !f.IsNull() && x.IsObject(field+".properties", f) {
		wanted.fields = x.demands(field+".properties", f, depth+1)
	}
	wanted.keys = x.List(field+".keys", firstOf(val, "keys", "required_keys"))
	x.demandItems(&wanted, field, val.Get("items"), depth)
	if wanted.kind == arrayKind && wanted.keys != nil { // written at the array, meant for its elements
		if wanted.items == nil {
			wanted.items = &demand{kind: objectKind}
		}
		wanted.items.keys, wanted.keys = append(wanted.items.keys, wanted.keys...), nil
	}
	return wanted
}

func (x *Reader) demandType(demand *demand, field string, val *value.Value) {
	if val.IsNull() {
		return
	}
	word := val.String()
	if t := TypeOf(word); t != "" {
		word = t
	}
	at := slices.Index(demandNames, word)
	if at < 0 {
		x.Bad(val, field+".type", "Field '%s.type' must be one of ['%s'], got %s%s", field,
			strings.Join(demandNames, "', '"), Show(val), Suggest(word, demandNames))
		return
	}
	demand.kind = demandKind(at)
}

// demandItems reads the demands on the elements of an array: a type's name, or an object.
func (x *Reader) demandItems(wanted *demand, field string, val *value.Value, depth int) {
	field += ".items"
	switch {
	case val.IsNull():
	case val.Kind == value.Text:
		wanted.items = &demand{}
		x.demandType(wanted.items, field, val)
	case depth >= maxDepth:
		x.Bad(val, field, "Field '%s' is deeper than %d", field, maxDepth)
	case x.IsObject(field, val):
		item := x.demand(field, val, depth+1)
		switch required := val.Get("required"); {
		case required != nil && required.Kind == value.List:
			item.keys = append(item.keys, x.List(field+".required", required)...)
		default:
			x.Bool(field+".required", required)
		}
		wanted.items = &item
	}
}

// limitOf reads a bound under any of its names.
func (x *Reader) limitOf(field string, v *value.Value, names ...string) *value.Value {
	n := firstOf(v, names...)
	if n.IsNull() {
		return nil
	}
	if _, ok := ParseDecimal(n.Text); !ok || n.Kind != value.Int && n.Kind != value.Float {
		x.Bad(n, field+"."+names[0], "Field '%s.%s' must be a number, got %s", field, names[0], Show(n))
		return nil
	}
	return n
}

// firstOf returns the first entry of an object that exists.
func firstOf(v *value.Value, names ...string) *value.Value {
	for _, name := range names {
		if found := v.Get(name); found != nil {
			return found
		}
	}
	return nil
}

// TypeWords returns all names of the types of inputs and outputs.
func TypeWords() []string {
	return []string{"string", "str", "text", "integer", "int", "number", "float", "boolean", "bool", "object", "dict",
		"array", "list", "any"}
}

// TypeOf returns the type of a word, or "".
func TypeOf(word string) string {
	switch strings.ToLower(word) {
	case "string", "str", "text":
		return "string"
	case "integer", "int":
		return "integer"
	case "number", "float":
		return "number"
	case "boolean", "bool":
		return "boolean"
	case "object", "dict":
		return "object"
	case "array", "list":
		return "array"
	case "any":
		return "any"
	}
	return ""
}
