package closure

import (
	"context"
	"errors"
	"slices"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/policy"
)

// config finds the files of one config, looks at the highest as at any item, and at what all of them make together.
func (c *closer) config(ctx context.Context, ref model.Ref) result {
	// This says whether the highest may stand in front of the others.
	if _, err := c.View.Resolve(ctx, ref, nil); err != nil {
		return result{err: err}
	}
	for _, p := range c.bad[ref] {
		return result{err: p}
	}
	layers, err := c.View.All(ctx, ref)
	if err != nil {
		return result{err: err}
	}
	n, mine := c.claim(layers[0])
	if !mine {
		return result{node: n}
	}
	var bundles []string
	layers = slices.DeleteFunc(layers, func(it *ai.Item) bool {
		if it.Space.Level == ai.System && !it.Space.Builtin {
			bundles = append(bundles, place(it.Space, it.Path))
		}
		hidden := it.Space.Level == ai.User && it != layers[0]
		if hidden {
			n.warnings = append(n.warnings, &Problem{Ref: ref, Space: it.Space, Path: it.Path, Err: errHidden})
		}
		return hidden
	})
	c.look(ctx, n, layers[0])
	if len(bundles) > 1 { // of two bundles none comes first
		n.problem(value.Pos{}, "", &ai.AmbiguousError{Ref: ref, Places: bundles})
	}
	for _, it := range layers[1:] {
		c.layer(ctx, n, it)
	}
	if len(n.problems) == 0 && ctx.Err() == nil {
		if n.definition, err = define(layers); err != nil {
			n.problem(value.Pos{}, "", err)
		}
	}
	return result{node: n}
}

// layer looks at config that stands below other config.
func (c *closer) layer(ctx context.Context, n *node, it *ai.Item) {
	bad := func(at value.Pos, field string, err error) {
		n.problems = append(n.problems, &Problem{Ref: n.ref, Space: it.Space, Path: it.Path, At: at, Field: field, Err: err})
	}
	for _, p := range it.Model.Problems {
		if !p.Warning {
			bad(p.At, p.Field, errors.New(p.Message))
		}
	}
	if err := c.Admit.Require(ctx, it, policy.ToUse); err != nil && ctx.Err() == nil {
		bad(value.Pos{}, "", err)
	}
}

// define returns the digest of what layers make together, highest first.
func define(layers []*ai.Item) (cas.Digest, error) {
	var all *value.Value
	for _, it := range slices.Backward(layers) {
		all = merge(all, it.Model.Fields)
	}
	return ConfigDigest(all)
}

// ConfigDigest returns the digest of merged config: that of its canonical JSON.
func ConfigDigest(all *value.Value) (cas.Digest, error) {
	v, err := all.JSON()
	if err != nil {
		return cas.Digest{}, err
	}
	b, err := jcs.Append(nil, v)
	if err != nil {
		return cas.Digest{}, err
	}
	return cas.Sum(b), nil
}

// merge puts what stands above over what stands below, as ai.View.Config does with all layers there are.
func merge(below, above *value.Value) *value.Value {
	if below == nil || below.Kind != value.Map || above.Kind != value.Map {
		return above
	}
	both := &value.Value{Kind: value.Map, Map: slices.Clone(below.Map)}
	at := make(map[string]int, len(both.Map))
	for i, e := range both.Map {
		at[e.Key] = i
	}
	for _, e := range above.Map {
		if i, ok := at[e.Key]; ok {
			both.Map[i].Value = merge(both.Map[i].Value, e.Value)
		} else {
			both.Map = append(both.Map, e)
		}
	}
	return both
}
