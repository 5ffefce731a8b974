package provider

import (
	"context"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
)

// none is the model of a graph, which has no model.
type none struct{}

func (none) String() string      { return "" }
func (none) Name() string        { return "" }
func (none) Provider() *Provider { return nil }
func (none) Digest() cas.Digest  { return cas.Digest{} }

func (none) Ask(context.Context, *Request, cas.Digest, func(string)) (*Answer, bool, error) {
	return nil, true, fault.New(fault.Validation, "a graph has no model")
}

// NoModel returns the model of a graph. It refuses a model that the caller names.
func NoModel(w *Wanted) (Model, error) {
	if w.Name != "" || w.Replay != "" {
		return nil, fault.New(fault.Validation,
			"a graph has no model: --model is for directives").Try("rye docs graphs")
	}
	return none{}, nil
}
