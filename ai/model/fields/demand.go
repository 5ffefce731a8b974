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
func (c check) value(name string, v *value.Value, d *demand) {
	if !c.kind(name, v, d) {
		return
	}
	if d.enum != nil && !contains(d.enum, v) {
		list := make([]string, len(d.enum))
		for i, e := range d.enum {
			list[i] = Show(e)
		}
		c.Bad(v, name, "Field '%s' must be one of [%s], got %s", name, strings.Join(list, ", "), Show(v))
	}
	c.bounds(name, v, d)
	switch text := v.String(); {
	case v.Kind != value.Text:
	case d.snake && !isSnake(text):
		c.Bad(v, name,
			"Field '%s' must be snake_case (lowercase letters, numbers, underscores, starting with letter), got %s",
			name, Single(text))
	case d.kind == semverKind && manifest.CheckVersion(text) != nil:
		c.Bad(v, name, "Field '%s' must be semver format (X.Y.Z), got %s", name, Single(text))
	}
	if d.matchFilename && v.String() != c.file {
		c.Bad(v, name, "Field '%s' value %s must match filename %s", name, Show(v), Single(c.file))
	}
	if d.matchPath && v.String() != c.category {
		c.Bad(v, name, "Field '%s' value %s must match path category %s", name, Show(v), Single(c.category))
	}
}

// kind checks the type and the content of a value.
func (c check) kind(name string, v *value.Value, d *demand) bool {
	var ok bool
	what := ""
	switch d.kind {
	case stringKind:
		ok, what = v.Kind == value.Text, "a string"
	case semverKind:
		ok, what = v.Kind == value.Text, "a string (semver)"
	case integerKind:
		ok, what = v.Kind == value.Int, "an integer"
	case numberKind:
		ok, what = v.Kind == value.Int || v.Kind == value.Float, "a number"
	case booleanKind:
		ok, what = v.Kind == value.Bool, "a boolean"
	case objectKind:
		ok, what = v.Kind == value.Map, "an object"
	case arrayKind:
		ok, what = v.Kind == value.List, "an array"
	default:
		ok = true
	}
	if !ok {
		if strings.HasSuffix(name, "]") {
			c.Bad(v, name, "Field '%s' must be %s", name, what)
			return false
		}
		c.Bad(v, name, "Field '%s' must be %s, got %s", name, what, TypeName(v))
		return false
	}
	for _, key := range d.keys {
		if v.Get(key) == nil {
			c.Bad(v, name, "Field '%s' missing required key '%s'", name, key)
		}
	}
	if d.fields != nil {
		c.object(name+".", v, d.fields)
	}
	if d.items != nil {
		for i, item := range v.Items {
			c.value(fmt.Sprintf("%s[%d]", name, i), item, d.items)
		}
	}
	return true
}

// bounds checks the range of a number.
func (c check) bounds(name string, v *value.Value, d *demand) {
	if v.Kind != value.Int && v.Kind != value.Float || d.min == nil && d.max == nil {
		return
	}
	n, ok := ParseDecimal(v.Text)
	if !ok {
		c.Bad(v, name, "Field '%s' is a number that is out of range: %s", name, Clip(v.Text))
		return
	}
	if d.min != nil {
		if least, _ := ParseDecimal(d.min.Text); n.Compare(least) < 0 {
			c.Bad(v, name, "Field '%s' must be >= %s, got %s", name, d.min.Text, Clip(v.Text))
		}
	}
	if d.max != nil {
		if most, _ := ParseDecimal(d.max.Text); n.Compare(most) > 0 {
			c.Bad(v, name, "Field '%s' must be <= %s, got %s", name, d.max.Text, Clip(v.Text))
		}
	}
}

// contains reports whether a scalar is one of a list.
func contains(list []*value.Value, v *value.Value) bool {
	return v.Kind != value.List && v.Kind != value.Map &&
		slices.ContainsFunc(list, func(e *value.Value) bool { return e.Kind == v.Kind && e.Text == v.Text })
}

func isSnake(s string) bool { return portable.Spelled(s, portable.Lower, portable.Digits+"_", len(s)) }
