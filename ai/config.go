package ai

import (
	"context"
	"errors"
	"slices"

	"github.com/rye-build/rye/ai/merge"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/manifest/policy"
)

// Merged is the config of one name, merged from all spaces that have it.
type Merged struct {
	Value  *value.Value      // a Map
	From   map[string]string // the label of the highest space that sets an entry of Value
	Layers []*Item           // from the lowest space to the highest
}

// Config merges the items config:NAME of all spaces with package merge. Each layer, and each item that it extends,
// must be admitted and valid: without a layer the others would mean something else. A name in no space is a
// *NotFoundError.
func (v *View) Config(ctx context.Context, a *Admitter, name string) (*Merged, error) {
	return v.config(ctx, a, []string{name})
}

// config merges the last of names. Each name extends the next.
func (v *View) config(ctx context.Context, admitter *Admitter, names []string) (*Merged, error) {
	ref := model.Ref{Kind: "config", ID: names[len(names)-1]}
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
	for i, it := range layers {
		if i > 0 && it.Space.Level == System && !layers[i-1].Space.Builtin {
			return nil, ambiguous([]File{it.File, layers[i-1].File}) // two bundles have no order
		}
		if err := admitter.Require(ctx, it, policy.ToUse); err != nil {
			return nil, &ItemError{Ref: ref, Space: it.Space, Path: it.Path, Err: err}
		}
		for _, p := range it.Model.Problems {
			if !p.Warning {
				return nil, &ItemError{Ref: ref, Space: it.Space, Path: it.Path, Err: p}
			}
		}
	}
	m := &Merged{Layers: layers}
	m.Value, m.From, err = MergeLayers(layers, names, func(names []string) (*value.Value, error) {
		other, err := v.config(ctx, admitter, names)
		if err != nil {
			return nil, err
		}
		return other.Value, nil
	})
	return m, err
}

// MergeLayers merges the files of one config, the lowest first, by package merge.
func MergeLayers(layers []*Item, names []string, extended merge.Extended) (*value.Value, map[string]string, error) {
	files := collect(layers, func(it *Item) merge.File {
		return merge.File{Space: it.Space.Label, Fields: it.Model.Fields}
	})
	all, from, err := merge.Layers(files, names, extended)
	if wrong, ok := errors.AsType[*merge.Error](err); ok {
		it := layers[wrong.File]
		err = &ItemError{Ref: it.Ref, Space: it.Space, Path: it.Path, Err: wrong.Err}
	}
	return all, from, err
}
