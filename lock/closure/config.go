package closure

import (
	"context"
	"errors"
	"slices"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/merge"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/policy"
)

// config finds the files of one config. It examines the highest like any item, and then their merged value.
func (c *closer) config(ctx context.Context, ref model.Ref) result {
	// Resolve checks whether the highest may override the others.
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
		left := hidden(it, layers)
		if left {
			n.warnings = append(n.warnings, &Problem{Ref: ref, Space: it.Space, Path: it.Path, Err: errHidden})
		}
		return left
	})
	c.look(ctx, n, layers[0])
	if len(bundles) > 1 { // two bundles have no order
		n.problem(value.Pos{}, "", &ai.AmbiguousError{Ref: ref, Places: bundles})
	}
	for _, it := range layers[1:] {
		c.layer(ctx, n, it)
	}
	c.extends(n, layers)
	if len(n.problems) == 0 && ctx.Err() == nil {
		if n.definition, err = c.define(ctx, layers); err != nil {
			n.problem(value.Pos{}, "", err)
		}
	}
	return result{node: n}
}

// extends adds an edge for each config that the files extend.
func (c *closer) extends(n *node, layers []*ai.Item) {
	for _, it := range layers {
		v := it.Model.Fields.Get(merge.Extends)
		ref, err := model.ParseRef(configKind + ":" + v.String())
		if err == nil && len(c.filesAt(ref)) > 0 {
			n.edges = append(n.edges, edge{why: AsConfig, to: want{ref: ref}, at: v.At, field: merge.Extends})
		}
	}
}

// layer examines a config file below other config.
func (c *closer) layer(ctx context.Context, n *node, it *ai.Item) {
	bad := func(at value.Pos, field string, err error) {
		n.problems = append(n.problems, &Problem{Ref: n.ref, Space: it.Space, Path: it.Path, At: at, Field: field,
			Err: err})
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

// define returns the digest of the merged layers, highest first, with the configs that they extend.
func (c *closer) define(ctx context.Context, layers []*ai.Item) (cas.Digest, error) {
	all, err := c.merge(ctx, layers, []string{layers[0].Ref.ID})
	if err != nil {
		return cas.Digest{}, err
	}
	return ConfigDigest(all)
}

func (c *closer) merge(ctx context.Context, layers []*ai.Item, names []string) (*value.Value, error) {
	lowest := slices.Clone(layers)
	slices.Reverse(lowest)
	all, _, err := ai.MergeLayers(lowest, names, func(names []string) (*value.Value, error) {
		ref := model.Ref{Kind: configKind, ID: names[len(names)-1]}
		below, err := c.View.All(ctx, ref)
		if err != nil {
			return nil, err
		}
		if len(below) == 0 {
			return nil, &ai.NotFoundError{Ref: ref}
		}
		return c.merge(ctx, slices.DeleteFunc(below, func(it *ai.Item) bool { return hidden(it, below) }), names)
	})
	return all, err
}

// hidden reports whether a layer is left out: the user's, unless it is the highest.
func hidden(it *ai.Item, layers []*ai.Item) bool { return it.Space.Level == ai.User && it != layers[0] }

// ConfigDigest returns the digest of merged config, taken over its canonical JSON.
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
