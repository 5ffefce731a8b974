// Package merge merges the files of one config.
//
// config:NAME is the file of that name in every space. The files are merged from the lowest space to the highest:
// the library's and a bundle's, the user's, the project's.
//
//	below                                  above                          together
//	limits: {turns: 25, spend: 1.0}        limits: {turns: 5}             limits: {turns: 5, spend: 1.0}
//	limits: {turns: 25, spend: 1.0}        limits: {spend: null}          limits: {turns: 25}
//	hooks: [{id: a, x: 1}, {id: b}]        hooks: [{id: a}, {id: c}]      hooks: [{id: a}, {id: b}, {id: c}]
//	names: [a, b]                          names: [c]                     names: [c]
//
// Maps are merged entry by entry at every depth. A null above removes the entry. Lists whose first element below
// has an id are merged by ids: an element above replaces the whole element with its id, or is appended; an element
// without an id and a repeated id are errors. For anything else, the value above replaces the one below.
//
// A file may choose the config below it:
//
//	extends: none     the file replaces all files below it
//	extends: NAME     the merged config:NAME is merged over the files below, then the file over both
//
// A config that extends itself, even indirectly, is refused, and so are more than 10 steps.
package merge

import (
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
)

// A File is one file of a config.
type File struct {
	Space  string // its label
	Fields *value.Value
}

// Extended returns the merged config of the last name; each name extends the next.
type Extended func(names []string) (*value.Value, error)

// An Error is the error of one file, by its index.
type Error struct {
	File int
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Extends is the entry that names the config to merge below a file, or "none".
const Extends = "extends"

const (
	extendsNone = "none"
	maxExtends  = 10 // in a row
)

// Layers merges the files of one config, the lowest first. names are the configs that led here, this one last. from
// is the space of each entry. An error is an *Error.
func Layers(files []File, names []string, extended Extended) (all *value.Value, from map[string]string, err error) {
	from = map[string]string{}
	for i, file := range files {
		layers := []*value.Value{file.Fields}
		if e := file.Fields.Get(Extends); !e.IsNull() {
			if e.String() == extendsNone {
				all = nil
			} else {
				other, err := extend(e.String(), names, extended)
				if err != nil {
					return nil, nil, &Error{i, fault.Wrap(err, "line %d: extends: %v", e.At.Line, err)}
				}
				layers = []*value.Value{other, file.Fields}
			}
		}
		for _, l := range layers {
			if all, err = Config(all, l); err != nil {
				return nil, nil, &Error{i, err}
			}
			for _, e := range l.Map {
				from[e.Key] = file.Space
			}
		}
	}
	all = without(all, Extends)
	for key := range from {
		if all.Get(key) == nil {
			delete(from, key)
		}
	}
	return all, from, nil
}

// extend returns the merged config of another name.
func extend(name string, names []string, extended Extended) (*value.Value, error) {
	if _, err := model.ParseRef("config:" + name); err != nil {
		return nil, fault.New(fault.Config, "expected none or the name of a config")
	}
	longer := append(slices.Clone(names), name)
	switch {
	case names[len(names)-1] == name:
		return nil, fault.New(fault.Config, "config:%s extends itself: files of one name are merged without it", name)
	case slices.Contains(names, name):
		return nil, fault.New(fault.Config, "config extends itself: %s", strings.Join(longer, ", "))
	case len(longer) > maxExtends:
		return nil, fault.New(fault.Config, "more than %d configs extend each other", maxExtends)
	}
	return extended(longer)
}

// without returns a map without an entry.
func without(v *value.Value, key string) *value.Value {
	if v.Get(key) == nil {
		return v
	}
	rest := *v
	rest.Map = slices.DeleteFunc(slices.Clone(v.Map), func(e value.Entry) bool { return e.Key == key })
	return &rest
}

// Config merges above over below and changes neither. The package comment has the rules.
func Config(below, above *value.Value) (*value.Value, error) {
	switch {
	case below == nil || below.Kind != above.Kind:
		return above, nil
	case above.Kind == value.List && len(below.Items) > 0 && hasID(below.Items[0]):
		return mergeList(below, above)
	case above.Kind != value.Map:
		return above, nil
	}
	both := &value.Value{Kind: value.Map, At: above.At, Map: slices.Clone(below.Map)}
	where := make(map[string]int, len(both.Map))
	for i, e := range both.Map {
		where[e.Key] = i
	}
	var err error
	for _, entry := range above.Map {
		i, ok := where[entry.Key]
		switch {
		case !ok:
			both.Map = append(both.Map, entry)
			continue
		case !entry.Value.IsNull():
			if entry.Value, err = Config(both.Map[i].Value, entry.Value); err != nil {
				return nil, err
			}
		}
		both.Map[i] = entry
	}
	both.Map = slices.DeleteFunc(both.Map, func(e value.Entry) bool { return e.Value.IsNull() })
	return both, nil
}

func hasID(v *value.Value) bool { return v.Get("id").String() != "" }

// mergeList merges lists of elements with ids.
func mergeList(below, above *value.Value) (*value.Value, error) {
	both := &value.Value{Kind: value.List, At: above.At, Items: slices.Clone(below.Items)}
	where, mine := map[string]int{}, map[string]bool{}
	for i, v := range both.Items {
		where[v.Get("id").String()] = i
	}
	for _, val := range above.Items {
		id := val.Get("id").String()
		switch {
		case id == "":
			return nil, &value.Problem{At: val.At,
				Message: "the element has no id: elements of this list replace those with the same id"}
		case mine[id]:
			return nil, &value.Problem{At: val.At, Message: "the id " + id + " is used twice in this list"}
		}
		mine[id] = true
		if i, ok := where[id]; ok {
			both.Items[i] = val
		} else {
			both.Items = append(both.Items, val)
		}
	}
	return both, nil
}
