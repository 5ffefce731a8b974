package fields

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/manifest"
)

// A Reader reads the fields of one item and checks their types.
type Reader struct {
	*Report
	Fields *value.Value
}

// Text returns a text field, or "".
func (d *Reader) Text(name string) string {
	v := d.Fields.Get(name)
	if !v.IsNull() && v.Kind != value.Text {
		d.Once(v, name, "Field '%s' must be a string, got %s", name, TypeName(v))
	}
	return v.String()
}

// Version returns the version, which must be valid.
func (d *Reader) Version() string {
	v := d.Fields.Get("version")
	switch {
	case v.IsNull():
	case v.Kind != value.Text:
		d.Once(v, "version", "Field 'version' must be a string (semver), got %s", TypeName(v))
	case v.Text != "" && manifest.CheckVersion(v.Text) != nil:
		d.Once(v, "version", "Field 'version' must be semver format (X.Y.Z), got %s", Single(v.Text))
	}
	return v.String()
}

// Words returns a list of texts. A single text is split at commas.
func (d *Reader) Words(name string) []string {
	v := d.Fields.Get(name)
	if v != nil && v.Kind == value.Text {
		var list []string
		for word := range strings.SplitSeq(v.Text, ",") {
			if word = strings.TrimSpace(word); word != "" {
				list = append(list, word)
			}
		}
		return list
	}
	return d.List(name, v)
}

// List returns the texts of a list.
func (d *Reader) List(name string, v *value.Value) []string {
	if v.IsNull() {
		return nil
	}
	if v.Kind != value.List {
		d.Once(v, name, "Field '%s' must be an array, got %s", name, TypeName(v))
		return nil
	}
	list := make([]string, 0, len(v.Items))
	for i, item := range v.Items {
		if item.Kind != value.Text {
			d.Once(item, fmt.Sprintf("%s[%d]", name, i), "Field '%s[%d]' must be a string, got %s", name, i,
				TypeName(item))
			continue
		}
		list = append(list, item.Text)
	}
	return list
}

// Bool returns a boolean field; false if it is absent.
func (d *Reader) Bool(name string, v *value.Value) bool {
	if v.IsNull() {
		return false
	}
	if v.Kind != value.Bool {
		d.Once(v, name, "Field '%s' must be a boolean, got %s", name, TypeName(v))
	}
	return v.Kind == value.Bool && v.Text == "true"
}

// Object returns a field that is an object, or nil.
func (d *Reader) Object(name string) *value.Value {
	v := d.Fields.Get(name)
	if v.IsNull() {
		return nil
	}
	if v.Kind != value.Map {
		d.Once(v, name, "Field '%s' must be an object, got %s", name, TypeName(v))
		return nil
	}
	return v
}

// Numbers reports every number about which JSON readers disagree, at any depth: hashed values must mean the same to
// all.
func (d *Reader) Numbers(path string, val *value.Value) {
	switch val.Kind {
	case value.Int, value.Float:
		if _, err := val.JSON(); err != nil {
			d.Bad(val, path, "Field '%s' is a number that is out of range: %s", path, Clip(val.Text))
		}
	case value.List:
		for i, item := range val.Items {
			if item.Kind != value.Text { // skips building the paths of texts, the most frequent values
				d.Numbers(fmt.Sprintf("%s[%d]", path, i), item)
			}
		}
	case value.Map:
		for i := range val.Map {
			e := &val.Map[i]
			switch {
			case e.Value.Kind == value.Text || e.Value.Kind == value.Bool:
			case path == "":
				d.Numbers(e.Key, e.Value)
			default:
				d.Numbers(path+"."+e.Key, e.Value)
			}
		}
	}
}

// Unknown reports unknown entries of an object, with suggestions.
func (d *Reader) Unknown(path string, v *value.Value, known ...string) {
	for i := range v.Map {
		e := &v.Map[i]
		if !slices.Contains(known, e.Key) && !d.Full() {
			name := path + "." + Clip(e.Key)
			d.Add(e.At, false, name, "Field '%s' is unknown%s", name, Suggest(e.Key, known))
		}
	}
}

// IsObject reports whether the value is an object; any other value is a problem.
func (d *Reader) IsObject(path string, v *value.Value) bool {
	if !v.IsNull() && v.Kind != value.Map {
		d.Bad(v, path, "Field '%s' must be an object, got %s", path, TypeName(v))
	}
	return v != nil && v.Kind == value.Map
}

// String reports a value that isn't a text.
func (d *Reader) String(path string, v *value.Value) {
	if !v.IsNull() && v.Kind != value.Text {
		d.Bad(v, path, "Field '%s' must be a string, got %s", path, TypeName(v))
	}
}

// OneOf reports a value that is none of the words.
func (d *Reader) OneOf(path string, v *value.Value, words ...string) {
	if v.IsNull() || v.Kind == value.Text && slices.Contains(words, v.Text) {
		return
	}
	d.Bad(v, path, "Field '%s' must be one of ['%s'], got %s%s", path, strings.Join(words, "', '"), Show(v),
		Suggest(v.String(), words))
}
