package declared

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/ai/model/fields"
	"github.com/rye-build/rye/ai/parse"
	"github.com/rye-build/rye/ai/shape"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/portable"
)

// A Directive is the metadata of a directive: everything but its prompt.
type Directive struct {
	Name, Version, Description, Category, Author string

	Model       *value.Value // an object: tier, id, fallback, parallel …; nil without one
	Limits      *value.Value // normalized, see Limit; nil without limits
	Permissions []capability.Capability
	Tools       []Offer // offered to the model by name
	Hooks       []Hook
	Inputs      []Input
	Outputs     []Output
}

// An Offer is a tool that a directive's model may call with the tool's own schema.
type Offer struct {
	ID string
	At value.Pos
}

// A Hook is an action for an event, in the words of the file.
type Hook struct {
	Event, ID string // at least one of them
	Value     *value.Value
}

// An Input is a parameter of a directive.
type Input struct {
	Name, Type, Description string // Type is a JSON Schema type or "any"
	Required                bool
	Default                 *value.Value // of that type; nil without one
}

// An Output is a named result of a directive.
type Output struct{ Name, Type, Description string }

// ReadDirective reads a directive's declarations, and reports all problems of its fields.
func ReadDirective(r *fields.Reader) *Directive {
	reader := &reader{r}
	directive := &Directive{
		Name: reader.Text("name"), Version: reader.Version(), Description: reader.Text("description"),
		Category: reader.Text("category"),
		Author:   reader.Text("author"),
		Model:    reader.Object("model"), Limits: reader.limits(commonLimits), Permissions: reader.permissions(),
	}
	directive.Tools = reader.offers(directive)
	for i, v := range reader.objects("hooks") {
		directive.Hooks = append(directive.Hooks, reader.hook(fmt.Sprintf("hooks[%d]", i), v))
	}
	for i, val := range reader.objects("inputs") {
		path := fmt.Sprintf("inputs[%d]", i)
		in := Input{Type: "string"}
		in.Name, in.Description = reader.name(path, val), val.Get("description").String()
		if word := val.Get("type"); word != nil {
			in.Type = reader.typeWord(path, word)
		}
		in.Required = reader.flag(path+".required", val.Get("required"))
		in.Default = reader.defaultOf(path, in.Type, val.Get("default"))
		switch twice := slices.ContainsFunc(directive.Inputs, func(o Input) bool { return o.Name == in.Name }); {
		case twice:
			reader.Bad(val, path+".name", "the input %s is declared twice", fields.Single(in.Name))
		case in.Name != "":
			directive.Inputs = append(directive.Inputs, in)
		}
	}
	for i, v := range reader.objects("outputs") {
		path := fmt.Sprintf("outputs[%d]", i)
		out := Output{Type: "any"}
		out.Name, out.Description = reader.name(path, v), v.Get("description").String()
		if word := v.Get("type"); word != nil {
			out.Type = reader.typeWord(path, word)
		}
		switch twice := slices.ContainsFunc(directive.Outputs, func(o Output) bool { return o.Name == out.Name }); {
		case twice:
			reader.Bad(v, path+".name", "the output %s is declared twice", fields.Single(out.Name))
		case out.Name != "":
			directive.Outputs = append(directive.Outputs, out)
		}
	}
	return directive
}

// maxOffers bounds the tools offered to a model: each is part of every request.
const maxOffers = 100

// offers reads the ids of tools. The model may call only those that the permissions cover.
func (d *reader) offers(x *Directive) (list []Offer) {
	v := d.Fields.Get("tools")
	if v.IsNull() || v.Kind != value.List {
		d.List("tools", v)
		return nil
	}
	if len(v.Items) > maxOffers {
		d.Once(v, "tools", "Field 'tools' has %d entries, more than %d", len(v.Items), maxOffers)
		return nil
	}
	set, err := capability.NewSet(x.Permissions)
	for i, item := range v.Items {
		path := fmt.Sprintf("tools[%d]", i)
		need, bad := capability.For(capability.Execute, "tool", item.String())
		switch {
		case item.Kind != value.Text:
			d.Bad(item, path, "Field '%s' must be a string, got %s", path, fields.TypeName(item))
		case bad != nil || item.Text == "":
			d.Bad(item, path, "Field '%s' must be the id of a tool, got %s", path, fields.Single(item.Text))
		case slices.ContainsFunc(list, func(o Offer) bool { return o.ID == item.Text }):
			d.Bad(item, path, "the tool %s is offered twice", fields.Single(item.Text))
		default:
			if err == nil && d.Fields.Get("permissions") != nil && !set.Covers(need) {
				d.Warn(item, path, "the model can't call %s: no permission covers %s", item.Text, need)
			}
			list = append(list, Offer{item.Text, item.At})
		}
	}
	return list
}

// maxEntries bounds hooks, inputs and outputs of one item.
const maxEntries = 500

// objects returns the entries of a list of objects.
func (d *reader) objects(name string) []*value.Value {
	val := d.Fields.Get(name)
	if val.IsNull() {
		return nil
	}
	if val.Kind != value.List {
		d.Once(val, name, "Field '%s' must be an array, got %s", name, fields.TypeName(val))
		return nil
	}
	if len(val.Items) > maxEntries {
		d.Once(val, name, "Field '%s' has %d entries, more than %d", name, len(val.Items), maxEntries)
		return nil
	}
	list := make([]*value.Value, 0, len(val.Items))
	for i, item := range val.Items {
		if item.Kind != value.Map {
			d.Once(item, fmt.Sprintf("%s[%d]", name, i), "Field '%s[%d]' must be an object", name, i)
			continue
		}
		list = append(list, item)
	}
	return list
}

// name returns the name of an input or output.
func (d *reader) name(path string, v *value.Value) string {
	n := v.Get("name")
	switch {
	case n.IsNull() || n.Kind == value.Text && n.Text == "":
		d.Once(fields.OrElse(n, v), path, "Field '%s' missing required key 'name'", path)
	case n.Kind != value.Text:
		d.Bad(n, path+".name", "Field '%s.name' must be a string, got %s", path, fields.TypeName(n))
	case !isName(n.Text):
		d.Bad(n, path+".name", "Field '%s.name' must be a letter or underscore, then letters, digits, _ . -, got %s",
			path, fields.Single(n.Text))
	}
	return n.String()
}

func isName(s string) bool {
	return portable.Spelled(s, portable.Letters+"_", portable.Digits+".-", 100)
}

func (d *reader) typeWord(path string, v *value.Value) string {
	if t := fields.TypeOf(v.String()); t != "" {
		return t
	}
	d.Bad(v, path+".type",
		"Field '%s.type' must be one of string, integer, number, boolean, object, array, any, got %s%s",
		path, fields.Show(v), fields.Suggest(v.String(), fields.TypeWords()))
	return "any"
}

// flag reads a boolean, which XML attributes have as text.
func (d *reader) flag(path string, v *value.Value) bool {
	if v != nil && v.Kind == value.Text {
		switch strings.ToLower(v.Text) {
		case "true":
			return true
		case "false", "":
			return false
		}
	}
	return d.Bool(path, v)
}

// defaultOf returns the default of an input in its type. XML attributes have it as text.
func (d *reader) defaultOf(path, kind string, v *value.Value) *value.Value {
	if v.IsNull() {
		return nil
	}
	given := v
	if v.Kind == value.Text && kind != "string" && kind != "any" {
		v = retyped(v, kind)
	}
	if kind == "any" || v.Kind.String() == kind || kind == "number" && v.Kind == value.Int {
		return v
	}
	d.Bad(given, path+".default", "Field '%s.default' must be of the type %s, got %s", path, kind, fields.Show(given))
	return nil
}

// retyped converts a text to a kind; it returns the text itself if that fails.
func retyped(val *value.Value, kind string) *value.Value {
	text := strings.TrimSpace(val.Text)
	n, isNumber := fields.ParseDecimal(text)
	switch {
	case kind == "boolean" && (text == "true" || text == "false"):
		return &value.Value{Kind: value.Bool, At: val.At, Text: text}
	case kind == "integer" && isNumber:
		if _, ok := n.Scaled(0); ok {
			return &value.Value{Kind: value.Int, At: val.At, Text: n.String()}
		}
	case kind == "number" && isNumber:
		return &value.Value{Kind: value.Float, At: val.At, Text: text}
	case kind == "object" || kind == "array":
		if read, problems := parse.YAML([]byte(text), val.At); len(problems) == 0 && read != nil {
			return read
		}
	}
	return val
}

// hook checks the required parts of a hook; those who run it check the rest.
func (d *reader) hook(path string, val *value.Value) Hook {
	hook := Hook{Event: val.Get("event").String(), ID: val.Get("id").String(), Value: val}
	for i := range val.Map {
		entry := &val.Map[i]
		ok, what := true, ""
		switch entry.Key {
		case "event", "id":
			ok, what = entry.Value.Kind == value.Text || entry.Value.IsNull(), "a string"
		case "when", "condition":
			ok, what = entry.Value.Kind == value.Text || entry.Value.Kind == value.Map || entry.Value.IsNull(),
				"a string or an object"
		case "inputs", "params":
			ok, what = entry.Value.Kind == value.Map || entry.Value.IsNull() || entry.Value.Kind == value.Text &&
				entry.Value.Text == "", "an object"
		}
		if !ok {
			d.Bad(entry.Value, path+"."+entry.Key, "Field '%s.%s' must be %s, got %s", path, entry.Key, what,
				fields.TypeName(entry.Value))
		}
	}
	if hook.Event == "" && hook.ID == "" {
		d.Bad(val, path, "Field '%s' missing required key 'event' (or 'id')", path)
	}
	return hook
}

// permissions reads capability strings.
func (d *reader) permissions() []capability.Capability {
	val := d.Fields.Get("permissions")
	// running the directive makes a set of them
	if val != nil && val.Kind == value.List && len(val.Items) > capability.MaxSet {
		d.Once(val, "permissions", "Field 'permissions' has %d entries, more than %d", len(val.Items),
			capability.MaxSet)
		return nil
	}
	if val.IsNull() || val.Kind != value.List {
		d.List("permissions", val)
		return nil
	}
	var list []capability.Capability
	for i, item := range val.Items {
		path := fmt.Sprintf("permissions[%d]", i)
		if item.Kind != value.Text {
			d.Bad(item, path, "Field '%s' must be a string, got %s", path, fields.TypeName(item))
			continue
		}
		c, err := capability.Parse(item.Text)
		if err != nil {
			d.Bad(item, path, "Field '%s': %v", path, err)
			continue
		}
		list = append(list, c)
	}
	return list
}

// Canonical returns capabilities as sorted texts without duplicates.
func Canonical(list []capability.Capability) []string {
	var out []string
	for _, c := range list {
		out = append(out, c.String())
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Grants returns the grants that a directive asks for.
func (x *Directive) Grants() shape.Grants {
	return shape.Grants{Permissions: Canonical(x.Permissions), Limits: Plain(x.Limits)}
}

// Interface returns the schemas of the inputs and outputs. All outputs are required.
func (x *Directive) Interface() shape.Interface {
	var face shape.Interface
	if len(x.Inputs) > 0 {
		properties, required := map[string]any{}, []any{}
		for _, in := range x.Inputs {
			p := property(in.Type, in.Description)
			if in.Default != nil {
				p["default"] = Plain(in.Default)
			}
			if in.Required {
				required = append(required, in.Name)
			}
			properties[in.Name] = p
		}
		face.Input = object(properties, required)
	}
	if len(x.Outputs) > 0 {
		properties, required := map[string]any{}, []any{}
		for _, out := range x.Outputs {
			properties[out.Name] = property(out.Type, out.Description)
			required = append(required, out.Name)
		}
		face.Output = object(properties, required)
	}
	return face
}

// object makes the schema of an object. Its required list is sorted, because its order has no meaning.
func object(properties map[string]any, required []any) map[string]any {
	schema := map[string]any{"type": "object", "properties": properties}
	if len(required) > 0 {
		slices.SortFunc(required, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
		schema["required"] = required
	}
	return schema
}

func property(kind, description string) map[string]any {
	p := map[string]any{}
	if kind != "any" {
		p["type"] = kind
	}
	if description != "" {
		p["description"] = description
	}
	return p
}
