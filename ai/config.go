package ai

import (
	"context"
	"slices"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/manifest/policy"
)

// Merged is config of one name, from all spaces that have it.
type Merged struct {
	Value  *value.Value      // a Map
	From   map[string]string // which space gave each entry of Value: the label of the highest that speaks of it
	Layers []*Item           // from the lowest space to the highest
}

// Config merges the items config:NAME of all spaces: maps are merged, entry by entry, at every depth, and of lists and
// all else the higher space's counts. Each layer must be admitted and valid: one that isn't is an error, for without it
// the others mean something else. A name that no space has is a *NotFoundError.
func (v *View) Config(ctx context.Context, a *Admitter, name string) (*Merged, error) {
	ref := model.Ref{Kind: "config", ID: name}
	layers, err := v.All(ctx, ref)
	if err != nil {
		return nil, err
	}
	if len(layers) == 0 {
		return nil, &NotFoundError{Ref: ref}
	}
	if len(layers) > 1 {
		hidden := collect(layers[1:], func(it *Item) File { return it.File })
		if err := v.mayHide(layers[0].File, hidden...); err != nil {
			return nil, err
		}
	}
	slices.Reverse(layers)
	m := &Merged{From: map[string]string{}, Layers: layers}
	for i, it := range layers {
		if i > 0 && it.Space.Level == System && !layers[i-1].Space.Builtin {
			return nil, ambiguous([]File{it.File, layers[i-1].File}) // of two bundles none comes first
		}
		if err := a.Require(ctx, it, policy.ToUse); err != nil {
			return nil, &ItemError{Ref: ref, Space: it.Space, Path: it.Path, Err: err}
		}
		for _, p := range it.Model.Problems {
			if !p.Warning {
				return nil, &ItemError{Ref: ref, Space: it.Space, Path: it.Path, Err: p}
			}
		}
		m.Value = merge(m.Value, it.Model.Fields)
		for _, e := range it.Model.Fields.Map {
			m.From[e.Key] = it.Space.Label
		}
	}
	return m, nil
}

// merge puts what stands above over what stands below. Both are left as they are.
func merge(below, above *value.Value) *value.Value {
	if below == nil || below.Kind != value.Map || above.Kind != value.Map {
		return above
	}
	both := &value.Value{Kind: value.Map, At: above.At, Map: slices.Clone(below.Map)}
	at := make(map[string]int, len(both.Map))
	for i, e := range both.Map {
		at[e.Key] = i
	}
	for _, e := range above.Map {
		i, ok := at[e.Key]
		if !ok {
			both.Map = append(both.Map, e)
			continue
		}
		both.Map[i] = value.Entry{Key: e.Key, At: e.At, Value: merge(both.Map[i].Value, e.Value)}
	}
	return both
}
