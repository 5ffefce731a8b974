package fields

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest"
)

// A Schema is the demands on the fields of an object. It doesn't change after it was read.
type Schema []demand

// Names returns the names of a schema's fields.
func (s Schema) Names() []string {
	names := make([]string, len(s))
	for i := range s {
		names[i] = s[i].name
	}
	return names
}

// Check reports all problems of an item's fields. name and category come from its path.
func (s Schema) Check(r *Report, name, category string, fields *value.Value) {
	check{r, name, category}.object("", fields, s)
}

// A demand is a schema's requirements for one field.
type demand struct {
	name          string
	kind          demandKind
	required      bool
	nullable      bool
	snake         bool // format: snake_case
	matchFilename bool
	matchPath     bool
	enum          []*value.Value
	min, max      *value.Value // numbers
	fields        Schema       // of an object
	items         *demand      // each element of an array
	keys          []string     // required keys of an object
}

type demandKind uint8

const (
	anyKind demandKind = iota
	stringKind
	semverKind
	integerKind
	numberKind
	booleanKind
	objectKind
	arrayKind
)

// A check compares the fields of one item with a schema.
type check struct {
	*Report
	file, category string
}

// object checks the fields of an object. path is the prefix of their names in messages; it ends with a dot unless it
// is empty.
func (c check) object(path string, fields *value.Value, demands Schema) {
	for i := range demands {
		d := &demands[i]
		name := path + d.name
		v := fields.Get(d.name)
		if c.missing(d, v) {
			c.Bad(OrElse(v, fields), name, "Missing required field: %s", name)
			continue
		}
		if v.IsNull() || v.Kind == value.Text && v.Text == "" && !d.matchPath {
			continue
		}
		c.value(name, v, d)
	}
}

// OrElse returns the value to locate a problem at: the field's, or the object if the field is absent.
func OrElse(v, object *value.Value) *value.Value {
	if v == nil {
		return object
	}
	return v
}

// missing reports whether a required field is absent or empty.
func (c check) missing(d *demand, v *value.Value) bool {
	switch {
	case !d.required:
		return false
	case v == nil:
		return true // null must be explicit
	case v.Kind == value.Null, v.Kind == value.List && len(v.Items) == 0:
		return !d.nullable
	case v.Kind == value.Text && v.Text == "":
		return !d.matchPath
	}
	return false
}

// value checks a value that exists.
func (c check) value(name string, val *value.Value, demand *demand) {
	if !c.kind(name, val, demand) {
		return
	}
	if demand.enum != nil && !contains(demand.enum, val) {
		list := make([]string, len(demand.enum))
		for i, e := range demand.enum {
			list[i] = Show(e)
		}
		c.Bad(val, name, "Field '%s' must be one of [%s], got %s", name, strings.Join(list, ", "), Show(val))
	}
	c.bounds(name, val, demand)
	switch text := val.String(); {
	case val.Kind != value.Text:
	case demand.snake && !isSnake(text):
		c.Bad(val, name,
			"Field '%s' must be snake_case (lowercase letters, numbers, underscores, starting with letter), got %s",
			name, Single(text))
	case demand.kind == semverKind && manifest.CheckVersion(text) != nil:
		c.Bad(val, name, "Field '%s' must be semver format (X.Y.Z), got %s", name, Single(text))
	}
	if demand.matchFilename && val.String() != c.file {
		c.Bad(val, name, "Field '%s' value %s must match filename %s", name, Show(val), Single(c.file))
	}
	if demand.matchPath && val.String() != c.category {
		c.Bad(val, name, "Field '%s' value %s must match path category %s", name, Show(val), Single(c.category))
	}
}

// kind checks the type and the content of a value.
func (c check) kind(name string, val *value.Value, demand *demand) bool {
	var ok bool
	what := ""
	switch demand.kind {
	case stringKind:
		ok, what = val.Kind == value.Text, "a string"
	case semverKind:
		ok, what = val.Kind == value.Text, "a string (semver)"
	case integerKind:
		ok, what = val.Kind == value.Int, "an integer"
	case numberKind:
		ok, what = val.Kind == value.Int || val.Kind == value.Float, "a number"
	case booleanKind:
		ok, what = val.Kind == value.Bool, "a boolean"
	case objectKind:
		ok, what = val.Kind == value.Map, "an object"
	case arrayKind:
		ok, what = val.Kind == value.List, "an array"
	default:
		ok = true
	}
	if !ok {
		if strings.HasSuffix(name, "]") {
			c.Bad(val, name, "Field '%s' must be %s", name, what)
			return false
		}
		c.Bad(val, name, "Field '%s' must be %s, got %s", name, what, TypeName(val))
		return false
	}
	for _, key := range demand.keys {
		if val.Get(key) == nil {
			c.Bad(val, name, "Field '%s' missing required key '%s'", name, key)
		}
	}
	if demand.fields != nil {
		c.object(name+".", val, demand.fields)
	}
	if demand.items != nil {
		for i, item := range val.Items {
			c.value(fmt.Sprintf("%s[%d]", name, i), item, demand.items)
		}
	}
	return true
}

// bounds checks the range of a number.
func (c check) bounds(name string, val *value.Value, demand *demand) {
	if val.Kind != value.Int && val.Kind != value.Float || demand.min == nil && demand.max == nil {
		return
	}
	n, ok := ParseDecimal(val.Text)
	if !ok {
		c.Bad(val, name, "Field '%s' is a number that is out of range: %s", name, Clip(val.Text))
		return
	}
	if demand.min != nil {
		if least, _ := ParseDecimal(demand.min.Text); n.Compare(least) < 0 {
			c.Bad(val, name, "Field '%s' must be >= %s, got %s", name, demand.min.Text, Clip(val.Text))
		}
	}
	if demand.max != nil {
		if most, _ := ParseDecimal(demand.max.Text); n.Compare(most) > 0 {
			c.Bad(val, name, "Field '%s' must be <= %s, got %s", name, demand.max.Text, Clip(val.Text))
		}
	}
}

// contains reports whether a scalar is one of a list.
func contains(list []*value.Value, v *value.Value) bool {
	return v.Kind != value.List && v.Kind != value.Map &&
		slices.ContainsFunc(list, func(e *value.Value) bool { return e.Kind == v.Kind && e.Text == v.Text })
}

func isSnake(s string) bool { return portable.Spelled(s, portable.Lower, portable.Digits+"_", len(s)) }
