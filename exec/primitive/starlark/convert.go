package starlark

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"unicode/utf8"

	star "go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"github.com/rye-build/rye/manifest/jcs"
)

// The limits of a result, chosen so that package jcs still reads it inside an envelope.
const (
	maxDepth  = jcs.MaxDepth - 4
	maxValues = 1<<18 - 100
	maxWhole  = 1<<53 - 1
)

// FromJSON converts a JSON value.
func FromJSON(val any) (star.Value, error) {
	switch data := val.(type) {
	case nil:
		return star.None, nil
	case bool:
		return star.Bool(data), nil
	case int64:
		return star.MakeInt64(data), nil
	case float64:
		// JSON has only one kind of number. Integers are for counting and indexing.
		if data == math.Trunc(data) && math.Abs(data) <= maxWhole {
			return star.MakeInt64(int64(data)), nil
		}
		return star.Float(data), nil
	case string:
		return star.String(data), nil
	case []any:
		list := make([]star.Value, len(data))
		for i := range data {
			var err error
			if list[i], err = FromJSON(data[i]); err != nil {
				return nil, err
			}
		}
		return star.NewList(list), nil
	case map[string]any:
		dict := star.NewDict(len(data))
		for _, k := range slices.Sorted(maps.Keys(data)) {
			e, err := FromJSON(data[k])
			if err == nil {
				err = dict.SetKey(star.String(k), e)
			}
			if err != nil {
				return nil, err
			}
		}
		return dict, nil
	}
	return nil, fmt.Errorf("%T is not a JSON value", val)
}

// ToJSON converts a value to one of JSON's.
func ToJSON(v star.Value) (any, error) { return new(converter).result(v, 1) }

// A converter counts the values of a result.
type converter struct{ values int }

// result converts a value to one of JSON's.
func (r *converter) result(value star.Value, depth int) (any, error) {
	r.values++
	switch {
	case depth > maxDepth:
		return nil, fmt.Errorf("the result is nested more than %d levels deep", maxDepth)
	case r.values > maxValues:
		return nil, fmt.Errorf("the result has more than %d values", maxValues)
	}
	switch noneType := value.(type) {
	case star.NoneType:
		return nil, nil
	case star.Bool:
		return bool(noneType), nil
	case star.Int:
		if n, ok := noneType.Int64(); ok && n <= maxWhole && n >= -maxWhole {
			return n, nil
		}
		return nil, errors.New(
			"the result contains an integer beyond 2^53, which JSON can't hold: convert it with str()")
	case star.Float:
		if f := float64(noneType); !math.IsInf(f, 0) && !math.IsNaN(f) {
			return f, nil
		}
		return nil, fmt.Errorf("the result contains %v, which is not a number in JSON", noneType)
	case star.String:
		if !utf8.ValidString(string(noneType)) {
			return nil, errors.New("the result contains a string that is not valid UTF-8")
		}
		return string(noneType), nil
	case *star.Dict:
		return r.object(noneType.Items(), depth)
	case *starlarkstruct.Struct:
		var items []star.Tuple
		for _, name := range noneType.AttrNames() {
			e, err := noneType.Attr(name)
			if err != nil {
				return nil, err
			}
			items = append(items, star.Tuple{star.String(name), e})
		}
		return r.object(items, depth)
	case *star.List, star.Tuple:
		all := noneType.(star.Indexable)
		list := make([]any, 0, min(all.Len(), 1024))
		for i := range all.Len() {
			e, err := r.result(all.Index(i), depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, e)
		}
		return list, nil
	}
	return nil, fmt.Errorf("the result contains a %s, which is not a JSON value", value.Type())
}

func (r *converter) object(items []star.Tuple, depth int) (any, error) {
	object := make(map[string]any, len(items))
	for _, item := range items {
		name, ok := item[0].(star.String)
		if !ok || !utf8.ValidString(string(name)) {
			return nil, fmt.Errorf("the result contains a key of type %s: keys must be strings", item[0].Type())
		}
		e, err := r.result(item[1], depth+1)
		if err != nil {
			return nil, err
		}
		object[string(name)] = e
	}
	return object, nil
}
