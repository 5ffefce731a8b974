package declared

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/model/fields"
	"github.com/rye-build/rye/ai/value"
)

// The allowed entries of a tool's objects. The kernel acts on anchors and their dependencies, so an unknown entry is
// a problem: it would promise something that doesn't happen.

// anchor reads the place of a tool's files.
func (d *reader) anchor() *value.Value {
	val := d.Object("anchor")
	if val == nil {
		return nil
	}
	d.Unknown("anchor", val, "cwd", "enabled", "env_paths", "lib", "markers_any", "mode", "root")
	d.Bool("anchor.enabled", val.Get("enabled"))
	d.OneOf("anchor.mode", val.Get("mode"), "auto", "always", "never")
	d.OneOf("anchor.root", val.Get("root"), "tool_dir", "tool_parent", "project_path")
	d.List("anchor.markers_any", val.Get("markers_any"))
	d.String("anchor.lib", val.Get("lib"))
	d.String("anchor.cwd", val.Get("cwd"))
	paths := val.Get("env_paths")
	if d.IsObject("anchor.env_paths", paths) {
		for i := range paths.Map {
			e := &paths.Map[i]
			path := "anchor.env_paths." + fields.Clip(e.Key)
			if d.IsObject(path, e.Value) {
				d.Unknown(path, e.Value, "append", "prepend")
				d.List(path+".prepend", e.Value.Get("prepend"))
				d.List(path+".append", e.Value.Get("append"))
			}
		}
	}
	return val
}

// verifyDeps checks the form of a rule in existing tools. It has no effect: a signature covers every file of the
// tree.
func (d *reader) verifyDeps() {
	v := d.Object("verify_deps")
	if v == nil {
		return
	}
	d.Unknown("verify_deps", v, "enabled", "exclude_dirs", "extensions", "recursive", "scope")
	d.Bool("verify_deps.enabled", v.Get("enabled"))
	d.Bool("verify_deps.recursive", v.Get("recursive"))
	d.OneOf("verify_deps.scope", v.Get("scope"), "anchor", "tool_dir", "tool_siblings", "tool_file")
	d.List("verify_deps.extensions", v.Get("extensions"))
	d.List("verify_deps.exclude_dirs", v.Get("exclude_dirs"))
}

// answer reads the name of the function in the tool's own file that makes its result.
func (d *reader) answer() string {
	v := d.Fields.Get("answer")
	name := d.Text("answer")
	if name != "" && (!isName(name) || strings.ContainsAny(name, ".-")) {
		d.Bad(v, "answer", "Field 'answer' must be the name of a function, got %s", fields.Show(v))
		return ""
	}
	return name
}

// envConfig checks the environment of a tool. The runtime decides how to find an interpreter.
func (d *reader) envConfig(v *value.Value) {
	if v == nil {
		return
	}
	if in := v.Get("interpreter"); d.IsObject("env_config.interpreter", in) {
		d.String("env_config.interpreter.type", in.Get("type"))
		d.String("env_config.interpreter.var", in.Get("var"))
		d.String("env_config.interpreter.fallback", in.Get("fallback"))
	}
	if env := v.Get("env"); d.IsObject("env_config.env", env) {
		for i := range env.Map {
			e := &env.Map[i]
			if path := "env_config.env." + fields.Clip(e.Key); e.Value.Kind == value.List ||
				e.Value.Kind == value.Map {
				d.Bad(e.Value, path, "Field '%s' must be a string, got %s", path, fields.TypeName(e.Value))
			}
		}
	}
}

// schema returns a field that is a JSON Schema.
func (d *reader) schema(name string) *value.Value {
	v := d.Object(name)
	if v != nil {
		d.subschema(name, v, 0)
	}
	return v
}

// maxSchema bounds the nesting of schemas.
const maxSchema = 32

var schemaTypes = []string{"string", "integer", "number", "boolean", "object", "array", "null"}

// subschema checks that a value can be a schema: known keywords must have values of their types. The validator checks
// the others.
func (d *reader) subschema(path string, val *value.Value, depth int) {
	switch {
	case val.Kind == value.Bool && depth > 0:
		return
	case val.Kind != value.Map:
		d.Bad(val, path, "Field '%s' must be a schema, got %s", path, fields.TypeName(val))
		return
	case depth == maxSchema:
		d.Bad(val, path, "Field '%s' is deeper than %d schemas in each other", path, maxSchema)
		return
	}
	for i := range val.Map {
		key, sub := val.Map[i].Key, val.Map[i].Value
		name := path + "." + fields.Clip(key)
		switch key {
		case "type":
			d.schemaType(name, sub)
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
			if sub.Kind != value.Map {
				d.Bad(sub, name, "Field '%s' must be an object, got %s", name, fields.TypeName(sub))
			}
			for j := range sub.Map {
				d.subschema(name+"."+fields.Clip(sub.Map[j].Key), sub.Map[j].Value, depth+1)
			}
		case "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else", "unevaluatedProperties":
			d.subschema(name, sub, depth+1)
		case "anyOf", "oneOf", "allOf", "prefixItems", "items":
			if key == "items" && sub.Kind != value.List {
				d.subschema(name, sub, depth+1)
				continue
			}
			if sub.Kind != value.List || key != "items" && len(sub.Items) == 0 {
				d.Bad(sub, name, "Field '%s' must be a list of schemas, got %s", name, fields.Show(sub))
			}
			for j, item := range sub.Items {
				d.subschema(fmt.Sprintf("%s[%d]", name, j), item, depth+1)
			}
		case "enum":
			if sub.Kind != value.List || len(sub.Items) == 0 {
				d.Bad(sub, name, "Field '%s' must be a list of values, got %s", name, fields.Show(sub))
			}
		case "required":
			if sub.Kind == value.Bool { // of a property, as in an early draft
				d.Warn(sub, name, "Field '%s' is not a list of names and means nothing", name)
				continue
			}
			d.List(name, sub)
		default:
			d.keyword(name, key, sub)
		}
	}
	d.ordered(path, val, "minimum", "maximum")
	d.ordered(path, val, "minLength", "maxLength")
	d.ordered(path, val, "minItems", "maxItems")
}

// keyword checks the keywords whose values are scalars.
func (d *reader) keyword(name, key string, val *value.Value) {
	ok, what := true, ""
	switch key {
	case "minimum", "maximum", "multipleOf":
		ok, what = val.Kind == value.Int || val.Kind == value.Float, "a number"
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
		n, isInt := val.Int()
		ok, what = isInt && n >= 0, "an integer from 0 on"
	case "uniqueItems", "readOnly", "writeOnly", "deprecated":
		ok, what = val.Kind == value.Bool, "a boolean"
	case "pattern", "format", "title", "description", "$ref", "$schema", "$id":
		ok, what = val.Kind == value.Text, "a string"
	}
	if !ok {
		d.Bad(val, name, "Field '%s' must be %s, got %s", name, what, fields.Show(val))
	}
}

// schemaType checks the type, or list of types, of a schema.
func (d *reader) schemaType(name string, v *value.Value) {
	list := []*value.Value{v}
	if v.Kind == value.List {
		list = v.Items
	}
	if len(list) == 0 {
		d.Bad(v, name, "Field '%s' must name a type", name)
	}
	for _, t := range list {
		if !slices.Contains(schemaTypes, t.String()) {
			d.Bad(t, name, "Field '%s' must be one of ['%s'], got %s%s", name, strings.Join(schemaTypes, "', '"),
				fields.Show(t), fields.Suggest(t.String(), schemaTypes))
		}
	}
}

// ordered checks that a bound isn't above the one that belongs to it.
func (d *reader) ordered(path string, v *value.Value, least, most string) {
	a, b := v.Get(least), v.Get(most)
	if a == nil || b == nil {
		return
	}
	x, okX := fields.ParseDecimal(a.Text)
	y, okY := fields.ParseDecimal(b.Text)
	if okX && okY && x.Compare(y) > 0 {
		d.Bad(b, path+"."+most, "Field '%s.%s' must be >= %s, got %s", path, most, fields.Clip(a.Text), fields.Show(b))
	}
}
