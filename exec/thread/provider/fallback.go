package provider

import (
	"context"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
)

// A fallible is a model with a fallback.
type fallible struct {
	Model
	next Model // nil after its use
}

// Ask implements Model. While a fallback exists, a missing key and a server of this machine that doesn't run are
// failures of the model call that no retry changes.
func (f *fallible) Ask(ctx context.Context, r *Request, digest cas.Digest, live func(string)) (*Answer, bool, error) {
	if of, is := f.Model.(*service); is && f.next != nil {
		if at, listening := of.Provider().Listening(ctx); !listening && ctx.Err() == nil {
			return nil, true, &Failure{Provider: of.Provider().Ref.ID, Code: string(fault.Unavailable),
				Message: "nothing listens at " + at}
		}
	}
	a, undone, err := f.Model.Ask(ctx, r, digest, live)
	if err != nil && f.next != nil && fault.Of(err).Details["secret"] != nil {
		return nil, true, &Failure{Provider: f.Provider().Ref.ID, Code: string(fault.AuthRequired),
			Message: err.Error()}
	}
	return a, undone, err
}

// FallBack replaces a model by its fallback, once. It returns false without one.
func FallBack(m Model) bool {
	f, ok := m.(*fallible)
	if !ok || f.next == nil {
		return false
	}
	f.Model, f.next = f.next, nil
	return true
}

// fallback returns the directive's fallback: a tier, a model, or a provider, which answers for the same tier. A
// model that the caller names has no fallback.
func (w *Wanted) fallback(all []*Provider) (choice Choice, has bool, err error) {
	name := ""
	if w.Directive != nil && w.Name == "" {
		name = w.Directive.Get("fallback").String()
	}
	if name == "" {
		return choice, false, nil
	}
	tier := w.Directive.Get("tier").String()
	if tier == "" {
		tier = defaultTier
	}
	for _, p := range all {
		if p.Name == name || p.Ref.ID == name {
			name = p.Ref.ID + "/" + tier
			break
		}
	}
	if choice, err = Resolve(all, name); err != nil {
		return choice, false, fault.Of(err).Because("the directive's model has it as its fallback")
	}
	return choice, true, nil
}
